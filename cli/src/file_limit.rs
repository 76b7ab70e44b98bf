//! The limit on the size of files (`ulimit -f`).
//!
//! The kernel ends a process that writes beyond it, without a word, unless the signal is handled: then the write fails
//! (`EFBIG`, see setrlimit(2)). A handler, because what is ignored would stay so in the programs that mala starts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use nix::sys::signal::Signal;

/// Set when a write was refused.
static IS_REACHED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on, a write beyond the limit is an error like any other.
pub(crate) fn survive() {
    // If it cannot be handled, the kernel does what it always does.
    let _ = signal_hook::flag::register(Signal::SIGXFSZ as i32, Arc::clone(&IS_REACHED));
}

/// What to do about it, if a write was refused.
pub(crate) fn hint() -> Option<&'static str> {
    IS_REACHED.load(Ordering::Relaxed).then_some(
        "a file has reached the limit on the size of files: see it with `ulimit -f`, and begin a shell without it",
    )
}
