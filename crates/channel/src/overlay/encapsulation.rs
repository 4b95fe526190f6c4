//! The headers of a frame: IPv4, UDP and VXLAN (RFC 791, RFC 768, RFC 7348).
//!
//! Between two ends only lengths, the identification and the source port differ from frame to
//! frame. The rest is written once, with its share of the checksum.

use core::fmt;
use core::net::Ipv4Addr;
use core::ops::Range;

use antedate_wire::checksum::Sum;
use antedate_wire::ip::Protocol;
use antedate_wire::vxlan::{self, Vni};
use antedate_wire::{ipv4, udp};

/// Octets of the IPv4 header.
const IP: usize = ipv4::MIN_HEADER_LEN;
/// Octets of all three headers.
pub const HEADER_LEN: usize = IP + udp::HEADER_LEN + vxlan::HEADER_LEN;
/// Octets of UDP's and VXLAN's headers, which are data in an IP fragment.
pub const UDP_VXLAN_LEN: usize = udp::HEADER_LEN + vxlan::HEADER_LEN;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const TIME_TO_LIVE: u8 = 64;

/// Headers between two ends.
#[derive(Debug, Clone)]
pub struct Template {
    octets: [u8; HEADER_LEN],
    /// The sum of the IPv4 header without the variable fields.
    sum: Sum,
}

impl Template {
    /// Headers from one end of the tunnel to the other.
    #[must_use]
    pub fn new(from: Ipv4Addr, to: Ipv4Addr, port: u16, vni: Vni) -> Self {
        let mut octets = [0; HEADER_LEN];
        octets[0] = 0x45;
        octets[8] = TIME_TO_LIVE;
        octets[9] = Protocol::Udp.number();
        octets[12..16].copy_from_slice(&from.octets());
        octets[16..20].copy_from_slice(&to.octets());
        octets[IP + 2..IP + 4].copy_from_slice(&port.to_be_bytes());
        octets[IP + udp::HEADER_LEN..].copy_from_slice(&vxlan::header(vni));
        let sum = Sum::of(&octets[..IP]);
        Self { octets, sum }
    }

    /// Writes the headers of a whole packet with a frame of `len` octets, at most 65,499, and the
    /// frame's code point for congestion.
    #[inline]
    pub fn write(&self, out: &mut [u8; HEADER_LEN], len: usize, source_port: u16, ecn: u8) {
        *out = self.octets;
        self.datagram(out, len, source_port);
        self.ip(out, HEADER_LEN + len, 0, DONT_FRAGMENT, ecn);
    }

    /// Writes the UDP and VXLAN headers of a fragmented packet.
    #[inline]
    pub fn write_datagram(&self, out: &mut [u8; UDP_VXLAN_LEN], len: usize, source_port: u16) {
        let mut whole = self.octets;
        self.datagram(&mut whole, len, source_port);
        out.copy_from_slice(&whole[IP..]);
    }

    /// Writes the IPv4 header of a fragment with `len` octets of the packet from `offset`, a
    /// multiple of 8.
    #[inline]
    pub fn write_fragment(
        &self,
        out: &mut [u8; IP],
        ident: u16,
        offset: usize,
        len: usize,
        more: bool,
        ecn: u8,
    ) {
        out.copy_from_slice(&self.octets[..IP]);
        let flags = if more { MORE_FRAGMENTS } else { 0 };
        self.ip(out, IP + len, ident, flags | (offset / 8) as u16, ecn);
    }

    fn datagram(&self, out: &mut [u8; HEADER_LEN], len: usize, source_port: u16) {
        out[IP..IP + 2].copy_from_slice(&source_port.to_be_bytes());
        // The checksum stays zero: the tunnel authenticates every octet.
        out[IP + 4..IP + 6].copy_from_slice(&((UDP_VXLAN_LEN + len) as u16).to_be_bytes());
    }

    #[inline]
    fn ip(&self, out: &mut [u8], total: usize, ident: u16, fragment: u16, ecn: u8) {
        let total = total as u16;
        out[1] = ecn;
        let sum = self.sum.and(Sum::of_u16(total)).and(Sum::of_u16(ident)).and(Sum::of_u16(fragment));
        let sum = sum.and(Sum::of_u16(ecn.into()));
        out[2..4].copy_from_slice(&total.to_be_bytes());
        out[4..6].copy_from_slice(&ident.to_be_bytes());
        out[6..8].copy_from_slice(&fragment.to_be_bytes());
        out[10..12].copy_from_slice(&sum.checksum().to_be_bytes());
    }
}

/// The source port of a flow, so that networks with port-based load balancing keep its frames in
/// order (RFC 7348, section 5).
#[inline]
#[must_use]
pub fn source_port(frame: &[u8]) -> u16 {
    let word =
        |at: usize| frame.get(at..).and_then(<[u8]>::first_chunk).copied().map_or(0, u64::from_ne_bytes);
    let mixed = (word(0) ^ word(6).rotate_left(23)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    0xc000 | (mixed >> 50) as u16
}

/// A packet from the tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Its source.
    pub from: Ipv4Addr,
    /// Its destination.
    pub to: Ipv4Addr,
    /// The range of its payload, without the tunnel's padding.
    pub payload: Range<usize>,
    /// The fragment, if it is not a whole packet.
    pub fragment: Option<Fragment>,
    /// Its code point for congestion.
    pub ecn: u8,
}

/// A fragment of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// The packet's identification.
    pub ident: u16,
    /// Its offset in the packet's payload.
    pub offset: usize,
    /// Whether other fragments follow.
    pub more: bool,
}

/// The reason why a packet of the tunnel carries no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// it is not IPv4, or its header is wrong
    NotIpv4,
    /// it carries a protocol other than UDP to the port of VXLAN
    NotVxlan,
    /// its lengths or checksums are wrong
    Damaged,
    /// it belongs to another network
    Vni,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotIpv4 => "not IPv4",
            Self::NotVxlan => "not VXLAN",
            Self::Damaged => "wrong lengths or checksums",
            Self::Vni => "another network's",
        })
    }
}

impl core::error::Error for Dropped {}

/// Parses the IPv4 header of a packet, which may be padded.
#[inline]
pub fn packet(octets: &[u8]) -> Result<Packet, Dropped> {
    let view = ipv4::Packet::new_checked(octets).map_err(|_| Dropped::NotIpv4)?;
    let (header, total) = (view.header_len(), usize::from(view.total_len()));
    if total < header || total > octets.len() || !view.verify_checksum() {
        return Err(Dropped::Damaged);
    }
    if view.protocol() != Protocol::Udp {
        return Err(Dropped::NotVxlan);
    }
    let fragment = view.is_fragment().then(|| {
        let word = u16::from_be_bytes([octets[6], octets[7]]);
        let offset = usize::from(word & 0x1fff) * 8;
        Fragment { ident: view.ident(), offset, more: word & MORE_FRAGMENTS != 0 }
    });
    Ok(Packet {
        from: view.src_addr(),
        to: view.dst_addr(),
        payload: header..total,
        fragment,
        ecn: octets[1] & 3,
    })
}

/// The range of the frame in a UDP datagram addressed to us.
#[inline]
pub fn frame(
    datagram: &[u8],
    ends: (Ipv4Addr, Ipv4Addr),
    port: u16,
    vni: Vni,
) -> Result<Range<usize>, Dropped> {
    let view = udp::Datagram::new_checked(datagram).map_err(|_| Dropped::Damaged)?;
    let len = usize::from(view.length());
    if len < udp::HEADER_LEN || len > datagram.len() {
        return Err(Dropped::Damaged);
    }
    if view.dst_port() != port {
        return Err(Dropped::NotVxlan);
    }
    if view.checksum() != 0 {
        let pseudo = Sum::of(&ends.0.octets()).and(Sum::of(&ends.1.octets()));
        let pseudo = pseudo.and(Sum::of_u16(Protocol::Udp.number().into())).and(Sum::of_u16(view.length()));
        if !pseudo.and(Sum::of(&datagram[..len])).is_consistent() {
            return Err(Dropped::Damaged);
        }
    }
    let (network, frame) = vxlan::parse(&datagram[udp::HEADER_LEN..len]).map_err(|_| Dropped::Damaged)?;
    if network != vni {
        return Err(Dropped::Vni);
    }
    Ok(len - frame.len()..len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const A: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 2);

    fn vni(number: u32) -> Vni {
        Vni::new(number).unwrap()
    }

    fn built(frame: &[u8]) -> Vec<u8> {
        let mut head = [0; HEADER_LEN];
        Template::new(A, B, vxlan::PORT, vni(42)).write(&mut head, frame.len(), 0xc001, 2);
        [&head[..], frame].concat()
    }

    #[test]
    fn frame_comes_out_unchanged() {
        for len in [60, 61, 1514] {
            let frame_in: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut octets = built(&frame_in);
            octets.extend([0; 15]);
            let read = packet(&octets).unwrap();
            assert_eq!((read.from, read.to, read.fragment, read.ecn), (A, B, None, 2));
            let datagram = &octets[read.payload];
            let place = frame(datagram, (A, B), vxlan::PORT, vni(42)).unwrap();
            assert_eq!(datagram[place], frame_in[..]);
        }
    }

    #[test]
    fn fragments_belong_to_one_packet() {
        let template = Template::new(A, B, vxlan::PORT, vni(42));
        let mut head = [0; IP];
        template.write_fragment(&mut head, 7, 1400, 100, false, 1);
        let octets = [&head[..], &[1; 100]].concat();
        let read = packet(&octets).unwrap();
        assert_eq!(read.fragment, Some(Fragment { ident: 7, offset: 1400, more: false }));
        assert_eq!(read.payload, 20..120);
        let mut datagram = [0; UDP_VXLAN_LEN];
        template.write_datagram(&mut datagram, 60, 0xc001);
        assert_eq!(datagram[..], built(&[0; 60])[IP..HEADER_LEN]);
    }

    #[test]
    fn foreign_packets_are_distinguished() {
        let octets = built(&[0; 60]);
        let datagram = &octets[IP..];
        assert_eq!(frame(datagram, (A, B), vxlan::PORT, vni(43)), Err(Dropped::Vni));
        assert_eq!(frame(datagram, (A, B), 8472, vni(42)), Err(Dropped::NotVxlan));
        assert_eq!(frame(&datagram[..70], (A, B), vxlan::PORT, vni(42)), Err(Dropped::Damaged));
        let mut bent = octets.clone();
        bent[12] ^= 1;
        assert_eq!(packet(&bent), Err(Dropped::Damaged));
        bent = octets.clone();
        // A UDP checksum is checked if present.
        bent[26] = 1;
        assert_eq!(frame(&bent[IP..], (A, B), vxlan::PORT, vni(42)), Err(Dropped::Damaged));
        assert_eq!(packet(&octets[..90]), Err(Dropped::Damaged));
        assert_eq!(packet(&[0x60; 90]), Err(Dropped::NotIpv4));
    }
}
