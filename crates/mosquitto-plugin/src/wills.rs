//! What was opened when the broker asked whether it may be published, until the broker shows what became of it.
//!
//! Mosquitto 2.0 shows a plugin what is published, and of a will no more than two questions: whether who left it may write to its
//! topic, and whether a subscriber may read it. Before a publish is shown, the first question is asked of it too. So what opens is
//! kept at the first question. A publish is shown at once, and takes it; what a subscriber would get as it was sealed is a will.

use std::collections::VecDeque;

/// What is kept at most: publishes that an access list refused afterwards stay until others come.
const MOST: usize = 64;
/// Bytes that are kept at most, but for one message.
const BYTES: usize = 4 << 20;

/// A message that opened.
struct Kept {
    topic: String,
    sealed: Vec<u8>,
    /// Nothing, once a will was published.
    opened: Option<Vec<u8>>,
    qos: u8,
    retain: bool,
}

/// A will as subscribers without keys get it.
pub(crate) struct Will {
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: u8,
    pub(crate) retain: bool,
}

/// Messages that opened and were not shown yet.
#[derive(Default)]
pub(crate) struct Wills {
    kept: VecDeque<Kept>,
}

impl Wills {
    /// Keeps what opened.
    pub(crate) fn keep(&mut self, topic: &str, sealed: &[u8], opened: Vec<u8>, qos: u8, retain: bool) {
        let (topic, sealed) = (topic.to_owned(), sealed.to_owned());
        self.kept.push_back(Kept { topic, sealed, opened: Some(opened), qos, retain });
        while self.kept.len() > MOST || (self.kept.len() > 1 && self.bytes() > BYTES) {
            self.kept.pop_front();
        }
    }

    fn bytes(&self) -> usize {
        self.kept.iter().map(|one| one.sealed.len() + one.opened.as_ref().map_or(0, Vec::len)).sum()
    }

    fn position(&self, topic: &str, sealed: &[u8]) -> Option<usize> {
        self.kept.iter().position(|one| one.topic == topic && one.sealed == sealed)
    }

    /// Whether this opened, and nobody has it yet: the broker may ask twice.
    pub(crate) fn waits(&self, topic: &str, sealed: &[u8]) -> bool {
        self.position(topic, sealed).is_some_and(|at| self.kept[at].opened.is_some())
    }

    /// The payload of a publish that is shown.
    pub(crate) fn shown(&mut self, topic: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let at = self.position(topic, sealed).filter(|at| self.kept[*at].opened.is_some())?;
        self.kept.remove(at)?.opened
    }

    /// What is to be published in the place of a will that a subscriber would get: the first time it is asked.
    pub(crate) fn will(&mut self, topic: &str, sealed: &[u8]) -> Option<Will> {
        let at = self.position(topic, sealed)?;
        let Kept { opened, qos, retain, .. } = &mut self.kept[at];
        Some(Will { payload: opened.take()?, qos: *qos, retain: *retain })
    }
}
