//! Runs a command in the sandbox: `supervise ROOT HELD COMMAND...`. The file HELD belongs to someone else, and so does
//! `lent.txt` once there is a file `ignored/over`. Everything below `ignored/` and `made/` needs no lock, and neither do
//! names that end in `.loose`; all other files are free. Ends the way the command ended.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use mala_sandbox::{Attempt, EntryKind, Guard, Jail, Ruling};

struct OneHeld {
    held: PathBuf,
    over: PathBuf,
}

impl Guard for OneHeld {
    fn judge(&self, attempt: &Attempt<'_>) -> Ruling {
        let lent = self.over.exists().then_some(Path::new("lent.txt"));
        let touches = |held: &&Path| {
            attempt
                .paths
                .iter()
                .any(|path| path == held || attempt.kind == EntryKind::Directory && held.starts_with(path))
        };
        match [Some(self.held.as_path()), lent].into_iter().flatten().find(touches) {
            Some(held) => {
                Ruling::Refuse { message: format!("mala: `{}` is held by someone else", held.display()) }
            }
            None => Ruling::Allow,
        }
    }

    fn is_exempt(&self, path: &Path) -> bool {
        path.starts_with("ignored")
            || path.starts_with("made")
            || path.extension().is_some_and(|ending| ending == "loose")
    }
}

fn main() {
    let mut arguments = env::args_os().skip(1);
    let mut next = || arguments.next().expect("usage: supervise ROOT HELD COMMAND...");
    let (root, held) = (PathBuf::from(next()), PathBuf::from(next()));
    let mut command = Command::new(next());
    command.args(arguments.collect::<Vec<OsString>>());
    let git_dir = root.join(".git");
    let protected = ["hooks", "config", "info/attributes", "mala"].map(|name| git_dir.join(name)).to_vec();
    let over = root.join("ignored/over");
    let (exempt, spares) =
        (vec![root.join("ignored"), git_dir.join("objects")], Some(git_dir.join("mala/spares")));
    let jail = Jail { root, git_dir, protected, closed: Vec::new(), exempt, spares };
    let code = match mala_sandbox::run(&jail, Arc::new(OneHeld { held, over }), command) {
        Ok(exit) => exit.code.unwrap_or_else(|| 128 + exit.signal.unwrap_or(0)),
        Err(error) => {
            let reason = std::error::Error::source(&error).map(|source| format!(": {source}"));
            let _closed = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("supervise: {error}{}\n", reason.unwrap_or_default()).as_bytes(),
            );
            126
        }
    };
    std::process::exit(code);
}
