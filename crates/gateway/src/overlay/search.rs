//! The search for the path MTU of a peer, and its bounds.

use std::net::{IpAddr, SocketAddr};

use antedate_channel::overlay::discovery::{Bounds, Discovery, STEP, Source};

use crate::config::overlay::{LongFrames, Overlay};
use crate::config::uplink::Which;
use crate::sys::udp::{LEAST_V6, MAX_DATAGRAM_LEN, headers};

/// Octets that WireGuard adds to a packet: header and tag, without padding.
const WIREGUARD: usize = 32;
/// The MTU that nearly every path carries, in use until a probe was answered: the minimum of IPv6,
/// which tunnels of providers keep to as well.
const BASE: usize = LEAST_V6;
/// The MTU that every path carries with IPv4 (RFC 791, section 3.1: each host takes 576 octets).
const LEAST_V4: usize = 576;
/// The search on one path to a peer.
#[derive(Debug, Clone)]
pub struct Search {
    pub(super) to: SocketAddr,
    /// The MTU of the interface.
    pub(super) mtu: usize,
    pub(super) found: Discovery,
    /// The kernel's path MTU, if it is less than the interface's.
    pub(super) kernel: Option<usize>,
    /// The last reported MTU.
    pub(super) told: Option<usize>,
    /// When the kernel's path MTU is requested again.
    pub(super) follow: u64,
}

/// The path MTU of a peer, for the status and the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathMtu {
    /// Octets of an IP packet.
    pub octets: usize,
    /// `interface`, `kernel`, `probe`, or `base` before any answer.
    pub source: &'static str,
    /// The time of its last change.
    pub changed: u64,
}

/// A changed path MTU, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewPathMtu {
    /// The index of the peer.
    pub peer: usize,
    /// The uplink.
    pub which: Which,
    /// The MTU and its source.
    pub mtu: PathMtu,
    /// The one before.
    pub before: Option<usize>,
}

impl Search {
    pub(super) fn new(to: SocketAddr, mtu: usize, overlay: &Overlay, trusted: bool, now: u64) -> Self {
        let bounds = bounds(to.ip(), mtu, overlay, trusted);
        let found = Discovery::new(bounds, now);
        Self { to, mtu, found, kernel: None, told: None, follow: now }
    }

    /// The path MTU with its source.
    #[must_use]
    pub fn path_mtu(&self) -> PathMtu {
        let octets = match (self.found.source(), self.kernel) {
            (Source::Interface, _) => self.mtu,
            (Source::Kernel, Some(kernel)) => kernel,
            _ => self.found.size() + WIREGUARD + headers(self.to.ip()),
        };
        PathMtu { octets, source: self.found.source().name(), changed: self.found.changed() }
    }
}

/// The longest packet whose datagram fits an MTU.
pub(super) fn fitting(mtu: usize, to: IpAddr) -> usize {
    mtu.min(MAX_DATAGRAM_LEN).saturating_sub(headers(to) + WIREGUARD)
}

/// `trusted` says that the MTU is the administrator's word about the path.
fn bounds(to: IpAddr, mtu: usize, overlay: &Overlay, trusted: bool) -> Bounds {
    let most = fitting(mtu, to);
    let base = fitting(BASE, to);
    let least = if to.is_ipv6() { base } else { fitting(LEAST_V4, to) };
    // Where longer frames are refused, none is refused without need.
    let optimistic = trusted || overlay.fragmentation == LongFrames::Off;
    let blind = if optimistic || to.is_ipv4() { most } else { base };
    Bounds { least, base: if optimistic { most } else { base }, most, blind }
}

/// The longest packet before any search, whose datagram fits each uplink.
#[must_use]
pub fn first_limit(overlay: &Overlay, mtus: [Option<usize>; 2], trusted: bool) -> usize {
    let limit = limit(overlay, mtus);
    let whole = matches!(overlay.fragmentation, LongFrames::Outside | LongFrames::Off);
    if whole || trusted || overlay.private_key_file.is_none() {
        return limit;
    }
    limit.min(fitting(BASE, overlay.listen.ip()) / STEP * STEP)
}

/// Octets of the longest tunnel packet whose datagram fits both uplinks; a longer one would be lost
/// with the other uplink. A multiple of 16, since WireGuard pads to it.
#[must_use]
pub fn limit(overlay: &Overlay, mtus: [Option<usize>; 2]) -> usize {
    let second = overlay.second_uplink.as_ref().map(|second| second.listen);
    let listen = [Some(overlay.listen), second];
    let rests = mtus
        .into_iter()
        .zip(listen)
        .filter_map(|(mtu, listen)| Some(mtu?.saturating_sub(headers(listen?.ip()))));
    let rest = rests.min().unwrap_or(0);
    if overlay.private_key_file.is_some() { rest.saturating_sub(WIREGUARD) / 16 * 16 } else { rest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::config::overlay::SecondUplink;

    #[test]
    fn packet_fits_both_uplinks() {
        let mut overlay = Overlay {
            listen: ([0; 4], 51820).into(),
            direct: true,
            private_key_file: Some("key".into()),
            address: [10, 66, 0, 1].into(),
            vni: antedate_wire::vxlan::Vni::default(),
            port: 4789,
            fragmentation: LongFrames::Auto,
            tcp_mss: config::overlay::Clamp::Auto,
            dscp: config::overlay::Dscp::default(),
            relay: false,
            storm_limit: 0,
            release_clock_us: 0,
            mac_ageing_seconds: 300,
            mac_limit: 16,
            second_uplink: None,
            zones: Vec::new(),
            peers: Vec::new(),
        };
        assert_eq!(limit(&overlay, [Some(1500), None]), 1440);
        let listen = ([0u16; 8], 51820).into();
        overlay.second_uplink = Some(SecondUplink { interface: "lte0".into(), listen });
        assert_eq!(limit(&overlay, [Some(1500), Some(1400)]), 1312, "1400 less 48 and 32");
        assert_eq!(limit(&overlay, [Some(1300), Some(1500)]), 1232, "1300 less 28 and 32");
        overlay.private_key_file = None;
        assert_eq!(limit(&overlay, [Some(1300), Some(1400)]), 1272);
    }
}
