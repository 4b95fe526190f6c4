//! Fronts: the known beginning of a packet, for suites with a serial MAC.

use core::{fmt, ops::Range};

/// The known beginning of a packet: its associated data, and the front of its payload. The rest has
/// at least one byte and is new in each packet.
///
/// CCM authenticates the payload's length first, so a front names the possible lengths, and the
/// packet is prepared for each of them. Other suites take a rest of any length.
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
    /// Position of the payload's length in the associated data.
    field: (usize, usize),
}

/// A front is invalid or does not fit its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrontError {
    /// A length leaves no byte for the rest.
    NoRest {
        /// Index of the length.
        length: usize,
        /// The given length of payload.
        given: usize,
        /// Length of the front.
        front: usize,
    },
    /// Two lengths are the same.
    Repeated {
        /// Index of the first length.
        first: usize,
        /// Index of the second length.
        second: usize,
    },
    /// The length field is not within the associated data, or has no byte, or more than eight.
    LengthField {
        /// Start of the field.
        start: usize,
        /// End of the field.
        end: usize,
        /// Bytes of associated data.
        len: usize,
    },
    /// The suite needs the possible lengths, and the front names none.
    NoLength,
    /// The front has more lengths than the slot takes.
    TooManyLengths {
        /// Number of lengths.
        given: usize,
        /// Capacity of the slot.
        capacity: usize,
    },
    /// A payload is longer than the slot.
    TooLong {
        /// Bytes of payload.
        len: usize,
        /// Capacity of the slot.
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
    /// Checks the lengths, which count the whole payload with its front.
    ///
    /// # Errors
    /// If a length leaves no byte for the rest, or is repeated.
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

    /// Declares these bytes of the associated data as the payload's length, big-endian, as in DTLS
    /// 1.2 (RFC 5246 section 6.2.3.3). They are filled in for each packet; their present content is
    /// ignored.
    ///
    /// A suite without a key stream (AEGIS-128L, MORUS, Ascon) has another chain for each length
    /// then, and prepares the first length alone.
    ///
    /// # Errors
    /// If the field is not within the associated data, or has no byte, or more than eight.
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

    /// The possible lengths of the payload, with its front.
    pub const fn lengths(&self) -> &'t [usize] {
        self.lengths
    }

    /// The associated data before and after the length field; all of it is before if there is no
    /// field.
    pub(crate) fn around_field(&self) -> (&'t [u8], &'t [u8]) {
        match self.field {
            (_, 0) => (self.aad, &[]),
            (start, end) => (&self.aad[..start], &self.aad[end..]),
        }
    }

    pub(crate) const fn has_length_field(&self) -> bool {
        self.field.1 > 0
    }

    /// Writes a part of the associated data of a packet with `len` bytes of payload.
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

    /// Whether `aad` is the associated data of a packet with `len` bytes of payload. Compares in
    /// constant time.
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
