//! Numbers of nonces over a whole capture: each key and sender has each number once.
//!
//! Memory is bounded: the contents of the last 16 million numbers are compared, and 256 million numbers
//! are known at all.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;

use crate::output;

/// Numbers of a block, a bit each.
const BLOCK: u64 = u64::BITS as u64;
/// Blocks whose contents are compared: 16 million numbers, if none is missing, in 70 MiB.
const COMPARED_MAX: usize = 1 << 18;
/// Blocks that are known: 256 million numbers, in 200 MiB.
const KNOWN_MAX: usize = 1 << 22;
/// Streams of a capture.
const STREAMS_MAX: usize = 1 << 16;

/// The frames of a sender under one key.
#[derive(Debug, Default, Serialize)]
pub(super) struct Stream {
    pub(super) frames: u64,
    pub(super) first: u64,
    /// The greatest number.
    pub(super) last: u64,
    /// Numbers between them that are not in the capture.
    pub(super) missing: u64,
    /// Frames behind one with a greater number.
    pub(super) late: u64,
    /// The same frame again: recorded twice, or replayed.
    pub(super) copies: u64,
    /// A number with another content: a nonce used twice, if both frames are authentic.
    pub(super) reused: u64,
    /// A number again, so much later that the contents are not compared: one of the two above.
    pub(super) again: u64,
    /// The numbers in the capture.
    #[serde(skip)]
    distinct: u64,
    #[serde(skip)]
    blocks: HashMap<u64, Block>,
}

/// Numbers that are next to each other.
#[derive(Debug, Default)]
struct Block {
    /// Those that were in the capture.
    seen: u64,
    /// Those of them whose contents are compared, and the digests.
    compared: u64,
    digests: Option<Box<[u32; BLOCK as usize]>>,
}

/// The place of a number in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Number {
    /// The first frame, or the one behind the greatest number.
    Next,
    /// So many numbers are missing before it.
    Gap(u64),
    Late,
    Copy,
    Reused,
    Again,
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Next => Ok(()),
            Self::Gap(missing) => write!(f, " ({missing} missing before it)"),
            Self::Late => f.write_str(" (late)"),
            Self::Copy => f.write_str(" (a copy)"),
            Self::Reused => f.write_str(" (USED BEFORE)"),
            Self::Again => f.write_str(" (LONG AGO BEFORE)"),
        }
    }
}

/// All streams of a capture, by their names.
#[derive(Debug)]
pub(super) struct Audit<N> {
    names: BTreeMap<N, usize>,
    streams: Vec<Stream>,
    /// Blocks with digests, and those without, the oldest first: the stream and the block's number.
    compared: VecDeque<(usize, u64)>,
    known: VecDeque<(usize, u64)>,
    most: [usize; 2],
    /// Frames of streams without a place.
    left_out: u64,
}

impl<N> Default for Audit<N> {
    fn default() -> Self {
        Self {
            names: BTreeMap::new(),
            streams: Vec::new(),
            compared: VecDeque::new(),
            known: VecDeque::new(),
            most: [COMPARED_MAX, KNOWN_MAX],
            left_out: 0,
        }
    }
}

impl<N: Ord> Audit<N> {
    /// Notes a frame. `number` is its number, given the greatest one; `content` all that its nonce
    /// protects.
    pub(super) fn note(
        &mut self,
        name: N,
        number: impl FnOnce(u64) -> u64,
        content: impl Hash,
    ) -> (u64, Number) {
        let at = match self.names.get(&name) {
            Some(at) => *at,
            None if self.streams.len() == STREAMS_MAX => {
                self.left_out += 1;
                return (number(0), Number::Next);
            }
            None => {
                self.names.insert(name, self.streams.len());
                self.streams.push(Stream::default());
                self.streams.len() - 1
            }
        };
        let Some(stream) = self.streams.get_mut(at) else { return (number(0), Number::Next) };
        let number = number(stream.last);
        let mut digest = DefaultHasher::new();
        content.hash(&mut digest);
        let digest = digest.finish() as u32;
        stream.frames += 1;
        let block = stream.blocks.entry(number / BLOCK).or_default();
        let (bit, place) = (1 << (number % BLOCK), (number % BLOCK) as usize);
        if block.seen & bit != 0 {
            let before = block.digests.as_ref().filter(|_| block.compared & bit != 0);
            let (count, order) = match before.map(|digests| digests[place] == digest) {
                Some(true) => (&mut stream.copies, Number::Copy),
                Some(false) => (&mut stream.reused, Number::Reused),
                None => (&mut stream.again, Number::Again),
            };
            *count += 1;
            return (number, order);
        }
        block.seen |= bit;
        block.compared |= bit;
        // A slow stream's block may have lost its digests before it was full.
        let digests = block.digests.get_or_insert_with(|| {
            self.compared.push_back((at, number / BLOCK));
            Box::new([0; BLOCK as usize])
        });
        digests[place] = digest;
        stream.distinct += 1;
        let order = stream.place(number);
        self.forget();
        (number, order)
    }

    /// Frees the oldest blocks when there are too many.
    fn forget(&mut self) {
        let [compared, known] = self.most;
        if self.compared.len() > compared
            && let Some((stream, number)) = self.compared.pop_front()
        {
            if let Some(block) = self.streams.get_mut(stream).and_then(|s| s.blocks.get_mut(&number)) {
                (block.digests, block.compared) = (None, 0);
            }
            self.known.push_back((stream, number));
        }
        if self.known.len() >= known
            && let Some((stream, number)) = self.known.pop_front()
            && let Some(stream) = self.streams.get_mut(stream)
            && stream.blocks.get(&number).is_some_and(|block| block.digests.is_none())
        {
            stream.blocks.remove(&number);
            // An attacker chooses numbers without neighbours, then the next stream.
            if stream.blocks.len() < stream.blocks.capacity() / 4 {
                stream.blocks.shrink_to_fit();
            }
        }
    }

    /// The streams, in the order of senders.
    pub(super) fn streams(mut self) -> impl Iterator<Item = (N, Stream)> {
        if self.left_out > 0 {
            output::tell(format_args!(
                "antedate: {} frames of other senders than the first {STREAMS_MAX} are not in the audit",
                self.left_out
            ));
        }
        self.names.into_iter().map(move |(name, at)| {
            let mut stream = self.streams.get_mut(at).map(std::mem::take).unwrap_or_default();
            let span = stream.last.saturating_sub(stream.first) + 1;
            stream.missing = span.saturating_sub(stream.distinct);
            (name, stream)
        })
    }
}

impl Stream {
    /// The place of a new number.
    fn place(&mut self, number: u64) -> Number {
        if self.frames == 1 {
            (self.first, self.last) = (number, number);
            return Number::Next;
        }
        if number < self.last {
            self.late += 1;
            self.first = self.first.min(number);
            return Number::Late;
        }
        let gap = number.saturating_sub(self.last).saturating_sub(1);
        self.last = number;
        if gap == 0 { Number::Next } else { Number::Gap(gap) }
    }

    /// Numbers that were used twice, or may have been.
    pub(super) fn alarms(&self) -> u64 {
        self.reused + self.again
    }
}

impl std::fmt::Display for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { frames, first, last, missing, late, copies, reused, again, .. } = self;
        write!(f, "{frames} frames, PN {first} to {last}, {missing} missing, {late} late, ")?;
        write!(f, "{copies} copies, {reused} numbers with another content")?;
        if *again > 0 { write!(f, ", {again} again long after, not compared") } else { Ok(()) }
    }
}

/// What to do about numbers with two contents, or with contents that were not compared.
pub(super) fn alarm<'a>(mut streams: impl Iterator<Item = &'a Stream> + Clone) -> Option<&'static str> {
    let mut all = streams.clone();
    if all.any(|stream| stream.reused > 0) {
        return Some(
            "A NONCE WAS USED TWICE, unless one of the frames is forged: replace the keys, and find the sender",
        );
    }
    streams.any(|stream| stream.again > 0).then_some(
        "numbers came again long after, replayed or used twice: inspect the parts of the capture alone",
    )
}

/// The 64 bits of a packet number by the greatest one: the nearest to it with these lower bits. A
/// suite of 32 bits ends before they repeat.
pub(super) fn extended(low: u32, last: u64) -> u64 {
    let near = (last & !0xffff_ffff) | u64::from(low);
    if near + (1 << 31) < last {
        near + (1 << 32)
    } else if near > last + (1 << 31) {
        // A late frame of before the lower bits began again.
        near.checked_sub(1 << 32).unwrap_or(near)
    } else {
        near
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_apart() {
        let mut audit = Audit::default();
        let mut note = |key: u8, low, content: &[u8]| audit.note(key, |last| extended(low, last), content).1;
        assert_eq!(note(1, 5, b"a"), Number::Next);
        assert_eq!(note(1, 6, b"b"), Number::Next);
        assert_eq!(note(1, 9, b"c"), Number::Gap(2));
        assert_eq!(note(1, 7, b"d"), Number::Late);
        assert_eq!(note(1, 6, b"b"), Number::Copy);
        assert_eq!(note(1, 6, b"x"), Number::Reused);
        assert_eq!(note(2, 6, b"x"), Number::Next, "of another key");
        let streams: Vec<_> = audit.streams().collect();
        let (_, Stream { frames, first, last, missing, late, copies, reused, .. }) = &streams[0];
        assert_eq!((streams.len(), *frames, *first, *last), (2, 6, 5, 9));
        assert_eq!([*missing, *late, *copies, *reused], [1; 4]);
    }

    #[test]
    fn slow_stream_is_compared_beside_a_fast_one() {
        let mut audit = Audit { most: [2, 3], ..Audit::default() };
        assert_eq!(audit.note(1, |_| 0, 7).1, Number::Next);
        (0..3 * BLOCK).for_each(|number| _ = audit.note(2, |_| number, 7));
        assert_eq!(audit.note(1, |_| 1, 7).1, Number::Next);
        assert_eq!([audit.note(1, |_| 1, 7).1, audit.note(1, |_| 1, 8).1], [Number::Copy, Number::Reused]);
        assert_eq!(audit.note(1, |_| 0, 7).1, Number::Again);
        // Forgotten altogether, and there again as the greatest one.
        (3 * BLOCK..9 * BLOCK).for_each(|number| _ = audit.note(2, |_| number, 7));
        assert_eq!(audit.note(1, |_| 1, 7).1, Number::Next);
    }

    #[test]
    fn old_numbers_are_known_without_their_contents() {
        let mut audit = Audit { most: [2, 3], ..Audit::default() };
        let mut note = |number: u64, content: u8| audit.note(1, |_| number, content).1;
        for number in 0..4 * BLOCK {
            assert_eq!(note(number, 1), Number::Next);
        }
        assert_eq!(note(3 * BLOCK, 1), Number::Copy);
        assert_eq!(note(2 * BLOCK, 2), Number::Reused);
        assert_eq!([note(BLOCK, 1), note(BLOCK + 1, 2)], [Number::Again; 2]);
        for number in 4 * BLOCK..6 * BLOCK {
            note(number, 1);
        }
        assert_eq!(note(0, 1), Number::Late, "forgotten");
        let (_, stream) = audit.streams().next().expect("a stream");
        assert_eq!((stream.copies, stream.reused, stream.again, stream.alarms()), (1, 1, 2, 3));
        assert!(stream.blocks.len() <= 6 && stream.missing == 0, "{stream:?}");
    }

    #[test]
    fn extended_numbers_go_on() {
        assert_eq!(extended(1, 0xffff_fff0), 0x1_0000_0001);
        assert_eq!(extended(0xffff_ffef, 0xffff_fff0), 0xffff_ffef);
        assert_eq!(extended(7, 0x1_0000_0001), 0x1_0000_0007);
        assert_eq!(extended(0xffff_fff0, 0x1_0000_0001), 0xffff_fff0, "late");
        assert_eq!(extended(0xc000_0000, 1), 0xc000_0000, "a gap");
    }
}
