//! The helper programs, found where cargo has built them.

use mala_tests::{Program, World};

pub(crate) const FILL_STORE: &str = env!("CARGO_BIN_EXE_fill-store");
pub(crate) const LOCK_STORM: &str = env!("CARGO_BIN_EXE_lock-storm");
pub(crate) const OPEN_STORES: &str = env!("CARGO_BIN_EXE_open-stores");
pub(crate) const PUPPET: &str = env!("CARGO_BIN_EXE_puppet");
pub(crate) const RESERVE_LOOP: &str = env!("CARGO_BIN_EXE_reserve-loop");
pub(crate) const WAIT_LOOP: &str = env!("CARGO_BIN_EXE_wait-loop");

/// An agent in a process of its own, ready to be told what to do.
pub(crate) fn puppet(world: &World, agent: &str, options: &[&str]) -> Program {
    let puppet = Program::start(world.command(PUPPET).arg(world.root()).arg(agent).args(options));
    puppet.expect("ready");
    puppet
}

/// A puppet that holds these.
pub(crate) fn holder(world: &World, agent: &str, wants: &str) -> Program {
    let mut puppet = puppet(world, agent, &[]);
    puppet.tell(&format!("reserve {wants}"));
    assert!(puppet.hear().starts_with("granted"), "{wants} must be free");
    puppet
}

/// A puppet that stands in the queue for these.
pub(crate) fn waiter(world: &World, agent: &str, wants: &str) -> Program {
    let mut puppet = puppet(world, agent, &[]);
    queue(&mut puppet, wants);
    puppet
}

/// Makes a puppet stand in the queue, for far longer than a test takes.
pub(crate) fn queue(puppet: &mut Program, wants: &str) {
    puppet.tell(&format!("wait 600000 {wants}"));
    puppet.expect("waiting");
}
