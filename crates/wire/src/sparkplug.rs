//! The payload of Sparkplug B (Eclipse Sparkplug 3.0.0, section 6.4): a protocol buffer with a
//! time, metrics and a sequence number, with a layout that does not depend on its values.
//!
//! The length of a protocol buffer's integer normally depends on its value, which would move the
//! later fields. Decoders also accept longer encodings, so each number here has the full width of
//! its type. Metrics are named by alias, as the specification recommends for data messages.

use crate::template::{Hole, What, Writer};
use crate::{Error, Result};

/// Field numbers with their wire types (0: variable length, 1: 64 bits, 2: with a length, 5: 32 bits).
mod key {
    pub(super) const TIMESTAMP: u8 = 1 << 3;
    pub(super) const METRICS: u8 = 2 << 3 | 2;
    pub(super) const SEQ: u8 = 3 << 3;

    pub(super) const NAME: u8 = 1 << 3 | 2;
    pub(super) const ALIAS: u8 = 2 << 3;
    pub(super) const METRIC_TIMESTAMP: u8 = 3 << 3;
    pub(super) const DATATYPE: u8 = 4 << 3;
    pub(super) const INT_VALUE: u8 = 10 << 3;
    pub(super) const LONG_VALUE: u8 = 11 << 3;
    pub(super) const FLOAT_VALUE: u8 = 12 << 3 | 5;
    pub(super) const DOUBLE_VALUE: u8 = 13 << 3 | 1;
    pub(super) const BOOLEAN_VALUE: u8 = 14 << 3;
}

/// A value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Int32, data type 3
    Int32(i32),
    /// Int64, data type 4
    Int64(i64),
    /// UInt32, data type 7
    UInt32(u32),
    /// UInt64, data type 8
    UInt64(u64),
    /// Float, data type 9
    Float(f32),
    /// Double, data type 10
    Double(f64),
    /// Boolean, data type 11
    Boolean(bool),
}

impl Value {
    const fn datatype(&self) -> u8 {
        match self {
            Self::Int32(_) => 3,
            Self::Int64(_) => 4,
            Self::UInt32(_) => 7,
            Self::UInt64(_) => 8,
            Self::Float(_) => 9,
            Self::Double(_) => 10,
            Self::Boolean(_) => 11,
        }
    }
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric<'a> {
    /// name, in a birth certificate; absent in data messages
    pub name: Option<&'a str>,
    /// alias
    pub alias: u32,
    /// time in milliseconds since 1970, if it differs from the message's
    pub timestamp: Option<u64>,
    /// value
    pub value: Value,
}

/// A payload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repr<'a> {
    /// milliseconds since 1970
    pub timestamp: u64,
    /// the metrics
    pub metrics: &'a [Metric<'a>],
    /// counts messages from 0 to 255
    pub seq: u8,
}

/// Widths of numbers of 32 bits, of 64 bits, of a time until the year 2109, and of the sequence number.
const WIDTH_32: usize = 5;
const WIDTH_64: usize = 10;
const WIDTH_TIME: usize = 6;
const WIDTH_SEQ: usize = 2;

/// A number in `width` octets of seven bits each.
fn varint(out: &mut [u8; WIDTH_64], mut value: u64, width: usize) -> Result<&[u8]> {
    for octet in &mut out[..width] {
        *octet = 0x80 | (value & 0x7f) as u8;
        value >>= 7;
    }
    out[width - 1] &= 0x7f;
    if value == 0 { Ok(&out[..width]) } else { Err(Error::Value) }
}

impl Metric<'_> {
    fn len(&self) -> usize {
        let name = self.name.map_or(0, |name| 3 + name.len());
        let time = self.timestamp.map_or(0, |_| 1 + WIDTH_TIME);
        let value = match self.value {
            Value::Int32(_) | Value::UInt32(_) => 1 + WIDTH_32,
            Value::Int64(_) | Value::UInt64(_) => 1 + WIDTH_64,
            Value::Float(_) => 5,
            Value::Double(_) => 9,
            Value::Boolean(_) => 2,
        };
        name + 1 + WIDTH_32 + time + 2 + value
    }

    fn emit(&self, out: &mut Writer<'_, '_>, index: u16) -> Result<()> {
        let mut number = [0; WIDTH_64];
        out.put(&[key::METRICS])?;
        out.put(varint(&mut number, self.len() as u64, 2)?)?;
        if let Some(name) = self.name {
            out.put(&[key::NAME])?;
            out.put(varint(&mut number, name.len() as u64, 2)?)?;
            out.put(name.as_bytes())?;
        }
        out.put(&[key::ALIAS])?;
        out.put(varint(&mut number, self.alias.into(), WIDTH_32)?)?;
        if let Some(time) = self.timestamp {
            out.put(&[key::METRIC_TIMESTAMP])?;
            out.hole(What::Time, varint(&mut number, time, WIDTH_TIME)?)?;
        }
        out.put(&[key::DATATYPE, self.value.datatype()])?;
        let what = What::Value(index);
        let mut variable = |out: &mut Writer<'_, '_>, key: u8, value: u64, width: usize| {
            out.put(&[key])?;
            out.hole(what, varint(&mut number, value, width)?)
        };
        match self.value {
            // Negative 32-bit numbers use the two's complement of 32 bits (section 6.4.16).
            Value::Int32(value) => variable(out, key::INT_VALUE, (value as u32).into(), WIDTH_32),
            Value::UInt32(value) => variable(out, key::INT_VALUE, value.into(), WIDTH_32),
            Value::Int64(value) => variable(out, key::LONG_VALUE, value as u64, WIDTH_64),
            Value::UInt64(value) => variable(out, key::LONG_VALUE, value, WIDTH_64),
            Value::Boolean(value) => variable(out, key::BOOLEAN_VALUE, value.into(), 1),
            Value::Float(value) => {
                out.put(&[key::FLOAT_VALUE])?;
                out.hole(what, &value.to_le_bytes())
            }
            Value::Double(value) => {
                out.put(&[key::DOUBLE_VALUE])?;
                out.hole(what, &value.to_le_bytes())
            }
        }
    }
}

impl Repr<'_> {
    /// Octets of the payload.
    pub fn buffer_len(&self) -> usize {
        1 + WIDTH_TIME + 1 + WIDTH_SEQ + self.metrics.iter().map(|metric| 3 + metric.len()).sum::<usize>()
    }

    /// Writes the payload to the front of `buffer` and returns its length. Calls `mark` with the
    /// place of each time and value and of the sequence number.
    ///
    /// # Errors
    /// A time after the year 2109, or a metric of more than 16,383 octets.
    pub fn emit(&self, buffer: &mut [u8], mark: &mut dyn FnMut(Hole)) -> Result<usize> {
        let mut out = Writer::new(buffer, mark);
        let mut number = [0; WIDTH_64];
        out.put(&[key::TIMESTAMP])?;
        out.hole(What::Time, varint(&mut number, self.timestamp, WIDTH_TIME)?)?;
        for (metric, index) in self.metrics.iter().zip(0..) {
            metric.emit(&mut out, index)?;
        }
        out.put(&[key::SEQ])?;
        out.hole(What::Sequence, varint(&mut number, self.seq.into(), WIDTH_SEQ)?)?;
        Ok(out.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::{front, known};
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn emit(timestamp: u64, value: i32, level: f64, seq: u8) -> (Vec<u8>, Vec<Hole>) {
        let metric = |alias, value| Metric { name: None, alias, timestamp: None, value };
        let metrics = [
            metric(7, Value::Int32(value)),
            metric(8, Value::Double(level)),
            metric(9, Value::Boolean(true)),
        ];
        let repr = Repr { timestamp, metrics: &metrics, seq };
        let (mut out, mut holes) = (vec![0; repr.buffer_len()], vec![]);
        assert_eq!(repr.emit(&mut out, &mut |hole| holes.push(hole)), Ok(out.len()));
        (out, holes)
    }

    /// A decoder of protocol buffers: field number, wire type, and the value or the octets.
    fn decode(mut bytes: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
        fn number(bytes: &mut &[u8]) -> u64 {
            let mut value = 0;
            for shift in (0..).step_by(7) {
                let (first, rest) = bytes.split_first().unwrap();
                *bytes = rest;
                value |= u64::from(first & 0x7f) << shift;
                if first & 0x80 == 0 {
                    return value;
                }
            }
            value
        }
        let mut fields = vec![];
        while !bytes.is_empty() {
            let key = number(&mut bytes);
            let len = match key & 7 {
                0 => {
                    fields.push((key >> 3, number(&mut bytes), vec![]));
                    continue;
                }
                1 => 8,
                2 => number(&mut bytes) as usize,
                5 => 4,
                kind => panic!("wire type {kind}"),
            };
            let (value, rest) = bytes.split_at(len);
            fields.push((key >> 3, 0, value.to_vec()));
            bytes = rest;
        }
        fields
    }

    #[test]
    fn decoder_reads_the_encoding() {
        let (bytes, _) = emit(1_790_000_000_123, -5, 2.5, 200);
        let fields = decode(&bytes);
        assert_eq!((fields[0].0, fields[0].1), (1, 1_790_000_000_123));
        assert_eq!((fields[4].0, fields[4].1), (3, 200));
        let first = decode(&fields[1].2);
        assert_eq!(first.iter().map(|f| (f.0, f.1)).collect::<Vec<_>>(), [(2, 7), (4, 3), (10, 0xffff_fffb)]);
        assert_eq!(decode(&fields[2].2)[2], (13, 0, 2.5f64.to_le_bytes().to_vec()));
        assert_eq!(decode(&fields[3].2)[2], (14, 1, vec![]));
    }

    #[test]
    fn holes_are_22_of_60_bytes() {
        let (bytes, holes) = emit(1_790_000_000_123, 1, 1.0, 1);
        let ranges = || holes.iter().map(|hole| hole.range.clone());
        assert_eq!((bytes.len(), known(bytes.len(), ranges())), (60, 60 - 22));
        assert_eq!(front(bytes.len(), ranges()), 1, "a serial MAC gains nothing without re-sorting");
    }

    #[test]
    fn oversized_time_is_refused() {
        let repr = Repr { timestamp: 1 << 42, metrics: &[], seq: 0 };
        assert_eq!(repr.emit(&mut [0; 32], &mut |_| ()), Err(Error::Value));
    }

    proptest! {
        #[test]
        fn layout_is_independent_of_values(time in 0u64..1 << 42, value: i32, level: f64, seq: u8) {
            prop_assert_eq!(emit(time, value, level, seq).1, emit(0, 0, 0.0, 0).1);
        }
    }
}
