//! What people have in the checkout and git does not hold: copied before agents begin, put back when an attempt ends.

use std::os::unix::ffi::OsStrExt;

use mala_config::format_size;
use mala_core::shell::word;
use mala_core::{Attempt, RunId};
use mala_git::RepoPath;
use mala_git::salvage::{Before, Damage, DamageState, Oversize, Restored, Snapshot};

use super::{BlockingOps, EndKind};
use crate::caution::named;
use crate::error::{Result, causes};

impl BlockingOps {
    /// Copies it for a run that begins. Gives what is too large to be copied, in words.
    pub(crate) fn keep_unversioned(&self, run: &RunId) -> Result<Option<String>> {
        let keep = &self.options.unversioned;
        let (_, oversize) = Snapshot::take(&self.repo, run, &keep.limits, &keep.build)?;
        let named = named(oversize.iter().map(told).collect());
        Ok((!oversize.is_empty()).then(|| {
            format!(
                "too large to be put back if an agent removes it: {named}; move it out of the checkout, or raise \
                 `keep.max_file` and `keep.max_total`"
            )
        }))
    }

    /// Copies anew what a person has changed since the run began.
    pub(super) fn refresh_unversioned(&self, run: &RunId) -> Result<()> {
        Ok(Snapshot::of(&self.repo, run)?.refresh(&self.repo, &self.options.unversioned.limits)?)
    }

    /// Puts back what is missing when an attempt ends, and looks whether all that is kept of people's work is still there. Gives what is
    /// to be said. Nothing here keeps an attempt from ending: what fails is said, too.
    pub(super) fn restore_unversioned(&self, attempt: &Attempt, kind: &EndKind) -> Vec<String> {
        let damage = match Before::damage(&self.repo, &attempt.run, &attempt.agent) {
            Ok(damage) => damage.iter().map(damaged).collect(),
            Err(error) => vec![format!("cannot look at what you had left uncommitted: {}", causes(&error))],
        };
        let restored = self
            .try_restore_unversioned(attempt, kind)
            .unwrap_or_else(|error| vec![format!("ignored files could not be put back: {}", causes(&error))]);
        damage.into_iter().chain(restored).collect()
    }

    fn try_restore_unversioned(&self, attempt: &Attempt, kind: &EndKind) -> Result<Vec<String>> {
        let mut snapshot = Snapshot::of(&self.repo, &attempt.run)?;
        if snapshot.is_empty() {
            return Ok(Vec::new());
        }
        let Restored { put_back, changed, lost } = snapshot.restore(&self.repo);
        let (agent, mut said) = (&attempt.agent, Vec::new());
        if !put_back.is_empty() {
            let named = named(put_back.iter().map(RepoPath::to_string).collect());
            said.push(format!("put back what was removed while `{agent}` worked: {named}"));
        }
        if !changed.is_empty() && matches!(kind, EndKind::HandOver { .. }) {
            let earlier: Vec<String> = changed
                .iter()
                .map(|(path, earlier)| {
                    format!(
                        "{path} (cp -p {} {})",
                        word(earlier.as_os_str().as_bytes()),
                        word(path.as_bytes())
                    )
                })
                .collect();
            said.push(format!(
                "changed while `{agent}` worked, by it or by something else; to get the earlier content: {}",
                named(earlier)
            ));
            snapshot.keep()?;
            // Said once.
            snapshot.refresh(&self.repo, &self.options.unversioned.limits)?;
        }
        if !lost.is_empty() {
            let lost = lost.iter().map(|(path, why)| format!("{path} ({why})")).collect();
            said.push(format!(
                "LOST while `{agent}` worked: {}; the copies are kept in .git/mala/unversioned",
                named(lost)
            ));
            snapshot.keep()?;
        }
        Ok(said)
    }
}

fn damaged(damage: &Damage) -> String {
    let Damage { name, files, state } = damage;
    let files = named(files.iter().map(RepoPath::to_string).collect());
    match state {
        DamageState::Mended => {
            format!("{name} was moved or deleted; it holds again what you had left uncommitted in {files}")
        }
        DamageState::Lost => format!(
            "LOST: {name} held what you had left uncommitted in {files}, and its objects are gone; compare these files with your \
             editor's history before you go on"
        ),
    }
}

fn told(oversize: &Oversize) -> String {
    match oversize.bytes {
        Some(bytes) => format!("{} ({})", oversize.path, format_size(bytes)),
        None => format!("{} (too many files)", oversize.path),
    }
}
