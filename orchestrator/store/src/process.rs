//! Processes of this machine: who runs, since when, and who started whom.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::OnceLock;

use mala_core::ports::Liveness;
use mala_core::{Life, Owner};
use nix::errno::Errno;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

pub use crate::node::keep_node_id_in;
use crate::node::node_id;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use portable as system;

/// What the system tells about one process.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    pub start_time: u64,
    /// Program name, without its folder.
    pub name: String,
    ended: bool,
}

impl Process {
    /// The process called `pid`, unless it has ended. A zombie has ended.
    pub fn find(pid: u32) -> Option<Self> {
        system::find(pid).filter(|process| !process.ended)
    }

    pub fn owner(&self) -> Owner {
        let machine = machine();
        Owner {
            host: machine.host.clone(),
            boot_id: machine.boot_id.clone(),
            pid: self.pid,
            start_time: self.start_time,
            node: machine.node.clone(),
        }
    }

    /// Parent, its parent, and so on, up to the first process of the machine.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Self::find(self.parent), |process| Self::find(process.parent))
    }

    /// True for a process that ends when the command it was given ends, such as `sh -c "..."`.
    fn is_wrapper(&self) -> bool {
        const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "fish", "ksh", "ash"];
        const RUNNERS: &[&str] = &[
            "env", "ionice", "nice", "nohup", "setsid", "stdbuf", "strace", "sudo", "time", "timeout",
            "xargs",
        ];
        let args = system::args(self.pid);
        let program = args.first().map_or(self.name.as_str(), |arg| base_name(arg));
        let runs_one_command = || {
            args.get(1).is_some_and(|arg| arg.starts_with('-') && !arg.starts_with("--") && arg.contains('c'))
        };
        RUNNERS.contains(&program) || (SHELLS.contains(&program) && runs_one_command())
    }
}

fn base_name(program: &str) -> &str {
    Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program)
}

/// This process.
pub fn current() -> Owner {
    static CURRENT: OnceLock<Owner> = OnceLock::new();
    CURRENT
        .get_or_init(|| {
            Process::find(std::process::id())
                .expect("a running process finds itself in the process table")
                .owner()
        })
        .clone()
}

/// The process that the caller's session lives with: the nearest ancestor that outlasts single commands. For a person
/// that is the shell, for a script its interpreter, for an agent the client.
pub fn session() -> Option<Process> {
    let me = Process::find(std::process::id())?;
    me.ancestors().find(|process| !process.is_wrapper())
}

/// Sleeps until the process has ended.
pub fn wait_for_end(owner: &Owner) {
    crate::wake::sleep_until_end_of(owner, None);
}

/// The same, but no longer than until there is something to read from `stop`, or its other end is closed. True if the process
/// has ended.
pub fn wait_for_end_until(owner: &Owner, stop: BorrowedFd<'_>) -> bool {
    crate::wake::sleep_until_end_of(owner, Some(stop)) == crate::wake::Asker::Waits
}

/// Kills that very process, if it runs on this machine. Where the kernel has handles on processes, none that has got its pid since
/// can be hit instead.
pub fn kill(owner: &Owner) {
    if ProcessTable.of(owner) != Life::Alive {
        return;
    }
    // It may have ended just now.
    let _ = match crate::wake::end_of(owner) {
        #[cfg(target_os = "linux")]
        Ok(Some(handle)) => rustix::process::pidfd_send_signal(handle, rustix::process::Signal::KILL).is_ok(),
        Ok(_) => i32::try_from(owner.pid)
            .is_ok_and(|pid| signal::kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok()),
        Err(()) => false,
    };
}

struct Machine {
    host: String,
    boot_id: String,
    node: Option<String>,
}

/// What tells this boot of this machine from all others.
pub(crate) fn boot_id() -> &'static str {
    &machine().boot_id
}

fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| Machine {
        host: host_name(),
        boot_id: system::boot_id(),
        node: node_id().map(str::to_owned),
    })
}

/// What a machine can tell about an owner before it looks at its processes.
#[derive(Debug, PartialEq, Eq)]
enum Knowledge {
    /// Its pid means something here.
    Process,
    /// It ran here before the machine was restarted.
    Rebooted,
    Nothing,
}

impl Machine {
    /// Host names are not unique, boot ids are. So within one boot only the process namespace counts, and before it only a
    /// machine that knows itself by its own id takes an owner for one of its past.
    fn knows(&self, owner: &Owner) -> Knowledge {
        if owner.boot_id == self.boot_id {
            let is_same = namespace(&owner.host) == namespace(&self.host);
            return if is_same { Knowledge::Process } else { Knowledge::Nothing };
        }
        let is_self = self.node.is_some() && owner.node == self.node && owner.host == self.host;
        if is_self { Knowledge::Rebooted } else { Knowledge::Nothing }
    }
}

/// The number of the process namespace at the end of a host name.
fn namespace(host: &str) -> Option<&str> {
    host.rsplit_once('/').map(|(_, namespace)| namespace)
}

/// The host name; in a container, with the number of its process namespace. Pids of two namespaces mean nothing to
/// each other.
fn host_name() -> String {
    let name = nix::unistd::gethostname()
        .map_or_else(|_| "unknown-host".to_owned(), |name| name.to_string_lossy().into_owned());
    match system::process_namespace() {
        Some(namespace) => format!("{name}/{namespace}"),
        None => name,
    }
}

/// Judges owners by this machine's process table.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessTable;

impl Liveness for ProcessTable {
    fn of(&self, owner: &Owner) -> Life {
        match machine().knows(owner) {
            Knowledge::Process => life_of(owner),
            Knowledge::Rebooted => Life::Dead,
            Knowledge::Nothing => Life::Unknown,
        }
    }
}

fn life_of(owner: &Owner) -> Life {
    match system::find(owner.pid) {
        Some(process) if process.ended || process.start_time != owner.start_time => Life::Dead,
        Some(_) => Life::Alive,
        None => match i32::try_from(owner.pid).map(|pid| signal::kill(Pid::from_raw(pid), None)) {
            Ok(Err(Errno::ESRCH)) | Err(_) => Life::Dead,
            // It runs, but this user may not look at it.
            Ok(Ok(()) | Err(_)) => Life::Alive,
        },
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io::Read;

    use procfs::FromRead;
    use procfs::process::Stat;

    use super::{Process, base_name};

    /// Inode of the first process namespace on every Linux machine.
    const FIRST_NAMESPACE: &str = "pid:[4026531836]";

    pub(super) fn find(pid: u32) -> Option<Process> {
        // Longer than any: the kernel makes it anew for every piece that is read.
        let mut line = [0; 4096];
        let length = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
        let stat = Stat::from_read(&line[..length]).ok()?;
        Some(Process {
            pid,
            parent: u32::try_from(stat.ppid).unwrap_or(0),
            start_time: stat.starttime,
            ended: matches!(stat.state, 'Z' | 'X' | 'x'),
            name: base_name(&stat.comm).to_owned(),
        })
    }

    pub(super) fn args(pid: u32) -> Vec<String> {
        let entry = i32::try_from(pid).ok().and_then(|pid| procfs::process::Process::new(pid).ok());
        entry.and_then(|entry| entry.cmdline().ok()).unwrap_or_default()
    }

    pub(super) fn boot_id() -> String {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_or_else(|_| "unknown-boot".to_owned(), |id| id.trim().to_owned())
    }

    pub(super) fn process_namespace() -> Option<String> {
        let link = std::fs::read_link("/proc/self/ns/pid").ok()?;
        let name = link.to_str()?;
        (name != FIRST_NAMESPACE).then(|| name.replace([':', '[', ']'], ""))
    }
}

/// For systems without `/proc`. Compiled for tests everywhere, so that it cannot rot unseen.
#[cfg(any(not(target_os = "linux"), test))]
mod portable {
    use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind};

    use super::Process;

    pub(super) fn find(pid: u32) -> Option<Process> {
        let system = look_at(pid, ProcessRefreshKind::nothing());
        let found = system.process(Pid::from_u32(pid))?;
        Some(Process {
            pid,
            parent: found.parent().map_or(0, Pid::as_u32),
            start_time: found.start_time(),
            ended: matches!(found.status(), ProcessStatus::Zombie | ProcessStatus::Dead),
            name: found.name().to_string_lossy().into_owned(),
        })
    }

    pub(super) fn args(pid: u32) -> Vec<String> {
        let system = look_at(pid, ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always));
        let args = system.process(Pid::from_u32(pid)).map(|found| found.cmd().to_vec()).unwrap_or_default();
        args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect()
    }

    fn look_at(pid: u32, what: ProcessRefreshKind) -> System {
        let mut system = System::new();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[Pid::from_u32(pid)]), true, what);
        system
    }

    /// Not the boot time, which moves when the clock is set.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn boot_id() -> String {
        let asked =
            std::process::Command::new("/usr/sbin/sysctl").args(["-n", "kern.bootsessionuuid"]).output();
        asked.map_or_else(
            |_| "unknown-boot".to_owned(),
            |out| String::from_utf8_lossy(&out.stdout).trim().to_owned(),
        )
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn process_namespace() -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[test]
    fn a_process_lives_until_it_ends_even_if_nobody_reaps_it() {
        let mut child = sleeper();
        let owner = Process::find(child.id()).unwrap().owner();
        assert_eq!(ProcessTable.of(&owner), Life::Alive);
        child.kill().unwrap();
        while ProcessTable.of(&owner) == Life::Alive {
            std::thread::yield_now();
        }
        assert_eq!(ProcessTable.of(&owner), Life::Dead, "a zombie counts as dead");
        child.wait().unwrap();
        assert_eq!(ProcessTable.of(&owner), Life::Dead);
    }

    #[test]
    fn a_recycled_pid_a_reboot_and_another_host_are_told_apart() {
        let me = current();
        assert_eq!(ProcessTable.of(&Owner { start_time: me.start_time + 1, ..me.clone() }), Life::Dead);
        let elsewhere = Owner { host: "elsewhere".into(), boot_id: "other".into(), ..me.clone() };
        assert_eq!(ProcessTable.of(&elsewhere), Life::Unknown);
        assert_eq!(ProcessTable.of(&Owner { pid: u32::MAX, ..me }), Life::Dead);
    }

    #[test]
    fn containers_with_one_host_name_never_take_each_other_for_their_own_past() {
        let machine = |host: &str, boot: &str, node: Option<&str>| Machine {
            host: host.to_owned(),
            boot_id: boot.to_owned(),
            node: node.map(str::to_owned),
        };
        let knows = |here: &Machine, there: &Machine| {
            let Machine { host, boot_id, node } = there;
            let (host, boot_id, node) = (host.clone(), boot_id.clone(), node.clone());
            here.knows(&Owner { host, boot_id, node, pid: 1, start_time: 1 })
        };
        let here = machine("box", "b1", Some("n1"));
        for (there, expected) in [
            (machine("box", "b2", Some("n2")), Knowledge::Nothing),
            (machine("box", "b2", Some("n1")), Knowledge::Rebooted),
            (machine("other", "b2", Some("n1")), Knowledge::Nothing),
            (machine("box", "b2", None), Knowledge::Nothing),
            (machine("box", "b1", Some("n2")), Knowledge::Process),
            (machine("renamed", "b1", None), Knowledge::Process),
            (machine("box/pid7", "b1", Some("n1")), Knowledge::Nothing),
        ] {
            assert_eq!(knows(&here, &there), expected);
            assert_eq!(knows(&there, &here), expected, "and the other way round");
        }
        let nameless = [machine("box", "b1", None), machine("box", "b2", None)];
        assert_eq!(knows(&nameless[0], &nameless[1]), Knowledge::Nothing);
        let contained = [machine("box/pid7", "b1", None), machine("moved/pid7", "b1", None)];
        assert_eq!(knows(&contained[0], &contained[1]), Knowledge::Process);
    }

    #[test]
    fn a_process_that_has_got_the_pid_of_another_is_not_killed_for_it() {
        let mut child = sleeper();
        let owner = Process::find(child.id()).unwrap().owner();
        kill(&Owner { start_time: owner.start_time + 1, ..owner.clone() });
        kill(&Owner { boot_id: "other".into(), ..owner.clone() });
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(child.try_wait().unwrap().is_none());
        kill(&owner);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(9));
        kill(&owner);
    }

    #[test]
    fn the_portable_view_agrees_with_the_native_one() {
        let mut child = sleeper();
        // It is a moment between the program's start and its arguments being there.
        while system::args(child.id()).is_empty() {
            std::thread::yield_now();
        }
        let (native, portable) = (system::find(child.id()).unwrap(), portable::find(child.id()).unwrap());
        assert_eq!((portable.pid, portable.parent), (native.pid, native.parent));
        assert_eq!(portable.name, native.name);
        assert_eq!(portable::args(child.id()), system::args(child.id()));
        assert!(!portable.ended && portable.start_time > 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(portable::find(child.id()).is_none());
    }

    #[test]
    fn shells_that_run_one_command_are_not_sessions() {
        let spawn = |program: &str, args: &[&str]| Command::new(program).args(args).spawn().unwrap();
        for (mut child, is_wrapper) in [
            (spawn("bash", &["-c", "sleep 60; true"]), true),
            (spawn("timeout", &["60", "sleep", "60"]), true),
            (spawn("sleep", &["60"]), false),
        ] {
            // Until exec is through, the child shows its parent's arguments, and for a moment none.
            let mine = system::args(std::process::id());
            while [&mine, &Vec::new()].contains(&&system::args(child.id())) {
                std::thread::yield_now();
            }
            assert_eq!(Process::find(child.id()).unwrap().is_wrapper(), is_wrapper);
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
