//! Captures that `antedate inspect` reads: IP, TCP streams in any order, and MQTT's PUBLISH in them.

// The command's own files: a program has no library.
#[path = "../../crates/cli/src/inspect/content.rs"]
mod content;
#[allow(dead_code, reason = "the command uses more of it")]
#[path = "../../crates/cli/src/inspect/ip.rs"]
mod ip;
#[allow(dead_code, reason = "the command uses more of it")]
#[path = "../../crates/cli/src/inspect/publish.rs"]
mod publish;
#[allow(dead_code, reason = "the command uses more of it")]
#[path = "../../crates/cli/src/inspect/stream.rs"]
mod stream;

use std::collections::HashMap;

use antedate_wire::tcp::Flags;
use publish::Version;
use stream::{Came, Direction, Segment};

/// A stream of MQTT: packets in front are whole ones, and a PUBLISH has its parts within.
pub fn inspect_publish(data: &[u8]) {
    let version = publish::connect(data);
    let (mut rest, mut aliases) = (data, HashMap::new());
    while let Ok(Some(length)) = publish::whole(rest) {
        let (packet, behind) = rest.split_at(length);
        for version in [None, version, Some(Version::Four), Some(Version::Five)] {
            if let Some(read) = publish::read(packet, version, &mut aliases) {
                assert!(packet.ends_with(&read.payload) && read.payload.len() + 4 <= packet.len());
            }
        }
        rest = behind;
    }
}

/// A frame as it is, and segments of a known stream in an order of the input's choice: what comes out
/// is the stream, in order and without a gap.
pub fn inspect_stream(data: &[u8]) {
    if let Some(segment) = stream::segment(data) {
        assert!(segment.payload.len() <= data.len());
    }
    if let Some((_, content)) = ip::datagram(data) {
        assert!(data.len() >= content.len());
        if let Some(longer) = content::with_content(data, &[7; 99]) {
            assert_eq!(ip::datagram(&longer).map(|(_, content)| content), Some(&[7; 99][..]));
        }
    }
    // Ends at the highest numbers, so that they begin again.
    let pattern: Vec<u8> = (0..=u16::MAX).map(|at| (at >> 4) as u8 ^ at as u8).collect();
    let begin = u32::MAX - 1000;
    let mut direction = Direction::default();
    let mut take = |at: usize, payload: &[u8], flags| {
        let ends = [([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into()];
        let sequence = begin.wrapping_add(at as u32);
        let came = direction.take(&Segment { ends, sequence, flags, payload });
        (came, direction.octets.clone())
    };
    assert_eq!(take(0, &[], Flags::SYN).0, Came::Anew);
    for order in data.chunks_exact(3) {
        let at = usize::from(order[0]) << 4;
        let length = usize::from(order[1]) + (usize::from(order[2]) << 8) / 16;
        let (came, octets) = take(1 + at, &pattern[at..at + length], Flags(0));
        assert_eq!(came, Came::Next);
        assert!(pattern.starts_with(&octets), "{} octets", octets.len());
    }
}
