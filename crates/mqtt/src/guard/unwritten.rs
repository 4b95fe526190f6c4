//! What was received since the last write.

use std::collections::BTreeMap;
use std::sync::Arc;

use antedate_channel::mqtt::Opened;

/// A publisher in an epoch, and a topic.
type Place = (Arc<[u8]>, u32, String);

/// Pairs of publisher and topic with messages since the last write.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    /// A message of each pair. The group knows the highest number.
    pairs: BTreeMap<Place, Opened>,
    /// The pair of the last message, which often is that of the next one.
    last: Option<Place>,
    /// Messages.
    messages: usize,
}

impl Unwritten {
    /// Takes a received message.
    pub(super) fn note(&mut self, topic: &str, opened: &Opened) {
        self.messages += 1;
        let is_same = |(publisher, epoch, last): &Place| {
            Arc::ptr_eq(publisher, &opened.publisher) && *epoch == opened.epoch && last == topic
        };
        if self.last.as_ref().is_some_and(is_same) {
            return;
        }
        let place = (Arc::clone(&opened.publisher), opened.epoch, topic.to_owned());
        self.last = Some(place.clone());
        self.pairs.insert(place, opened.clone());
    }

    /// A message of each pair, and its topic.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &Opened)> {
        self.pairs.iter().map(|((_, _, topic), opened)| (topic.as_str(), opened))
    }

    /// The number of messages.
    pub(super) const fn messages(&self) -> usize {
        self.messages
    }

    /// All is written.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
