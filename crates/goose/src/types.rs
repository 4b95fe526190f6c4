//! The types of data attributes (IEC 61850-7-2 and -7-3), and their values in GOOSE
//! (IEC 61850-8-1) and in JSON.

use antedate_wire::goose::Value;
use serde_json::Value as Json;

use crate::clock;

/// The type of a data attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// BOOLEAN
    Boolean,
    /// INT8 to INT64, by the octets of the number
    Integer(u8),
    /// INT8U to INT32U, by the octets of the number
    Unsigned(u8),
    /// FLOAT32
    Float32,
    /// FLOAT64
    Float64,
    /// an enumeration, by numbers and names
    Enum(Vec<(i64, String)>),
    /// two bits, by the names of their values
    Pair([&'static str; 4]),
    /// the quality of 13 bits
    Quality,
    /// a time with its quality
    Timestamp,
    /// a string, which a message cannot hold in a fixed number of octets
    Text,
    /// octets, as hexadecimal digits, likewise
    Octets,
}

/// The names of a double point's values.
pub const DOUBLE_POINT: [&str; 4] = ["intermediate-state", "off", "on", "bad-state"];
/// The names of a step command's values.
pub const STEP: [&str; 4] = ["stop", "lower", "higher", "reserved"];

/// The validity of a quality, and its flags from bit 2 on.
const VALIDITY: [&str; 4] = ["good", "invalid", "reserved", "questionable"];
const FLAGS: [&str; 11] = [
    "overflow",
    "outOfRange",
    "badReference",
    "oscillatory",
    "failure",
    "oldData",
    "inconsistent",
    "inaccurate",
    "substituted",
    "test",
    "operatorBlocked",
];

/// A value of a data attribute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Datum {
    /// a boolean
    Boolean(bool),
    /// a number and the octets of its encoding
    Integer(i64, u8),
    /// a non-negative number and the octets of its encoding
    Unsigned(u64, u8),
    /// FLOAT32
    Float32(f32),
    /// FLOAT64
    Float64(f64),
    /// bits, and the number of octets and unused bits
    Bits([u8; 2], u8, u8),
    /// a time
    Time([u8; 8]),
}

impl Datum {
    /// The value for a message.
    #[must_use]
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Boolean(value) => Value::Boolean(*value),
            Self::Integer(value, octets) => Value::Integer(*value, *octets),
            Self::Unsigned(value, octets) => Value::Unsigned(*value, *octets),
            Self::Float32(value) => Value::Float32(*value),
            Self::Float64(value) => Value::Float64(*value),
            Self::Bits(bits, octets, unused) => Value::Bits(&bits[..usize::from(*octets).min(2)], *unused),
            Self::Time(t) => Value::UtcTime(*t),
        }
    }
}

impl Type {
    /// The type of a `bType` that needs no other definition.
    #[must_use]
    pub fn of(basic: &str) -> Option<Self> {
        Some(match basic {
            "BOOLEAN" => Self::Boolean,
            "INT8" => Self::Integer(1),
            "INT16" => Self::Integer(2),
            "INT24" => Self::Integer(3),
            "INT32" => Self::Integer(4),
            "INT64" => Self::Integer(8),
            "INT8U" => Self::Unsigned(1),
            "INT16U" => Self::Unsigned(2),
            "INT24U" => Self::Unsigned(3),
            "INT32U" => Self::Unsigned(4),
            "FLOAT32" => Self::Float32,
            "FLOAT64" => Self::Float64,
            "Dbpos" => Self::Pair(DOUBLE_POINT),
            "Tcmd" => Self::Pair(STEP),
            "Quality" => Self::Quality,
            "Timestamp" => Self::Timestamp,
            "VisString32" | "VisString64" | "VisString65" | "VisString129" | "VisString255"
            | "Unicode255" | "ObjRef" | "Currency" => Self::Text,
            "Octet64" | "Octet6" | "Octet16" => Self::Octets,
            _ => return None,
        })
    }

    /// The expected form in JSON.
    #[must_use]
    pub fn expected(&self) -> String {
        match self {
            Self::Boolean => "true or false".into(),
            Self::Integer(octets) => format!("a whole number of {} bits", 8 * u32::from(*octets)),
            Self::Unsigned(octets) => format!("a whole number from 0, of {} bits", 8 * u32::from(*octets)),
            Self::Float32 | Self::Float64 => "a number".into(),
            Self::Enum(names) => {
                let names: Vec<&str> = names.iter().take(12).map(|(_, name)| name.as_str()).collect();
                format!("one of {}, or its number", names.join(", "))
            }
            Self::Pair(names) => format!("one of {}", names.join(", ")),
            Self::Quality => "a validity and flags, as in \"good\" or \"questionable oldData test\"".into(),
            Self::Timestamp => "a time as in \"2026-11-27T18:00:00.5Z\"".into(),
            Self::Text => "a string".into(),
            Self::Octets => "hexadecimal digits".into(),
        }
    }

    /// A value from JSON. `None` if it is not of this type, or a string.
    #[must_use]
    pub fn read(&self, json: &Json) -> Option<Datum> {
        Some(match self {
            Self::Boolean => Datum::Boolean(json.as_bool()?),
            Self::Integer(octets) => {
                let value = json.as_i64()?;
                let room = 64 - 8 * u32::from(*octets);
                (value << room >> room == value).then_some(Datum::Integer(value, octets + 1))?
            }
            Self::Unsigned(octets) => {
                let value = json.as_u64()?;
                (value >> (8 * u32::from(*octets)) == 0).then_some(Datum::Unsigned(value, octets + 1))?
            }
            Self::Float32 => Datum::Float32(Some(json.as_f64()? as f32).filter(|value| value.is_finite())?),
            Self::Float64 => Datum::Float64(json.as_f64()?),
            Self::Enum(names) => {
                let number = match json.as_str() {
                    Some(text) => names.iter().find(|(_, name)| name == text)?.0,
                    None => json.as_i64()?,
                };
                // IEC 61850-8-1 maps enumerations to INT8.
                Datum::Integer(i64::from(i8::try_from(number).ok()?), 2)
            }
            Self::Pair(names) => {
                let text = json.as_str()?;
                let number = names.iter().position(|name| *name == text)?;
                Datum::Bits([(number as u8) << 6, 0], 1, 6)
            }
            Self::Quality => Datum::Bits(quality(json.as_str()?)?.to_be_bytes(), 2, 3),
            Self::Timestamp => Datum::Time(clock::read(json)?),
            Self::Text | Self::Octets => return None,
        })
    }

    /// The value that stands for one that nobody gave: only for qualities and times.
    #[must_use]
    pub fn default(&self, now: [u8; 8]) -> Option<Datum> {
        match self {
            Self::Quality => Some(Datum::Bits([0; 2], 2, 3)),
            Self::Timestamp => Some(Datum::Time(now)),
            _ => None,
        }
    }

    /// Whether its encoding has a length that no value changes.
    #[must_use]
    pub const fn is_fixed(&self) -> bool {
        !matches!(self, Self::Text | Self::Octets)
    }

    /// A received value as JSON. `None` if it is of another type.
    #[must_use]
    pub fn show(&self, value: Value<'_>) -> Option<Json> {
        let number = || match value {
            Value::Integer(number, _) => Some(i128::from(number)),
            Value::Unsigned(number, _) => Some(i128::from(number)),
            _ => None,
        };
        Some(match (self, value) {
            (Self::Boolean, Value::Boolean(value)) => value.into(),
            (Self::Integer(octets), Value::Integer(..) | Value::Unsigned(..)) => {
                let bits = 8 * u32::from(*octets) - 1;
                let number = number()?;
                let range = -(1i128 << bits)..1i128 << bits;
                range.contains(&number).then_some(Json::from(number as i64))?
            }
            (Self::Unsigned(octets), Value::Integer(..) | Value::Unsigned(..)) => {
                let number = number()?;
                (0..1i128 << (8 * u32::from(*octets)))
                    .contains(&number)
                    .then_some(Json::from(number as u64))?
            }
            (Self::Float32, Value::Float32(value)) => f64::from(value).into(),
            (Self::Float64, Value::Float64(value)) => value.into(),
            (Self::Enum(names), Value::Integer(..) | Value::Unsigned(..)) => {
                let number = i64::try_from(number()?).ok()?;
                match names.iter().find(|(known, _)| *known == number) {
                    Some((_, name)) => name.as_str().into(),
                    None => number.into(),
                }
            }
            (Self::Pair(names), Value::Bits(&[octet], 6)) => names[usize::from(octet >> 6)].into(),
            (Self::Quality, Value::Bits(&[high, low], 3)) => words(u16::from_be_bytes([high, low])).into(),
            (Self::Timestamp, Value::UtcTime(t)) => clock::show(t),
            (Self::Text, Value::Visible(text) | Value::Mms(text)) => {
                String::from_utf8_lossy(text).into_owned().into()
            }
            (Self::Octets, Value::Octets(octets)) => antedate_host::hex::hex(octets).into(),
            _ => return None,
        })
    }
}

/// The words of a quality.
pub(crate) fn words(bits: u16) -> String {
    let flags = FLAGS.iter().enumerate().filter(|(at, _)| bits >> (13 - at) & 1 == 1).map(|(_, name)| *name);
    let all: Vec<&str> = core::iter::once(VALIDITY[usize::from(bits >> 14)]).chain(flags).collect();
    all.join(" ")
}

/// The quality of words: a validity, which is `good` by default, and flags.
fn quality(text: &str) -> Option<u16> {
    text.split_ascii_whitespace().enumerate().try_fold(0, |all, (at, word)| {
        let validity = VALIDITY.iter().position(|known| *known == word).filter(|_| at == 0);
        let bits = match validity {
            Some(number) => (number as u16) << 14,
            None => 1 << (13 - FLAGS.iter().position(|known| *known == word)?),
        };
        Some(all | bits)
    })
}
