//! The speed of the foundation, measured against its targets: `just bench`.
//!
//! Every figure is a median, and where a target is relative both sides are measured in turn within one run, because
//! absolute times mean little on a machine that others use too. The table it prints is the one in
//! `docs/performance.md`.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on says where")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mala_core::message::{Audience, Body, Importance};
use mala_core::{AgentId, Key, Mode, Pattern, Scope, Target, ThreadId, Urgency, Want, Who};
use mala_store::{AskRequest, BroadcastLimit, Draft, Outcome, PageOf, Party, Request, Store, Which, process};

const MALA: &str = env!("CARGO_BIN_EXE_mala-under-test");
/// How this program is told to be one of the contending processes.
const CONTEND: &str = "--contend";

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(place) = args.iter().position(|arg| arg == CONTEND) {
        return contend(Path::new(&args[place + 1]), &args[place + 2]);
    }
    // `just bench answer` measures that alone.
    let only: Vec<&String> = args.iter().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let all: [(&str, fn()); 11] = [
        ("pair", pair_in_process),
        ("cold", cold_process),
        ("commands", many_commands),
        ("hook", hook),
        ("growth", growth),
        ("patterns", patterns),
        ("handover", handover),
        ("answer", answer),
        ("inbox", inbox),
        ("idle", idle_waiters),
        ("contention", contention),
    ];
    println!("| what | measured | target | |");
    println!("| --- | --- | --- | --- |");
    for (name, measure) in all {
        if only.is_empty() || only.iter().any(|wanted| *wanted == name) {
            measure();
        }
    }
}

fn row(what: &str, measured: &str, target: &str, is_met: bool) {
    println!("| {what} | {measured} | {target} | {} |", if is_met { "met" } else { "**missed**" });
}

/// A repository of its own, on the disk that holds temporary files.
struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        assert!(Command::new("git").args(["init", "-q"]).arg(dir.path()).status().unwrap().success());
        Self { dir }
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    fn store(&self) -> Store {
        open(self.root())
    }

    fn mala(&self, args: &[&str]) -> Command {
        let mut command = Command::new(MALA);
        command.args(args).current_dir(self.root()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

fn open(root: &Path) -> Store {
    Store::open(&Scope::discover(root).unwrap()).unwrap()
}

fn party(agent: &str) -> Party {
    let agent = AgentId::new(agent).unwrap();
    Party { agent, owner: process::current(), supervised: false, issue: None, run: None }
}

fn file(name: &str) -> Want {
    let target = Target::File(Key::from_stored(name.as_bytes().to_vec()));
    Want { target, aliases: Vec::new(), mode: Mode::Exclusive }
}

fn request(agent: &str, wants: Vec<Want>) -> Request {
    Request { party: party(agent), wants, ttl: Duration::from_secs(3600), reason: None }
}

fn reserve(store: &mut Store, request: &Request) {
    assert!(matches!(store.reserve(request).unwrap(), Outcome::Granted(_)));
}

fn release(store: &mut Store, request: &Request) {
    store.release(&request.party.agent, &Which::These(request.wants.clone())).unwrap();
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn time(rounds: usize, mut work: impl FnMut(usize)) -> Duration {
    let timed = |round| {
        let start = Instant::now();
        work(round);
        start.elapsed()
    };
    median((0..rounds).map(timed).collect())
}

fn micros(time: Duration) -> String {
    format!("{:.0} us", time.as_secs_f64() * 1e6)
}

fn pair_in_process() {
    let world = World::new();
    let mut store = world.store();
    let one = request("a", vec![file("src/main.rs")]);
    let pair = time(5_000, |_| {
        reserve(&mut store, &one);
        release(&mut store, &one);
    });
    row(
        "reserve + release of one key, in process",
        &micros(pair),
        "100 us",
        pair <= Duration::from_micros(100),
    );
}

fn run(command: &mut Command) -> Duration {
    let start = Instant::now();
    assert!(command.status().unwrap().success());
    start.elapsed()
}

/// A row about how many times as long one takes as the other.
fn compare(what: &str, one: Duration, other: Duration, target: f64) {
    let [one, other] = [one, other].map(|time| time.as_secs_f64() * 1e3);
    let ratio = one / other;
    row(
        what,
        &format!("{ratio:.2} ({one:.1} ms against {other:.1} ms)"),
        &target.to_string(),
        ratio <= target,
    );
}

/// One after the other, so that a noisy moment hits both sides.
fn cold_process() {
    let world = World::new();
    fs::write(world.root().join("file"), "").unwrap();
    // The interpreter itself: what is on the PATH may be a script that looks for it.
    let find = ["-c", "import sys; print(sys.executable, end='')"];
    let interpreter = String::from_utf8(Command::new("python3").args(find).output().unwrap().stdout).unwrap();
    let (mut ours, mut python) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        ours.push(run(&mut world.mala(&["lock", "acquire", "file", "--agent", "a"])));
        python.push(run(Command::new(&interpreter).args(["-S", "-c", "pass"])));
    }
    let what = "`mala lock acquire` as a cold process, to `python3 -S -c pass`";
    compare(what, median(ours), median(python), 0.5);
}

/// Commands that find nobody else at work: what one leaves behind, the next has to read.
fn many_commands() {
    let world = World::new();
    let pair =
        |_| ["acquire", "release"].map(|what| run(&mut world.mala(&["lock", what, "file", "--agent", "a"])));
    let times: Vec<Duration> = (0..400).flat_map(pair).collect();
    let (first, last) = (median(times[..100].to_vec()), median(times[700..].to_vec()));
    compare("the last of 800 cold commands, to the first", last, first, 1.3);
}

/// A client asks before it writes, while a thousand locks are held: a free file and one of somebody else's.
fn hook() {
    let world = World::new();
    let mut store = world.store();
    let held = (0..1_000).map(|number| file(&format!("src/file-{number}"))).collect();
    reserve(&mut store, &request("other", held));
    let call = |path: &str| {
        let path = world.root().join(path);
        format!(
            r#"{{"hook_event_name":"PreToolUse","session_id":"s","cwd":"{}","tool_name":"Write","tool_use_id":"t","tool_input":{{"file_path":"{}","content":"x"}}}}"#,
            world.root().display(),
            path.display()
        )
    };
    let ask = |call: &str| {
        let start = Instant::now();
        let mut hook = world.mala(&["hook", "claude"]).stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut hook.stdin.take().unwrap(), call.as_bytes()).unwrap();
        assert!(hook.wait().unwrap().success());
        start.elapsed()
    };
    let find = ["-c", "import sys; print(sys.executable, end='')"];
    let interpreter = String::from_utf8(Command::new("python3").args(find).output().unwrap().stdout).unwrap();
    for (what, call) in [("allowed", call("free")), ("denied", call("src/file-7"))] {
        let (mut ours, mut python) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            ours.push(ask(&call));
            let start = Instant::now();
            assert!(Command::new(&interpreter).args(["-S", "-c", "pass"]).status().unwrap().success());
            python.push(start.elapsed());
        }
        let (ours, python) = (median(ours), median(python));
        let ratio = ours.as_secs_f64() / python.as_secs_f64();
        let measured = format!(
            "{ratio:.2} ({:.1} ms against {:.1} ms)",
            ours.as_secs_f64() * 1e3,
            python.as_secs_f64() * 1e3
        );
        row(
            &format!("`mala hook claude`, cold, 1,000 locks held, {what}, to `python3 -S -c pass`"),
            &measured,
            "1.0",
            ratio <= 1.0,
        );
    }
}

fn growth() {
    let among = |held: usize| {
        let world = World::new();
        let mut store = world.store();
        let names =
            |range: std::ops::Range<usize>| range.map(|i| file(&format!("src/module{}/file{i}.rs", i % 997)));
        reserve(&mut store, &request("holder", names(0..held).collect()));
        // Spread over the table, so that each round touches other pages.
        time(2_000, |round| {
            let one = request("a", vec![file(&format!("src/module{}/other{round}.rs", round * 31 % 997))]);
            reserve(&mut store, &one);
            release(&mut store, &one);
        })
    };
    let (few, many) = (among(10), among(100_000));
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    let measured = format!("{ratio:.2} ({} against {})", micros(many), micros(few));
    row("reserve + release among 100,000 held locks, to among 10", &measured, "2", ratio <= 2.0);
}

fn patterns() {
    let among = |text: &dyn Fn(usize) -> String| {
        let world = World::new();
        let mut store = world.store();
        let wants = (0..1_000).map(|i| {
            let pattern = Pattern::parse(text(i).as_bytes()).unwrap();
            Want { target: Target::Pattern(pattern), aliases: Vec::new(), mode: Mode::Exclusive }
        });
        reserve(&mut store, &request("holder", wants.collect()));
        let one = request("a", vec![file("docs/some/folder/with/a/file.md")]);
        let mut times = Vec::new();
        for _ in 0..300 {
            let start = Instant::now();
            reserve(&mut store, &one);
            times.push(start.elapsed());
            release(&mut store, &one);
        }
        median(times)
    };
    let usual = among(&|i| format!("src/module{i}/**/*.rs"));
    row("reserve among 1,000 held patterns", &micros(usual), "1 ms", usual <= Duration::from_millis(1));
    let worst = among(&|i| format!("**/*[a-m]*[^x]*{}?*/**/*a*b*c*/**/x{i}", "?*".repeat(8)));
    row("reserve among 1,000 hostile patterns", &micros(worst), "50 ms", worst <= Duration::from_millis(50));
}

/// From the call of release to the waiter's return with the lock, in another thread with its own connection.
fn handover() {
    let world = World::new();
    let mut store = world.store();
    let holder = request("holder", vec![file("key")]);
    let times = (0..200).map(|_| {
        reserve(&mut store, &holder);
        let (root, (queued, is_queued)) = (world.root().to_path_buf(), mpsc::channel());
        let waiter = thread::spawn(move || {
            let mut store = open(&root);
            let wanted = request("waiter", vec![file("key")]);
            let outcome =
                store.reserve_or_wait(&wanted, Duration::from_secs(30), |_| queued.send(()).unwrap());
            let owned = Instant::now();
            assert!(matches!(outcome.unwrap(), Outcome::Granted(_)));
            release(&mut store, &wanted);
            owned
        });
        is_queued.recv().unwrap();
        // Let it fall asleep: the question is how fast it wakes.
        thread::sleep(Duration::from_millis(2));
        let start = Instant::now();
        release(&mut store, &holder);
        waiter.join().unwrap() - start
    });
    let median = median(times.collect());
    row("release to waiter owning it", &micros(median), "5 ms", median <= Duration::from_millis(5));
}

/// From the holder's answer to the return of the asker, who sleeps in another thread, with the lock.
fn answer() {
    let world = World::new();
    let mut store = world.store();
    let holder = request("holder", vec![file("key")]);
    let times = (0..200).map(|_| {
        reserve(&mut store, &holder);
        let asked = AskRequest {
            party: party("asker"),
            want: file("key"),
            ttl: Duration::from_secs(3600),
            why: "to go on".to_owned(),
            urgency: Urgency::Normal,
            due_in: Duration::from_secs(600),
        };
        let ask = store.ask(&asked).unwrap().remove(0);
        let (root, (queued, is_queued)) = (world.root().to_path_buf(), mpsc::channel());
        let asker = thread::spawn(move || {
            let mut store = open(&root);
            let wanted = request("asker", vec![file("key")]);
            let outcome =
                store.reserve_or_wait(&wanted, Duration::from_secs(30), |_| queued.send(()).unwrap());
            let owned = Instant::now();
            assert!(matches!(outcome.unwrap(), Outcome::Granted(_)));
            release(&mut store, &wanted);
            owned
        });
        is_queued.recv().unwrap();
        // Let it fall asleep: the question is how fast it wakes.
        thread::sleep(Duration::from_millis(2));
        let start = Instant::now();
        let answered = store.answer_release(&holder.party.agent, &ask.id).unwrap();
        assert_eq!(answered.granted.len(), 1);
        asker.join().unwrap() - start
    });
    let median = median(times.collect());
    row("answer to asker owning the lock", &micros(median), "5 ms", median <= Duration::from_millis(5));
}

/// A page of an inbox with ten thousand messages, from the newest to the oldest.
fn inbox() {
    const MESSAGES: u32 = 10_000;
    let world = World::new();
    let mut store = world.store();
    for name in ["ann", "bob"] {
        store.register(&party(name)).unwrap();
    }
    let [ann, bob] = ["ann", "bob"].map(|name| Who::Agent(AgentId::new(name).unwrap()));
    let draft = Draft {
        from: ann,
        to: Audience::These(vec![bob.clone()]),
        thread: ThreadId::new("bd-1").unwrap(),
        importance: Importance::Normal,
        body: Body::new("a message of ordinary length, about what was found and what comes next").unwrap(),
        ack_in: None,
    };
    for _ in 0..MESSAGES {
        store.send(&draft, BroadcastLimit { most: 1, per: Duration::from_secs(1) }).unwrap();
    }
    let mut before = None;
    let page = time(MESSAGES as usize / 50, |_| {
        let page = store.inbox(&bob, PageOf { before, limit: 50, unread_only: true }).unwrap();
        assert_eq!(page.items.len(), 50);
        before = page.next;
    });
    row("a page of an inbox with 10,000 messages", &micros(page), "5 ms", page <= Duration::from_millis(5));
}

fn idle_waiters() {
    const WATCHED: Duration = Duration::from_secs(5);
    let world = World::new();
    let mut store = world.store();
    reserve(&mut store, &request("holder", vec![file("key")]));
    let mut waiters: Vec<Child> = (0..100)
        .map(|i| {
            world
                .mala(&["lock", "acquire", "key", "--wait", "10m", "--agent", &format!("w{i}")])
                .spawn()
                .unwrap()
        })
        .collect();
    while store.status().unwrap().waiting.len() < waiters.len() {
        thread::sleep(Duration::from_millis(50));
    }
    let ticks = |waiters: &[Child]| waiters.iter().map(|child| cpu_ticks(child.id())).sum::<u64>();
    let before = ticks(&waiters);
    thread::sleep(WATCHED);
    let used = ticks(&waiters) - before;
    for waiter in &mut waiters {
        waiter.kill().unwrap();
        waiter.wait().unwrap();
    }
    // A tick is a hundredth of a second on every Linux.
    let percent = used as f64 / 100.0 / WATCHED.as_secs_f64() * 100.0;
    row("100 waiting processes, of one core", &format!("{percent:.1} %"), "2 %", percent < 2.0);
}

fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn contention() {
    let world = World::new();
    drop(world.store());
    let program = std::env::current_exe().unwrap();
    let spawn = |i: usize| {
        let name = format!("agent{i}");
        let args = [OsStr::new(CONTEND), world.root().as_os_str(), OsStr::new(&name)];
        Command::new(&program).args(args).stdout(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..8).map(spawn).collect();
    let mut counts: Vec<u64> = Vec::new();
    let mut is_sound = true;
    for child in children {
        let out = child.wait_with_output().unwrap();
        is_sound &= out.status.success();
        counts.push(String::from_utf8(out.stdout).unwrap().trim().parse().unwrap_or(0));
    }
    let (slowest, fastest) = (*counts.iter().min().unwrap(), *counts.iter().max().unwrap());
    let ratio = slowest as f64 / fastest as f64;
    let errors = if is_sound { "no errors" } else { "ERRORS" };
    let measured = format!("{ratio:.2} ({slowest} to {fastest} locks each, {errors})");
    let what = "8 processes, 50 keys, 10 s: slowest to fastest";
    row(what, &measured, "at least 0.33", is_sound && ratio >= 1.0 / 3.0);
}

fn contend(root: &Path, name: &str) {
    let mut store = open(&PathBuf::from(root));
    let end = Instant::now() + Duration::from_secs(10);
    let mut count = 0_u64;
    while Instant::now() < end {
        let one = request(name, vec![file(&format!("key{}", fastrand::u32(..50)))]);
        match store.reserve_or_wait(&one, Duration::from_secs(5), |_| {}).unwrap() {
            Outcome::Granted(_) => count += 1,
            Outcome::Refused(refusal) => panic!("refused: {refusal:?}"),
        }
        release(&mut store, &one);
    }
    println!("{count}");
}
