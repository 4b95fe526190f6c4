//! The values of a data set: `Data` of IEC 61850-8-1 (ISO 9506-2), in encodings with a length that
//! depends on the type only.

use super::ber;
use crate::template::{What, Writer};
use crate::{Error, Result};

/// Tags of `Data`.
mod tag {
    pub(super) const ARRAY: u8 = 0xa1;
    pub(super) const STRUCTURE: u8 = 0xa2;
    pub(super) const BOOLEAN: u8 = 0x83;
    pub(super) const BIT_STRING: u8 = 0x84;
    pub(super) const INTEGER: u8 = 0x85;
    pub(super) const UNSIGNED: u8 = 0x86;
    pub(super) const FLOATING_POINT: u8 = 0x87;
    pub(super) const OCTET_STRING: u8 = 0x89;
    pub(super) const VISIBLE_STRING: u8 = 0x8a;
    pub(super) const BINARY_TIME: u8 = 0x8c;
    pub(super) const MMS_STRING: u8 = 0x90;
    pub(super) const UTC_TIME: u8 = 0x91;
}

/// The deepest nesting of structures.
pub const MAX_DEPTH: usize = 8;

/// A value.
///
/// A number contains the octets of its encoding. [`int32`](Self::int32) and similar constructors
/// use the fixed lengths, with which the layout of a message never changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// BOOLEAN
    Boolean(bool),
    /// a bit string: its octets, and the number of unused bits in the last
    Bits(&'a [u8], u8),
    /// INTEGER, in this many octets
    Integer(i64, u8),
    /// a non-negative integer, in this many octets
    Unsigned(u64, u8),
    /// FLOAT32
    Float32(f32),
    /// FLOAT64
    Float64(f64),
    /// an octet string
    Octets(&'a [u8]),
    /// a visible string
    Visible(&'a [u8]),
    /// a string of ISO 10646 characters
    Mms(&'a [u8]),
    /// milliseconds, and days if there are six octets
    BinaryTime(&'a [u8]),
    /// seconds since 1970, a fraction of 24 bits, and an octet of quality
    UtcTime([u8; 8]),
    /// a structure, by its values
    Structure(Values<'a>),
    /// an array, by its values
    Array(Values<'a>),
}

/// The values of a structure, an array or a data set.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// values from a program
    Given(&'a [Value<'a>]),
    /// checked encoding from the wire
    Read(&'a [u8]),
}

impl PartialEq for Values<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a> Values<'a> {
    /// The values, one by one.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let (mut given, mut read): (&'a [Value<'a>], &'a [u8]) = match *self {
            Self::Given(values) => (values, &[]),
            Self::Read(bytes) => (&[], bytes),
        };
        core::iter::from_fn(move || {
            if let Some((first, rest)) = given.split_first() {
                given = rest;
                return Some(*first);
            }
            let (value, rest) = Value::parse(read).ok()?;
            read = rest;
            Some(value)
        })
    }

    /// Checks an encoding to its last octet and returns the number of values.
    pub(super) fn check(mut bytes: &[u8], depth: usize) -> Result<usize> {
        let mut count = 0;
        while !bytes.is_empty() {
            let (value, rest) = Value::parse(bytes)?;
            if let Value::Structure(Values::Read(inner)) | Value::Array(Values::Read(inner)) = value {
                if depth == 0 {
                    return Err(Error::Value);
                }
                Self::check(inner, depth - 1)?;
            }
            count += 1;
            bytes = rest;
        }
        Ok(count)
    }

    /// Octets of the encoding.
    pub(super) fn len(&self) -> usize {
        self.iter().map(|value| value.buffer_len()).sum()
    }
}

impl<'a> Value<'a> {
    /// INT16 in its fixed length.
    pub const fn int16(value: i16) -> Self {
        Self::Integer(value as i64, 3)
    }

    /// INT32 in its fixed length.
    pub const fn int32(value: i32) -> Self {
        Self::Integer(value as i64, 5)
    }

    /// INT32U in its fixed length.
    pub const fn uint32(value: u32) -> Self {
        Self::Unsigned(value as u64, 5)
    }

    /// The value at the front, and the octets behind it. Only [`Values::check`] checks the values
    /// inside a structure.
    fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let (tag, value, rest) = ber::element(bytes)?;
        let octets = value.len() as u8;
        let read = match (tag, value) {
            (tag::ARRAY, value) => Self::Array(Values::Read(value)),
            (tag::STRUCTURE, value) => Self::Structure(Values::Read(value)),
            (tag::BOOLEAN, [value]) => Self::Boolean(*value != 0),
            (tag::BIT_STRING, [unused @ 0..=7, bits @ ..]) if *unused == 0 || !bits.is_empty() => {
                Self::Bits(bits, *unused)
            }
            (tag::INTEGER, value) => Self::Integer(ber::signed(value)?, octets),
            (tag::UNSIGNED, value) => Self::Unsigned(ber::unsigned(value)?, octets),
            // The first octet is the width of the exponent.
            (tag::FLOATING_POINT, [8, a, b, c, d]) => Self::Float32(f32::from_be_bytes([*a, *b, *c, *d])),
            (tag::FLOATING_POINT, [11, value @ ..]) if value.len() == 8 => {
                Self::Float64(f64::from_be_bytes(crate::bytes::array(value, 0)))
            }
            (tag::OCTET_STRING, value) => Self::Octets(value),
            (tag::VISIBLE_STRING, value) => Self::Visible(value),
            (tag::MMS_STRING, value) => Self::Mms(value),
            (tag::BINARY_TIME, value) if value.len() == 4 || value.len() == 6 => Self::BinaryTime(value),
            (tag::UTC_TIME, value) if value.len() == 8 => Self::UtcTime(crate::bytes::array(value, 0)),
            _ => return Err(Error::Value),
        };
        Ok((read, rest))
    }

    fn tag(&self) -> u8 {
        match self {
            Self::Boolean(_) => tag::BOOLEAN,
            Self::Bits(..) => tag::BIT_STRING,
            Self::Integer(..) => tag::INTEGER,
            Self::Unsigned(..) => tag::UNSIGNED,
            Self::Float32(_) | Self::Float64(_) => tag::FLOATING_POINT,
            Self::Octets(_) => tag::OCTET_STRING,
            Self::Visible(_) => tag::VISIBLE_STRING,
            Self::Mms(_) => tag::MMS_STRING,
            Self::BinaryTime(_) => tag::BINARY_TIME,
            Self::UtcTime(_) => tag::UTC_TIME,
            Self::Structure(_) => tag::STRUCTURE,
            Self::Array(_) => tag::ARRAY,
        }
    }

    fn value_len(&self) -> usize {
        match self {
            Self::Boolean(_) => 1,
            Self::Bits(bits, _) => 1 + bits.len(),
            Self::Integer(_, octets) | Self::Unsigned(_, octets) => usize::from(*octets),
            Self::Float32(_) => 5,
            Self::Float64(_) => 9,
            Self::Octets(value) | Self::Visible(value) | Self::Mms(value) | Self::BinaryTime(value) => {
                value.len()
            }
            Self::UtcTime(_) => 8,
            Self::Structure(values) | Self::Array(values) => values.len(),
        }
    }

    /// Octets of the encoding.
    pub fn buffer_len(&self) -> usize {
        let len = self.value_len();
        ber::head_len(len) + len
    }

    /// Writes the value; each primitive value is a hole, counted by `index`.
    pub(super) fn emit(&self, out: &mut Writer<'_, '_>, index: &mut u16) -> Result<()> {
        let (head, used) = ber::head(self.tag(), self.value_len())?;
        out.put(&head[..used])?;
        if let Self::Structure(values) | Self::Array(values) = self {
            return values.iter().try_for_each(|value| value.emit(out, index));
        }
        let what = What::Value(*index);
        *index = index.saturating_add(1);
        let mut fixed = [0; 9];
        let octets: &[u8] = match self {
            // IEC 61850-8-1 and libiec61850 write TRUE as 0x01 or 0xff; X.690 accepts any nonzero
            // octet.
            Self::Boolean(value) => &[u8::from(*value)],
            Self::Bits(bits, unused) => {
                // The octet with the unused bits never changes.
                out.put(&[*unused])?;
                bits
            }
            Self::Integer(value, octets) => integer(&mut fixed, i128::from(*value), *octets)?,
            Self::Unsigned(value, octets) => integer(&mut fixed, i128::from(*value), *octets)?,
            Self::Float32(value) => {
                out.put(&[8])?;
                &value.to_be_bytes()
            }
            Self::Float64(value) => {
                out.put(&[11])?;
                &value.to_be_bytes()
            }
            Self::Octets(value) | Self::Visible(value) | Self::Mms(value) | Self::BinaryTime(value) => value,
            Self::UtcTime(value) => value,
            Self::Structure(_) | Self::Array(_) => return Ok(()),
        };
        out.hole(what, octets)
    }
}

/// An integer in `octets` octets.
pub(super) fn integer(out: &mut [u8; 9], value: i128, octets: u8) -> Result<&[u8]> {
    let octets = usize::from(octets);
    if octets == 0 || octets > 9 {
        return Err(Error::Length);
    }
    let bits = 8 * octets as u32 - 1;
    if value >= 1 << bits || value < -(1 << bits) {
        return Err(Error::Value);
    }
    let bytes = value.to_be_bytes();
    out[..octets].copy_from_slice(&bytes[bytes.len() - octets..]);
    Ok(&out[..octets])
}
