//! Programs that wait for their turn.

use crate::{Exit, Held, Ruling};

/// A program that waits for its turn just after it was loaded, before it has run any code of its own.
///
/// A [`Guard`](crate::Guard) makes one when a program is about to start. If the start fails, as when a shell tries the
/// folders of `PATH` one after the other, it is dropped unused. Otherwise `wait` is called once, and `ended` once after it.
///
/// While it waits, the program can be killed as usual, and whoever started it goes on: only the program itself is held.
/// Signals that merely stop it, and SIGQUIT, have their effect when the wait is over.
pub trait Hold: Send {
    /// Returns when the program may go on, or must not run at all. Refused, its standard error is told why, and
    /// it ends by SIGTERM, or by SIGKILL if it was started with SIGTERM ignored.
    ///
    /// Called on a thread of its own: it may block as long as it likes. It must return soon after
    /// [`Held::process`] becomes readable: the program died while it waited, and what is returned then does not matter.
    /// If it panics, the program is refused and `ended` is not called.
    fn wait(&mut self, held: &Held) -> Ruling;

    /// The program has ended, whatever `wait` said. None if the kernel could not tell how.
    fn ended(self: Box<Self>, exit: Option<Exit>);
}
