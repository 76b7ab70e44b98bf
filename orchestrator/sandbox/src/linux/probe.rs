//! What may be enforced here, found out by trying.

use std::fs;
use std::io;
use std::sync::OnceLock;
use std::thread;

use libc::{c_int, c_long};

use super::launch;
use crate::{Support, Unsupported};

/// Versions of Landlock's interface: renames between folders, and scopes.
const WITH_RENAMES: i32 = 2;
const WITH_SCOPES: i32 = 6;

/// What may be enforced here. Nothing is compared with a kernel's version: a thread tries it and ends. What has worked
/// once is not tried again.
pub fn probe() -> Result<Support, Unsupported> {
    static FOUND: OnceLock<Support> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found.clone());
    }
    let found = try_all()?;
    Ok(FOUND.get_or_init(|| found).clone())
}

fn try_all() -> Result<Support, Unsupported> {
    match try_filter().map_err(|error| Unsupported::Untested(error.to_string()))? {
        0 => {}
        libc::EBUSY => return Err(Unsupported::AlreadyInside),
        _ => return Err(Unsupported::NoNotifications),
    }
    let landlock = landlock_version();
    if landlock < 1 {
        return Err(Unsupported::NoLandlock);
    }
    if landlock < WITH_RENAMES {
        return Err(Unsupported::OldLandlock);
    }
    if fs::metadata("/proc/thread-self/children").is_err() {
        return Err(Unsupported::NoChildren);
    }
    // SAFETY: takes nothing and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    Ok(Support { landlock, scopes: landlock >= WITH_SCOPES, is_root })
}

fn landlock_version() -> i32 {
    /// `LANDLOCK_CREATE_RULESET_VERSION`
    const VERSION: c_long = 1;
    // SAFETY: asking for the version takes no structure.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION) };
    i32::try_from(version).unwrap_or(-1)
}

/// Installs a filter that allows everything on a thread of its own, with which it goes; the error number, 0 if it worked.
fn try_filter() -> io::Result<c_int> {
    let trial = thread::Builder::new().name("mala-probe".to_owned()).spawn(|| {
        let mut allow = [libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: libc::SECCOMP_RET_ALLOW,
        }];
        let program = libc::sock_fprog { len: 1, filter: allow.as_mut_ptr() };
        // SAFETY: plain numbers, about this thread alone; `program` points to an instruction that outlives the call, and what
        // it gives is a descriptor that nobody else knows.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            let listener = launch::install(&program);
            if listener < 0 {
                return io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
            }
            libc::close(listener);
        }
        0
    })?;
    Ok(trial.join().unwrap_or(libc::EIO))
}
