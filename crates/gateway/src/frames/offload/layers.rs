//! The headers of a super-frame: IP, and the tunnels of the machines around it.
//!
//! Linux leaves the segmentation of TCP and UDP in one tunnel to the hardware. The offload header
//! names only the innermost transport header (`virtio_net_hdr_from_skb`). The headers before it are
//! parsed here; a frame whose headers do not lead to that place is refused. Follows RFC 7348 (VXLAN),
//! RFC 8926 (GENEVE), RFC 2784 and 2890 (GRE), RFC 2003 and 2473 (IP in IP).

use antedate_wire::EtherType;
use antedate_wire::checksum::Sum;

use super::{PROTOCOL_UDP, half};

const IPV4_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
/// The routing header of IPv6.
const ROUTING: u8 = 43;
/// The most headers: two of IP, and one of UDP or GRE between them.
const MOST: usize = 3;
/// The EtherType of Ethernet in GRE and GENEVE.
const ETHERNET: u16 = 0x6558;

/// A header with a length, a number or a checksum that differs from segment to segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header {
    Ipv4 { at: usize, end: usize },
    Ipv6 { at: usize },
    Udp { at: usize },
    Gre { at: usize },
}

/// The headers before the innermost transport header, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layers {
    headers: [Option<Header>; MOST],
    len: usize,
}

/// The innermost transport header: its protocol and place.
#[derive(Debug, Clone, Copy)]
struct Goal {
    protocol: u8,
    at: usize,
}

impl Layers {
    /// The headers before the header of `protocol` at `transport`.
    pub(super) fn find(frame: &[u8], protocol: u8, transport: usize) -> Option<Self> {
        Self { headers: [None; MOST], len: 0 }.ethernet(frame, 0, Goal { protocol, at: transport })
    }

    /// Whether the innermost IP header is of version 6.
    pub(super) fn is_v6(&self) -> bool {
        matches!(self.innermost(), Some(Header::Ipv6 { .. }))
    }

    fn innermost(&self) -> Option<Header> {
        self.headers.get(self.len.checked_sub(1)?).copied().flatten()
    }

    fn with(mut self, header: Header) -> Option<Self> {
        *self.headers.get_mut(self.len)? = Some(header);
        self.len += 1;
        Some(self)
    }

    /// Continues with an Ethernet header.
    fn ethernet(self, frame: &[u8], at: usize, goal: Goal) -> Option<Self> {
        let mut at = at + 12;
        loop {
            match EtherType::from_number(half(frame, at)?) {
                tag if tag.is_vlan() => at += 4,
                other => return self.network(frame, other, at + 2, goal),
            }
        }
    }

    /// Continues with an IP header.
    fn network(self, frame: &[u8], ethertype: EtherType, at: usize, goal: Goal) -> Option<Self> {
        let (layers, protocol, end) = match ethertype {
            EtherType::Ipv4 => {
                let first = *frame.get(at)?;
                let end = at + usize::from(first & 0x0f) * 4;
                let is_fragment = half(frame, at + 6)? & 0x3fff != 0;
                if first >> 4 != 4 || end < at + 20 || is_fragment {
                    return None;
                }
                (self.with(Header::Ipv4 { at, end })?, *frame.get(at + 9)?, end)
            }
            EtherType::Ipv6 => {
                let (protocol, end) = behind_extensions(frame, at)?;
                (self.with(Header::Ipv6 { at })?, protocol, end)
            }
            _ => return None,
        };
        if end >= goal.at {
            return (end == goal.at && protocol == goal.protocol).then_some(layers);
        }
        match protocol {
            IPV4_IN_IP => layers.network(frame, EtherType::Ipv4, end, goal),
            IPV6_IN_IP => layers.network(frame, EtherType::Ipv6, end, goal),
            GRE => layers.gre(frame, end, goal),
            PROTOCOL_UDP => layers.udp(frame, end, goal),
            _ => None,
        }
    }

    fn gre(self, frame: &[u8], at: usize, goal: Goal) -> Option<Self> {
        const CHECKSUM: u16 = 0x8000;
        const KEY: u16 = 0x2000;
        let flags = half(frame, at)?;
        // Neither routing nor sequence numbers, nor another version: each segment would need its own.
        if flags & !(CHECKSUM | KEY) != 0 {
            return None;
        }
        let words = 1 + usize::from(flags & CHECKSUM != 0) + usize::from(flags & KEY != 0);
        self.with(Header::Gre { at })?.inner(frame, half(frame, at + 2)?, at + words * 4, goal)
    }

    /// VXLAN, GENEVE or nothing in UDP: the one that leads to the goal. Ports differ from site to
    /// site.
    fn udp(self, frame: &[u8], at: usize, goal: Goal) -> Option<Self> {
        let layers = self.with(Header::Udp { at })?;
        let tunnel = at + 8;
        let first = *frame.get(tunnel)?;
        let geneve = tunnel + 8 + usize::from(first & 0x3f) * 4;
        let is_geneve = first >> 6 == 0;
        let generic = match (first & 0x0c, frame.get(tunnel + 3)?) {
            // The generic protocol extension of VXLAN: IPv4, IPv6.
            (0x0c, 1) => EtherType::Ipv4.number(),
            (0x0c, 2) => EtherType::Ipv6.number(),
            _ => ETHERNET,
        };
        let bare = if first >> 4 == 6 { EtherType::Ipv6 } else { EtherType::Ipv4 };
        None.or_else(|| layers.inner(frame, half(frame, tunnel + 2)?, geneve, goal).filter(|_| is_geneve))
            .or_else(|| layers.inner(frame, generic, tunnel + 8, goal).filter(|_| first & 0x08 != 0))
            .or_else(|| layers.network(frame, bare, tunnel, goal))
    }

    fn inner(self, frame: &[u8], ethertype: u16, at: usize, goal: Goal) -> Option<Self> {
        match ethertype {
            ETHERNET => self.ethernet(frame, at, goal),
            other => self.network(frame, EtherType::from_number(other), at, goal),
        }
    }

    /// The sum over the pseudo header of a transport header of `len` octets, below the innermost IP
    /// header.
    pub(super) fn pseudo(&self, segment: &[u8], protocol: u8, len: u16) -> Sum {
        pseudo(segment, self.innermost(), protocol, len)
    }

    /// Fits the copied headers to segment `index`. The rest of the segment is complete but for the
    /// checksum of the innermost transport header, which `transport` computes.
    pub(super) fn number(&self, segment: &mut [u8], index: usize, transport: impl FnOnce(&mut [u8])) {
        for header in self.headers.iter().flatten() {
            match *header {
                Header::Ipv4 { at, end } => {
                    put(segment, at + 2, (segment.len() - at) as u16);
                    let ident = half(segment, at + 4).unwrap_or(0).wrapping_add(index as u16);
                    put(segment, at + 4, ident);
                    put(segment, at + 10, 0);
                    let sum = Sum::of(&segment[at..end]).checksum();
                    put(segment, at + 10, sum);
                }
                Header::Ipv6 { at } => put(segment, at + 4, (segment.len() - at - 40) as u16),
                Header::Udp { at } => put(segment, at + 4, (segment.len() - at) as u16),
                Header::Gre { .. } => {}
            }
        }
        transport(segment);
        // Checksums of tunnels are over all that they contain.
        for place in (0..self.len).rev() {
            match self.headers[place] {
                // Zero: the tunnel has none.
                Some(Header::Udp { at }) if half(segment, at + 6) != Some(0) => {
                    put(segment, at + 6, 0);
                    let around = place.checked_sub(1).and_then(|place| self.headers[place]);
                    let len = (segment.len() - at) as u16;
                    let sum = pseudo(segment, around, PROTOCOL_UDP, len).and(Sum::of(&segment[at..]));
                    put(segment, at + 6, not_zero(sum.checksum()));
                }
                Some(Header::Gre { at }) if segment[at] & 0x80 != 0 => {
                    put(segment, at + 4, 0);
                    let sum = Sum::of(&segment[at..]).checksum();
                    put(segment, at + 4, sum);
                }
                _ => {}
            }
        }
    }
}

/// Zero means "no checksum" in UDP; its other form is written instead.
pub(super) fn not_zero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

pub(super) fn put(segment: &mut [u8], at: usize, number: u16) {
    segment[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

fn pseudo(segment: &[u8], ip: Option<Header>, protocol: u8, len: u16) -> Sum {
    let addresses = match ip {
        Some(Header::Ipv4 { at, .. }) => at + 12..at + 20,
        Some(Header::Ipv6 { at }) => at + 8..at + 40,
        _ => 0..0,
    };
    Sum::of(&segment[addresses]).and(Sum::of_u16(protocol.into())).and(Sum::of_u16(len))
}

/// The protocol behind options and routing headers of an IPv6 packet, and its place (RFC 8200,
/// section 4). `None` if a routing header has stops left: the checksum is over the final
/// destination.
fn behind_extensions(frame: &[u8], ip: usize) -> Option<(u8, usize)> {
    let (mut next, mut at) = (*frame.get(ip + 6)?, ip + 40);
    if frame.get(ip)? >> 4 != 6 {
        return None;
    }
    while matches!(next, 0 | ROUTING | 60) {
        let [following, length, _, segments_left] = *frame.get(at..)?.first_chunk()?;
        if next == ROUTING && segments_left > 0 {
            return None;
        }
        next = following;
        at += 8 * (usize::from(length) + 1);
    }
    Some((next, at))
}
