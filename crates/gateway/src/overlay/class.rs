//! The DSCP of a datagram (RFC 2474) and its ECN (RFC 6040), from the frame in it.

use antedate_channel::overlay::ecn;
use antedate_wire::{EtherType, VlanTagStack};

use crate::config::overlay::Dscp;

/// The octet with DSCP and ECN of the datagram with this frame. ECN is that of the frame's IP
/// packet, whatever the DSCP is.
#[inline]
#[must_use]
pub fn of(frame: &[u8], dscp: Dscp) -> u8 {
    let class = match dscp {
        Dscp::Fixed(class) => class,
        Dscp::ByPriority(table) => copied(frame, &table),
    };
    class << 2 | ecn::of(frame)
}

/// The class of the VLAN priority; without a tag the IP packet's DSCP; otherwise that of priority 0.
#[inline]
fn copied(frame: &[u8], table: &[u8; 8]) -> u8 {
    let Ok(stack) = VlanTagStack::parse(frame) else { return 0 };
    if let Some(tag) = stack.tags().first() {
        return table[usize::from(tag.tci.priority() & 7)];
    }
    match (stack.ethertype, frame.get(stack.payload..)) {
        (EtherType::Ipv4, Some([_, tos, ..])) => tos >> 2,
        (EtherType::Ipv6, Some([first, second, ..])) => (first << 4 | second >> 4) >> 2,
        _ => table[0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(behind: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        frame.extend(behind);
        frame.resize(60, 0);
        frame
    }

    #[test]
    fn vlan_priority_and_dscp_are_copied() {
        let copy = |behind: &[u8]| of(&frame(behind), Dscp::default());
        assert_eq!(copy(&[0x81, 0, 0xc0, 0, 0x88, 0x92]), 48 << 2, "priority 6 is CS6");
        assert_eq!(copy(&[0x08, 0, 0x45, 0xb9]), 46 << 2 | 1, "EF, with ECN");
        assert_eq!(copy(&[0x86, 0xdd, 0x6b, 0xa0]), 46 << 2 | 2);
        assert_eq!(copy(&[0x88, 0x92, 0x80, 1]), 0);
        let table = Dscp::ByPriority([1, 8, 16, 24, 32, 40, 46, 56]);
        assert_eq!(of(&frame(&[0x81, 0, 0xc0, 0, 0x88, 0x92]), table), 46 << 2, "EF for priority 6");
        assert_eq!(of(&frame(&[0x88, 0x92, 0x80, 1]), table), 1 << 2);
        assert_eq!(of(&frame(&[0x08, 0, 0x45, 0xb8]), Dscp::Fixed(10)), 40);
        assert_eq!(of(&frame(&[0x08, 0, 0x45, 0xbb]), Dscp::Fixed(0)), 3);
        assert_eq!(of(&[0; 5], Dscp::default()), 0);
    }
}
