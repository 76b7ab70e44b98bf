//! The commits of an attempt, and what they come to together.
//!
//! Other agents commit in between, and an attempt may need several commits until the gate is content. What counts in the
//! end is the content it leaves: [`squash`] makes one commit of it that is on no branch, for the gate's eyes only.

use std::collections::{BTreeMap, HashSet};

use mala_core::{AgentId, IssueId};
use mala_git::salvage::{PrivateIndex, SalvageError, oid};
use mala_git::{Git, Oid, Repo, RepoPath, TreeEntry};

use crate::rules::IssuePattern;

/// The trailer by which `mala commit` says whose work it is.
const TRAILER: &str = "Mala-Agent: ";

/// The commits of `agent` for `issue` since `base`, oldest first. What carries an agent's name is that agent's; what
/// carries none belongs to whom its issue was given. Those that mala has `seen` it make are its own whatever they say.
pub(crate) fn commits(
    repo: &Repo,
    base: Option<&Oid>,
    agent: &AgentId,
    (pattern, issue): (&IssuePattern, &IssueId),
    seen: &HashSet<Oid>,
) -> Result<Vec<Oid>, SalvageError> {
    // Where there was a commit, there still is one: no need to ask.
    let range = match base {
        Some(base) => format!("{base}..HEAD"),
        None if repo.resolve("HEAD")?.is_none() => return Ok(Vec::new()),
        None => "HEAD".to_owned(),
    };
    let args = [
        "log",
        "-z",
        "--reverse",
        "--no-show-signature",
        "--format=%H%n%B",
        "--end-of-options",
        &range,
        "--",
    ];
    let output = Git::at(repo.root()).run(&args, b"")?;
    let mut own = Vec::new();
    for entry in output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        let text = String::from_utf8_lossy(entry);
        let (id, message) = text.split_once('\n').unwrap_or((&text, ""));
        let id = oid(id.to_owned())?;
        if seen.contains(&id) || is_own(message, agent, pattern, issue) {
            own.push(id);
        }
    }
    Ok(own)
}

fn is_own(message: &str, agent: &AgentId, pattern: &IssuePattern, issue: &IssueId) -> bool {
    let mut named = message.lines().filter_map(|line| line.strip_prefix(TRAILER)).peekable();
    match named.peek() {
        Some(_) => named.any(|name| name.trim() == agent.as_str()),
        None => pattern.names(message, issue),
    }
}

/// One commit on top of `base` that holds what `commits`, oldest first, left behind: of each file they touched, its last
/// version among them, and nothing of anybody else.
pub(crate) fn squash(
    repo: &Repo,
    base: Option<&Oid>,
    commits: &[Oid],
    message: &str,
) -> Result<Oid, SalvageError> {
    let mut last: BTreeMap<RepoPath, Option<TreeEntry>> = BTreeMap::new();
    for id in commits {
        for change in repo.changes_of(&repo.commit(id)?)? {
            last.insert(change.path, change.after);
        }
    }
    let index = PrivateIndex::new(repo)?;
    let git = Git::with_index(repo.root(), &index.0);
    match base {
        Some(base) => git.run(&["read-tree", base.as_str()], b"")?,
        None => git.run(&["read-tree", "--empty"], b"")?,
    };
    git.run(&["update-index", "-z", "--index-info"], &index_info(&last))?;
    let tree = oid(git.line(&["write-tree"], b"")?)?;
    let mut args = vec!["commit-tree", tree.as_str()];
    args.extend(base.into_iter().flat_map(|base| ["-p", base.as_str()]));
    oid(git.line(&args, message.as_bytes())?)
}

/// Deletions first: a file may stand where a folder was.
fn index_info(entries: &BTreeMap<RepoPath, Option<TreeEntry>>) -> Vec<u8> {
    let mut info = Vec::new();
    let mut put = |mode: &str, id: &str, path: &RepoPath| {
        info.extend_from_slice(format!("{mode} {id}\t").as_bytes());
        info.extend_from_slice(path.as_bytes());
        info.push(0);
    };
    let gone = entries.iter().filter(|(_, entry)| entry.is_none());
    gone.for_each(|(path, _)| put("0", &"0".repeat(40), path));
    for (path, entry) in entries {
        if let Some(entry) = entry {
            put(&entry.mode, entry.oid.as_str(), path);
        }
    }
    info
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use mala_core::Scope;

    use super::*;

    fn git(root: &Path, args: &[&str]) -> String {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
        let out = Command::new("git").current_dir(root).args(identity).args(args).output().unwrap();
        assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    }

    fn commit(root: &Path, file: &str, text: Option<&str>, message: &str) -> Oid {
        match text {
            Some(text) => fs::write(root.join(file), text).unwrap(),
            None => fs::remove_file(root.join(file)).unwrap(),
        }
        git(root, &["add", "-A"]);
        git(root, &["commit", "-q", "-m", message]);
        Oid::parse(&git(root, &["rev-parse", "HEAD"])).unwrap()
    }

    #[test]
    fn an_attempt_is_answerable_for_its_own_commits_and_what_they_leave() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        git(root, &["init", "-q", "-b", "main"]);
        commit(root, "old", Some("old\n"), "bd-1: before the claim");
        let base = commit(root, "gone", Some("x\n"), "start");
        let first = commit(root, "a", Some("untested\n"), "bd-1: first\n\nMala-Agent: ann");
        commit(root, "b", Some("theirs\n"), "related to bd-1\n\nMala-Agent: bob");
        let second = commit(root, "gone", None, "bd-1 without a trailer");
        commit(root, "c", Some("theirs\n"), "bd-12: another issue");
        let third = commit(root, "a", Some("tested\n"), "more\n\nMala-Agent: ann");
        let repo = Repo::new(Scope::discover(root).unwrap());
        let (ann, issue) = (AgentId::new("ann").unwrap(), IssueId::new("1").unwrap());
        let own =
            commits(&repo, Some(&base), &ann, (&IssuePattern::default(), &issue), &HashSet::new()).unwrap();
        assert_eq!(own, [first, second, third]);
        let squashed = squash(&repo, Some(&base), &own, "together\n").unwrap();
        assert_eq!(git(root, &["ls-tree", "--name-only", squashed.as_str()]), "a\nold");
        assert_eq!(git(root, &["show", &format!("{squashed}:a")]), "tested");
        assert_eq!(git(root, &["rev-parse", &format!("{squashed}^")]), base.as_str());
        assert_eq!(git(root, &["status", "--porcelain"]), "", "the checkout and its index are untouched");
    }
}
