//! Git's hooks, put back in front of those that another program has put in their place.

use mala_core::Scope;
use mala_gate::hooks::{self, ChainedHook, Repair};
use mala_git::Repo;

use crate::ui::{Ui, plain};

/// Repairs mala's hooks before agents start, and says so. What cannot be repaired keeps nobody from starting: without git's hooks
/// less is checked when a commit is made, and as much before it is accepted.
pub(crate) fn repair_hooks(scope: &Scope, ui: &Ui) {
    match hooks::repair(&Repo::new(scope.clone())) {
        Ok(Repair::NotNeeded) => {}
        Ok(Repair::Done(chained)) => {
            ui.warning(&format!(
                "mala's git hooks had been replaced, and are called again: {}",
                in_words(&chained)
            ));
        }
        Ok(Repair::Tracked(hook)) => {
            let hook = plain(hook.display());
            ui.warning(&format!(
                "`{hook}` has replaced mala's hook, and git tracks it: put mala's in front with `mala init`"
            ));
        }
        Err(error) => ui.warning(&format!(
            "mala's git hooks were replaced and cannot be put back: {error}; see mala doctor"
        )),
    }
}

/// Which hooks mala's call first, and who has written them.
pub(crate) fn in_words(chained: &[ChainedHook]) -> String {
    if chained.is_empty() {
        return "no other hook is left".to_owned();
    }
    let names: Vec<String> = chained
        .iter()
        .map(|hook| match hook.manager {
            Some(manager) => format!("{} of {}", hook.hook.name(), manager.name()),
            None => hook.hook.name().to_owned(),
        })
        .collect();
    format!("they first call {}", names.join(", "))
}
