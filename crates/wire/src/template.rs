//! Messages with holes: the known bytes of a message before its data exists, and the places of the
//! others.
//!
//! An encoder of this crate writes a message with a layout that does not depend on its values, and
//! reports a [`Hole`] for each late value. The bytes outside the holes are the *template*. A cipher
//! with a polynomial MAC takes holes anywhere. A serial MAC needs them at the end, so that it uses
//! the [`front`] only (Hiller et al. 2018, section IV-B). For other encoders, [`moved`] finds the
//! holes in examples.

use core::ops::Range;

use crate::{Error, Result};

/// The content of a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// a time of day
    Time,
    /// a number that counts states or events
    State,
    /// a number that counts messages
    Sequence,
    /// a number chosen by the other side
    Transaction,
    /// the value with this index
    Value(u16),
}

/// Late bytes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// their content
    pub what: What,
    /// their place
    pub range: Range<usize>,
}

/// Writes a message to a buffer and reports its holes to `mark`.
pub(crate) struct Writer<'b, 'm> {
    buffer: &'b mut [u8],
    at: usize,
    mark: &'m mut dyn FnMut(Hole),
}

impl<'b, 'm> Writer<'b, 'm> {
    pub(crate) fn new(buffer: &'b mut [u8], mark: &'m mut dyn FnMut(Hole)) -> Self {
        Self { buffer, at: 0, mark }
    }

    /// Writes known octets.
    pub(crate) fn put(&mut self, octets: &[u8]) -> Result<()> {
        let end = self.at + octets.len();
        self.buffer.get_mut(self.at..end).ok_or(Error::Truncated)?.copy_from_slice(octets);
        self.at = end;
        Ok(())
    }

    /// Writes late octets.
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

/// Bytes of a message of `len` bytes outside the holes.
pub fn known(len: usize, holes: impl IntoIterator<Item = Range<usize>>) -> usize {
    len - holes.into_iter().map(|hole| hole.len()).sum::<usize>().min(len)
}

/// Bytes before the first hole: the template for a cipher with a serial MAC.
pub fn front(len: usize, holes: impl IntoIterator<Item = Range<usize>>) -> usize {
    holes.into_iter().map(|hole| hole.start).min().map_or(len, |first| first.min(len))
}

/// Blocks of 16 bytes with holes, counted once for each hole: the multiplications that remain for a
/// cipher with a polynomial MAC.
pub fn touched(holes: impl IntoIterator<Item = Range<usize>>) -> usize {
    holes
        .into_iter()
        .filter(|hole| !hole.is_empty())
        .map(|hole| (hole.end - 1) / 16 - hole.start / 16 + 1)
        .sum()
}

/// The ranges in which these messages of one length differ, from front to back. Ranges with at most
/// `gap` equal bytes between them are merged, since a byte that is equal by chance may change in
/// the next message.
///
/// ```
/// let messages: [&[u8]; 3] = [b"t=20.5;unit=C", b"t=21.5;unit=C", b"t=19.7;unit=C"];
/// let holes: Vec<_> = antedate_wire::template::moved(&messages, 1)?.collect();
/// assert_eq!(holes, [2..6]);
/// # Ok::<(), antedate_wire::Error>(())
/// ```
///
/// # Errors
/// [`Error::Truncated`] without messages, [`Error::Length`] for messages of several lengths.
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
    fn empty_and_unequal_examples_are_refused() {
        assert!(moved::<&[u8]>(&[], 0).is_err());
        assert_eq!(moved(&[&b"ab"[..], b"abc"], 0).err(), Some(Error::Length));
        assert_eq!(moved(&[b"ab"], 0).map(Iterator::count), Ok(0));
    }

    proptest! {
        #[test]
        fn ranges_cover_exactly_the_differences(
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
