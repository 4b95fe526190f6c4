//! Messages with holes: what of a message is known before its data exists, and where the rest is.
//!
//! An encoder of this crate writes a message whose layout does not depend on its values, and says for each value that
//! comes late where it went: a [`Hole`]. The bytes outside of the holes are the *template*. A cipher with a polynomial MAC
//! takes holes anywhere; one with a serial MAC wants them at the end, so that for it only the [`front`] counts
//! (Hiller et al. 2018, section IV-B). Where no encoder of ours is used, [`moved`] finds the holes in examples.

use core::ops::Range;

use crate::{Error, Result};

/// What is in a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// a time of day
    Time,
    /// a number that counts states or events
    State,
    /// a number that counts messages
    Sequence,
    /// a number that the other side chose
    Transaction,
    /// the value with this index
    Value(u16),
}

/// Bytes of a message that are known late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// what they hold
    pub what: What,
    /// where they are
    pub range: Range<usize>,
}

/// Writes a message to a buffer, and names its holes to whoever wants to know them.
pub(crate) struct Writer<'b, 'm> {
    buffer: &'b mut [u8],
    at: usize,
    mark: &'m mut dyn FnMut(Hole),
}

impl<'b, 'm> Writer<'b, 'm> {
    pub(crate) fn new(buffer: &'b mut [u8], mark: &'m mut dyn FnMut(Hole)) -> Self {
        Self { buffer, at: 0, mark }
    }

    /// Writes octets that are known.
    pub(crate) fn put(&mut self, octets: &[u8]) -> Result<()> {
        let end = self.at + octets.len();
        self.buffer.get_mut(self.at..end).ok_or(Error::Truncated)?.copy_from_slice(octets);
        self.at = end;
        Ok(())
    }

    /// Writes octets that are known late.
    pub(crate) fn hole(&mut self, what: What, octets: &[u8]) -> Result<()> {
        let start = self.at;
        self.put(octets)?;
        (self.mark)(Hole { what, range: start..self.at });
        Ok(())
    }

    /// Octets written.
    pub(crate) const fn len(&self) -> usize {
        self.at
    }
}

/// Bytes of a message of `len` bytes that are in no hole.
pub fn known(len: usize, holes: impl IntoIterator<Item = Range<usize>>) -> usize {
    len - holes.into_iter().map(|hole| hole.len()).sum::<usize>().min(len)
}

/// Bytes before the first hole: the template of a cipher with a serial MAC.
pub fn front(len: usize, holes: impl IntoIterator<Item = Range<usize>>) -> usize {
    holes.into_iter().map(|hole| hole.start).min().map_or(len, |first| first.min(len))
}

/// Blocks of 16 bytes that these holes touch, a block counted for each hole that touches it: multiplications that a cipher with a
/// polynomial MAC has left.
pub fn touched(holes: impl IntoIterator<Item = Range<usize>>) -> usize {
    holes
        .into_iter()
        .filter(|hole| !hole.is_empty())
        .map(|hole| (hole.end - 1) / 16 - hole.start / 16 + 1)
        .sum()
}

/// Where these messages, all of one length, differ: from front to back, as few ranges as there are. Two ranges with at most `gap` equal bytes
/// between them are given as one, since a byte that was equal by chance may move next time.
///
/// ```
/// let messages: [&[u8]; 3] = [b"t=20.5;unit=C", b"t=21.5;unit=C", b"t=19.7;unit=C"];
/// let holes: Vec<_> = antedate_wire::template::moved(&messages, 1)?.collect();
/// assert_eq!(holes, [2..6]);
/// # Ok::<(), antedate_wire::Error>(())
/// ```
///
/// It is an error if there are none or if they have several lengths.
pub fn moved<'a, M: AsRef<[u8]>>(
    messages: &'a [M],
    gap: usize,
) -> Result<impl Iterator<Item = Range<usize>> + use<'a, M>> {
    let (first, others) = messages.split_first().ok_or(Error::Truncated)?;
    let first = first.as_ref();
    if others.iter().any(|other| other.as_ref().len() != first.len()) {
        return Err(Error::Length);
    }
    let differs = move |at: usize| others.iter().any(|other| other.as_ref().get(at) != first.get(at));
    let (len, mut at) = (first.len(), 0);
    Ok(core::iter::from_fn(move || {
        let start = (at..len).find(|&at| differs(at))?;
        let mut end = start + 1;
        at = end;
        while at < len && at - end <= gap {
            if differs(at) {
                end = at + 1;
            }
            at += 1;
        }
        at = end;
        Some(start..end)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn bytes_and_blocks_are_counted() {
        let holes = [4..6, 15..17, 40..41];
        assert_eq!(known(48, holes.clone()), 43);
        assert_eq!(front(48, holes.clone()), 4);
        assert_eq!(touched(holes), 4);
        assert_eq!((known(5, []), front(5, []), touched([])), (5, 5, 0));
    }

    #[test]
    fn no_messages_and_several_lengths_are_refused() {
        assert!(moved::<&[u8]>(&[], 0).is_err());
        assert_eq!(moved(&[&b"ab"[..], b"abc"], 0).err(), Some(Error::Length));
        assert_eq!(moved(&[b"ab"], 0).map(Iterator::count), Ok(0));
    }

    proptest! {
        #[test]
        fn ranges_are_where_messages_differ_and_nowhere_else(
            messages in prop::collection::vec(prop::collection::vec(0u8..2, 24), 1..4),
            gap in 0usize..4,
        ) {
            let holes: Vec<_> = moved(&messages, gap).unwrap().collect();
            for (before, after) in holes.iter().zip(holes.iter().skip(1)) {
                prop_assert!(before.end + gap < after.start);
            }
            for at in 0..24 {
                let differs = messages.iter().any(|message| message[at] != messages[0][at]);
                let inside = holes.iter().any(|hole| hole.contains(&at));
                prop_assert!(inside || !differs);
                let ends = holes.iter().any(|hole| hole.start == at || hole.end == at + 1);
                prop_assert!(differs || !ends);
            }
        }
    }
}
