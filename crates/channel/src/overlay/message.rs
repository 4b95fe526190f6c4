//! Messages between two Antedate ends in a tunnel.
//!
//! A packet of a tunnel begins with the version of IP, 4 or 6. Ours begin with 10, which a stock
//! end drops and counts. A hello to a stock end is therefore harmless.
//!
//! ```text
//!   hello   0xa0, version 1, flags, 0, longest frame (2), 0 (2)
//!   piece   0xa1, index, count, VNI (3), offset in units of 8 octets (2), octets of data (2), data, padding
//!   probe   0xa2, version 1, path, 0, number (4), octets of the answer (2), padding
//!   answer  0xa3, version 1, path, 0, number (4), padding
//!   alive   0xa4, version 1, flags, 0, id of the process (4), number (4), milliseconds to the next (2)
//! ```
//!
//! A probe that names no length has an answer of 8 octets, by every way there is. A longer answer
//! takes the way of its probe, whole, so it measures the path back.
//!
//! All pieces of a frame have adjacent counters in one session, so a piece's counter less its index
//! identifies the frame. Each piece has its index, their count, and its offset.

use antedate_wire::vxlan::Vni;

const HELLO: u8 = 0xa0;
const PIECE: u8 = 0xa1;
const PROBE: u8 = 0xa2;
const ANSWER: u8 = 0xa3;
const ALIVE: u8 = 0xa4;
const VERSION: u8 = 1;
const WANTS_ANSWER: u8 = 0x01;
const READS_PIECES: u8 = 0x02;
const ANSWERS_PROBES: u8 = 0x04;
const FIELD_DOWN: u8 = 0x01;

/// Octets of a hello.
pub const HELLO_LEN: usize = 8;
/// Octets of a sign of life.
pub const ALIVE_LEN: usize = 14;
/// Octets of a probe without its padding, and of the shortest answer.
pub const PROBE_LEN: usize = 8;
/// Octets of a probe that names the length of its answer, without its padding.
pub const SIZED_PROBE_LEN: usize = PROBE_LEN + 2;
/// Octets before a piece's data.
pub const PIECE_HEADER_LEN: usize = 10;
/// The most pieces of a frame.
pub const MOST_PIECES: usize = 16;

/// The capabilities of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// It asks for the other end's hello.
    pub wants_answer: bool,
    /// It reassembles frames from pieces,
    pub reads_pieces: bool,
    /// up to this length.
    pub longest: u16,
    /// It answers probes.
    pub answers_probes: bool,
}

/// The header of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Its index, from 0.
    pub index: u8,
    /// Pieces of the frame: 2 to [`MOST_PIECES`].
    pub count: u8,
    /// The network.
    pub vni: Vni,
    /// Its offset in the frame, a multiple of 8.
    pub offset: usize,
}

/// A sign of life of an end with link loss forwarding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alive {
    /// Whether its field port has no link.
    pub field_down: bool,
    /// A number that its process chose.
    pub id: u32,
    /// The number of this one.
    pub number: u32,
    /// Milliseconds to the next one.
    pub interval_ms: u16,
}

/// A message of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// The other end's capabilities.
    Hello(Hello),
    /// A part of a frame.
    Piece(Piece, &'a [u8]),
    /// A probe, to be answered with this many octets. 0: the shortest answer.
    Probe(Number, usize),
    /// The answer.
    Answer(Number),
    /// A sign of life.
    Alive(Alive),
}

/// Identifies a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// The path that it takes, for the asking end.
    pub path: u8,
    /// Its number on this path.
    pub number: u32,
}

impl Number {
    /// Encodes a probe, whose size is that of the packet.
    #[must_use]
    pub fn probe(self) -> [u8; PROBE_LEN] {
        self.emit(PROBE)
    }

    /// Encodes a probe with an answer of `wanted` octets. An end of an earlier version reads it as
    /// padding, and its answer is the shortest one.
    #[must_use]
    pub fn sized_probe(self, wanted: u16) -> [u8; SIZED_PROBE_LEN] {
        let ([a, b, c, d, e, f, g, h], [high, low]) = (self.probe(), wanted.to_be_bytes());
        [a, b, c, d, e, f, g, h, high, low]
    }

    /// Encodes the answer to it.
    #[must_use]
    pub fn answer(self) -> [u8; PROBE_LEN] {
        self.emit(ANSWER)
    }

    fn emit(self, kind: u8) -> [u8; PROBE_LEN] {
        let [a, b, c, d] = self.number.to_be_bytes();
        [kind, VERSION, self.path, 0, a, b, c, d]
    }
}

/// Whether a packet is one of ours, valid or not.
#[inline]
#[must_use]
pub fn is_ours(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 0xa)
}

impl Hello {
    /// Encodes the hello.
    #[must_use]
    pub fn emit(self) -> [u8; HELLO_LEN] {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let flags = flag(self.wants_answer, WANTS_ANSWER)
            | flag(self.reads_pieces, READS_PIECES)
            | flag(self.answers_probes, ANSWERS_PROBES);
        let [high, low] = self.longest.to_be_bytes();
        [HELLO, VERSION, flags, 0, high, low, 0, 0]
    }
}

impl Alive {
    /// Encodes the sign of life.
    #[must_use]
    pub fn emit(self) -> [u8; ALIVE_LEN] {
        let ([a, b, c, d], [e, f, g, h]) = (self.id.to_be_bytes(), self.number.to_be_bytes());
        let ([high, low], flags) = (self.interval_ms.to_be_bytes(), u8::from(self.field_down) * FIELD_DOWN);
        [ALIVE, VERSION, flags, 0, a, b, c, d, e, f, g, h, high, low]
    }
}

impl Piece {
    /// Encodes the header for `len` octets of data.
    #[inline]
    #[must_use]
    pub fn emit(self, len: usize) -> [u8; PIECE_HEADER_LEN] {
        let [a, b, c] = self.vni.octets();
        let ([high, low], [h, l]) = (((self.offset / 8) as u16).to_be_bytes(), (len as u16).to_be_bytes());
        [PIECE, self.index, self.count, a, b, c, high, low, h, l]
    }

    /// Whether it is the last one of its frame.
    #[must_use]
    pub const fn is_last(self) -> bool {
        self.index + 1 == self.count
    }
}

/// Parses a message. `None` if it is invalid, or of an unknown version.
#[must_use]
pub fn parse(packet: &[u8]) -> Option<Message<'_>> {
    let (head, rest) = packet.split_first_chunk::<8>()?;
    match *head {
        [HELLO, VERSION, flags, _, high, low, ..] => Some(Message::Hello(Hello {
            wants_answer: flags & WANTS_ANSWER != 0,
            reads_pieces: flags & READS_PIECES != 0,
            longest: u16::from_be_bytes([high, low]),
            answers_probes: flags & ANSWERS_PROBES != 0,
        })),
        [kind @ (PROBE | ANSWER), VERSION, path, _, a, b, c, d] => {
            let number = Number { path, number: u32::from_be_bytes([a, b, c, d]) };
            let wanted = rest.first_chunk().map_or(0, |wanted| usize::from(u16::from_be_bytes(*wanted)));
            Some(if kind == PROBE { Message::Probe(number, wanted) } else { Message::Answer(number) })
        }
        [ALIVE, VERSION, flags, _, a, b, c, d] => {
            let [e, f, g, h, high, low] = *rest.first_chunk()?;
            Some(Message::Alive(Alive {
                field_down: flags & FIELD_DOWN != 0,
                id: u32::from_be_bytes([a, b, c, d]),
                number: u32::from_be_bytes([e, f, g, h]),
                interval_ms: u16::from_be_bytes([high, low]),
            }))
        }
        [PIECE, index, count, a, b, c, high, low] => {
            let legal = (2..=MOST_PIECES).contains(&usize::from(count)) && index < count;
            let offset = usize::from(u16::from_be_bytes([high, low])) * 8;
            // The first piece, and no other, has offset 0.
            if !legal || (index == 0) != (offset == 0) {
                return None;
            }
            let (len, data) = rest.split_first_chunk()?;
            let data = data.get(..usize::from(u16::from_be_bytes(*len)))?;
            Some(Message::Piece(Piece { index, count, vni: Vni::from_octets([a, b, c]), offset }, data))
        }
        _ => None,
    }
}

/// Cuts a frame of `len` octets into pieces of at most `room` octets. Returns their number, and the
/// octets of all but the last. `None` if there would be too many.
#[must_use]
pub fn cut(len: usize, room: usize) -> Option<(usize, usize)> {
    let room = room / 8 * 8;
    let count = len.div_ceil(room.max(1)).max(2);
    if room == 0 || count > MOST_PIECES {
        return None;
    }
    let size = len.div_ceil(count).next_multiple_of(8);
    // Rounding up may leave nothing for the last one.
    let count = len.div_ceil(size);
    (count >= 2 && size <= room).then_some((count, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed_back() {
        let hello = Hello { wants_answer: true, reads_pieces: true, longest: 1522, answers_probes: true };
        assert_eq!(parse(&hello.emit()), Some(Message::Hello(hello)));
        let number = Number { path: 1, number: 0x0102_0304 };
        assert_eq!(parse(&[&number.probe()[..], &[0; 1400]].concat()), Some(Message::Probe(number, 0)));
        assert_eq!(parse(&number.probe()), Some(Message::Probe(number, 0)));
        let sized = [&number.sized_probe(1440)[..], &[7; 100]].concat();
        assert_eq!(parse(&sized), Some(Message::Probe(number, 1440)));
        assert_eq!(parse(&sized[..9]), Some(Message::Probe(number, 0)), "no whole length");
        assert_eq!(parse(&[&number.answer()[..], &[0; 1400]].concat()), Some(Message::Answer(number)));
        for field_down in [false, true] {
            let alive = Alive { field_down, id: 0x0102_0304, number: 0x0506_0708, interval_ms: 100 };
            assert_eq!(parse(&[&alive.emit()[..], &[0; 2]].concat()), Some(Message::Alive(alive)));
        }
        let piece = Piece { index: 1, count: 2, vni: Vni::new(42).unwrap(), offset: 760 };
        let octets = [&piece.emit(3)[..], &[1, 2, 3, 0, 0]].concat();
        assert_eq!(parse(&octets), Some(Message::Piece(piece, &[1, 2, 3])));
        assert!(is_ours(&octets) && piece.is_last());
    }

    #[test]
    fn invalid_messages_are_refused() {
        let ok = Piece { index: 1, count: 2, vni: Vni::default(), offset: 8 };
        for wrong in [
            Piece { index: 2, ..ok },
            Piece { count: 1, index: 0, ..ok },
            Piece { count: 17, ..ok },
            Piece { index: 0, ..ok },
            Piece { offset: 0, ..ok },
        ] {
            assert_eq!(parse(&wrong.emit(0)), None, "{wrong:?}");
        }
        assert_eq!(parse(&[HELLO, 2, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(parse(&[PROBE, 2, 0, 0, 0, 0, 0, 1]), None);
        assert_eq!(parse(&[PROBE, 1, 0, 0, 0, 0, 0]), None);
        assert_eq!(parse(&[ALIVE, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 9]), None);
        assert_eq!(parse(&[ALIVE, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0]), None);
        assert_eq!(parse(&[PIECE, 0, 2]), None);
        assert_eq!(parse(&ok.emit(1)), None, "fewer octets than it says");
    }

    #[test]
    fn pieces_are_equal_and_complete() {
        for len in 60..9100 {
            for room in [100, 600, 1424, 1432] {
                let Some((count, size)) = cut(len, room) else {
                    assert!(len.div_ceil(room / 8 * 8) > MOST_PIECES || len <= 8, "{len} {room}");
                    continue;
                };
                assert!(size <= room && size % 8 == 0 && (2..=MOST_PIECES).contains(&count));
                assert!((count - 1) * size < len && count * size >= len, "{len} {room}");
            }
        }
        assert_eq!(cut(1514, 1424), Some((2, 760)));
    }
}
