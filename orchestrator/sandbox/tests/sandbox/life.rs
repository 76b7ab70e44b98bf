//! How a tree lives and ends.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mala_sandbox::{Attempt, Guard, Jail, Orphans, Ruling};

use crate::world::{HELD, Mode, Outcome, User, World};

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// True while `pid` runs; a dead process that nobody collected counts as gone.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

fn pids(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn exit_codes_and_signals_come_back() {
    let world = World::new(User::Myself);
    assert_eq!(world.sh(Mode::Sandboxed, "exit 7").code, Some(7));
    assert_eq!(world.sh(Mode::Sandboxed, "kill -KILL $$").code, Some(128 + 9));
    let missing =
        Outcome::of(world.command::<&str>(Mode::Sandboxed, "/no/such/program", &[]).spawn().unwrap());
    assert_eq!(missing.code, Some(126));
    assert!(missing.err.contains("cannot start the program: No such file or directory"), "{}", missing.err);
}

#[test]
fn a_refusal_is_one_line_on_the_programs_standard_error() {
    let world = World::new(User::Myself);
    let outcome = world.sh(Mode::Sandboxed, "tee sub/held.txt < /dev/null");
    let line = format!("mala: `{HELD}` is held by someone else");
    assert_eq!(outcome.err.lines().filter(|found| *found == line).count(), 1, "{}", outcome.err);
    assert!(outcome.err.contains("Permission denied"), "{}", outcome.err);
    let outcome = world.sh(Mode::Sandboxed, "echo x > .git/hooks/pre-commit");
    assert!(outcome.err.contains("`.git/hooks/pre-commit` is protected"), "{}", outcome.err);
}

#[test]
fn a_full_standard_error_holds_nobody_up() {
    let world = World::new(User::Myself);
    let script =
        "mkfifo $OUT/p; exec 3<>$OUT/p; dd if=/dev/zero bs=65536 count=1 status=none >&3; python3 -c '
try: open(\"sub/held.txt\", \"w\")
except PermissionError: print(\"refused\")' 2>&3";
    assert_eq!(world.sh(Mode::Sandboxed, script).out, "refused\n");
}

#[test]
fn daemons_end_with_the_tree() {
    let world = World::new(User::Myself);
    let outcome = world.sh(
        Mode::Sandboxed,
        "for i in 1 2 3; do (setsid sh -c 'echo $$ >> $OUT/pids; (sleep 60; true) & echo $! >> $OUT/pids; wait' \
         >/dev/null 2>&1 &) ; done; while test $(wc -l < $OUT/pids || echo 0) -lt 6; do sleep 0.01; done 2>/dev/null",
    );
    assert_eq!(outcome.code, Some(0), "{}", outcome.err);
    let daemons = pids(&world.base().join("out/pids"));
    assert_eq!(daemons.len(), 6);
    assert_eq!(daemons.iter().filter(|pid| is_alive(pid)).count(), 0, "gone before `run` returned");
}

#[test]
fn a_tree_ends_with_its_supervisor() {
    let world = World::new(User::Myself);
    let script = "echo $$ >> $OUT/pids; (setsid sh -c 'trap \"\" TERM HUP INT; echo $$ >> $OUT/pids; \
                  while :; do echo x > sub/held.txt; echo x > new.txt; done' >/dev/null 2>&1 &); sleep 60";
    let mut command = world.command(Mode::Sandboxed, "bash", &["-c", script]);
    let mut supervisor = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let file = world.base().join("out/pids");
    wait_for("both processes run", || pids(&file).len() == 2 && world.root().join("new.txt").exists());
    let before = world.print();
    signal("-KILL", supervisor.id());
    supervisor.wait().unwrap();
    wait_for("the tree is gone", || !pids(&file).iter().any(|pid| is_alive(pid)));
    assert!(world.print() == before);
}

#[test]
fn a_tree_without_its_keeper_cannot_write() {
    let world = World::new(User::Myself);
    let script = "(setsid bash -c 'echo $BASHPID > $OUT/pids; for i in {1..5000}; do sleep 0.01; echo x > sub/held.txt; \
                  echo $i > new.txt; done' >/dev/null 2>&1 &); sleep 60";
    let mut command = world.command(Mode::Sandboxed, "bash", &["-c", script]);
    let supervisor = command.spawn().unwrap();
    wait_for("the daemon writes", || world.root().join("new.txt").exists());
    let before = world.print();
    let id = supervisor.id();
    let keeper = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    signal("-KILL", keeper.trim().parse().unwrap());
    let outcome = Outcome::of(supervisor);
    assert_eq!(outcome.code, Some(126));
    assert!(outcome.err.contains("the process that keeps the tree was killed"), "{}", outcome.err);
    let last = world.read("new.txt");
    std::thread::sleep(Duration::from_millis(100));
    let daemon = pids(&world.base().join("out/pids"));
    assert!(is_alive(&daemon[0]));
    assert_eq!(world.read("new.txt"), last);
    assert!(world.print() == before);
    signal("-KILL", daemon[0].parse().unwrap());
}

#[test]
fn signals_to_the_supervisor_reach_the_program() {
    let world = World::new(User::Myself);
    for (name, number) in [("-INT", 2), ("-TERM", 15), ("-HUP", 1), ("-QUIT", 3)] {
        let script =
            "trap 'echo got; exit 9' INT TERM HUP QUIT; echo > $OUT/ready; while :; do sleep 0.01; done";
        let ready = world.base().join("out/ready");
        let mut command = world.command(Mode::Sandboxed, "bash", &["-c", script]);
        let supervisor = command.process_group(0).spawn().unwrap();
        wait_for("the program runs", || ready.exists());
        signal(name, supervisor.id());
        let outcome = Outcome::of(supervisor);
        assert_eq!((outcome.code, outcome.out.as_str()), (Some(9), "got\n"), "{name} {number}");
        fs::remove_file(ready).unwrap();
    }
}

/// As `timeout` does it: two signals to the whole group, the first of which ends the program. The keeper leaves without having read
/// that the supervisor has got the second.
#[test]
fn the_end_arrives_although_a_signal_came_too_late_for_the_program() {
    let world = World::new(User::Myself);
    let ready = world.base().join("out/ready");
    for round in 0..30 {
        let mut command =
            world.command(Mode::Sandboxed, "bash", &["-c", "echo > $OUT/ready; sleep 60; true"]);
        let supervisor = command.process_group(0).spawn().unwrap();
        wait_for("the program runs", || ready.exists());
        let both = format!("kill -TERM -{0}; kill -CONT -{0}", supervisor.id());
        assert!(Command::new("sh").args(["-c", &both]).status().unwrap().success());
        let outcome = Outcome::of(supervisor);
        assert_eq!(outcome.code, Some(128 + 15), "{round}: {}", outcome.err);
        fs::remove_file(&ready).unwrap();
    }
}

#[test]
fn the_tree_cannot_reach_its_keeper_and_supervisor() {
    let world = World::new(User::Myself);
    let script = "
from kernel import *
import resource
resource.prlimit(os.getpid(), resource.RLIMIT_CORE, (0, 0))
attributes = struct.pack('IIQiIQQQ', 48, 0, 0, 19, 0, 0, 0, 0)
group = os.getpgrp()
keeper = os.getppid()
supervisor = int([l for l in open('/proc/%d/status' % keeper) if l.startswith('PPid')][0].split()[1])
for pid in keeper, supervisor:
    for name, attempt in [
        ('signal', lambda: os.kill(pid, 9)),
        ('memory', lambda: open('/proc/%d/mem' % pid, 'r+b')),
        ('ptrace', lambda: call('ptrace', 16, pid, 0, 0)),
        ('limits', lambda: resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, 0))),
        ('descriptor', lambda: call(438, os.pidfd_open(pid), 0, 0)),
        ('affinity', lambda: os.sched_setaffinity(pid, os.sched_getaffinity(pid))),
        ('scheduler', lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))),
        ('scheduling parameter', lambda: os.sched_setparam(pid, os.sched_param(0))),
        ('scheduling attributes', lambda: call('sched_setattr', pid, attributes, 0)),
        ('niceness', lambda: os.setpriority(os.PRIO_PROCESS, pid, 19)),
        ('niceness of its group', lambda: os.setpriority(os.PRIO_PGRP, group, 19)),
        ('niceness of our group', lambda: os.setpriority(os.PRIO_PGRP, 0, 19)),
        ('niceness of a user', lambda: os.setpriority(os.PRIO_USER, 4242, 19)), # has no processes
        ('input and output', lambda: call('ioprio_set', 1, pid, 3 << 13)),
        ('input and output of its group', lambda: call('ioprio_set', 2, group, 3 << 13)),
        ('input and output of a user', lambda: call('ioprio_set', 3, 4242, 3 << 13)),
    ]:
        try: attempt(); print(name, 'worked')
        except PermissionError: pass
        except OSError as error: print(name, error)
print('done')
";
    let mut command = world.command(Mode::Sandboxed, "python3", &["-c", script]);
    let outcome = Outcome::of(command.process_group(0).spawn().unwrap());
    assert_eq!((outcome.code, outcome.out.as_str()), (Some(0), "done\n"), "{}", outcome.err);
}

#[test]
fn a_socket_gets_a_name_where_a_file_could() {
    let world = World::new(User::Myself);
    let script = "
from kernel import *
import socket, stat
os.umask(0o027)
def bind(path):
    try: socket.socket(socket.AF_UNIX).bind(path); return oct(stat.S_IMODE(os.stat(path).st_mode))
    except OSError as error: return os.strerror(error.errno)
os.mkdir(OUT + '/later')
for path in ['new.sock', 'sub/held.txt', '.git/hooks/pre-push', '.git/mala/x', '.git/index.lock', OUT + '/sock', OUT + '/later/sock', 'ignored/sock']:
    print(bind(path))
os.mkdir('folder', 0o2775)
print(oct(os.stat('folder').st_mode))
try: os.chmod('.', 0)
except PermissionError: print('its own folder')
";
    let outcome = Outcome::of(world.command(Mode::Sandboxed, "python3", &["-c", script]).spawn().unwrap());
    let named = "0o750\n";
    let expected = format!(
        "{named}Address already in use\nPermission denied\nPermission denied\n{named}{named}{named}{named}0o40750\nits own folder\n"
    );
    assert_eq!(outcome.out, expected, "{}", outcome.err);
}

#[test]
fn a_program_that_stops_in_the_background_stops_its_supervisor() {
    let world = World::new(User::Myself);
    let script = "
import os, pty, signal, sys, time
pid, terminal = pty.fork()
if pid == 0:
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.execv('../supervise', ['supervise', os.environ['ROOT'], 'sub/held.txt', 'sh', '-c', 'read line; echo $line > new'])
    try: os.setpgid(job, job)
    except PermissionError: pass # it has done so itself, and runs by now
    _, status = os.waitpid(job, os.WUNTRACED)
    print(os.WIFSTOPPED(status), flush=True)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
    _, status = os.waitpid(job, 0)
    os._exit(os.waitstatus_to_exitcode(status))
out = os.read(terminal, 100)
os.write(terminal, b'typed\\n')
_, status = os.waitpid(pid, 0)
print(out.split()[0].decode(), os.waitstatus_to_exitcode(status), open('new').read().strip())
";
    let outcome = Outcome::of(world.command(Mode::Bare, "python3", &["-c", script]).spawn().unwrap());
    assert_eq!(outcome.out, "True 0 typed\n", "{}", outcome.err);
}

#[test]
fn a_program_that_stops_stops_its_supervisor_on_the_same_terminal() {
    let world = World::new(User::Myself);
    let script = "
import os, pty, signal, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv('../supervise', ['supervise', os.environ['ROOT'], 'sub/held.txt', 'sh', '-c', 'kill -STOP $$; echo a > new; exit 5'])
_, status = os.waitpid(pid, os.WUNTRACED)
print(os.WIFSTOPPED(status), os.path.exists('new'))
os.killpg(pid, signal.SIGCONT)
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status), os.path.exists('new'))
";
    let outcome = Outcome::of(world.command(Mode::Bare, "python3", &["-c", script]).spawn().unwrap());
    assert_eq!(outcome.out, "True False\n5 True\n", "{}", outcome.err);
}

#[test]
fn a_second_mount_of_the_tree_is_the_tree() {
    if User::all().len() == 1 {
        return; // only root can mount
    }
    let world = World::new(User::Myself);
    let before = world.print();
    let attack = "echo x > $OUT/b/sub/held.txt; echo x > $OUT/s/held.txt; rm -f $OUT/b/sub/held.txt; \
                  echo fine > $OUT/b/new; cat new";
    let script = format!(
        "mkdir $OUT/b $OUT/s && unshare -m sh -c 'mount --bind $ROOT $OUT/b && mount --bind $ROOT/sub $OUT/s && \
         exec ../supervise $ROOT sub/held.txt sh -c \"{attack}\"'"
    );
    let outcome = world.sh(Mode::Bare, &script);
    assert_eq!(outcome.out, "fine\n", "{}", outcome.err);
    assert!(world.print() == before, "{}", outcome.err);
}

#[test]
fn a_program_that_nobody_may_look_into_starts_nothing() {
    let Some(ordinary) = User::all().pop() else { return };
    let world = World::new(ordinary);
    let script = "cp $(command -v env) $OUT/env; $OUT/env echo seen; chmod 111 $OUT/env; $OUT/env echo unseen; echo $?";
    let outcome = world.sh(Mode::Sandboxed, script);
    assert_eq!(outcome.out, "seen\n126\n", "{}", outcome.err);
    assert!(outcome.err.contains("Permission denied"), "{}", outcome.err);
}

#[test]
fn a_sandbox_in_a_sandbox_says_so() {
    let world = World::new(User::Myself);
    let outcome = world.sh(Mode::Sandboxed, "../supervise $ROOT sub/held.txt true");
    assert_eq!(outcome.code, Some(126));
    assert!(outcome.err.contains("already inside a sandbox"), "{}", outcome.err);
}

#[test]
fn standard_streams_into_the_tree_are_refused() {
    let world = World::new(User::Myself);
    let stdout = fs::File::create(world.root().join("log")).unwrap();
    let mut command = world.command::<&str>(Mode::Sandboxed, "true", &[]);
    let mut child = command.stdout(stdout).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(126));
}

#[test]
fn descriptors_of_the_supervisor_are_not_inherited() {
    let world = World::new(User::Myself);
    let outcome =
        world.sh(Mode::Bare, "exec 7>>sub/held.txt; ../supervise $ROOT sub/held.txt ls /proc/self/fd");
    assert_eq!(outcome.out, "0\n1\n2\n3\n");
}

/// Allows everything, except that it cannot cope with files called `panic`.
struct Nervous;

impl Guard for Nervous {
    fn judge(&self, attempt: &Attempt<'_>) -> Ruling {
        assert!(!attempt.paths.contains(&Path::new("panic")), "on purpose");
        Ruling::Allow
    }

    fn is_exempt(&self, _path: &Path) -> bool {
        false
    }
}

fn jail(world: &World) -> Jail {
    let root = world.root();
    Jail {
        git_dir: root.join(".git"),
        root,
        protected: Vec::new(),
        closed: Vec::new(),
        exempt: Vec::new(),
        spares: None,
    }
}

#[test]
fn one_process_can_supervise_many_trees() {
    let run = |index: i32| {
        let world = World::new(User::Myself);
        let jail = jail(&world);
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("echo {index} > new; (sleep 60 &); exit {index}"))
            .current_dir(world.root());
        let exit = mala_sandbox::run(&jail, Arc::new(Nervous), command).unwrap();
        assert_eq!((exit.code, exit.signal), (Some(index), None));
        assert_eq!(world.read("new"), format!("{index}\n"));
    };
    std::thread::scope(|scope| (0..8).for_each(|index| drop(scope.spawn(move || run(index)))));
}

#[test]
fn a_guard_that_panics_refuses() {
    let world = World::new(User::Myself);
    let jail = jail(&world);
    let mut command = Command::new("sh");
    command.args(["-c", "echo > fine && ! echo > panic"]).current_dir(world.root()).stderr(Stdio::null());
    assert!(mala_sandbox::run(&jail, Arc::new(Nervous), command).unwrap().success());
    assert!(world.root().join("fine").exists() && !world.root().join("panic").exists());
}

#[test]
fn this_machine_can_enforce() {
    let support = mala_sandbox::probe().unwrap();
    assert!(support.landlock >= 2);
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(status.contains("NoNewPrivs:\t0\nSeccomp:\t0\n"), "trying it has an effect: {status}");
}

#[test]
fn a_git_waits_a_moment_for_the_lock_file_of_another() {
    let world = World::new(User::Myself);
    let held = "echo x > new; touch .git/index.lock";
    let freed =
        world.sh(Mode::Sandboxed, &format!("{held}; (sleep 0.3; rm .git/index.lock) & git add new; echo $?"));
    assert_eq!(freed.out, "0\n", "{freed:?}");
    let held_there = "touch .git/objects/x.lock; (sleep 0.3; rm .git/objects/x.lock) &";
    let take = "import os; os.open('.git/objects/x.lock', os.O_CREAT | os.O_EXCL | os.O_WRONLY)";
    let freed = world.sh(Mode::Sandboxed, &format!("{held_there} python3 -c \"{take}\"; echo $?"));
    assert_eq!(freed.out, "0\n", "where the kernel runs calls, too: {freed:?}");
    let kept = world.sh(Mode::Sandboxed, &format!("{held}; git add new; echo $?; ls .git/index.lock"));
    assert_eq!(kept.out, "128\n.git/index.lock\n", "{kept:?}");
    assert!(kept.err.contains("File exists"), "{kept:?}");
}

#[test]
fn a_supervisor_that_is_killed_while_it_starts_leaves_nothing() {
    let world = World::new(User::Myself);
    let mark = format!("MALA_TEST_MARK={}", world.base().display());
    let (name, value) = mark.split_once('=').unwrap();
    for step in 0..200 {
        let mut command = world.command(Mode::Sandboxed, "sleep", &["600"]);
        let mut supervisor =
            command.env(name, value).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(step * 50));
        supervisor.kill().unwrap();
        supervisor.wait().unwrap();
    }
    let is_marked = |folder: &Path| {
        let variables = fs::read(folder.join("environ")).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let left = || fs::read_dir("/proc").unwrap().flatten().any(|entry| is_marked(&entry.path()));
    wait_for("all of them are gone", || !left());
}

#[test]
fn a_tied_program_may_be_stopped_as_often_as_one_likes() {
    let mut command = Command::new("sleep");
    command.arg("600");
    let leash = mala_sandbox::tie(&mut command, Orphans::Stay).unwrap().unwrap();
    let mut keeper = command.spawn().unwrap();
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", keeper.id())).unwrap();
    let program: u32 = children.trim().parse().unwrap();
    let is_stopped =
        || fs::read_to_string(format!("/proc/{program}/stat")).is_ok_and(|stat| stat.contains(") T "));
    // More than a socket holds that nobody reads from.
    for _ in 0..600 {
        signal("-STOP", program);
        wait_for("it stops", is_stopped);
        signal("-CONT", program);
    }
    signal("-TERM", program);
    wait_for("its keeper ends with it", || keeper.try_wait().unwrap().is_some());
    assert_eq!(leash.status().and_then(|status| status.signal()), Some(15));
}

#[test]
fn what_a_program_leaves_running_goes_on_or_ends_with_it() {
    for (orphans, survives) in [(Orphans::Stay, true), (Orphans::End, false)] {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let mut command = Command::new("sh");
        command.args(["-c", "setsid sleep 600 >/dev/null 2>&1 & echo $! >\"$0\""]).arg(&pid);
        let _leash = mala_sandbox::tie(&mut command, orphans).unwrap().unwrap();
        assert!(command.status().unwrap().success());
        let pid = fs::read_to_string(&pid).unwrap();
        assert_eq!(is_alive(&pid), survives, "{orphans:?}");
        if survives {
            signal("-KILL", pid.trim().parse().unwrap());
        }
    }
}

#[test]
fn a_confined_program_writes_where_it_may_and_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    let (inside, outside) = (dir.path().join("inside"), dir.path().join("outside"));
    fs::create_dir_all(&inside).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("file"), "as it was").unwrap();
    let script = "echo x >inside/new; echo x >outside/new; : >outside/file; rm outside/file; mv outside/file inside; true";
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(dir.path()).stderr(Stdio::null());
    assert!(mala_sandbox::confine(&mut command, &[inside.clone(), "/no/such/place".into()]).unwrap());
    command.status().unwrap();
    assert!(inside.join("new").exists());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "as it was");
}
