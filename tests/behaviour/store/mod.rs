//! The store: who holds what, who waits for what, and what the log says about it.

mod bad_rows;
mod bad_stores;
mod circles;
mod events;
mod hard_links;
mod kills;
mod leases;
mod liveness;
mod migrations;
mod model;
mod patterns;
mod queue;
mod races;
mod release;
mod reserve;
mod status;
mod transfer;
mod waiting;
