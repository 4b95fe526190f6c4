//! Payloads with values still unknown.

use alloc::{string::String, sync::Arc, vec, vec::Vec};
use core::fmt;
use core::ops::Range;

use antedate_aead::{Hole, Template, TemplateError};

use super::topic;

/// The topic and payload of future publishes, with holes for the values: JSON, a Sparkplug B frame,
/// or any format with fixed positions of values.
///
/// ```
/// use antedate_channel::mqtt::PayloadTemplate;
/// let template = PayloadTemplate::marked("plant/press7/force", br#"{"kN":@@@@@@,"ok":@}"#).unwrap();
/// assert_eq!(template.holes(), [6..12, 18..19]);
/// assert_eq!(template.fill(&[b"  81.5", b"1"]), br#"{"kN":  81.5,"ok":1}"#);
/// ```
///
/// Copies share their memory.
#[derive(Debug, Clone)]
pub struct PayloadTemplate(Arc<Parts>);

#[derive(Debug, PartialEq, Eq)]
struct Parts {
    topic: String,
    payload: Vec<u8>,
    holes: Vec<Range<usize>>,
    /// The holes in the engine's form.
    marks: Vec<Hole>,
}

/// The reason for refusing a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PayloadTemplateError {
    /// The topic cannot be published on.
    Topic(topic::TopicError),
    /// There is no hole.
    NoHole,
    /// Holes are outside the payload, overlap or are out of order.
    Order,
    /// The engine refuses a hole.
    Hole(TemplateError),
}

impl fmt::Display for PayloadTemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(why) => why.fmt(f),
            Self::NoHole => f.write_str("the template has no hole; write @ for each byte that comes later"),
            Self::Order => f.write_str("holes stand one behind the other"),
            Self::Hole(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for PayloadTemplateError {}

impl PayloadTemplate {
    /// A payload with these holes, in ascending order. The payload's contents there are ignored.
    ///
    /// # Errors
    /// [`PayloadTemplateError`].
    pub fn new(topic: &str, payload: &[u8], holes: &[Range<usize>]) -> Result<Self, PayloadTemplateError> {
        topic::check_name(topic).map_err(PayloadTemplateError::Topic)?;
        if holes.is_empty() {
            return Err(PayloadTemplateError::NoHole);
        }
        if holes.windows(2).any(|two| two[0].end > two[1].start) {
            return Err(PayloadTemplateError::Order);
        }
        let marks: Vec<Hole> = holes.iter().cloned().map(Hole::Payload).collect();
        Template::new(&[], payload, &marks).map_err(PayloadTemplateError::Hole)?;
        let (topic, payload, holes) = (topic.into(), payload.to_vec(), holes.to_vec());
        Ok(Self(Arc::new(Parts { topic, payload, holes, marks })))
    }

    /// A payload in which each run of `@` is a hole.
    ///
    /// # Errors
    /// [`PayloadTemplateError`].
    pub fn marked(topic: &str, payload: &[u8]) -> Result<Self, PayloadTemplateError> {
        let mut holes: Vec<Range<usize>> = Vec::new();
        for (at, _) in payload.iter().enumerate().filter(|(_, byte)| **byte == b'@') {
            match holes.last_mut() {
                Some(last) if last.end == at => last.end += 1,
                _ => holes.push(at..at + 1),
            }
        }
        Self::new(topic, payload, &holes)
    }

    /// Any payload of a length.
    pub(super) fn any(topic: &str, len: usize) -> Result<Self, PayloadTemplateError> {
        Self::new(topic, &vec![0; len], &[Range { start: 0, end: len }])
    }

    /// Whether only the payload's length is known.
    #[inline]
    pub(super) fn is_one_hole(&self) -> bool {
        matches!(self.holes(), [hole] if hole.len() == self.payload().len())
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.0.topic
    }

    /// The payload. The contents of holes are ignored.
    pub fn payload(&self) -> &[u8] {
        &self.0.payload
    }

    /// The holes.
    pub fn holes(&self) -> &[Range<usize>] {
        &self.0.holes
    }

    pub(super) fn marks(&self) -> &[Hole] {
        &self.0.marks
    }

    /// Whether it equals another one.
    #[inline]
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }

    /// The payload up to the first hole.
    pub(super) fn front(&self) -> &[u8] {
        &self.payload()[..self.holes().first().map_or(0, |hole| hole.start)]
    }

    /// Whether there is a value for each hole, with the hole's length.
    pub fn fits(&self, values: &[&[u8]]) -> bool {
        values.len() == self.0.holes.len()
            && values.iter().zip(&self.0.holes).all(|(value, hole)| value.len() == hole.len())
    }

    /// The payload with these values, which may be longer or shorter than the holes. A hole without
    /// a value is left out.
    pub fn fill(&self, values: &[&[u8]]) -> Vec<u8> {
        let mut payload = Vec::with_capacity(self.0.payload.len());
        payload.extend_from_slice(self.front());
        self.fill_rest(values, &mut payload);
        payload
    }

    /// Bytes of the payload with these values.
    pub(super) fn filled_len(&self, values: &[&[u8]]) -> usize {
        let holes: usize = self.holes().iter().map(Range::len).sum();
        self.payload().len() - holes
            + values.iter().take(self.holes().len()).map(|value| value.len()).sum::<usize>()
    }

    /// Appends the rest after the front, with these values.
    pub(super) fn fill_rest(&self, values: &[&[u8]], out: &mut Vec<u8>) {
        let mut at = self.front().len();
        for (i, hole) in self.0.holes.iter().enumerate() {
            out.extend_from_slice(&self.0.payload[at..hole.start]);
            out.extend_from_slice(values.get(i).copied().unwrap_or_default());
            at = hole.end;
        }
        out.extend_from_slice(&self.0.payload[at..]);
    }
}
