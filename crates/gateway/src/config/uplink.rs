//! The uplinks of a gateway: tags in front of the SecTAG, and faults of addresses.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use antedate_host::fault::{Fault, explain};
use antedate_wire::vlan::{Tag, Tci, VlanId};
use antedate_wire::{EtherType, VlanTagStack};

/// The rate in Mbit/s of an uplink that does not report one.
pub const SLOWEST_MBIT: u64 = 10;

/// `uplink.vlan`, unless it is `"inside"`: the VLAN tag in front of the SecTAG, by which switches
/// between gateways queue and separate. Nobody authenticates it; the frame's own tags stay behind
/// the SecTAG.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OuterTag {
    /// The VLAN of each frame. `None`: that of the frame's own tag; frames without tag get none.
    pub vlan: Option<VlanId>,
    /// The outer priority of each own one.
    pub priorities: [u8; 8],
}

impl OuterTag {
    /// The tag in front of this frame, which is not protected yet.
    #[must_use]
    pub fn of(&self, frame: &[u8]) -> Option<Tag> {
        let stack = VlanTagStack::parse(frame).ok();
        let own = stack.as_ref().and_then(|stack| stack.tags().first()).map(|tag| tag.tci);
        let tci = match (self.vlan, own) {
            (None, None) => return None,
            (None, Some(own)) => own,
            (Some(vlan), own) => {
                let own = own.unwrap_or(Tci(0));
                Tci::new(own.priority(), own.drop_eligible(), vlan)
            }
        };
        let priority = self.priorities.get(usize::from(tci.priority())).copied().unwrap_or_default();
        Some(Tag { protocol: EtherType::Vlan, tci: tci.with_priority(priority) })
    }
}

/// `second_uplink.mode = "waiting"`: one uplink carries, and the other one waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Time between two hellos to the other gateways, if configured.
    pub hello: Option<Duration>,
    /// Whether the first uplink takes the task back.
    pub preempt: bool,
}

/// One of the uplinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// `[uplink]`.
    First,
    /// `[overlay.second_uplink]`.
    Second,
}

impl Which {
    /// The key of its local address.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::First => "overlay.listen",
            Self::Second => "overlay.second_uplink.listen",
        }
    }
}

/// The fault of a local address that cannot be opened.
pub(crate) fn refused(file: &Path, key: &str, listen: SocketAddr, uplink: &str, error: &io::Error) -> Fault {
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("another program has this port: stop it, or give {key} another one")
        }
        io::ErrorKind::AddrNotAvailable => format!("give {key} an address of this machine, or 0.0.0.0"),
        io::ErrorKind::PermissionDenied => "run as root, or give the program CAP_NET_RAW".to_owned(),
        _ => format!("see {key}, and that the uplink exists: ip addr"),
    };
    let what = format!("cannot listen on {listen} of {uplink}: {}", explain(error));
    // The address may be added to the interface later.
    let passing = error.kind() == io::ErrorKind::AddrNotAvailable;
    Fault { passing, ..Fault::of_file(file, what, remedy) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tags: &[u16]) -> Vec<u8> {
        let tags = tags.iter().flat_map(|tci| [[0x81, 0x00], tci.to_be_bytes()].concat());
        [&[2; 12][..], &tags.collect::<Vec<_>>(), &[0x88, 0x92, 0x80, 0x01]].concat()
    }

    #[test]
    fn outer_tag_has_the_priority_by_the_table() {
        let priorities = [1, 1, 2, 3, 4, 5, 7, 7];
        let copy = OuterTag { vlan: None, priorities };
        let tci = |outer: &OuterTag, tags: &[u16]| outer.of(&frame(tags)).map(|tag| tag.tci.0);
        // Drop eligible and VLAN stay; the outer of two tags counts.
        for (tags, wanted) in [
            (&[][..], None),
            (&[0xc000][..], Some(0xe000)),
            (&[0xd064], Some(0xf064)),
            (&[0x2064, 0xc001], Some(0x2064)),
        ] {
            assert_eq!(tci(&copy, tags), wanted, "{tags:04x?}");
        }
        let outside = OuterTag { vlan: VlanId::new(100), priorities };
        for (tags, wanted) in [(&[][..], 0x2064), (&[0xc000], 0xe064), (&[0xdfff], 0xf064)] {
            assert_eq!(tci(&outside, tags), Some(wanted), "{tags:04x?}");
        }
        assert_eq!(outside.of(&[0; 9]).map(|tag| tag.tci.0), Some(0x2064), "not a frame");
    }
}
