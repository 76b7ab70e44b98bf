//! Does one thing in a repository, so that a test can kill it meanwhile.
//!
//! `gate-puppet commit ROOT MESSAGE PATH...` commits as the agent `A`, which owns everything.
//! `gate-puppet run LOG CMD...` runs a command and ends as it does.

use std::error::Error;
use std::io;
use std::path::Path;
use std::{env, process};

use mala_core::{Actor, AgentId, Fence, Key, Owner, Scope};
use mala_gate::commit;
use mala_gate::rules::Foreign;
use mala_gate::runner::{Manner, Task, Tee, Tie, run};
use mala_git::commit::{GitHooks, Request, Selection};
use mala_git::{Holder, Ownership, OwnershipError, Repo, RepoPath};

struct All;

impl Ownership for All {
    fn owned(&self, _: &AgentId, _: &Key, _: Option<Fence>) -> Result<Option<Fence>, OwnershipError> {
        Ok(Some(Fence(1)))
    }

    fn holder(&self, _: &Key, _: Option<&AgentId>) -> Result<Option<Holder>, OwnershipError> {
        Ok(None)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["commit", root, message, paths @ ..] => commit_paths(Path::new(root), message, paths),
        ["run", log, command @ ..] => run_command(Path::new(log), command),
        _ => Err("usage: gate-puppet commit|run ...".into()),
    }
}

fn owner() -> Owner {
    Owner { host: "test".into(), boot_id: "test".into(), pid: process::id(), start_time: 0, node: None }
}

fn run_command(log: &Path, command: &[&str]) -> Result<(), Box<dyn Error>> {
    let argv: Vec<_> = command.iter().map(Into::into).collect();
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let task = Task { argv: &argv, cwd: Path::new("."), log, manner: Manner::Plain(Tie::Group) };
    let ended = run(&task, &mut Tee { out: &mut out, err: &mut err })?;
    process::exit(ended.exit_code.unwrap_or_else(|| 128 + ended.signal.unwrap_or(0)));
}

fn commit_paths(root: &Path, message: &str, paths: &[&str]) -> Result<(), Box<dyn Error>> {
    let repo = Repo::new(Scope::discover(root)?);
    let request = Request {
        who: Actor { agent: AgentId::new("A")?, issue: None, run: None },
        selection: Selection::Paths(paths.iter().map(|path| RepoPath::from_bytes(*path)).collect()),
        message: message.to_owned(),
        owner: owner(),
    };
    commit(&repo, &All, &GitHooks, &request, Foreign::Named)?;
    Ok(())
}
