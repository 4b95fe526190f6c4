//! Numbers of nonces over a whole capture: each key and sender has each number once.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;

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
    /// The digest of each number's content. Twenty octets or so for each frame.
    #[serde(skip)]
    seen: HashMap<u64, u64>,
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
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Next => Ok(()),
            Self::Gap(missing) => write!(f, " ({missing} missing before it)"),
            Self::Late => f.write_str(" (late)"),
            Self::Copy => f.write_str(" (a copy)"),
            Self::Reused => f.write_str(" (USED BEFORE)"),
        }
    }
}

/// All streams of a capture, by their names.
#[derive(Debug)]
pub(super) struct Audit<N>(BTreeMap<N, Stream>);

impl<N> Default for Audit<N> {
    fn default() -> Self {
        Self(BTreeMap::new())
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
        let stream = self.0.entry(name).or_default();
        let number = number(stream.last);
        let mut digest = DefaultHasher::new();
        content.hash(&mut digest);
        let digest = digest.finish();
        stream.frames += 1;
        if let Some(before) = stream.seen.get(&number) {
            if *before == digest {
                stream.copies += 1;
                return (number, Number::Copy);
            }
            stream.reused += 1;
            return (number, Number::Reused);
        }
        stream.seen.insert(number, digest);
        if stream.frames == 1 {
            (stream.first, stream.last) = (number, number);
            return (number, Number::Next);
        }
        if number < stream.last {
            stream.late += 1;
            stream.first = stream.first.min(number);
            return (number, Number::Late);
        }
        let gap = number - stream.last - 1;
        stream.last = number;
        (number, if gap == 0 { Number::Next } else { Number::Gap(gap) })
    }

    /// The streams, in the order of senders.
    pub(super) fn streams(self) -> impl Iterator<Item = (N, Stream)> {
        self.0.into_iter().map(|(name, mut stream)| {
            let span = stream.last.saturating_sub(stream.first) + 1;
            stream.missing = span.saturating_sub(stream.seen.len() as u64);
            (name, stream)
        })
    }
}

impl std::fmt::Display for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { frames, first, last, missing, late, copies, reused, .. } = self;
        write!(f, "{frames} frames, PN {first} to {last}, {missing} missing, {late} late, ")?;
        write!(f, "{copies} copies, {reused} numbers with another content")
    }
}

/// What to do about a number with two contents.
pub(super) const ALARM: &str =
    "A NONCE WAS USED TWICE, unless one of the frames is forged: replace the keys, and find the sender";

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
    fn extended_numbers_go_on() {
        assert_eq!(extended(1, 0xffff_fff0), 0x1_0000_0001);
        assert_eq!(extended(0xffff_ffef, 0xffff_fff0), 0xffff_ffef);
        assert_eq!(extended(7, 0x1_0000_0001), 0x1_0000_0007);
        assert_eq!(extended(0xffff_fff0, 0x1_0000_0001), 0xffff_fff0, "late");
        assert_eq!(extended(0xc000_0000, 1), 0xc000_0000, "a gap");
    }
}
