//! Blocks of ports for servers that commands start, so that two of them side by side do not want the same one.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

/// How many ports are in a block.
const PORTS_PER_BLOCK: u16 = 50;

/// Below the ports that systems give to clients.
const PORTS: Range = Range { first: 20_000, blocks: 240, first_lease: 19_700 };

/// Ports that nobody listened at when they were leased, and that no other mala gives away meanwhile.
#[derive(Debug)]
pub(crate) struct PortBlock {
    base: u16,
    _lease: UdpSocket,
}

impl PortBlock {
    /// The first block that is free, or nothing.
    pub(crate) fn lease() -> Option<Self> {
        PORTS.lease()
    }

    /// The first port.
    pub(crate) fn base(&self) -> u16 {
        self.base
    }
}

#[derive(Debug, Clone, Copy)]
struct Range {
    first: u16,
    blocks: u16,
    /// Each block has a port of UDP from here on. Whoever has bound it has the block: of all processes and users of this machine,
    /// and until the process ends, however it does.
    first_lease: u16,
}

impl Range {
    fn lease(self) -> Option<PortBlock> {
        (0..self.blocks).find_map(|number| {
            let base = self.first + number * PORTS_PER_BLOCK;
            let lease = UdpSocket::bind((Ipv4Addr::LOCALHOST, self.first_lease + number)).ok()?;
            (base..base + PORTS_PER_BLOCK).all(is_free).then_some(PortBlock { base, _lease: lease })
        })
    }
}

/// Nobody listens there, on any address that a server on this machine is likely to use.
fn is_free(port: u16) -> bool {
    let can_listen = |address: SocketAddr| TcpListener::bind(address).is_ok();
    let has_no_v6 = || TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err();
    can_listen((Ipv4Addr::LOCALHOST, port).into())
        && can_listen((Ipv4Addr::UNSPECIFIED, port).into())
        && (can_listen((Ipv6Addr::LOCALHOST, port).into()) || has_no_v6())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ports of this test alone.
    fn range(number: u16) -> Range {
        Range { first: 16_000 + number * 1_000, blocks: 3, first_lease: 15_900 + number * 10 }
    }

    fn bases(blocks: &[PortBlock]) -> Vec<u16> {
        blocks.iter().map(PortBlock::base).collect()
    }

    #[test]
    fn blocks_are_apart_from_each_other_until_there_is_none_and_come_back() {
        let range = range(0);
        let mut blocks: Vec<PortBlock> = (0..3).map_while(|_| range.lease()).collect();
        assert_eq!(bases(&blocks), [16_000, 16_050, 16_100]);
        assert!(range.lease().is_none());
        blocks.remove(1);
        assert_eq!(range.lease().unwrap().base(), 16_050);
    }

    #[test]
    fn a_block_in_which_somebody_listens_is_left_out() {
        let range = range(1);
        let _first = TcpListener::bind((Ipv4Addr::LOCALHOST, 17_049)).unwrap();
        let _second = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 17_050)).unwrap();
        assert_eq!(range.lease().unwrap().base(), 17_100);
    }
}
