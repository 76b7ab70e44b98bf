//! A tree in which programs called `turn-...` wait until the test lets them go.

use std::fs::{self, File};
use std::io::{PipeReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mala_sandbox::{Attempt, Capture, Exit, Guard, Held, Hold, Jail, Ruling, SandboxError, Start};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::world::{User, World};

/// How long anything may take before a test gives up.
const LIMIT: Duration = Duration::from_secs(10);

/// What a hold saw, with the program's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Waits(String),
    Goes(String),
    Died(String),
    Ended(String, Option<Exit>),
}

pub(crate) fn code(code: i32) -> Option<Exit> {
    Some(Exit { code: Some(code), signal: None })
}

pub(crate) fn signal(signal: i32) -> Option<Exit> {
    Some(Exit { code: None, signal: Some(signal) })
}

#[derive(Debug, Default)]
struct State {
    events: Vec<Event>,
    pids: Vec<u32>,
    open: Vec<String>,
    all_open: bool,
}

/// What the test and its holds share.
#[derive(Debug, Default)]
struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

impl Desk {
    /// Also after a test has failed with it in its hands.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, event: Event) {
        self.lock().events.push(event);
        self.changed.notify_all();
    }

    fn is_open(&self, name: &str) -> bool {
        let state = self.lock();
        state.all_open || state.open.iter().any(|open| open == name)
    }
}

struct Turn {
    name: String,
    desk: Arc<Desk>,
    /// A file per waiting program, for scripts that need to know.
    out: PathBuf,
    capture: Option<Capture>,
}

impl Turn {
    /// What programs called `turn-log` print goes to the file `log` too.
    fn allow(&mut self, held: &Held) -> Ruling {
        if self.name == "turn-log" {
            self.capture = held.capture(File::create(self.out.join("log")).unwrap()).unwrap();
        }
        self.desk.note(Event::Goes(self.name.clone()));
        Ruling::Allow
    }
}

impl Hold for Turn {
    fn wait(&mut self, held: &Held) -> Ruling {
        assert!(!self.name.ends_with("panics"), "on purpose");
        self.desk.lock().pids.push(held.pid());
        self.desk.note(Event::Waits(self.name.clone()));
        fs::write(self.out.join(format!("waits-{}", held.pid())), "").unwrap();
        if self.name.ends_with("refused") {
            return Ruling::Refuse { message: format!("mala: `{}` may not run", self.name) };
        }
        let process = held.process();
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            let pause = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
            if poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&pause)) == Ok(1) {
                self.desk.note(Event::Died(self.name.clone()));
                return Ruling::Allow;
            }
            if self.desk.is_open(&self.name) {
                return self.allow(held);
            }
        }
        Ruling::Refuse { message: "nobody lets it go".to_owned() }
    }

    fn ended(mut self: Box<Self>, exit: Option<Exit>) {
        if let Some(capture) = self.capture.take() {
            capture.finish().unwrap();
            fs::write(self.out.join("captured"), "").unwrap();
        }
        self.desk.note(Event::Ended(self.name.clone(), exit));
    }
}

struct Turns {
    desk: Arc<Desk>,
    out: PathBuf,
}

impl Guard for Turns {
    fn judge(&self, _attempt: &Attempt<'_>) -> Ruling {
        Ruling::Allow
    }

    fn is_exempt(&self, _path: &Path) -> bool {
        false
    }

    fn hold(&self, start: &Start<'_>) -> Option<Box<dyn Hold>> {
        let name = start.program.to_str()?;
        name.starts_with("turn-").then(|| {
            let (desk, out) = (Arc::clone(&self.desk), self.out.clone());
            Box::new(Turn { name: name.to_owned(), desk, out, capture: None }) as Box<dyn Hold>
        })
    }
}

/// A world whose `out` folder has programs to hold. Dropping it lets everything go.
pub(crate) struct Stage {
    pub(crate) world: World,
    desk: Arc<Desk>,
}

pub(crate) struct Show {
    run: JoinHandle<Result<Exit, SandboxError>>,
    out: PipeReader,
}

/// How a tree ended and what it printed, both streams.
pub(crate) struct End {
    pub(crate) exit: Result<Exit, SandboxError>,
    pub(crate) out: String,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self { world: World::new(User::Myself), desk: Arc::default() }
    }

    pub(crate) fn out(&self, name: &str) -> PathBuf {
        self.world.base().join("out").join(name)
    }

    /// A program in the `out` folder. Another process writes it: what other tests start meanwhile would inherit a
    /// descriptor of ours for a moment, and nobody can run a file that is open for writing.
    pub(crate) fn script(&self, name: &str, text: &str) {
        let write = "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\"";
        let written = Command::new("sh").args(["-c", write]).arg(self.out(name)).arg(text).status().unwrap();
        assert!(written.success(), "{name}");
    }

    /// Starts a tree.
    pub(crate) fn play(&self, program: &str, args: &[&str]) -> Show {
        let (root, out) = (self.world.root(), self.world.base().join("out"));
        let jail = Jail {
            git_dir: root.join(".git"),
            root: root.clone(),
            protected: Vec::new(),
            closed: Vec::new(),
            exempt: Vec::new(),
            spares: None,
        };
        let guard = Turns { desk: Arc::clone(&self.desk), out };
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(self.world.variables()).current_dir(root);
        command.stdout(writer.try_clone().unwrap()).stderr(writer).stdin(std::process::Stdio::null());
        let run = thread::spawn(move || mala_sandbox::run(&jail, Arc::new(guard), command));
        Show { run, out: reader }
    }

    pub(crate) fn sh(&self, script: &str) -> Show {
        self.play("bash", &["-c", script])
    }

    pub(crate) fn python(&self, script: &str) -> Show {
        self.play("/usr/bin/python3", &["-c", script])
    }

    /// What was captured; nothing if nothing could be.
    pub(crate) fn log(&self) -> Option<String> {
        self.out("captured").exists().then(|| fs::read_to_string(self.out("log")).unwrap())
    }

    pub(crate) fn let_go(&self, name: &str) {
        self.desk.lock().open.push(name.to_owned());
    }

    pub(crate) fn let_all_go(&self) {
        self.desk.lock().all_open = true;
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.desk.lock().events.clone()
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.desk.lock().pids.clone()
    }

    /// Waits until `count` programs have come to wait.
    pub(crate) fn await_waiting(&self, count: usize) {
        self.await_events(&format!("{count} programs wait"), |events| {
            events.iter().filter(|event| matches!(event, Event::Waits(_))).count() >= count
        });
    }

    pub(crate) fn await_events(&self, what: &str, done: impl Fn(&[Event]) -> bool) {
        let deadline = Instant::now() + LIMIT;
        let mut state = self.desk.lock();
        while !done(&state.events) {
            assert!(Instant::now() < deadline, "{what}: {:?}", state.events);
            state = self
                .desk
                .changed
                .wait_timeout(state, Duration::from_millis(50))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

impl Drop for Stage {
    /// A test that failed must not leave programs waiting.
    fn drop(&mut self) {
        self.let_all_go();
    }
}

impl Show {
    /// The next bytes that the tree prints, as many as are expected.
    pub(crate) fn next(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.out.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    pub(crate) fn end(mut self) -> End {
        let mut out = String::new();
        self.out.read_to_string(&mut out).unwrap();
        End { exit: self.run.join().unwrap(), out }
    }
}
