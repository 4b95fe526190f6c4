//! IP packets and datagrams of UDP in frames of Ethernet.

use std::net::{IpAddr, SocketAddr};

use antedate_wire::ip::Protocol;
use antedate_wire::{ipv4, ipv6, udp};

/// Sender and receiver.
pub(super) type Ends = [SocketAddr; 2];

/// The ends and the content of a datagram in a frame without tags.
pub(super) fn datagram(frame: &[u8]) -> Option<(Ends, &[u8])> {
    udp_of(frame.get(14..)?)
}

/// The same of an IP packet. `None`: it is another one, a fragment, or cut.
pub(super) fn udp_of(octets: &[u8]) -> Option<(Ends, &[u8])> {
    let (addresses, rest) = packet(octets, Protocol::Udp)?;
    let datagram = udp::Datagram::new_checked(rest).ok()?;
    let ends = ends(addresses, [datagram.src_port(), datagram.dst_port()]);
    Some((ends, rest.get(8..usize::from(datagram.length()))?))
}

pub(super) fn ends([from, to]: [IpAddr; 2], [source, destination]: [u16; 2]) -> Ends {
    [(from, source), (to, destination)].map(SocketAddr::from)
}

/// The addresses of an IP packet, and the content, which is of this protocol.
pub(super) fn packet(octets: &[u8], wanted: Protocol) -> Option<([IpAddr; 2], &[u8])> {
    match octets.first()? >> 4 {
        4 => {
            let packet = ipv4::Packet::new_checked(octets).ok()?;
            if packet.is_fragment() || packet.protocol() != wanted {
                return None;
            }
            let content = octets.get(packet.header_len()..usize::from(packet.total_len()))?;
            Some(([packet.src_addr().into(), packet.dst_addr().into()], content))
        }
        6 => {
            let packet = ipv6::Packet::new_checked(octets).ok()?;
            let (found, at) = packet.upper_layer().ok()?;
            // Short frames are padded.
            let length = octets.get(4..6)?.first_chunk().copied().map(u16::from_be_bytes)?;
            let content = octets.get(at..ipv6::HEADER_LEN + usize::from(length))?;
            (found == wanted).then_some(([packet.src_addr().into(), packet.dst_addr().into()], content))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_packets_are_no_datagrams() {
        let mut frame = vec![0; 14];
        frame.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        frame.extend([0x1f, 0x90, 0xca, 0x6c, 0, 12, 0, 0, 1, 2, 3, 4]);
        let (ends, content) = datagram(&frame).unwrap();
        assert_eq!((ends[1].to_string(), content), ("192.0.2.2:51820".into(), &[1, 2, 3, 4][..]));
        for length in 0..frame.len() {
            assert!(datagram(&frame[..length]).is_none(), "{length}");
        }
        for (at, value) in [(14, 0x15), (14, 0x4f), (20, 0x20), (23, 6), (38, 0xff)] {
            let mut changed = frame.clone();
            changed[at] = value;
            assert!(datagram(&changed).is_none(), "{at}");
        }
    }
}
