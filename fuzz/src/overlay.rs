//! Frames in tunnels: packets that a peer may send, and frames that machines may send.

use std::net::Ipv4Addr;

use antedate_channel::overlay::clamp::clamp_mss;
use antedate_channel::overlay::encapsulation::{HEADER_LEN, Template, frame, packet};
use antedate_channel::overlay::message::{self, Message};
use antedate_channel::overlay::reassembly::{LONGEST, Part, Reassembly, Whole};
use antedate_wire::vxlan::{PORT, Vni};

const A: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 2);

/// Tests the input as a tunnel packet, as a frame there and back, and as fragments.
pub fn overlay(data: &[u8]) {
    let vni = Vni::default();
    if let Ok(read) = packet(data) {
        let payload = &data[read.payload];
        if let Ok(range) = frame(payload, (read.from, read.to), PORT, vni) {
            assert!(range.end <= payload.len());
        }
    }
    if let Some(Message::Piece(piece, octets)) = message::parse(data) {
        let again = [&piece.emit(octets.len())[..], octets].concat();
        assert_eq!(again, data[..again.len()]);
    }
    if data.len() <= 9018 {
        let mut head = [0; HEADER_LEN];
        Template::new(A, B, PORT, vni).write(&mut head, data.len(), 1, 0);
        let whole = [&head[..], data].concat();
        let read = packet(&whole).expect("what was written");
        let datagram = &whole[read.payload];
        let range = frame(datagram, (A, B), PORT, vni).expect("what was written");
        assert_eq!(&datagram[range], data);
    }
    let mut clamped = data.to_vec();
    if clamp_mss(&mut clamped, 1390) {
        assert_eq!(clamped.len(), data.len());
        let mut again = clamped.clone();
        assert!(!clamp_mss(&mut again, 1390) && again == clamped);
    }
    parts(data);
}

/// Four octets per fragment: its packet, its offset, its length, and whether it is the last.
fn parts(data: &[u8]) {
    let mut reassembly = Reassembly::default();
    let octets = [0x5a; 2048];
    for (now, part) in data.chunks_exact(4).enumerate() {
        let of = match part[0] % 4 {
            0 => Whole::Packet(part[0].into()),
            _ => Whole::Frame { session: 1, first: u64::from(part[0] / 8), count: part[0] % 4 + 1 },
        };
        let (offset, len) = (usize::from(part[1]) * 40, usize::from(part[2]) * 8);
        let part = Part { of, offset, octets: &octets[..len], last: part[3] % 2 == 1 };
        if let Some(whole) = reassembly.add(now as u64 * 50_000_000, part) {
            assert!(whole.len() <= LONGEST && whole.iter().all(|octet| *octet == 0x5a));
        }
    }
    let counters = reassembly.counters();
    assert!(
        counters.whole + counters.incomplete + counters.contradictory + counters.malformed <= counters.parts
    );
}
