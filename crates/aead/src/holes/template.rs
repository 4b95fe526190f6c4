//! Templates: packets whose variable bytes are declared as holes.

use super::piece::Piece;
use core::{fmt, ops::Range};

/// A packet with holes: its fixed bytes, and the places of the variable ones.
///
/// Holes may be anywhere in the associated data and in the payload. The bytes in a hole are ignored
/// here.
///
/// ```
/// use antedate_aead::{Hole, Template, TemplateError};
///
/// let aad = *b"sensor 7, packet ....";
/// let payload = *b"temperature=......;unit=K";
/// let holes = [Hole::Aad(17..21), Hole::Payload(12..18)];
/// let template = Template::new(&aad, &payload, &holes)?;
/// assert_eq!(template.payload().len(), 25);
///
/// let holes = [Hole::Payload(20..26)];
/// let error = Template::new(&aad, &payload, &holes).unwrap_err();
/// assert_eq!(error.to_string(), "hole 0 ends at byte 26 of 25 bytes of payload");
/// # Ok::<(), TemplateError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Template<'t> {
    aad: &'t [u8],
    payload: &'t [u8],
    holes: &'t [Hole],
}

/// A range of bytes that is known only when the packet is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hole {
    /// Bytes of the associated data.
    Aad(Range<usize>),
    /// Bytes of the payload.
    Payload(Range<usize>),
}

/// A template is invalid or does not fit its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// A hole has no bytes.
    Empty {
        /// The hole's index.
        hole: usize,
    },
    /// A hole ends behind its part.
    OutOfRange {
        /// The hole's index.
        hole: usize,
        /// End of the hole.
        end: usize,
        /// `associated data` or `payload`.
        part: &'static str,
        /// Bytes of this part.
        len: usize,
    },
    /// Two holes share a byte.
    Overlapping {
        /// Index of the first hole.
        first: usize,
        /// Index of the second hole.
        second: usize,
    },
    /// A hole ends behind byte 2,147,483,632.
    TooFar {
        /// The hole's index.
        hole: usize,
        /// End of the hole.
        end: usize,
    },
    /// The payload is longer than the slot.
    TooLong {
        /// Bytes of payload.
        len: usize,
        /// Capacity of the slot.
        capacity: usize,
    },
    /// The holes touch more 16-byte blocks than the slot has. A block counts once for each hole
    /// that touches it.
    TooManyBlocks {
        /// Touched blocks, over all holes.
        touched: usize,
        /// Blocks that the slot has.
        capacity: usize,
    },
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty { hole } => write!(f, "hole {hole} is empty"),
            Self::OutOfRange { hole, end, part, len } => {
                write!(f, "hole {hole} ends at byte {end} of {len} bytes of {part}")
            }
            Self::TooFar { hole, end } => write!(f, "hole {hole} ends at byte {end}, which is too far"),
            Self::Overlapping { first, second } => write!(f, "the holes {first} and {second} overlap"),
            Self::TooLong { len, capacity } => {
                write!(f, "the payload has {len} bytes, but the slot takes {capacity}")
            }
            Self::TooManyBlocks { touched, capacity } => {
                write!(f, "the holes touch {touched} blocks, but the slot defers {capacity}")
            }
        }
    }
}

impl core::error::Error for TemplateError {}

impl Hole {
    /// The range, and whether it is in the payload.
    pub(crate) fn place(&self) -> (bool, Range<usize>) {
        match self {
            Self::Aad(range) => (false, range.clone()),
            Self::Payload(range) => (true, range.clone()),
        }
    }
}

/// The largest end of a hole: the bytes of the holes of both parts are counted in 32 bits.
const FARTHEST: usize = (u32::MAX / 2) as usize - 15;

impl<'t> Template<'t> {
    /// Checks the holes.
    ///
    /// # Errors
    /// If a hole is empty, out of range or too far, or overlaps another.
    pub fn new(aad: &'t [u8], payload: &'t [u8], holes: &'t [Hole]) -> Result<Self, TemplateError> {
        // The end of the holes so far, for each part. A hole that begins after it overlaps none, so
        // ascending holes are checked in one pass: a caller that resumes a packet checks its
        // template again when the values are there.
        let mut ends = [0; 2];
        for (second, hole) in holes.iter().enumerate() {
            let (in_payload, range) = hole.place();
            let (part, len) =
                if in_payload { ("payload", payload.len()) } else { ("associated data", aad.len()) };
            if range.is_empty() {
                return Err(TemplateError::Empty { hole: second });
            }
            if range.end > len {
                return Err(TemplateError::OutOfRange { hole: second, end: range.end, part, len });
            }
            if range.end > FARTHEST {
                return Err(TemplateError::TooFar { hole: second, end: range.end });
            }
            let overlaps = |other: &Hole| {
                let (part, other) = other.place();
                part == in_payload && other.start < range.end && range.start < other.end
            };
            let end = &mut ends[usize::from(in_payload)];
            if range.start < *end
                && let Some(first) = holes[..second].iter().position(overlaps)
            {
                return Err(TemplateError::Overlapping { first, second });
            }
            *end = range.end.max(*end);
        }
        Ok(Self { aad, payload, holes })
    }

    /// The associated data; its bytes in holes are ignored.
    pub const fn aad(&self) -> &'t [u8] {
        self.aad
    }

    /// The payload; its bytes in holes are ignored.
    pub const fn payload(&self) -> &'t [u8] {
        self.payload
    }

    /// The holes, in the order of their values.
    pub const fn holes(&self) -> &'t [Hole] {
        self.holes
    }

    /// The holes cut into pieces, hole by hole.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece> {
        // No hole ends after `FARTHEST`, and holes of a part do not overlap (checked by `new`).
        let mut before = 0;
        self.holes.iter().enumerate().flat_map(move |(index, hole)| {
            let (in_payload, range) = hole.place();
            let range = range.start as u32..range.end as u32;
            let len = range.end - range.start;
            let pieces = Piece::cut(index as u32, in_payload, range, before);
            before += len;
            pieces
        })
    }
}

impl fmt::Debug for Template<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (aad, payload) = (self.aad.len(), self.payload.len());
        write!(f, "Template({aad} bytes of associated data, {payload} of payload, {:?})", self.holes)
    }
}
