//! Templates: what is known of a packet before its data exists.

use super::piece::Piece;
use core::{fmt, ops::Range};

/// A packet with holes: the bytes that never change, and where the others are.
///
/// The bytes that lie in holes here count for nothing. Holes may be anywhere, in the associated data and in the
/// payload.
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

/// Why a template can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// A hole has no bytes.
    Empty {
        /// The hole's index.
        hole: usize,
    },
    /// A hole ends behind the data it is in.
    OutOfRange {
        /// The hole's index.
        hole: usize,
        /// Where it ends.
        end: usize,
        /// `associated data` or `payload`.
        part: &'static str,
        /// The bytes that this part has.
        len: usize,
    },
    /// Two holes share a byte.
    Overlapping {
        /// The index of one.
        first: usize,
        /// The index of the other.
        second: usize,
    },
    /// A hole ends behind byte 2,147,483,632.
    TooFar {
        /// The hole's index.
        hole: usize,
        /// Where it ends.
        end: usize,
    },
    /// The payload is longer than the slot.
    TooLong {
        /// Bytes of payload.
        len: usize,
        /// Bytes that the slot takes.
        capacity: usize,
    },
    /// The holes touch more 16-byte blocks than the slot can defer. A block counts for each hole that touches it.
    TooManyBlocks {
        /// Blocks that are touched, for all holes.
        touched: usize,
        /// Blocks that the slot can defer.
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

/// Where a hole may end: the bytes of the holes of both parts are counted in 32 bits.
const FARTHEST: usize = (u32::MAX / 2) as usize - 15;

impl<'t> Template<'t> {
    /// Checks the holes and takes all three.
    pub fn new(aad: &'t [u8], payload: &'t [u8], holes: &'t [Hole]) -> Result<Self, TemplateError> {
        // Where the holes of either part have ended so far. One that begins behind overlaps none, so that ascending holes, as most
        // are, are found good in one pass: whoever takes a packet up again does it when the values are there.
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

    /// The associated data; what is in holes counts for nothing.
    pub const fn aad(&self) -> &'t [u8] {
        self.aad
    }

    /// The payload; what is in holes counts for nothing.
    pub const fn payload(&self) -> &'t [u8] {
        self.payload
    }

    /// The holes, in the order in which their values are given.
    pub const fn holes(&self) -> &'t [Hole] {
        self.holes
    }

    /// The holes cut into pieces, hole by hole.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece> {
        // `new` let no hole end behind u32::MAX, and they do not overlap within a part.
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
