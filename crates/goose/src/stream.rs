//! A stream of sampled values: who publishes what, how often, to which address; and its samples.
//!
//! A sample is a value behind the other, each with a fixed number of octets, the highest first
//! (IEC 61850-9-2). The standard's text was not available: the widths are those of 9-2LE (INT32 and a
//! quality of 32 bits, whose lowest two are the validity) and of libiec61850, and 32 bits for
//! enumerations and coded enumerations.

use antedate_wire::EthernetAddress;
use serde_json::{Map, Value as Json};

use crate::clock;
use crate::control::{Entry, leaves};
use crate::types::Type;

/// The most ASDUs of a frame.
pub const MAX_ASDUS: u8 = 64;

/// A control block of sampled values with its address and its data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// the reference: `LDName/LLN0$MS$NAME`
    pub reference: String,
    /// `smvID`, in each ASDU
    pub sv_id: String,
    /// `DatSet`: `LDName/LLN0$NAME`
    pub dat_set: String,
    /// `ConfRev`
    pub conf_rev: u32,
    /// the group address
    pub destination: EthernetAddress,
    /// the application identifier
    pub appid: u16,
    /// the VLAN, 0 for a tag with a priority only
    pub vlan: u16,
    /// the priority, 0 to 7
    pub priority: u8,
    /// how often it is sampled
    pub rate: Rate,
    /// sets of samples in a frame
    pub asdus: u8,
    /// whether ASDUs name the data set
    pub has_dat_set: bool,
    /// whether ASDUs have a time
    pub has_time: bool,
    /// whether ASDUs tell the rate
    pub has_rate: bool,
    /// the entries of the data set
    pub entries: Vec<Entry>,
}

/// How often a stream is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// samples in a period of the nominal frequency
    PerPeriod(u16),
    /// samples in a second
    PerSecond(u16),
}

impl Rate {
    /// Samples in a second at a nominal frequency in hertz.
    #[must_use]
    pub const fn per_second(self, frequency: u16) -> u32 {
        match self {
            Self::PerPeriod(samples) => samples as u32 * frequency as u32,
            Self::PerSecond(samples) => samples as u32,
        }
    }

    /// `smpRate` and `smpMod` of an ASDU.
    #[must_use]
    pub const fn octets(self) -> (u16, u16) {
        match self {
            Self::PerPeriod(samples) => (samples, 0),
            Self::PerSecond(samples) => (samples, 1),
        }
    }
}

/// Octets of a value of this type in a sample. `None` if it has no fixed place.
#[must_use]
pub const fn octets(of: &Type) -> Option<usize> {
    Some(match of {
        Type::Boolean => 1,
        Type::Integer(octets @ (1 | 2 | 4 | 8)) | Type::Unsigned(octets @ (1 | 2 | 4)) => *octets as usize,
        Type::Unsigned(3) | Type::Float32 | Type::Enum(_) | Type::Pair(_) | Type::Quality => 4,
        Type::Float64 | Type::Timestamp => 8,
        _ => return None,
    })
}

/// Bits of a quality.
const QUALITY: u32 = 0x1fff;

impl Stream {
    /// The data attributes of the data set, from the first to the last.
    #[must_use]
    pub fn leaves(&self) -> Vec<(&str, &Type)> {
        leaves(&self.entries)
    }

    /// Octets of a sample.
    #[must_use]
    pub fn sample_len(&self) -> usize {
        self.leaves().into_iter().filter_map(|(_, of)| octets(of)).sum()
    }

    /// A sample of a test signal: `wave` gives each number by its place among them, qualities are good,
    /// times are `now`, and what has names has the first.
    pub fn signal(&self, now: [u8; 8], mut wave: impl FnMut(usize) -> f64, out: &mut Vec<u8>) {
        out.clear();
        let mut count = 0;
        let mut next = || {
            count += 1;
            wave(count - 1)
        };
        for (_, of) in self.leaves() {
            match of {
                // Casts of floats end at the bounds of the type.
                Type::Integer(1) => out.push((next() as i8) as u8),
                Type::Integer(2) => out.extend((next() as i16).to_be_bytes()),
                Type::Integer(4) => out.extend((next() as i32).to_be_bytes()),
                Type::Integer(_) => out.extend((next() as i64).to_be_bytes()),
                Type::Unsigned(1) => out.push(next() as u8),
                Type::Unsigned(2) => out.extend((next() as u16).to_be_bytes()),
                Type::Unsigned(_) => out.extend((next() as u32).to_be_bytes()),
                Type::Float32 => out.extend((next() as f32).to_be_bytes()),
                Type::Float64 => out.extend(next().to_be_bytes()),
                Type::Enum(names) => {
                    let first = names.first().map_or(0, |(number, _)| *number as i32);
                    out.extend(first.to_be_bytes());
                }
                Type::Timestamp => out.extend(now),
                Type::Boolean => out.push(0),
                Type::Pair(_) | Type::Quality => out.extend([0; 4]),
                Type::Text | Type::Octets => {}
            }
        }
    }

    /// The values of a sample by the names of their data attributes. `None` if it has another length.
    #[must_use]
    pub fn show(&self, sample: &[u8]) -> Option<Map<String, Json>> {
        let (mut out, mut rest) = (Map::new(), sample);
        for (name, of) in self.leaves() {
            let (value, behind) = rest.split_at_checked(octets(of)?)?;
            out.insert(name.to_owned(), shown(of, value));
            rest = behind;
        }
        rest.is_empty().then_some(out)
    }
}

/// A value of a sample as JSON.
fn shown(of: &Type, octets: &[u8]) -> Json {
    let bits = octets.iter().fold(0u64, |all, octet| all << 8 | u64::from(*octet));
    let room = 64 - 8 * octets.len().min(8) as u32;
    let signed = (bits << room).cast_signed() >> room;
    match of {
        Type::Boolean => (bits != 0).into(),
        Type::Integer(_) => signed.into(),
        Type::Unsigned(_) => bits.into(),
        // A number that is none has no form in JSON.
        Type::Float32 => f64::from(f32::from_bits(bits as u32)).into(),
        Type::Float64 => f64::from_bits(bits).into(),
        Type::Enum(names) => match names.iter().find(|(known, _)| *known == signed) {
            Some((_, name)) => name.as_str().into(),
            None => signed.into(),
        },
        Type::Pair(names) => names.get(bits as usize).map_or_else(|| bits.into(), |name| (*name).into()),
        Type::Quality => quality(bits as u32).into(),
        Type::Timestamp => clock::show(bits.to_be_bytes()),
        Type::Text | Type::Octets => Json::Null,
    }
}

/// The words of a quality of 32 bits: the same as in GOOSE, whose first bit is the lowest here, but for
/// the validity, which is a number of two bits.
fn quality(bits: u32) -> String {
    let flags = (bits & QUALITY & !3).reverse_bits() >> 16;
    let text = crate::types::words(((bits & 3) << 14 | flags) as u16);
    // 9-2LE has a bit behind the thirteen.
    if bits & 0x2000 == 0 { text } else { format!("{text} derived") }
}

#[cfg(test)]
mod tests;
