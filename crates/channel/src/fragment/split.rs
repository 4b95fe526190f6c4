//! Splitting frames into pieces.

use core::fmt;
use core::iter::FusedIterator;
use core::ops::Range;

use antedate_wire::ethernet::HEADER_LEN;

use super::{MAX_PIECES, MIN_PIECE};

/// The reason for not splitting a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitError {
    /// the wire carries so little that pieces would be shorter than [`MIN_PIECE`]
    TooShort,
    /// the frame would take more than [`MAX_PIECES`] pieces
    TooMany,
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooShort => "the pieces of the frame would be shorter than Ethernet's minimum",
            Self::TooMany => "the frame would take too many pieces",
        })
    }
}

impl core::error::Error for SplitError {}

/// A frame split into as few and as equal pieces as possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    pieces: usize,
    /// The length of the shorter pieces. The first `longer` pieces have one octet more.
    length: usize,
    longer: usize,
}

impl Split {
    /// Splits a frame of `frame` octets for a wire with frames of `longest` octets, of which
    /// protection takes `overhead`. A frame that fits gives a single piece.
    pub const fn new(frame: usize, overhead: usize, longest: usize) -> Result<Self, SplitError> {
        let payload = frame.saturating_sub(HEADER_LEN);
        let most = longest.saturating_sub(HEADER_LEN + overhead);
        if payload <= most {
            return Ok(Self { pieces: 1, length: payload, longer: 0 });
        }
        if most == 0 {
            return Err(SplitError::TooShort);
        }
        let pieces = payload.div_ceil(most);
        let (length, longer) = (payload / pieces, payload % pieces);
        if length < MIN_PIECE {
            return Err(SplitError::TooShort);
        }
        if pieces > MAX_PIECES {
            return Err(SplitError::TooMany);
        }
        Ok(Self { pieces, length, longer })
    }

    /// The number of pieces.
    pub const fn count(&self) -> usize {
        self.pieces
    }

    /// The range of each piece in the frame. Addresses and EtherType belong to none.
    pub const fn pieces(&self) -> Pieces {
        Pieces { split: *self, index: 0, at: HEADER_LEN }
    }
}

/// Iterator over the pieces of a frame, in order.
#[derive(Debug, Clone)]
pub struct Pieces {
    split: Split,
    index: usize,
    at: usize,
}

impl Iterator for Pieces {
    type Item = Range<usize>;

    #[inline]
    fn next(&mut self) -> Option<Range<usize>> {
        if self.index == self.split.pieces {
            return None;
        }
        let start = self.at;
        self.at += self.split.length + usize::from(self.index < self.split.longer);
        self.index += 1;
        Some(start..self.at)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.split.pieces - self.index;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Pieces {}
impl FusedIterator for Pieces {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const OVERHEAD: usize = 32;

    fn lengths(frame: usize, mtu: usize) -> Vec<usize> {
        Split::new(frame, OVERHEAD, mtu + HEADER_LEN).unwrap().pieces().map(|piece| piece.len()).collect()
    }

    #[test]
    fn paper_scenarios_give_equal_pieces() {
        assert_eq!(lengths(14 + 1468, 1500), [1468]);
        assert_eq!(lengths(14 + 1500, 1500), [750, 750]);
        assert_eq!(lengths(14 + 2936, 1500), [1468, 1468]);
    }

    #[test]
    fn pieces_fit_the_wire_and_the_minimum() {
        for mtu in 128..=9000 {
            for frame in (60..=9018).step_by(37).chain([mtu - 18, mtu - 17, 9018]) {
                let lengths = lengths(frame, mtu);
                let (least, most) = (*lengths.iter().min().unwrap(), *lengths.iter().max().unwrap());
                assert!(
                    most - least <= 1 && most + HEADER_LEN + OVERHEAD <= mtu + HEADER_LEN,
                    "{frame} over {mtu}"
                );
                assert!(lengths.len() == 1 || least >= MIN_PIECE, "{frame} over {mtu}: {least}");
                assert_eq!(lengths.iter().sum::<usize>(), frame - HEADER_LEN);
                let fewest = (frame - HEADER_LEN).div_ceil(mtu - OVERHEAD).max(1);
                assert_eq!(lengths.len(), fewest, "no more pieces than needed");
            }
        }
    }

    #[test]
    fn too_short_wire_is_refused() {
        assert_eq!(Split::new(1514, OVERHEAD, 90), Err(SplitError::TooShort));
        assert_eq!(Split::new(1514, OVERHEAD, HEADER_LEN + OVERHEAD), Err(SplitError::TooShort));
        assert_eq!(Split::new(1514, OVERHEAD, 0), Err(SplitError::TooShort));
        assert_eq!(Split::new(60_000, OVERHEAD, 142), Err(SplitError::TooMany));
    }
}
