//! What is known of a payload before the reading is.

use alloc::{string::String, vec::Vec};
use core::fmt;
use core::ops::Range;

use antedate_aead::{Hole, Template, TemplateError};

use super::topic;

/// The topic and the payload of publishes to come, with holes where the values go: a JSON text, a Sparkplug B frame, or anything
/// whose values have a fixed place.
///
/// ```
/// use antedate_channel::mqtt::PayloadTemplate;
/// let template = PayloadTemplate::marked("plant/press7/force", br#"{"kN":@@@@@@,"ok":@}"#).unwrap();
/// assert_eq!(template.holes(), [6..12, 18..19]);
/// assert_eq!(template.fill(&[b"  81.5", b"1"]), br#"{"kN":  81.5,"ok":1}"#);
/// ```
#[derive(Debug, Clone)]
pub struct PayloadTemplate {
    topic: String,
    payload: Vec<u8>,
    holes: Vec<Range<usize>>,
    /// The same for the engine.
    marks: Vec<Hole>,
}

/// Why a template can't be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateFault {
    /// The topic is none to publish on.
    Topic(topic::Invalid),
    /// There is no hole, so nothing is left to say.
    NoHole,
    /// Holes do not lie in the payload one behind the other.
    Order,
    /// A hole can't be.
    Hole(TemplateError),
}

impl fmt::Display for TemplateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(why) => why.fmt(f),
            Self::NoHole => f.write_str("the template has no hole; write @ for each byte that comes later"),
            Self::Order => f.write_str("holes stand one behind the other"),
            Self::Hole(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for TemplateFault {}

impl PayloadTemplate {
    /// A payload with these holes, in ascending order. What the payload holds there counts for nothing.
    ///
    /// # Errors
    /// [`TemplateFault`].
    pub fn new(topic: &str, payload: &[u8], holes: &[Range<usize>]) -> Result<Self, TemplateFault> {
        topic::check_name(topic).map_err(TemplateFault::Topic)?;
        if holes.is_empty() {
            return Err(TemplateFault::NoHole);
        }
        if holes.windows(2).any(|two| two[0].end > two[1].start) {
            return Err(TemplateFault::Order);
        }
        let marks: Vec<Hole> = holes.iter().cloned().map(Hole::Payload).collect();
        Template::new(&[], payload, &marks).map_err(TemplateFault::Hole)?;
        Ok(Self { topic: topic.into(), payload: payload.to_vec(), holes: holes.to_vec(), marks })
    }

    /// A payload in which each run of `@` is a hole.
    ///
    /// # Errors
    /// [`TemplateFault`].
    pub fn marked(topic: &str, payload: &[u8]) -> Result<Self, TemplateFault> {
        let mut holes: Vec<Range<usize>> = Vec::new();
        for (at, _) in payload.iter().enumerate().filter(|(_, byte)| **byte == b'@') {
            match holes.last_mut() {
                Some(last) if last.end == at => last.end += 1,
                _ => holes.push(at..at + 1),
            }
        }
        Self::new(topic, payload, &holes)
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The payload; what is in holes counts for nothing.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Where the values go.
    pub fn holes(&self) -> &[Range<usize>] {
        &self.holes
    }

    pub(super) fn marks(&self) -> &[Hole] {
        &self.marks
    }

    /// Whether there is a value for each hole, as long as the hole.
    pub fn fits(&self, values: &[&[u8]]) -> bool {
        values.len() == self.holes.len()
            && values.iter().zip(&self.holes).all(|(value, hole)| value.len() == hole.len())
    }

    /// The payload with these values, which may be longer or shorter than the holes. A hole without a value is left out.
    pub fn fill(&self, values: &[&[u8]]) -> Vec<u8> {
        let mut payload = Vec::with_capacity(self.payload.len());
        let mut at = 0;
        for (i, hole) in self.holes.iter().enumerate() {
            payload.extend_from_slice(&self.payload[at..hole.start]);
            payload.extend_from_slice(values.get(i).copied().unwrap_or_default());
            at = hole.end;
        }
        payload.extend_from_slice(&self.payload[at..]);
        payload
    }
}
