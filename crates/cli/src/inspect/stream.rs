//! Segments of TCP, and one direction of a connection: its octets in order, from segments in any
//! order (RFC 9293 section 3.10).

use std::collections::BTreeMap;

use antedate_wire::ip::Protocol;
use antedate_wire::tcp::{self, Flags};

use super::ip::{Ends, ends, packet};

/// A segment of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub(super) ends: Ends,
    /// The number of its first octet.
    pub(super) sequence: u32,
    pub(super) flags: Flags,
    pub(super) payload: &'a [u8],
}

/// The flag that ends a connection at once; `wire` names those that its offloads look at.
const RST: Flags = Flags(0x04);

/// A segment in a frame without tags.
pub(super) fn segment(frame: &[u8]) -> Option<Segment<'_>> {
    let (addresses, rest) = packet(frame.get(14..)?, Protocol::Tcp)?;
    let segment = tcp::Segment::new_checked(rest).ok()?;
    Some(Segment {
        ends: ends(addresses, [segment.src_port(), segment.dst_port()]),
        sequence: segment.sequence(),
        flags: segment.flags(),
        payload: rest.get(segment.header_len()..)?,
    })
}

/// Octets that may wait for a missing segment. Then it counts as not recorded.
const WAITING_MAX: usize = 1 << 20;

/// What a segment brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// The octets go on where they ended, or nothing new came.
    Next,
    /// Octets before these are missing, or the connection is a new one: the ends of messages are
    /// unknown until one begins.
    Anew,
}

/// The octets of a direction.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// The number of the next octet, which counts on beyond 32 bits.
    next: Option<u64>,
    /// Segments ahead of it.
    waiting: BTreeMap<u64, Vec<u8>>,
    /// Octets of them.
    held: usize,
    /// Octets in order, which the caller takes away in front.
    pub(super) octets: Vec<u8>,
}

impl Direction {
    /// Takes a segment.
    pub(super) fn take(&mut self, segment: &Segment<'_>) -> Came {
        let mut came = Came::Next;
        if segment.flags.has(Flags::SYN) || segment.flags.has(RST) {
            *self = Self::default();
            self.next = segment.flags.has(Flags::SYN).then(|| base(segment.sequence.wrapping_add(1)));
            return Came::Anew;
        }
        if segment.payload.is_empty() {
            return came;
        }
        let next = *self.next.get_or_insert_with(|| {
            came = Came::Anew;
            base(segment.sequence)
        });
        let ahead = segment.sequence.wrapping_sub(next as u32).cast_signed();
        let at = next.saturating_add_signed(ahead.into());
        let kept = self.waiting.entry(at).or_default();
        if kept.len() < segment.payload.len() {
            self.held += segment.payload.len() - kept.len();
            *kept = segment.payload.to_vec();
        }
        self.join();
        if self.held > WAITING_MAX
            && let Some((first, _)) = self.waiting.first_key_value()
        {
            self.next = Some(*first);
            self.octets.clear();
            self.join();
            came = Came::Anew;
        }
        came
    }

    /// Appends what waited and follows now.
    fn join(&mut self) {
        let Some(mut next) = self.next else { return };
        while let Some(first) = self.waiting.first_entry().filter(|first| *first.key() <= next) {
            let (at, octets) = first.remove_entry();
            self.held -= octets.len();
            let new = octets.get((next - at) as usize..).unwrap_or_default();
            self.octets.extend_from_slice(new);
            next += new.len() as u64;
        }
        self.next = Some(next);
    }
}

/// A number with space below it for segments that came earlier.
fn base(sequence: u32) -> u64 {
    u64::from(sequence) + (1 << 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_read() {
        let mut frame = vec![0; 14];
        frame.extend([0x60, 0, 0, 0, 0, 23, 6, 64]);
        frame.extend([[0; 15].as_slice(), &[1], &[0; 15], &[2]].concat());
        frame.extend([0x07, 0x5b, 0x80, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 0x18, 0, 0, 0, 0, 0, 0]);
        frame.extend([1, 2, 3, 0xee]);
        let found = segment(&frame).unwrap();
        assert_eq!((found.sequence, found.payload), (9, &[1, 2, 3][..]), "the frame is padded");
        assert_eq!(found.ends[0].to_string(), "[::1]:1883");
        for length in 0..frame.len() - 1 {
            assert!(segment(&frame[..length]).is_none(), "{length}");
        }
        assert!(super::super::ip::datagram(&frame).is_none());
    }

    fn take(direction: &mut Direction, sequence: u32, payload: &[u8]) -> Came {
        let ends = [1, 2].map(|port| std::net::SocketAddr::from(([192, 0, 2, 1], port)));
        direction.take(&Segment { ends, sequence, flags: Flags(0x10), payload })
    }

    #[test]
    fn segments_come_in_any_order_and_again() {
        let mut direction = Direction::default();
        let ends = [1, 2].map(|port| std::net::SocketAddr::from(([192, 0, 2, 1], port)));
        let open = Segment { ends, sequence: u32::MAX - 2, flags: Flags::SYN, payload: &[] };
        assert_eq!(direction.take(&open), Came::Anew);
        for (sequence, payload) in
            [(u32::MAX - 1, &b"ab"[..]), (3, b"fgh"), (0, b"cd"), (1, b"de"), (u32::MAX - 1, b"ab"), (6, b"")]
        {
            assert_eq!(take(&mut direction, sequence, payload), Came::Next);
        }
        assert_eq!(direction.octets, b"abcdefgh", "the numbers wrap");
    }

    #[test]
    fn missing_octets_are_given_up() {
        let mut direction = Direction::default();
        assert_eq!(take(&mut direction, 100, b"ab"), Came::Anew, "in the middle of a connection");
        assert_eq!(take(&mut direction, 200, &[7; WAITING_MAX]), Came::Next);
        assert_eq!(direction.octets, b"ab");
        assert_eq!(take(&mut direction, 200 + WAITING_MAX as u32, b"xy"), Came::Anew);
        assert_eq!(direction.octets.len(), WAITING_MAX + 2);
        assert!(direction.octets.ends_with(b"xy") && direction.waiting.is_empty());
    }
}
