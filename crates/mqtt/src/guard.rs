//! What stands between an application and its client: payloads are sealed on their way out and opened on their way in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use antedate_channel::mqtt::rotation::{self, Rotation, RotationError};
use antedate_channel::mqtt::{Dropped, Group, Material, Opened, PayloadTemplate, PublishError, Publisher};
use antedate_host::fault::Fault;

use crate::file::{Device, GroupFile};
use crate::manage;
use crate::store::{Store, Stored};

/// All groups that a client takes part in.
#[derive(Debug)]
pub struct Guard {
    groups: Vec<Membership>,
    store: Option<Store>,
    device: Option<Device>,
    publisher: Option<String>,
}

#[derive(Debug)]
struct Membership {
    file: GroupFile,
    group: Group,
    publisher: Option<Publisher<Stored>>,
    /// What stands in for the publisher when a publish is rehearsed, and where its envelopes go.
    stand_in: Option<(Publisher<Stored>, Vec<u8>)>,
    /// When epochs before these end.
    retire: Vec<(Instant, u32)>,
    /// What was received since it was written down: the last opened message of each publisher, epoch and topic.
    unwritten: BTreeMap<(Arc<[u8]>, u32, String), Opened>,
    /// How many messages that were.
    unwritten_messages: usize,
    /// What is derived for nobody in each epoch, by which the state knows what was received in it.
    books: BTreeMap<u32, Material>,
    /// The topic that was found to be one of the group's last.
    covered: String,
    /// The newest key is from the state directory, and no rotation has come since.
    kept: bool,
    /// A rotation came that this device is left out of.
    left_out: bool,
}

/// No publisher has this name.
const NOBODY: &[u8] = b"\0";

impl Membership {
    /// Makes the books of epochs that have none yet.
    fn open_books(&mut self) {
        for epoch in self.group.epochs() {
            if let Some(book) = self.group.material(epoch, NOBODY) {
                self.books.entry(epoch).or_insert(book);
            }
        }
    }

    /// Whether a topic is one of the group's.
    fn covers(&mut self, topic: &str) -> bool {
        if !topic.is_empty() && self.covered == topic {
            return true;
        }
        let covers = self.file.covers(topic);
        if covers {
            topic.clone_into(&mut self.covered);
        }
        covers
    }
}

/// What became of a message that arrived.
#[derive(Debug)]
pub enum Verdict {
    /// The topic belongs to no group: the payload is as it came.
    Plain,
    /// It is authentic and new; the payload is in the buffer.
    Opened(Opened),
    /// It brought the key of a new epoch.
    Rotated {
        /// The group.
        group: String,
        /// The new epoch.
        epoch: u32,
    },
    /// It is the rotation that is in force, or an older one: nothing changed.
    Known {
        /// The group.
        group: String,
        /// Its epoch.
        epoch: u32,
        /// The newest epoch that was seen.
        newest: u32,
    },
    /// It is not to be believed.
    Refused(Dropped),
    /// It stands where rotation messages are, and is none for us.
    NoRotation(RotationError),
}

/// Why a payload was not sealed.
#[derive(Debug, thiserror::Error)]
pub enum CannotSeal {
    /// The topic belongs to no group.
    #[error("the topic {0:?} belongs to no group file, so nothing protects it")]
    NoGroup(String),
    /// The group has no key yet.
    #[error("the group {0:?} has no key here yet: no rotation message for this device is retained")]
    NoKey(String),
    /// Nobody said who publishes.
    #[error("there is no publisher's name")]
    NoName,
    /// There is no state for sequence numbers.
    #[error("there is no state directory, so nobody knows which sequence numbers were used")]
    NoState,
    /// The disk refused.
    #[error("{0:#}")]
    State(Fault),
    /// The payload or the topic cannot be.
    #[error("{0}")]
    Payload(String),
}

impl CannotSeal {
    /// What to do about it.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::NoGroup(_) => "name its group file with --keys",
            Self::NoKey(_) => {
                "let the manager call antedate mqtt rotate, with this device among the group's members"
            }
            Self::NoName => "name the publisher with --publisher, or its device file with --device",
            Self::NoState => "name it with --state, and make it once with antedate mqtt init",
            Self::State(_) => "",
            Self::Payload(_) => "publish less, or on a topic without wildcards, or choose another algorithm",
        }
    }
}

impl Guard {
    /// Takes the group files, the device's own key, where sequence numbers are kept, and the publisher's name (the device's
    /// if there is none). The last rotation of each group that is kept there is in force at once; a newer one replaces it as it comes.
    #[must_use]
    pub fn new(
        files: Vec<GroupFile>,
        device: Option<Device>,
        store: Option<Store>,
        publisher: Option<String>,
    ) -> Self {
        let publisher = publisher.or_else(|| device.as_ref().map(|device| device.name.clone()));
        let groups = files.into_iter().map(|file| Membership {
            group: file.to_group(),
            file,
            publisher: None,
            stand_in: None,
            retire: Vec::new(),
            unwritten: BTreeMap::new(),
            unwritten_messages: 0,
            books: BTreeMap::new(),
            covered: String::new(),
            kept: false,
            left_out: false,
        });
        let mut guard = Self { groups: groups.collect(), store, device, publisher };
        guard.groups.iter_mut().for_each(Membership::open_books);
        for at in 0..guard.groups.len() {
            guard.restore(at);
        }
        guard
    }

    /// The topics on which rotation messages for this client are retained.
    #[must_use]
    pub fn rotation_topics(&self) -> Vec<String> {
        let listening = self.groups.iter().filter(|one| self.device.is_some() && one.file.manager.is_some());
        listening.map(|one| one.file.rotation_topic.clone()).collect()
    }

    /// Whether a topic is one of a group's.
    #[must_use]
    pub fn covers(&self, topic: &str) -> bool {
        self.groups.iter().any(|one| one.file.covers(topic))
    }

    /// Seals a payload and appends the envelope to `out`; returns its epoch and sequence number.
    ///
    /// # Errors
    /// [`CannotSeal`].
    pub fn seal(&mut self, topic: &str, payload: &[u8], out: &mut Vec<u8>) -> Result<(u32, u64), CannotSeal> {
        let publisher = self.publisher(topic)?;
        let epoch = publisher.head().epoch;
        let sealed = publisher.seal(topic, payload, out);
        sealed.map(|number| (epoch, number)).map_err(|error| cannot(publisher, error))
    }

    /// Says that values of this template are published next, and prepares for them: a few microseconds, or as long as the disk takes when
    /// sequence numbers must be reserved. After the publish [`idle`](Self::idle) prepares for the next one of the same template.
    ///
    /// # Errors
    /// [`CannotSeal`].
    pub fn antedate(&mut self, template: &PayloadTemplate) -> Result<(), CannotSeal> {
        let publisher = self.publisher(template.topic())?;
        while publisher.antedate(template, u32::MAX) > 0 {}
        match publisher.numbers_mut().take_fault() {
            Some(fault) => Err(CannotSeal::State(fault)),
            None => Ok(()),
        }
    }

    /// Seals a publish of a template with these values, one for each hole, and appends the envelope to `out`; returns its epoch and
    /// sequence number. What was prepared for it need not be done now.
    ///
    /// # Errors
    /// [`CannotSeal`].
    pub fn seal_values(
        &mut self,
        template: &PayloadTemplate,
        values: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<(u32, u64), CannotSeal> {
        let publisher = self.publisher(template.topic())?;
        let epoch = publisher.head().epoch;
        let sealed = publisher.seal_values(template, values, out);
        sealed.map(|number| (epoch, number)).map_err(|error| cannot(publisher, error))
    }

    /// Reserves sequence numbers for a topic's publisher now, so that the next ones need no disk.
    ///
    /// # Errors
    /// [`CannotSeal`].
    pub fn reserve(&mut self, topic: &str, count: u64) -> Result<(), CannotSeal> {
        self.publisher(topic)?.numbers_mut().reserve(count).map_err(CannotSeal::State)
    }

    fn publisher(&mut self, topic: &str) -> Result<&mut Publisher<Stored>, CannotSeal> {
        let one = self.groups.iter_mut().find_map(|one| one.covers(topic).then_some(one));
        let one = one.ok_or_else(|| CannotSeal::NoGroup(topic.to_owned()))?;
        // What was kept is over for a device that the manager has left out since.
        let newest = one.group.newest().filter(|_| !(one.kept && one.left_out));
        let newest = newest.ok_or_else(|| CannotSeal::NoKey(one.file.group.clone()))?;
        let current = one.publisher.as_ref().is_some_and(|publisher| publisher.head().epoch == newest);
        if !current {
            let name = self.publisher.as_ref().ok_or(CannotSeal::NoName)?;
            let store = self.store.as_ref().ok_or(CannotSeal::NoState)?;
            let material = one.group.material(newest, name.as_bytes()).ok_or(CannotSeal::NoName)?;
            let numbers = store.numbers(&one.file.group, &material).map_err(CannotSeal::State)?;
            one.publisher = Some(Publisher::new(&material, numbers));
        }
        one.publisher.as_mut().ok_or(CannotSeal::NoName)
    }

    /// Opens what arrived on a topic into `out`.
    pub fn open(&mut self, topic: &str, message: &[u8], out: &mut Vec<u8>) -> Verdict {
        out.clear();
        self.retire();
        let listening = self.device.is_some();
        if let Some(at) = self.groups.iter().position(|one| listening && one.file.rotation_topic == topic) {
            return self.rotate(at, message);
        }
        let Some(one) = self.groups.iter_mut().find_map(|one| one.covers(topic).then_some(one)) else {
            out.extend_from_slice(message);
            return Verdict::Plain;
        };
        let store = self.store.as_ref();
        match one.group.open_from(topic, message, out, lowest(store, &one.books, topic)) {
            Ok(opened) => {
                if store.is_some() {
                    let place = (Arc::clone(&opened.publisher), opened.epoch, topic.to_owned());
                    one.unwritten.insert(place, opened.clone());
                    one.unwritten_messages += 1;
                }
                Verdict::Opened(opened)
            }
            Err(refusal) => Verdict::Refused(refusal),
        }
    }

    /// Whether a message on a topic of a group would be opened now. It does not count as received.
    ///
    /// # Errors
    /// Why it would not.
    pub fn check(&mut self, topic: &str, message: &[u8]) -> Result<(), Dropped> {
        self.retire();
        let Some(one) = self.groups.iter_mut().find_map(|one| one.covers(topic).then_some(one)) else {
            return Ok(());
        };
        one.group.check_from(topic, message, lowest(self.store.as_ref(), &one.books, topic))
    }

    /// Prepares for the next messages of those who published last, and for the next publish: to be called when there is nothing
    /// else to do, for a few microseconds, or as long as the disk takes when sequence numbers must be reserved. A publish that is like
    /// the last one, on the same template or of the same length, finds itself prepared then.
    pub fn idle(&mut self) {
        for one in &mut self.groups {
            one.group.idle(u32::MAX);
            // Where there was no number, the next publish asks for one again, and says why if there is none still.
            if let Some(publisher) = &mut one.publisher
                && !publisher.numbers_mut().is_out()
            {
                publisher.idle(u32::MAX);
            }
        }
    }

    /// Rehearses the next publish, for whoever waits for a reading and has nothing else to do; to be called after
    /// [`idle`](Self::idle) or [`antedate`](Self::antedate), the later the better, for a few microseconds. What other programs did
    /// meanwhile has pushed the way to seal out of the CPU's caches; this brings it back before the reading is there.
    ///
    /// It is done with a random key that protects nothing, and no sequence number of the publisher's is used.
    pub fn rehearse(&mut self) {
        let Some(store) = &self.store else { return };
        for one in &mut self.groups {
            let Some(publisher) = &one.publisher else { continue };
            if one.stand_in.is_none() {
                // Without random numbers there is no rehearsal, and nothing else is missing.
                let Ok(secret) = manage::random() else { return };
                let head = publisher.head();
                let material = Material::derive("rehearsal", head.algorithm, 1, &secret, &head.publisher);
                one.stand_in = material.map(|m| (Publisher::new(&m, store.fleeting(&m)), Vec::new()));
            }
            if let Some((stand_in, out)) = &mut one.stand_in {
                publisher.rehearse(stand_in, out);
            }
        }
    }

    /// Takes the rotation of a group that was kept, which is verified as one that comes, and for the rest of its grace the one before.
    fn restore(&mut self, at: usize) {
        let (Some(one), Some(store)) = (self.groups.get(at), self.store.clone()) else { return };
        let group = one.file.group.clone();
        let Some(message) = store.rotation(&group) else { return };
        let Verdict::Rotated { epoch, .. } = self.rotate(at, &message) else { return };
        let grace = self.read(at, &message).map_or(0, |rotation| rotation.grace);
        let former = store.former_rotation(&group);
        let former = former.and_then(|(message, ago)| Some((self.read(at, &message).ok()?, ago)));
        let Some(one) = self.groups.get_mut(at) else { return };
        one.kept = true;
        if let Some((former, ago)) = former {
            let next = former.epoch.checked_add(1) == Some(epoch);
            let left = Duration::from_secs(if next { grace.into() } else { 0 }).saturating_sub(ago);
            one.group.install(former.epoch, &former.secret);
            one.open_books();
            one.retire.push((Instant::now() + left, epoch));
            // Where a crash came before that.
            self.forget_numbers(at);
            // If its time is over, what came in it is forgotten now.
            self.retire();
        }
    }

    /// Reads a rotation message as a member.
    fn read(&self, at: usize, message: &[u8]) -> Result<Rotation, RotationError> {
        let (Some(one), Some(device)) = (self.groups.get(at), &self.device) else {
            return Err(RotationError::Format);
        };
        let manager = one.file.manager.ok_or(RotationError::Signature)?;
        let name = device.name.as_bytes();
        let rotation = rotation::open(&one.file.group, message, &manager, name, &device.secret)?;
        if rotation.algorithm == one.file.algorithm { Ok(rotation) } else { Err(RotationError::Format) }
    }

    fn rotate(&mut self, at: usize, message: &[u8]) -> Verdict {
        let opened = self.read(at, message);
        let Some(one) = self.groups.get_mut(at) else { return Verdict::Plain };
        let Some(manager) = one.file.manager else { return Verdict::Plain };
        let rotation = match opened {
            Ok(rotation) => rotation,
            Err(refusal) => {
                one.left_out |= refusal == RotationError::NotMember;
                return Verdict::NoRotation(refusal);
            }
        };
        let (group, epoch) = (one.file.group.clone(), rotation.epoch);
        // A broker that goes back to an older rotation would bring a revoked member back.
        let seen = self.store.as_ref().map_or(0, |store| store.epoch(&group, &manager));
        let before = one.group.newest();
        if epoch < seen || !one.group.rotate(&rotation) {
            if before == Some(epoch) && !one.group.has(epoch, &rotation.secret) {
                return Verdict::NoRotation(RotationError::OtherKey);
            }
            // The newest of all is for this device. That it is left out was said of an older one, or is not said any more.
            one.left_out &= before != Some(epoch);
            let newest = one.group.newest().map_or(seen, |newest| newest.max(seen));
            return Verdict::Known { group, epoch, newest };
        }
        one.open_books();
        (one.kept, one.left_out) = (false, false);
        // The grace is for the epoch directly before. Of those that were missed one may have ended by a revocation.
        let next = before.is_some_and(|before| before.checked_add(1) == Some(epoch));
        let grace = if next { rotation.grace } else { 0 };
        if let Some(store) = &self.store {
            // The message first: a crash in between leaves one that is not older than the epoch. If it does not get to the disk, the
            // next start waits for the broker's.
            if store.rotation(&group).as_deref() != Some(message) {
                let _ = store.keep_rotation(&group, message, grace > 0);
            }
            // If this does not get to the disk, the next start believes an older rotation once more.
            let _ = store.reached(&group, &manager, epoch);
        }
        self.forget_numbers(at);
        let Some(one) = self.groups.get_mut(at) else { return Verdict::Plain };
        if before.is_some() {
            one.retire.push((Instant::now() + Duration::from_secs(grace.into()), epoch));
        }
        self.retire();
        Verdict::Rotated { group, epoch }
    }

    /// Forgets the sequence numbers of epochs before the one that the state says was reached: nobody publishes under them any more.
    fn forget_numbers(&mut self, at: usize) {
        let (Some(store), Some(name)) = (&self.store, &self.publisher) else { return };
        let Some(one) = self.groups.get_mut(at) else { return };
        let Some(manager) = one.file.manager else { return };
        let reached = store.epoch(&one.file.group, &manager);
        // It would reserve numbers again.
        one.publisher.take_if(|publisher| publisher.head().epoch < reached);
        let over: Vec<Material> =
            one.group.epochs().filter_map(|epoch| one.group.material(epoch, name.as_bytes())).collect();
        // If this does not get to the disk, the records only stay.
        let _ = store.forget_numbers(&one.file.group, &manager, &over);
    }

    /// Ends the epochs whose time is over. A later rotation does not prolong the time of those before.
    fn retire(&mut self) {
        for one in self.groups.iter_mut().filter(|one| !one.retire.is_empty()) {
            let now = Instant::now();
            let Some(epoch) =
                one.retire.iter().filter(|(when, _)| now >= *when).map(|(_, epoch)| *epoch).max()
            else {
                continue;
            };
            one.retire.retain(|(_, later)| *later > epoch);
            let over = one.group.retire_before(epoch);
            let books = one.books.split_off(&epoch);
            let books = std::mem::replace(&mut one.books, books);
            let Some(store) = &self.store else { continue };
            // What came under a key that may come back must be known: by a message that is still there, by an epoch that is not on the
            // disk, or from a file. If this does not get to the disk, the records only stay.
            let group = &one.file.group;
            let gone = !one.retire.is_empty() || store.drop_former_rotation(group).is_ok();
            let seen = one.file.manager.is_some_and(|manager| store.epoch(group, &manager) >= epoch);
            if gone && seen && one.file.keys.is_empty() {
                let _ = store.forget(over.iter().chain(books.values()));
            }
        }
    }

    /// Whether there is a key for every group whose topics one could publish on.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        self.groups.iter().all(|one| one.group.newest().is_some())
    }

    /// Makes durable what was received so far: none of it is accepted again after a restart.
    ///
    /// # Errors
    /// When it did not become durable.
    pub fn flush(&mut self) -> Result<(), Fault> {
        if self.unwritten() == 0 { Ok(()) } else { self.deliver(|| Ok(())) }
    }

    /// As [`flush`](Self::flush), with the application's own act at the last moment before it counts: printing a payload, say. A
    /// process that is killed has done both or neither, but for the time of a system call between the two. Without a state
    /// directory only `act` is done.
    ///
    /// # Errors
    /// When it did not become durable, or `act` failed: then nothing counts as received.
    pub fn deliver(&mut self, act: impl FnOnce() -> std::io::Result<()>) -> Result<(), Fault> {
        let cannot =
            |error| Fault::of_io("the payload".as_ref(), "pass it on", &error, "give it somewhere to go");
        let Some(store) = &self.store else { return act().map_err(cannot) };
        let mut bounds = Vec::new();
        for one in &self.groups {
            for ((_, _, topic), opened) in &one.unwritten {
                let received = one.group.received(opened, topic).zip(one.books.get(&opened.epoch));
                if let Some(((material, next), book)) = received {
                    bounds.push((book, &material.head().publisher[..], topic.as_str(), next));
                }
            }
        }
        if bounds.is_empty() {
            act().map_err(cannot)?;
        } else {
            store.received_with(bounds, act)?;
        }
        for one in &mut self.groups {
            one.unwritten.clear();
            one.unwritten_messages = 0;
        }
        Ok(())
    }

    /// How many messages are not written down yet.
    #[must_use]
    pub fn unwritten(&self) -> usize {
        self.groups.iter().map(|one| one.unwritten_messages).sum()
    }

    /// The clean end: writes down what was received and the exact next sequence numbers.
    ///
    /// # Errors
    /// When it did not become durable: then numbers are lost, not used twice.
    pub fn close(mut self) -> Result<(), Fault> {
        self.flush()?;
        let Some(store) = self.store.take() else { return Ok(()) };
        let mut publishers: Vec<Publisher<Stored>> =
            self.groups.into_iter().filter_map(|one| one.publisher).collect();
        let numbers: Vec<&Stored> =
            publishers.iter_mut().map(|publisher| &*publisher.numbers_mut()).collect();
        store.close(numbers)
    }
}

/// The lowest number that may come from a publisher on a topic.
fn lowest(
    store: Option<&Store>,
    books: &BTreeMap<u32, Material>,
    topic: &str,
) -> impl FnOnce(&Material) -> u64 {
    move |material| {
        let book = books.get(&material.head().epoch);
        store.zip(book).map_or(1, |(store, book)| store.lowest(book, material, topic))
    }
}

fn cannot<E: std::fmt::Display>(publisher: &mut Publisher<Stored>, error: PublishError<E>) -> CannotSeal {
    match publisher.numbers_mut().take_fault() {
        Some(fault) => CannotSeal::State(fault),
        None => CannotSeal::Payload(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use antedate_channel::mqtt::{Algorithm, Reserved};

    use super::*;

    #[test]
    fn what_a_disk_does_not_take_is_kept_once_for_each_publisher_and_topic() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("state");
        Store::create(&place).expect("created");
        let topics = vec!["plant/#".to_owned()];
        let group = manage::new_group("g", Algorithm::A128Gcm, topics, Vec::new()).expect("a group");
        let file = GroupFile::parse(Path::new("g"), &group.to_text(false)).expect("a group");
        let material = group.to_group().material(1, b"press7").expect("a publisher");
        let mut publisher = Publisher::new(&material, Reserved::new(1, u64::MAX));
        let mut guard = Guard::new(vec![file], None, Some(Store::open(&place).expect("opened")), None);
        // The next state has no place.
        let next = place.join("packet-numbers.new");
        std::fs::create_dir(&next).expect("a directory");
        for number in 0..100 {
            let (topic, mut envelope) = (["plant/a", "plant/b"][number % 2], Vec::new());
            publisher.seal(topic, b"x", &mut envelope).expect("sealed");
            assert!(matches!(guard.open(topic, &envelope, &mut Vec::new()), Verdict::Opened(_)));
            assert!(guard.flush().is_err());
        }
        let kept: usize = guard.groups.iter().map(|one| one.unwritten.len()).sum();
        assert_eq!((guard.unwritten(), kept), (100, 2));
        std::fs::remove_dir(&next).expect("removed");
        guard.flush().expect("durable");
        assert_eq!(guard.unwritten(), 0);
        let store = guard.store.as_ref().expect("a store");
        let book = group.to_group().material(1, NOBODY).expect("a book");
        assert_eq!(["plant/a", "plant/b"].map(|topic| store.lowest(&book, &material, topic)), [100, 101]);
    }
}
