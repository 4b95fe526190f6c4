//! The sending side: one publisher, its key, and its numbers.

use alloc::vec::Vec;
use core::fmt;

use super::antedated::Antedated;
use super::cipher::CAP;
use super::derive::Material;
use super::envelope::Head;
use super::lane::{Lane, each};
use super::layout::Layout;
use super::long::LongKey;
use super::numbers::Numbers;
use super::template::PayloadTemplate;
use super::topic;

/// The reason for not sealing a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishError<E> {
    /// There is no sequence number.
    Number(E),
    /// The topic cannot be published on.
    Topic(topic::TopicError),
    /// The payload is longer than the algorithm allows.
    TooLong {
        /// Bytes of the payload.
        len: usize,
        /// Maximum number of bytes.
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

/// Seals payloads for one group and epoch as one publisher, with exclusive use of its [`Numbers`].
///
/// [`idle`](Self::idle) prepares the next publish before its reading exists: for the last one's
/// template, or for any payload no longer than the last one, up to 1024 bytes. CCM's MAC begins
/// with the length, so with CCM it prepares for the same length and topic if the last two agree in
/// both.
pub struct Publisher<N: Numbers> {
    pub(super) head: Head,
    pub(super) protected: Vec<u8>,
    pub(super) lane: Lane<N>,
    /// The layout of the topic of the last publish without template.
    pub(super) layout: Layout,
    /// The preparation for a template. Either this or the preparation for any payload exists,
    /// because numbers are sent in order: a restarted receiver accepts nothing below its last
    /// number.
    pub(super) antedated: Antedated,
    next: Next,
    /// The key of payloads that are too long for the lane's algorithm.
    long: Option<LongKey>,
}

/// The prediction of the next publish.
#[derive(Clone, Copy)]
enum Next {
    /// No prediction.
    Anything,
    /// A payload of up to this many bytes.
    Payload(usize),
    /// The same length and topic as the last two, with this many bytes.
    Same(usize),
    /// Values of the antedated template.
    Values,
}

/// Takes the next number and seals into the space that `put` makes.
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
    /// A publisher with this material and these numbers.
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
            // As above.
            long: material.long.as_deref().and_then(|long| LongKey::new(long).ok()),
        }
    }

    /// The head of the envelopes.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// The numbers, for example to raise a limit.
    pub fn numbers_mut(&mut self) -> &mut N {
        self.lane.numbers_mut()
    }

    /// Seals a payload and appends the envelope to `out`. Returns its sequence number.
    ///
    /// # Errors
    /// [`PublishError`]. `out` is unchanged then, and no number was used unless the numbers
    /// themselves failed.
    pub fn seal(
        &mut self,
        topic: &str,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<u64, PublishError<N::Error>> {
        // The initial layout is that of the empty topic.
        if topic.is_empty() || !self.layout.is_of(topic) {
            topic::check_name(topic).map_err(PublishError::Topic)?;
        }
        if self.check_len(payload.len())? {
            return self.seal_long(None, topic, payload, out);
        }
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
        self.seal_next(topic, payload, out)
    }

    /// Seals a payload as [`seal`](Self::seal) does, with the time in seconds since 1970. Nothing of
    /// it can be prepared but the cipherstream.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn seal_at(
        &mut self,
        time: u32,
        topic: &str,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<u64, PublishError<N::Error>> {
        topic::check_name(topic).map_err(PublishError::Topic)?;
        if self.check_len(payload.len())? {
            return self.seal_long(Some(time), topic, payload, out);
        }
        self.next = Next::Payload(payload.len());
        self.burn();
        // The layout has the time, so it is for this message alone.
        self.layout = Layout::default();
        let usual = core::mem::replace(&mut self.protected, self.head.timed(time));
        let sealed = self.seal_next(topic, payload, out);
        self.protected = usual;
        self.layout = Layout::default();
        sealed
    }

    /// Seals what `make` makes for its sequence number, with a time in seconds since 1970 if there is
    /// one. For payloads that name their number, as signed ones do.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn seal_made(
        &mut self,
        time: Option<u32>,
        topic: &str,
        make: impl FnOnce(u64) -> Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<u64, PublishError<N::Error>> {
        topic::check_name(topic).map_err(PublishError::Topic)?;
        self.burn();
        let next = each!(&mut self.lane, standby => Some(match standby.next_number() {
            Some(number) => number,
            None => standby.sequence_mut().announce().map_err(PublishError::Number)?,
        }), (_numbers) => None);
        let Some(next) = next else {
            // These have no preparation, so the number is taken at once.
            let Lane::Blocks(_, numbers) = &mut self.lane else { unreachable!("all others announce") };
            let number = numbers.take().map_err(PublishError::Number)?;
            let payload = make(number);
            self.check_len(payload.len())?;
            // The layout has the time, so it is for this message alone.
            self.layout = Layout::default();
            let timed = time.map_or_else(|| self.protected.clone(), |time| self.head.timed(time));
            let usual = core::mem::replace(&mut self.protected, timed);
            self.put_blocks(number, topic, &payload, out);
            self.protected = usual;
            self.layout = Layout::default();
            return Ok(number);
        };
        let payload = make(next);
        let number = match time {
            Some(time) => self.seal_at(time, topic, &payload, out),
            None => self.seal(topic, &payload, out),
        }?;
        // The next one is another text under another number: its cipherstream can be prepared.
        self.next = Next::Payload(payload.len());
        debug_assert_eq!(number, next, "the number was announced");
        Ok(number)
    }

    /// Seals by a cipher without preparation.
    fn put_blocks(&mut self, number: u64, topic: &str, payload: &[u8], out: &mut Vec<u8>) {
        let Lane::Blocks(blocks, _) = &mut self.lane else { return };
        if !self.layout.fits(topic, number) {
            self.layout.renew(&self.head, &self.protected, topic, number);
        }
        self.layout.put(number, self.head.algorithm.sealed_len(payload.len()), out);
        blocks.seal(number, self.layout.associated_data(number), payload, out);
    }

    /// Seals a checked payload with the next number.
    fn seal_next(
        &mut self,
        topic: &str,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<u64, PublishError<N::Error>> {
        Ok(match &mut self.lane {
            Lane::Ccm(lane) => seal!(lane, self, topic, payload, out),
            Lane::Gcm128(lane) => seal!(lane, self, topic, payload, out),
            Lane::Gcm256(lane) => seal!(lane, self, topic, payload, out),
            Lane::ChaCha(lane) => seal!(lane, self, topic, payload, out),
            Lane::Ocb3(lane) => seal!(lane, self, topic, payload, out),
            Lane::Blocks(_, numbers) => {
                let number = numbers.take().map_err(PublishError::Number)?;
                self.put_blocks(number, topic, payload, out);
                number
            }
        })
    }

    /// Seals a publish of a template with these values, one for each hole, and appends the envelope
    /// to `out`. Returns its sequence number.
    ///
    /// Uses the preparation of [`antedate`](Self::antedate) or [`idle`](Self::idle). Without it,
    /// with values of other lengths than their holes, or after another publish in between, takes
    /// the ordinary path.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn seal_values(
        &mut self,
        template: &PayloadTemplate,
        values: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<u64, PublishError<N::Error>> {
        if self.check_len(template.filled_len(values))? {
            return self.seal_long(None, template.topic(), &template.fill(values), out);
        }
        let number = match self.seal_antedated(template, values, out) {
            Some(number) => number,
            None => self.seal(template.topic(), &template.fill(values), out)?,
        };
        if self.take_template(template) {
            self.next = Next::Values;
        }
        Ok(number)
    }

    /// Prepares the predicted next publish, for at most `budget` units of some ten to a hundred
    /// nanoseconds (on a PC). Returns the units done, 0 if everything is prepared.
    ///
    /// The first unit takes a sequence number. It is burnt if another publish is sent first, or
    /// none.
    pub fn idle(&mut self, budget: u32) -> u32 {
        let next = self.next;
        match next {
            Next::Same(len) if self.take_same(len) => self.prepare(budget),
            Next::Payload(len) | Next::Same(len) if len <= CAP => self.lane.idle(len, budget),
            Next::Values => self.prepare(budget),
            _ => 0,
        }
    }

    /// Announces values of this template as the next publish, and prepares for them as
    /// [`idle`](Self::idle) does.
    ///
    /// Returns 0 at once, without using a number, for a template longer than 1024 bytes, one whose
    /// holes touch more than 32 blocks, or an algorithm without preparation (CBC and single
    /// blocks).
    pub fn antedate(&mut self, template: &PayloadTemplate, budget: u32) -> u32 {
        if !self.take_template(template) {
            return 0;
        }
        self.next = Next::Values;
        self.idle(budget)
    }

    /// Practises the next publish, to warm a CPU's caches after other work. Call it after
    /// [`idle`](Self::idle), while waiting for the reading. Takes a few microseconds.
    ///
    /// Works on `stand_in`, a publisher for the same algorithm with a key that protects nothing,
    /// and does not change this publisher. `out` is overwritten.
    pub fn rehearse(&self, stand_in: &mut Self, out: &mut Vec<u8>) {
        const NOTHING: [u8; CAP] = [0; CAP];
        out.clear();
        match self.next {
            Next::Anything => {}
            Next::Payload(len) | Next::Same(len) => {
                stand_in.next = self.next;
                while stand_in.idle(u32::MAX) > 0 {}
                // The result does not matter.
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

    /// Whether a payload is for [`seal_long`](Self::seal_long).
    fn check_len(&self, len: usize) -> Result<bool, PublishError<N::Error>> {
        let own = self.head.algorithm.max_payload();
        let max = self.long.as_ref().map_or(own, LongKey::max_payload);
        if len > max { Err(PublishError::TooLong { len, max }) } else { Ok(len > own) }
    }

    /// Seals a payload that is too long for the lane, with the lane's next number: both algorithms
    /// share one sequence, which receivers need, and have keys of their own.
    fn seal_long(
        &mut self,
        time: Option<u32>,
        topic: &str,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<u64, PublishError<N::Error>> {
        topic::check_name(topic).map_err(PublishError::Topic)?;
        self.burn();
        self.next = Next::Anything;
        let (Some(long), Lane::Ccm(lane)) = (&self.long, &mut self.lane) else {
            let (len, max) = (payload.len(), self.head.algorithm.max_payload());
            return Err(PublishError::TooLong { len, max });
        };
        // A prepared number is burnt under the lane's key, and never under this one.
        let number = lane.next().map_err(PublishError::Number)?.number();
        long.seal(number, time, topic, payload, out);
        Ok(number)
    }
}

impl<N: Numbers> fmt::Debug for Publisher<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Publisher({}, epoch {}, ..)", self.head.algorithm, self.head.epoch)
    }
}
