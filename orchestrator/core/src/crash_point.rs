//! Places at which a test has the process killed, to prove that what it leaves is repaired.

/// Which place, by its name.
#[cfg(debug_assertions)]
const VARIABLE: &str = "MALA_CRASH_AT";

/// Kills this process, as `kill -9` would, if the environment asks for it at this place. Does nothing in a release build.
#[cfg(debug_assertions)]
pub fn crash_point(name: &str) {
    use nix::sys::signal::{Signal, raise};

    if std::env::var_os(VARIABLE).is_some_and(|wanted| wanted == name) {
        // Nothing after this line runs; if the signal cannot be sent, nothing shall either.
        raise(Signal::SIGKILL).ok();
        std::process::abort();
    }
}

/// Kills this process, as `kill -9` would, if the environment asks for it at this place. Does nothing in a release build.
#[cfg(not(debug_assertions))]
pub fn crash_point(_name: &str) {}
