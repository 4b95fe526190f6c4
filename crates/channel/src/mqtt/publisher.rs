//! The sending side: one publisher, its key, and the numbers that it may use.

use alloc::vec::Vec;
use core::fmt;

use super::antedated::Antedated;
use super::derive::Material;
use super::envelope::Head;
use super::lane::{CAP, Lane};
use super::layout::Layout;
use super::numbers::Numbers;
use super::template::PayloadTemplate;
use super::topic;

/// Why a payload was not sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishError<E> {
    /// There is no sequence number.
    Number(E),
    /// The topic is none to publish on.
    Topic(topic::Invalid),
    /// The payload is longer than the algorithm allows.
    TooLong {
        /// Bytes of the payload.
        len: usize,
        /// Bytes that are allowed.
        max: usize,
    },
}

impl<E: fmt::Display> fmt::Display for PublishError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(error) => error.fmt(f),
            Self::Topic(error) => error.fmt(f),
            Self::TooLong { len, max } => {
                write!(f, "the payload has {len} bytes, and the group's algorithm takes {max} at most")
            }
        }
    }
}

impl<E: core::error::Error> core::error::Error for PublishError<E> {}

/// Seals payloads for one group under one epoch, as one publisher. There is one to a set of [`Numbers`].
///
/// What can be done of the next publish before its reading exists is done by [`idle`](Self::idle): for the template of the last one,
/// or for any payload that is no longer than the last one was, up to 1024 bytes. With CCM, whose MAC begins with the length, it is one
/// more of the same length if the last two had the same, on the same topic.
pub struct Publisher<N: Numbers> {
    pub(super) head: Head,
    pub(super) protected: Vec<u8>,
    pub(super) lane: Lane<N>,
    /// That of the topic on which a payload without template was published last.
    pub(super) layout: Layout,
    /// What is prepared for a template. Of this and what is prepared for any payload there is one at a time: numbers leave in order, for
    /// a receiver that starts again takes nothing below what it had.
    pub(super) antedated: Antedated,
    next: Next,
}

/// What will probably be published next.
#[derive(Clone, Copy)]
enum Next {
    /// Nobody knows.
    Anything,
    /// A payload of so many bytes.
    Payload(usize),
    /// One like the last two, which had so many bytes both and the same topic.
    Same(usize),
    /// Values of the template that is antedated.
    Values,
}

/// Takes the next number and seals into what `put` makes of it.
macro_rules! seal {
    ($lane:expr, $self:ident, $topic:ident, $payload:ident, $out:ident) => {{
        let prepared = $lane.next().map_err(PublishError::Number)?;
        let number = prepared.number();
        if !$self.layout.fits($topic, number) {
            $self.layout.renew(&$self.head, &$self.protected, $topic, number);
        }
        $self.layout.put(number, $self.head.algorithm.sealed_len($payload.len()), $out);
        let start = $out.len();
        $out.extend_from_slice($payload);
        let tag = prepared.seal_in_place($self.layout.associated_data(number), &mut $out[start..]);
        $out.extend_from_slice(tag.as_bytes());
        number
    }};
}

impl<N: Numbers> Publisher<N> {
    /// Takes what was derived for the publisher, and its numbers.
    ///
    /// # Panics
    /// Never: a material has keys of the right length.
    pub fn new(material: &Material, numbers: N) -> Self {
        let lane = Lane::new(material, numbers);
        let lane = lane.unwrap_or_else(|_| unreachable!("a material has a key of the right length"));
        let head = material.head.clone();
        Self {
            protected: head.protected(),
            head,
            lane,
            layout: Layout::default(),
            antedated: Antedated::default(),
            next: Next::Anything,
        }
    }

    /// What stands in the envelopes.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// The numbers, to raise a limit for example.
    pub fn numbers_mut(&mut self) -> &mut N {
        self.lane.numbers_mut()
    }

    /// Seals a payload and appends the envelope to `out`; returns its sequence number.
    ///
    /// # Errors
    /// [`PublishError`]; then `out` is as it was, and no number was used but by an error of the numbers themselves.
    pub fn seal(
        &mut self,
        topic: &str,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<u64, PublishError<N::Error>> {
        // The layout of no topic yet is that of the empty one.
        if topic.is_empty() || !self.layout.is_of(topic) {
            topic::check_name(topic).map_err(PublishError::Topic)?;
        }
        self.check_len(payload.len())?;
        if let Some(number) = self.seal_same(topic, payload, out) {
            return Ok(number);
        }
        self.next = match self.next {
            Next::Payload(len) | Next::Same(len) if len == payload.len() && self.layout.is_of(topic) => {
                Next::Same(len)
            }
            _ => Next::Payload(payload.len()),
        };
        self.burn();
        Ok(match &mut self.lane {
            Lane::Ccm(lane) => seal!(lane, self, topic, payload, out),
            Lane::Gcm128(lane) => seal!(lane, self, topic, payload, out),
            Lane::Gcm256(lane) => seal!(lane, self, topic, payload, out),
            Lane::ChaCha(lane) => seal!(lane, self, topic, payload, out),
            Lane::Ocb3(lane) => seal!(lane, self, topic, payload, out),
            Lane::Blocks(blocks, numbers) => {
                let number = numbers.take().map_err(PublishError::Number)?;
                if !self.layout.fits(topic, number) {
                    self.layout.renew(&self.head, &self.protected, topic, number);
                }
                self.layout.put(number, self.head.algorithm.sealed_len(payload.len()), out);
                blocks.seal(number, self.layout.associated_data(number), payload, out);
                number
            }
        })
    }

    /// Seals a publish of a template with these values, one for each hole, and appends the envelope to `out`; returns its
    /// sequence number.
    ///
    /// What [`antedate`](Self::antedate) or [`idle`](Self::idle) did for it need not be done now. Without that, with values of other
    /// lengths than their holes, or if something else was published meanwhile, it goes the ordinary way.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn seal_values(
        &mut self,
        template: &PayloadTemplate,
        values: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<u64, PublishError<N::Error>> {
        self.check_len(template.filled_len(values))?;
        let number = match self.seal_antedated(template, values, out) {
            Some(number) => number,
            None => self.seal(template.topic(), &template.fill(values), out)?,
        };
        if self.take_template(template) {
            self.next = Next::Values;
        }
        Ok(number)
    }

    /// Prepares for what will probably be published next, for at most `budget` units of some ten nanoseconds to a hundred (on a PC),
    /// and returns the units done: 0 when nothing is left to do.
    ///
    /// The first of them takes a sequence number; it is burnt if something else is published instead, or nothing any more.
    pub fn idle(&mut self, budget: u32) -> u32 {
        let next = self.next;
        match next {
            Next::Same(len) if self.take_same(len) => self.prepare(budget),
            Next::Payload(len) | Next::Same(len) if len <= CAP => self.lane.idle(len, budget),
            Next::Values => self.prepare(budget),
            _ => 0,
        }
    }

    /// Says that values of this template come next, and prepares for them as [`idle`](Self::idle) does.
    ///
    /// A template that is longer than 1024 bytes, or whose holes touch more than 32 blocks, is not prepared, and neither is one
    /// under an algorithm without preparation (CBC and single blocks): 0 is returned at once, and no number used.
    pub fn antedate(&mut self, template: &PayloadTemplate, budget: u32) -> u32 {
        if !self.take_template(template) {
            return 0;
        }
        self.next = Next::Values;
        self.idle(budget)
    }

    /// Does once, for nothing, what the next publish will probably do, so that a CPU that did something else meanwhile has the way to
    /// seal at hand again: to be called after [`idle`](Self::idle), while the reading is awaited. Takes a few microseconds.
    ///
    /// All of it happens in `stand_in`, a publisher for the same algorithm with a key that protects nothing; nothing of this publisher
    /// changes. `out` is overwritten.
    pub fn rehearse(&self, stand_in: &mut Self, out: &mut Vec<u8>) {
        const NOTHING: [u8; CAP] = [0; CAP];
        out.clear();
        match self.next {
            Next::Anything => {}
            Next::Payload(len) | Next::Same(len) => {
                stand_in.next = self.next;
                while stand_in.idle(u32::MAX) > 0 {}
                // Whatever becomes of it.
                let _ = stand_in.seal(self.layout.topic(), &NOTHING[..len.min(CAP)], out);
            }
            Next::Values => {
                let Some(template) = self.antedated.template() else { return };
                while stand_in.antedate(template, u32::MAX) > 0 {}
                let values =
                    template.holes().iter().map(|hole| NOTHING.get(..hole.len()).unwrap_or_default());
                let _ = stand_in.seal_values(template, &values.collect::<Vec<_>>(), out);
            }
        }
    }

    fn check_len(&self, len: usize) -> Result<(), PublishError<N::Error>> {
        let max = self.head.algorithm.max_payload();
        if len > max { Err(PublishError::TooLong { len, max }) } else { Ok(()) }
    }
}

impl<N: Numbers> fmt::Debug for Publisher<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Publisher({}, epoch {}, ..)", self.head.algorithm, self.head.epoch)
    }
}
