//! Fronts: what is known of a packet before its data exists, where the MAC is serial.

use core::{fmt, ops::Range};

/// The bytes that a packet begins with: its associated data, and the static front of its payload. What follows, the
/// rest, is new in each packet and has at least one byte.
///
/// CCM authenticates the payload's length before all else, so the lengths that a packet may have are named
/// beforehand, and it is prepared for each of them. Suites that do not need this take a rest of any length.
///
/// ```
/// use antedate_aead::{Front, FrontError};
///
/// let front = Front::new(b"header", b"temperature=", &[16, 17, 18])?;
/// assert_eq!(front.payload().len(), 12);
///
/// let error = Front::new(b"header", b"temperature=", &[16, 12]).unwrap_err();
/// assert_eq!(error.to_string(), "length 1 is 12 bytes, which leaves nothing to follow the front's 12");
/// # Ok::<(), FrontError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Front<'t> {
    aad: &'t [u8],
    payload: &'t [u8],
    lengths: &'t [usize],
    /// Where the associated data says the payload's length.
    field: (usize, usize),
}

/// Why a front can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrontError {
    /// A length leaves no byte for the rest.
    NoRest {
        /// The length's index.
        length: usize,
        /// Bytes of payload that it says.
        given: usize,
        /// Bytes of the front.
        front: usize,
    },
    /// Two lengths are the same.
    Repeated {
        /// The index of one.
        first: usize,
        /// The index of the other.
        second: usize,
    },
    /// The length field is not within the associated data, or has no byte, or more than eight.
    LengthField {
        /// Where it begins.
        start: usize,
        /// Where it ends.
        end: usize,
        /// Bytes of associated data.
        len: usize,
    },
    /// The suite must know which lengths a packet may have, and none is named.
    NoLength,
    /// There are more lengths than the slot takes.
    TooManyLengths {
        /// Lengths that are named.
        given: usize,
        /// Lengths that the slot takes.
        capacity: usize,
    },
    /// A payload is longer than the slot.
    TooLong {
        /// Bytes of payload.
        len: usize,
        /// Bytes that the slot takes.
        capacity: usize,
    },
}

impl fmt::Display for FrontError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRest { length, given, front } => {
                write!(
                    f,
                    "length {length} is {given} bytes, which leaves nothing to follow the front's {front}"
                )
            }
            Self::Repeated { first, second } => write!(f, "the lengths {first} and {second} are the same"),
            Self::LengthField { start, end, len } => {
                write!(f, "bytes {start} to {end} are no length field in {len} bytes of associated data")
            }
            Self::NoLength => f.write_str("the suite must know which lengths a packet may have"),
            Self::TooManyLengths { given, capacity } => {
                write!(f, "the front names {given} lengths, but the slot takes {capacity}")
            }
            Self::TooLong { len, capacity } => {
                write!(f, "the payload has {len} bytes, but the slot takes {capacity}")
            }
        }
    }
}

impl core::error::Error for FrontError {}

impl<'t> Front<'t> {
    /// Checks the lengths (bytes of the whole payload, the front included) and takes all three.
    pub fn new(aad: &'t [u8], payload: &'t [u8], lengths: &'t [usize]) -> Result<Self, FrontError> {
        for (second, given) in lengths.iter().enumerate() {
            if *given <= payload.len() {
                return Err(FrontError::NoRest { length: second, given: *given, front: payload.len() });
            }
            if let Some(first) = lengths[..second].iter().position(|other| other == given) {
                return Err(FrontError::Repeated { first, second });
            }
        }
        Ok(Self { aad, payload, lengths, field: (0, 0) })
    }

    /// Says that these bytes of the associated data are the payload's length, big-endian, as in DTLS 1.2 (RFC 5246
    /// section 6.2.3.3). They are filled in for each packet; what they hold here counts for nothing.
    ///
    /// A suite without a cipherstream (AEGIS-128L, MORUS, Ascon) makes another front of each length then, and prepares the
    /// first one alone.
    pub fn with_length_field(self, field: Range<usize>) -> Result<Self, FrontError> {
        if field.is_empty() || field.end > self.aad.len() || field.len() > 8 {
            return Err(FrontError::LengthField { start: field.start, end: field.end, len: self.aad.len() });
        }
        Ok(Self { field: (field.start, field.end), ..self })
    }

    /// The associated data.
    pub const fn aad(&self) -> &'t [u8] {
        self.aad
    }

    /// The front of the payload.
    pub const fn payload(&self) -> &'t [u8] {
        self.payload
    }

    /// The lengths that a payload may have, the front included.
    pub const fn lengths(&self) -> &'t [usize] {
        self.lengths
    }

    /// The associated data before and after the length field; all of it is before if there is none.
    pub(crate) fn around_field(&self) -> (&'t [u8], &'t [u8]) {
        match self.field {
            (_, 0) => (self.aad, &[]),
            (start, end) => (&self.aad[..start], &self.aad[end..]),
        }
    }

    pub(crate) const fn has_length_field(&self) -> bool {
        self.field.1 > 0
    }

    /// A part of the associated data of a packet with `len` bytes of payload.
    pub(crate) fn portion(&self, from: usize, out: &mut [u8], len: usize) {
        out.copy_from_slice(&self.aad[from..from + out.len()]);
        let (start, end) = self.field;
        if start < from + out.len() && from < end {
            let bytes = (len as u64).to_be_bytes();
            for at in start.max(from)..end.min(from + out.len()) {
                out[at - from] = bytes[8 - (end - at)];
            }
        }
    }

    /// Whether `aad` is the associated data of a packet with `len` bytes of payload. Takes the same time wherever it
    /// differs.
    pub(crate) fn fits(&self, aad: &[u8], len: usize) -> bool {
        if aad.len() != self.aad.len() {
            return false;
        }
        let (start, end) = self.field;
        let bytes = (len as u64).to_be_bytes();
        let mut difference = 0;
        if end == 0 {
            difference = aad.iter().zip(self.aad).fold(0, |sum, (a, b)| sum | (a ^ b));
            return core::hint::black_box(difference) == 0;
        }
        for (i, (a, b)) in aad.iter().zip(self.aad).enumerate() {
            let expected = if i >= start && i < end { bytes[8 - (end - i)] } else { *b };
            difference |= a ^ expected;
        }
        core::hint::black_box(difference) == 0
    }
}

impl fmt::Debug for Front<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (aad, payload) = (self.aad.len(), self.payload.len());
        write!(f, "Front({aad} bytes of associated data, {payload} of payload, lengths {:?})", self.lengths)
    }
}
