//! Datagrams as Ethernet frames: headers of Ethernet, IPv4 (RFC 791) and UDP (RFC 768).

use std::net::{Ipv4Addr, SocketAddrV4};

use antedate_wire::checksum::Sum;
use antedate_wire::ethernet::HEADER_LEN as ETHERNET;
use antedate_wire::ip::Protocol;
use antedate_wire::{ipv4, udp};

use crate::sys::outbox::FRAME_HEADER;
use crate::sys::route::Hop;

const UDP: usize = ETHERNET + 20;
const TIME_TO_LIVE: u8 = 64;
const DONT_FRAGMENT: u16 = 0x4000;

/// A frame from the uplink.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came<'a> {
    /// A datagram, its sender, and the octet with DSCP and ECN.
    Datagram(&'a mut [u8], SocketAddrV4, u8),
    /// The first IP fragment of a datagram from this address. The kernel reassembles it.
    FirstPiece(Ipv4Addr),
    /// Wrong lengths or checksums.
    Damaged,
}

/// Parses a frame that passed the filter. `check` verifies the UDP checksum; WireGuard packets do
/// not need it.
#[inline]
pub(super) fn read(frame: &mut [u8], check: bool) -> Came<'_> {
    // There may be a priority tag (VLAN 0).
    let start = if frame.get(12..14) == Some(&[0x81, 0x00]) { ETHERNET + 4 } else { ETHERNET };
    let Some(packet) = frame.get_mut(start..) else { return Came::Damaged };
    let Ok(view) = ipv4::Packet::new_checked(&*packet) else { return Came::Damaged };
    let (header, total, source) = (view.header_len(), usize::from(view.total_len()), view.src_addr());
    let class = packet[1];
    if total < header + udp::HEADER_LEN || total > packet.len() || !view.verify_checksum() {
        return Came::Damaged;
    }
    if view.is_fragment() {
        return Came::FirstPiece(source);
    }
    let Ok(view) = udp::Datagram::new_checked(&packet[header..total]) else { return Came::Damaged };
    let (len, port) = (usize::from(view.length()), view.src_port());
    if len < udp::HEADER_LEN || header + len > total {
        return Came::Damaged;
    }
    if check && view.checksum() != 0 {
        let pseudo = Sum::of(&packet[12..20]).and(Sum::of_u16(Protocol::Udp.number().into()));
        let pseudo = pseudo.and(Sum::of_u16(len as u16));
        if !pseudo.and(Sum::of(&packet[header..header + len])).is_consistent() {
            return Came::Damaged;
        }
    }
    let from = SocketAddrV4::new(source, port);
    Came::Datagram(&mut packet[header + udp::HEADER_LEN..header + len], from, class)
}

/// The headers of datagrams to one peer, over one next hop.
#[derive(Debug, Clone)]
pub(super) struct Headers {
    octets: [u8; FRAME_HEADER],
    /// Sums of the constant parts: the IPv4 header, and the UDP header with its pseudo header.
    sums: [Sum; 2],
}

impl Headers {
    pub(super) fn new(link: [u8; 6], hop: Hop, port: u16, to: SocketAddrV4) -> Self {
        let mut octets = [0; FRAME_HEADER];
        octets[..6].copy_from_slice(&hop.neighbour);
        octets[6..12].copy_from_slice(&link);
        octets[12..14].copy_from_slice(&[0x08, 0x00]);
        octets[14] = 0x45;
        octets[22] = TIME_TO_LIVE;
        octets[23] = Protocol::Udp.number();
        octets[26..30].copy_from_slice(&hop.source.octets());
        octets[30..34].copy_from_slice(&to.ip().octets());
        octets[34..36].copy_from_slice(&port.to_be_bytes());
        octets[36..38].copy_from_slice(&to.port().to_be_bytes());
        let pseudo = Sum::of(&octets[26..34]).and(Sum::of_u16(Protocol::Udp.number().into()));
        let sums = [Sum::of(&octets[ETHERNET..UDP]), pseudo.and(Sum::of(&octets[UDP..UDP + 4]))];
        Self { octets, sums }
    }

    /// Writes the headers of a datagram. `class` is the octet with DSCP and ECN. Routers may
    /// fragment the datagram if it has an identification (RFC 6864).
    #[inline]
    pub(super) fn write(&self, out: &mut [u8; FRAME_HEADER], datagram: &[u8], class: u8, ident: Option<u16>) {
        *out = self.octets;
        let len = (udp::HEADER_LEN + datagram.len()) as u16;
        let total = len + 20;
        let (ident, flags) = ident.map_or((0, DONT_FRAGMENT), |ident| (ident, 0));
        let sum = self.sums[0].and(Sum::of_u16(total)).and(Sum::of_u16(class.into()));
        let sum = sum.and(Sum::of_u16(ident)).and(Sum::of_u16(flags));
        out[15] = class;
        out[18..20].copy_from_slice(&ident.to_be_bytes());
        out[20..22].copy_from_slice(&flags.to_be_bytes());
        out[16..18].copy_from_slice(&total.to_be_bytes());
        out[24..26].copy_from_slice(&sum.checksum().to_be_bytes());
        out[38..40].copy_from_slice(&len.to_be_bytes());
        // The length is in both the header and the pseudo header.
        let sum = self.sums[1].and(Sum::of_u16(len)).and(Sum::of_u16(len)).and(Sum::of(datagram));
        // Zero means "no checksum".
        let checksum = match sum.checksum() {
            0 => 0xffff,
            sum => sum,
        };
        out[40..42].copy_from_slice(&checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(datagram: &[u8], class: u8) -> Vec<u8> {
        let hop = Hop { source: Ipv4Addr::new(192, 0, 2, 1), neighbour: [2, 0, 0, 0, 0, 2] };
        let to = SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 7), 4000);
        let headers = Headers::new([2, 0, 0, 0, 0, 1], hop, 51820, to);
        let mut head = [0; FRAME_HEADER];
        headers.write(&mut head, datagram, class, (class != 0).then_some(0x1234));
        [&head[..], datagram].concat()
    }

    #[test]
    fn written_datagram_reads_back() {
        for len in [0usize, 1, 2, 31, 32, 148, 1472] {
            let datagram: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
            let mut frame = frame(&datagram, 0xb8);
            assert_eq!((frame[12..16].to_vec(), frame.len()), (vec![8, 0, 0x45, 0xb8], 42 + len));
            assert_eq!(frame[18..22], [0x12, 0x34, 0, 0], "routers may fragment it");
            frame.extend([0; 18]);
            let from = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 51820);
            let mut datagram = datagram;
            assert_eq!(read(&mut frame, true), Came::Datagram(&mut datagram, from, 0xb8));
        }
    }

    #[test]
    fn a_priority_tag_is_skipped() {
        let plain = frame(&[5; 40], 0);
        let mut tagged = [&plain[..12], &[0x81, 0, 0xc0, 0], &plain[12..]].concat();
        assert!(matches!(read(&mut tagged, true), Came::Datagram(d, ..) if d == [5; 40]));
        assert_eq!(plain[18..22], [0, 0, 0x40, 0], "a probe stays whole");
    }

    #[test]
    fn damage_and_fragments_are_noticed() {
        let good = frame(&[9; 50], 0);
        for at in 14..34 {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert_eq!(read(&mut bad, false), Came::Damaged, "octet {at}");
        }
        for at in 34..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(read(&mut bad, true), Came::Damaged, "octet {at}");
        }
        for len in 0..good.len() {
            assert_eq!(read(&mut good[..len].to_vec(), false), Came::Damaged, "{len} octets");
        }
        let mut piece = good;
        piece[20] = 0x20;
        let sum = Sum::of(&[&piece[14..24], &piece[26..34]].concat()).checksum();
        piece[24..26].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(read(&mut piece, true), Came::FirstPiece(Ipv4Addr::new(192, 0, 2, 1)));
    }
}
