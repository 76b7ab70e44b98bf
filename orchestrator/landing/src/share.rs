//! What one agent, or one slot, has that no other one has at the same time: a name and ports, for servers, databases and
//! the like.

use mala_config::{Share, ShareTemplate, Variables};
use thiserror::Error;

use crate::ports::PortBlock;

/// Tells a command whose share it has.
const SLOT: &str = "MALA_SLOT";
/// Tells a command the first of its ports.
const PORT_BASE: &str = "MALA_PORT_BASE";

#[derive(Debug, Error)]
#[error("no ports are free for {what}: of 20000 to 31999, each 50 in a row have one that is in use")]
pub struct NoFreePorts {
    what: String,
}

/// A share, until it is dropped.
#[derive(Debug)]
pub struct LeasedShare {
    slot: String,
    /// Nothing if none are free, which is no harm to who needs none.
    ports: Option<PortBlock>,
}

impl LeasedShare {
    /// `slot` is told from all others by the caller.
    pub fn lease(slot: String) -> Self {
        Self { slot, ports: PortBlock::lease() }
    }

    pub fn slot(&self) -> &str {
        &self.slot
    }

    fn share(&self) -> Share<'_> {
        Share { slot: &self.slot, port_base: self.ports.as_ref().map(PortBlock::base) }
    }

    /// What commands with this share have in their environment: `env`, and what names the share itself.
    pub fn variables(&self, env: &Variables) -> Result<Vec<(String, String)>, NoFreePorts> {
        let share = self.share();
        let mut variables =
            env.at(share).map_err(|name| NoFreePorts { what: format!("the variable `{name}` of [env]") })?;
        variables.push((SLOT.to_owned(), self.slot.clone()));
        variables.extend(share.port_base.map(|base| (PORT_BASE.to_owned(), base.to_string())));
        Ok(variables)
    }

    /// A command for this share.
    pub fn command(&self, command: &ShareTemplate) -> Result<String, NoFreePorts> {
        command.fill(self.share()).ok_or_else(|| NoFreePorts { what: format!("`{command}`") })
    }
}
