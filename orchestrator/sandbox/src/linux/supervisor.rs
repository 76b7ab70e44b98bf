//! `run`: from a command to the way its tree ended.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, SocketType,
};
use rustix::{cmsg_space, net};

use super::broker::Broker;
use super::filter::User;
use super::landlock::Allowed;
use super::launch::{self, Control, FAILED, LISTENER, Step};
use super::notify::Listener;
use super::process::exit;
use super::signals::{self, Arrival, Sender, Signals};
use super::spares::Spares;
use super::zones::Zones;
use super::{keeper, landlock, mounts, probe::probe};
use crate::{Exit, Guard, Jail, SandboxError, Unsupported};

/// Where root tells the kernel what to run, and more of the kind: `core_pattern`, `modprobe`, `uevent_helper`, `binfmt_misc`. What is
/// to be run runs outside of every tree.
const KERNEL: [&str; 3] = ["/proc/sys", "/proc/sysrq-trigger", "/sys"];

/// The same, with what root must not write in it. To ordinary users the kernel itself says no.
fn with_kernel_files(jail: &Jail) -> Jail {
    let mut jail = jail.clone();
    if User::own() == User::Root {
        let files = KERNEL.map(PathBuf::from).into_iter().filter(|file| file.exists());
        jail.protected.extend(files);
    }
    jail
}

/// Runs `command` so that it and everything it starts can only make the changes that `guard` allows. Blocks until
/// the first process ended and no process of its tree is left.
///
/// The program gets the terminal and the standard streams that `command` says. Signals to this process are for the program:
/// what was sent to the whole group reaches it by itself, what was sent to this process alone is passed on. A process
/// with other threads calls [`take_signals`](crate::take_signals) before it makes them.
pub fn run(jail: &Jail, guard: Arc<dyn Guard>, mut command: Command) -> Result<Exit, SandboxError> {
    probe()?;
    let jail = &with_kernel_files(jail);
    let prepare = |what| move |source| SandboxError::Prepare { what, source };
    let mut places = vec![jail.root.as_path(), jail.git_dir.as_path()];
    places.extend(jail.protected.iter().map(PathBuf::as_path));
    let aliases = mounts::aliases(&places).map_err(prepare("reading the mounts"))?;
    let mut denied: Vec<PathBuf> = places.iter().map(|place| place.to_path_buf()).collect();
    denied.extend(jail.closed.iter().cloned());
    denied.extend(aliases.iter().map(|alias| alias.mounted_at.clone()));
    let exempt = exempt_folders(jail, &denied);
    let spares = jail.spares.as_deref().map(Spares::make).unwrap_or_default();
    let rules = landlock::rules(&denied, exempt.iter().chain(spares.left().iter()))
        .map_err(prepare("making the Landlock rules"))?;
    let zones = Zones::new(jail, aliases, rules.granted, exempt);
    let broker = Broker::new(zones, spares, guard);

    let signals = Signals::take().map_err(prepare("taking over signals"))?;
    let (control, childs_end) = control_pair().map_err(prepare("making a socket"))?;
    let ends = Control { childs: childs_end, supervisors: control.as_raw_fd() };
    launch::arrange(&mut command, ends, rules.ruleset, &jail.root, signals.for_program());
    // The listener is served before the program starts: the start itself may be a call to answer.
    let welcome = thread::scope(|scope| {
        let welcome = scope.spawn(|| welcome(&control, &broker));
        let spawned = command.spawn();
        drop(command); // the last descriptor of the child's end here: a child that died is noticed
        (spawned, welcome.join().unwrap_or(Err(Failure::Silent)))
    });
    let mut keeper = match welcome {
        (Ok(keeper), Ok(())) => keeper,
        (Err(error), Err(Failure::At(step))) => return Err(failed_at(step, error)),
        (Err(error), _) => return Err(SandboxError::Start(error)),
        (Ok(mut keeper), Err(_)) => {
            drop(control);
            keeper.wait().map_err(SandboxError::Wait)?;
            return Err(SandboxError::KeeperLost);
        }
    };
    let ended = watch(control.as_fd(), &signals);
    drop(control);
    keeper.wait().map_err(SandboxError::Wait)?;
    broker.stop();
    ended
}

/// The exempt folders that Landlock can allow: those that exist and hold nothing that must stay closed.
fn exempt_folders(jail: &Jail, denied: &[PathBuf]) -> Vec<Allowed> {
    let is_open = |folder: &&PathBuf| {
        // The tree and git's folder may themselves lie in what is closed.
        let is_around = |name: &PathBuf| jail.root.starts_with(name) || jail.git_dir.starts_with(name);
        let is_within = |name: &PathBuf| folder.starts_with(name) && !is_around(name);
        !denied.iter().any(|name| name.starts_with(folder) || is_within(name))
    };
    jail.exempt.iter().filter(is_open).filter_map(|folder| Allowed::open(folder.clone()).ok()).collect()
}

/// Why the child never handed over its listener.
enum Failure {
    At(Step),
    Silent,
}

fn failed_at(step: Step, source: io::Error) -> SandboxError {
    match step {
        Step::Input | Step::Output | Step::Error => SandboxError::StreamInTree { stream: step as u8 },
        Step::Keeper => SandboxError::Prepare { what: "starting the keeper", source },
        Step::Landlock => SandboxError::Prepare { what: "applying the Landlock rules", source },
        Step::Seccomp if source.raw_os_error() == Some(libc::EBUSY) => Unsupported::AlreadyInside.into(),
        Step::Seccomp => SandboxError::Prepare { what: "installing the filter", source },
    }
}

pub(crate) fn control_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Takes the listener from the child and sets the broker to work.
fn welcome(control: &OwnedFd, broker: &Broker) -> Result<(), Failure> {
    let mut bytes = [0_u8; 8];
    let mut space = [std::mem::MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = net::recvmsg(
        control,
        &mut [io::IoSliceMut::new(&mut bytes)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )
    .map_err(|_gone| Failure::Silent)?;
    let fd = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    match (bytes[..received.bytes].split_first(), fd) {
        (Some((&LISTENER, _)), Some(fd)) => {
            broker.serve(Listener::new(fd));
            Ok(())
        }
        (Some((&FAILED, [step])), _) => Err(Step::from_byte(*step).map_or(Failure::Silent, Failure::At)),
        _ => Err(Failure::Silent),
    }
}

/// Passes signals on until the keeper reports the end.
fn watch(control: BorrowedFd<'_>, signals: &Signals) -> Result<Exit, SandboxError> {
    loop {
        let mut polled =
            [PollFd::new(&control, PollFlags::IN), PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(SandboxError::Wait(error.into())),
        }
        let (told, signalled) = (!polled[0].revents().is_empty(), !polled[1].revents().is_empty());
        if signalled {
            for Arrival { number, sender } in signals.arrivals() {
                let what = if sender == Sender::Kernel { keeper::KNOWN } else { keeper::SIGNAL };
                let _gone = net::send(control, &[what, number], SendFlags::NOSIGNAL);
            }
        }
        if told {
            let mut message = [0_u8; 8];
            let length = next(control, &mut message);
            match &message[..length] {
                [keeper::ENDED, a, b, c, d] => return Ok(exit(i32::from_ne_bytes([*a, *b, *c, *d]))),
                [keeper::STOPPED, by] => signals::stop_with_job(i32::from(*by)),
                _ => return Err(SandboxError::KeeperLost),
            }
        }
    }
}

/// The keeper's next message, of so many bytes; none if there will be no more.
fn next(control: BorrowedFd<'_>, message: &mut [u8]) -> usize {
    loop {
        match net::recv(control, &mut *message, RecvFlags::empty()) {
            Ok((length, _)) => return length,
            // It left without having read all that we sent. The kernel says so once, before what the keeper sent last.
            Err(rustix::io::Errno::CONNRESET | rustix::io::Errno::INTR) => {}
            Err(_gone) => return 0,
        }
    }
}
