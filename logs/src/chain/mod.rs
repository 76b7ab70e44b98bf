//! A log that shows if it was changed afterwards.
//!
//! A log is `NAME.jsonl`, one JSON object a line. Each line carries its number (`seq`), the hash of the line before it
//! (`prev`) and, last, its own (`hash`):
//!
//! ```json
//! {"seq":2,"prev":"5f0c...","id":"e-7","exit_code":0,"hash":"91ab..."}
//! ```
//!
//! `hash` is the SHA-256 of the line's own bytes with the member `hash` left out, so anybody can compute it again. A line
//! that was changed, removed, inserted or moved is therefore found, and named, by [`verify`]. Cutting lines off the end
//! would leave a chain that is merely shorter; `NAME.head`, which holds number and hash of the last line, shows that too.
//! A full file becomes `NAME.0001.jsonl`, and the chain goes on in the next one.
//!
//! **What it does not promise.** There is no secret: whoever may write all of the files can write another chain. Against
//! agents, the files are kept out of their reach; the chain shows accidents and tampering with less than everything. What is known
//! of a log elsewhere, its [`Anchor`], shows that too, as long as it is out of reach.
//!
//! **Durability.** When [`ChainWriter::append`] returns, the line is on the disk (`fdatasync`), and the head has been replaced
//! (written beside, synced, renamed). A process that is killed in between leaves a line that the head does not know
//! yet, which is taken over by the next append, or a part of a line, which the next append moves to
//! `NAME.torn-SEQ.part`. After a power cut the head may be older than the lines by a few; it is never newer.
//! A log that is written [unsynced](ChainWriter::unsynced) promises this for the death of processes only.
//!
//! **Several processes** append and read at once: an advisory lock on `NAME.lock` gives each its turn, and is given back by
//! the kernel when a process dies.

mod anchor;
mod error;
mod forget;
mod head;
mod line;
mod reader;
mod recover;
mod verify;
mod writer;

pub use anchor::Anchor;
pub use error::{Broken, ChainError, Why};
pub use forget::{Forgettable, forgettable};
pub use line::{LineHash, NotAHash};
pub use reader::{ChainLine, ChainLines, ChainReader, Records};
pub use verify::{Torn, Verified, verify, verify_anchored};
pub use writer::{ChainWriter, Link};

pub use crate::lines::Order;
