//! Objects and the names of commits, asked of a git process that is kept running.
//!
//! Starting git costs a thousand times as much as reading an object, and one landed issue takes more than a hundred answers. So
//! `git cat-file --batch-command` stays and is asked again (<https://git-scm.com/docs/git-cat-file>). For every question it
//! looks at refs and at loose objects anew, and at packs when an object is not found, so an answer is as fresh as that of
//! a new process. Like every other answer of git about an object, it is believed only after it was hashed ([`crate::objects`]).
//!
//! A reader serves one caller at a time and goes back to a small pool. Whoever meets one that has died meanwhile starts another.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::call;
use crate::{GitError, Oid, Repo};

/// Readers that wait for the next question, in all repositories together.
const MAX_IDLE_READERS: usize = 4;

static IDLE: Mutex<Vec<IdleReader>> = Mutex::new(Vec::new());

/// A reader that waits for the next question.
#[derive(Debug)]
struct IdleReader {
    place: Place,
    since: Instant,
    reader: ObjectReader,
}

/// Which repository a reader reads. Paths are not enough: a directory may be removed and made again under the same name, and the
/// reader would go on in the one that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    root: PathBuf,
    inodes: [Option<(u64, u64)>; 2],
    env: Vec<(OsString, OsString)>,
}

impl Place {
    fn of(repo: &Repo) -> Self {
        let inode = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
        Self {
            root: repo.root().to_owned(),
            inodes: [repo.root(), repo.scope().git_dir()].map(inode),
            env: repo.env.clone(),
        }
    }
}

/// What git says before the content of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectHeader {
    pub(crate) id: Oid,
    pub(crate) kind: String,
    pub(crate) size: u64,
}

/// A git process that answers questions about objects.
#[derive(Debug)]
pub(crate) struct ObjectReader {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Repo {
    /// Asks a reader. A pooled one that fails is replaced once: it may have been killed since it was used last.
    pub(crate) fn ask_reader<T>(
        &self,
        mut ask: impl FnMut(&mut ObjectReader) -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        let place = Place::of(self);
        if let Some(mut reader) = take_idle(&place) {
            match ask(&mut reader) {
                Ok(answer) => {
                    keep_idle(place, reader);
                    return Ok(answer);
                }
                Err(GitError::Start { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut reader = ObjectReader::start(self)?;
        match ask(&mut reader) {
            Ok(answer) => {
                keep_idle(place, reader);
                Ok(answer)
            }
            Err(error) => Err(reader.failure(error)),
        }
    }

    /// The kind and the content of an object; nothing if it is not there.
    pub(crate) fn read_object(&self, id: &Oid) -> Result<Option<(String, Vec<u8>)>, GitError> {
        self.ask_reader(|reader| reader.object(id.as_str()))
    }

    /// The commit of this name; nothing if there is none. Only for names that git does not interpret.
    pub(crate) fn commit_named(&self, name: &str) -> Result<Option<Oid>, GitError> {
        let name = format!("{name}^{{commit}}");
        Ok(self.ask_reader(|reader| reader.header("info", &name))?.map(|header| header.id))
    }
}

/// Ends the readers that nobody has asked anything for so long: all of them, for a process that is about to exit.
pub fn close_object_readers(idle_for: Duration) {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let closed: Vec<_> = idle.extract_if(.., |waiting| waiting.since.elapsed() >= idle_for).collect();
    drop(idle);
    // Their processes are waited for without the lock.
    drop(closed);
}

fn take_idle(place: &Place) -> Option<ObjectReader> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let found = idle.iter().rposition(|waiting| waiting.place == *place)?;
    Some(idle.remove(found).reader)
}

fn keep_idle(place: Place, reader: ObjectReader) {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    idle.push(IdleReader { place, since: Instant::now(), reader });
    let surplus = idle.len().saturating_sub(MAX_IDLE_READERS);
    let surplus: Vec<_> = idle.drain(..surplus).collect();
    drop(idle);
    // Their processes are waited for without the lock.
    drop(surplus);
}

impl ObjectReader {
    fn start(repo: &Repo) -> Result<Self, GitError> {
        let mut call = repo.git("cat-file").arg("--batch-command").in_own_group();
        let mut process = call.spawn(Stdio::piped())?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(questions), Some(answers)) => {
                Ok(Self { process, questions, answers: BufReader::new(answers) })
            }
            _ => Err(odd(b"")),
        }
    }

    /// What git says about an object; nothing if there is none. After `contents` its content follows.
    pub(crate) fn header(&mut self, command: &str, name: &str) -> Result<Option<ObjectHeader>, GitError> {
        // One line is one question.
        if name.contains('\n') {
            return Err(odd(name.as_bytes()));
        }
        let asked = self.questions.write_all(format!("{command} {name}\n").as_bytes());
        asked.and_then(|()| self.questions.flush()).map_err(lost)?;
        let mut line = Vec::new();
        self.answers.read_until(b'\n', &mut line).map_err(lost)?;
        if line.is_empty() {
            return Err(lost(io::ErrorKind::UnexpectedEof.into()));
        }
        let text = std::str::from_utf8(&line).ok().and_then(|line| line.strip_suffix('\n'));
        let text = text.ok_or_else(|| odd(&line))?;
        if text.strip_prefix(name) == Some(" missing") {
            return Ok(None);
        }
        let mut fields = text.split(' ');
        let header = (|| {
            let (id, kind) = (Oid::parse(fields.next()?)?, fields.next()?.to_owned());
            let size = fields.next()?.parse().ok()?;
            fields.next().is_none().then_some(ObjectHeader { id, kind, size })
        })();
        header.map(Some).ok_or_else(|| odd(&line))
    }

    /// The kind and the content of an object.
    pub(crate) fn object(&mut self, name: &str) -> Result<Option<(String, Vec<u8>)>, GitError> {
        let Some(header) = self.header("contents", name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        self.content(&header, &mut |part| bytes.extend_from_slice(part))?;
        Ok(Some((header.kind, bytes)))
    }

    /// The content that follows a header, part by part, so that large ones need no memory.
    pub(crate) fn content(
        &mut self,
        header: &ObjectHeader,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), GitError> {
        let mut left = header.size;
        while left > 0 {
            let part = self.answers.fill_buf().map_err(lost)?;
            let length = part.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if length == 0 {
                return Err(lost(io::ErrorKind::UnexpectedEof.into()));
            }
            take(&part[..length]);
            self.answers.consume(length);
            left -= length as u64;
        }
        let mut end = [0];
        self.answers.read_exact(&mut end).map_err(lost)?;
        if end == *b"\n" { Ok(()) } else { Err(odd(&end)) }
    }

    /// What git itself says about its end, if the process was lost, else `error`.
    fn failure(mut self, error: GitError) -> GitError {
        if !matches!(error, GitError::Start { .. }) {
            return error;
        }
        // It has closed its side, so it is about to end.
        let Ok(status) = self.process.wait() else { return error };
        let mut said = Vec::new();
        let stderr = self.process.stderr.as_mut().map(|stderr| stderr.read_to_end(&mut said));
        match (stderr, status.success()) {
            (Some(Ok(_)), false) => {
                let output = Output { status, stdout: Vec::new(), stderr: said };
                call::failed("git cat-file --batch-command".to_owned(), &output)
            }
            _ => error,
        }
    }
}

impl Drop for ObjectReader {
    fn drop(&mut self) {
        // It has nothing to finish: it only reads.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The process is gone, or cannot be spoken to.
fn lost(source: io::Error) -> GitError {
    GitError::Start { source }
}

fn odd(answer: &[u8]) -> GitError {
    GitError::answer("cat-file --batch-command", answer)
}

/// True if a name means the same to every git command and cannot be taken for anything but a ref or an object: revisions with
/// suffixes, reflogs or searches are left to `git rev-parse`.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.%+=,".contains(&byte);
    let is_id = Oid::parse(name).is_some();
    (is_id || name == "HEAD" || name.starts_with("refs/")) && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::*;
    use crate::objects::tests::{forge, git, world};

    #[test]
    fn a_reader_sees_what_was_written_after_it_was_started() {
        let (dir, repo, first) = world("sha1");
        assert_eq!(repo.commit_named("HEAD").unwrap(), Some(first.clone()));
        assert_eq!(repo.commit_named("refs/heads/later").unwrap(), None);
        git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "second"]);
        git(dir.path(), &["branch", "later"]);
        let second = Oid::parse(&git(dir.path(), &["rev-parse", "HEAD"])).unwrap();
        assert_eq!(repo.commit_named("HEAD").unwrap(), Some(second.clone()));
        assert_eq!(repo.commit_named("refs/heads/later").unwrap(), Some(second.clone()));
        assert_eq!(repo.commit(&second).unwrap().parents, [first]);
        git(dir.path(), &["gc", "-q", "--prune=now"]);
        git(dir.path(), &["branch", "-D", "later"]);
        assert_eq!(repo.commit_named("refs/heads/later").unwrap(), None);
        assert_eq!(repo.commit(&second).unwrap().message, "second\n");
    }

    #[test]
    fn a_reader_that_was_killed_is_replaced() {
        let (_dir, repo, head) = world("sha1");
        assert_eq!(repo.commit_named("HEAD").unwrap(), Some(head.clone()));
        let pid = repo.ask_reader(|reader| Ok(reader.process.id())).unwrap();
        kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
        assert_eq!(repo.commit_named("HEAD").unwrap(), Some(head));
    }

    #[test]
    fn a_reader_is_kept_for_the_next_question_until_it_was_idle_for_too_long() {
        let (_dir, repo, _) = world("sha1");
        let asked = || repo.ask_reader(|reader| Ok(reader.process.id())).unwrap();
        let first = asked();
        close_object_readers(Duration::from_secs(3600));
        let is_waiting = |pid| IDLE.lock().unwrap().iter().any(|waiting| waiting.reader.process.id() == pid);
        // Other tests may have needed the room.
        let second = if is_waiting(first) { asked() } else { first };
        assert_eq!(first, second);
        close_object_readers(Duration::ZERO);
        assert!(!is_waiting(first) && kill(Pid::from_raw(first.cast_signed()), None).is_err());
    }

    #[test]
    fn a_repository_that_was_made_again_in_the_same_place_is_another_one() {
        let (dir, repo, first) = world("sha1");
        assert_eq!(repo.commit_named("HEAD").unwrap(), Some(first));
        fs::rename(dir.path().join(".git"), dir.path().join("old.git")).unwrap();
        git(dir.path(), &["init", "-q", "-b", "main"]);
        assert_eq!(repo.commit_named("HEAD").unwrap(), None);
    }

    #[test]
    fn what_is_not_there_or_damaged_is_no_object() {
        let (dir, repo, head) = world("sha1");
        let absent = Oid::parse(&"1".repeat(40)).unwrap();
        assert_eq!(repo.read_object(&absent).unwrap(), None);
        assert!(matches!(repo.commit(&absent), Err(GitError::Absent { id }) if id == absent));
        let place = dir.path().join(".git/objects").join(&head.as_str()[..2]).join(&head.as_str()[2..]);
        fs::remove_file(&place).unwrap();
        fs::write(&place, "not what git writes").unwrap();
        assert_eq!(repo.read_object(&head).unwrap(), None);
    }

    #[test]
    fn a_git_that_ends_at_once_says_why() {
        let (dir, repo, head) = world("sha1");
        fs::write(dir.path().join(".git/config"), "[broken").unwrap();
        let error = repo.read_object(&head).unwrap_err();
        assert!(error.to_string().contains("bad config line"), "{error}");
    }

    #[test]
    fn an_object_that_was_written_over_is_found_out_by_a_reader_that_knew_it() {
        let (dir, repo, head) = world("sha1");
        git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "second"]);
        let second = Oid::parse(&git(dir.path(), &["rev-parse", "HEAD"])).unwrap();
        assert_eq!(repo.commit(&head).unwrap().parents.len(), 0);
        forge(&repo, &head, &second);
        assert!(matches!(repo.commit(&head), Err(GitError::Forged { id }) if id == head));
    }

    #[test]
    fn names_that_git_would_interpret_are_not_plain() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        for plain in ["HEAD", "refs/heads/a-b.c", id] {
            assert!(is_plain_name(plain), "{plain}");
        }
        for other in
            ["main", "HEAD~1", "HEAD@{1}", "refs/heads/a^", ":/x", "refs/x y", "refs/\n", "0123abc", ""]
        {
            assert!(!is_plain_name(other), "{other}");
        }
    }
}
