//! Several readers behind one guard: each receives a message once.
//!
//! The guard authenticates. The caller keeps the replay windows, and the store their bounds, under
//! a place for each reader and topic.

use antedate_channel::mqtt::Opened;
use antedate_host::fault::Fault;

use super::{Guard, Verdict, fresh};

/// The lowest acceptable number of a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The topic.
    pub topic: String,
    /// The name of reader and topic. No topic contains U+0000, so it separates them.
    pub place: String,
    /// A message of the publisher and the epoch.
    pub opened: Opened,
    /// The lowest acceptable number.
    pub next: u64,
}

impl Guard {
    /// As [`open`](Self::open), whether the number is new or not.
    pub fn authenticate(&mut self, topic: &str, message: &[u8], out: &mut Vec<u8>) -> Verdict {
        out.clear();
        self.retire();
        if let Some(at) = self.rotates(topic) {
            return self.rotate(at, topic, message);
        }
        let Some(one) = self.groups.iter_mut().find_map(|one| one.covers(topic).then_some(one)) else {
            out.extend_from_slice(message);
            return Verdict::Plain;
        };
        let named = one.file.sealed_name(topic);
        let topic = &*named;
        let opened = one.group.authenticate(topic, message, out).and_then(|opened| {
            one.file.verified(topic, &opened, out)?;
            fresh(one.file.max_age(topic), opened.time)?;
            Ok(opened)
        });
        match opened {
            Ok(opened) => Verdict::Opened(opened),
            Err(refusal) => {
                out.clear();
                Verdict::Refused(refusal)
            }
        }
    }

    /// The lowest acceptable number of a reader, as recorded before a restart. 1 without a store.
    #[must_use]
    pub fn lowest(&self, topic: &str, place: &str, opened: &Opened) -> u64 {
        let Some(store) = &self.store else { return 1 };
        let one = self.groups.iter().find(|one| one.file.covers(topic));
        let known = one.and_then(|one| {
            Some((one.epoch_keys.get(&opened.epoch)?, one.group.material(opened.epoch, &opened.publisher)?))
        });
        known.map_or(1, |(epoch_key, material)| store.lowest(epoch_key, &material, place))
    }

    /// Makes bounds durable, by one write. Those of ended epochs are left out.
    ///
    /// # Errors
    /// When it did not become durable.
    pub fn record(&self, bounds: &[Bound]) -> Result<(), Fault> {
        let Some(store) = &self.store else { return Ok(()) };
        let known: Vec<_> = bounds
            .iter()
            .filter_map(|bound| {
                let one = self.groups.iter().find(|one| one.file.covers(&bound.topic))?;
                let epoch_key = one.epoch_keys.get(&bound.opened.epoch)?;
                Some((epoch_key, &bound.opened.publisher[..], bound.place.as_str(), bound.next))
            })
            .collect();
        if known.is_empty() { Ok(()) } else { store.received_with(known, || Ok(())) }
    }
}
