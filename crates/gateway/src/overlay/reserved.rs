//! Frames that no bridge forwards (IEEE 802.1Q, table 8-1): PAUSE, LACP, EAPOL, spanning trees and
//! others for the next station on the cable. Through a tunnel they would disturb both sites.

use antedate_wire::EthernetAddress;

use super::state::Core;
use crate::config::policy::{Class, Traffic};
use crate::frames::gate::Way;

/// Whether an address is one of 01-80-C2-00-00-00 to 0F.
#[inline]
pub(super) const fn is_reserved(to: EthernetAddress) -> bool {
    matches!(to.0, [0x01, 0x80, 0xc2, 0, 0, 0x00..=0x0f])
}

impl Core {
    /// Whether the policy passes a frame by name: by a rule, or by its kind. `all` names LLDP,
    /// which does no harm, and none of the others.
    #[cold]
    pub(super) fn names(&self, way: Way, kind: Class, frame: &[u8]) -> bool {
        kind == Class::Named(Traffic::Lldp) || self.named.decide(way, frame).passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_addresses_are_reserved() {
        let with = |last| EthernetAddress([0x01, 0x80, 0xc2, 0, 0, last]);
        assert_eq!((0..=255).filter(|last| is_reserved(with(*last))).count(), 16);
        assert!(is_reserved(with(0x0e)) && !is_reserved(with(0x10)));
        assert!(!is_reserved(EthernetAddress([0x01, 0x80, 0xc2, 0, 1, 0])));
    }
}
