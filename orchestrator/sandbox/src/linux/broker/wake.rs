//! Waking threads that wait for calls which will never come.
//!
//! Newer kernels end the wait when no process is left that could make one. On older ones, and when processes are left but
//! nobody shall answer them, the wait is interrupted by a signal whose handler does nothing.

use std::sync::Once;

/// Ignored unless someone asks for it, and hardly anyone does.
const SIGNAL: libc::c_int = libc::SIGURG;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Thread(libc::pid_t);

impl Thread {
    pub(super) fn this() -> Self {
        // SAFETY: takes nothing and cannot fail.
        Self(unsafe { libc::gettid() })
    }
}

/// Makes the blocking calls of `threads` return.
pub(super) fn interrupt(threads: &[Thread]) {
    if threads.is_empty() {
        return;
    }
    static PREPARED: Once = Once::new();
    PREPARED.call_once(install_handler);
    for thread in threads {
        // SAFETY: plain numbers; a thread that ended in between is not found.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.0, SIGNAL) };
    }
}

extern "C" fn do_nothing(_signal: libc::c_int) {}

/// Leaves a handler that the program already has alone: it interrupts just as well.
fn install_handler() {
    // SAFETY: the structures are initialised before use, and the handler does nothing at all.
    unsafe {
        let mut current: libc::sigaction = std::mem::zeroed();
        libc::sigaction(SIGNAL, std::ptr::null(), &raw mut current);
        if current.sa_sigaction == libc::SIG_DFL || current.sa_sigaction == libc::SIG_IGN {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = do_nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
            libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut());
        }
    }
}
