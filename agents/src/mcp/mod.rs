//! The MCP server: mala's commands as tools, for clients that would rather call a tool than type a command.
//!
//! This module owns the protocol: which tools there are, what they take, and how an answer is told to a model. It knows no
//! store and decides nothing. A tool is a command line ([`CommandLine`]) that somebody else runs ([`Commands`]), the
//! very same that a person would type; who runs it is nothing that a caller can say.
//!
//! Promises: every call runs beside all others; a call that is cancelled, or whose client has gone, is told so through its
//! [`Leash`]; a call that panics fails alone; what cannot be understood is answered and does no harm.

mod arguments;
mod call;
mod ledger;
mod lines;
mod port;
mod reply;
mod server;
mod summary;
mod tools;

#[cfg(test)]
mod tests;

pub use port::{CommandLine, Commands, How, Leash, Ran, Remarks};
pub use server::serve;
