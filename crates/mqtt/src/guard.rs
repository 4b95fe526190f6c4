//! Seals the payloads that a client publishes, opens the payloads that it receives, and follows
//! rotations.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use antedate_channel::mqtt::rotation::{self, Rotation, RotationError};
use antedate_channel::mqtt::signed::SignedPlace;
use antedate_channel::mqtt::{Dropped, Group, Material, Opened, PayloadTemplate, PublishError, Publisher};
use antedate_host::clock::Moment;
use antedate_host::fault::Fault;

use crate::file::{Device, GroupFile};
use crate::manage;
use crate::store::{Store, Stored};

mod readers;
mod unwritten;

pub use readers::Bound;
use unwritten::Unwritten;

/// All groups of a client.
#[derive(Debug)]
pub struct Guard {
    groups: Vec<Membership>,
    store: Option<Store>,
    device: Option<Device>,
    publisher: Option<String>,
    /// Whether topics of a group have other names behind a bridge.
    mapped: bool,
}

#[derive(Debug)]
struct Membership {
    file: GroupFile,
    group: Group,
    publisher: Option<Publisher<Stored>>,
    /// A publisher with a random key for [`Guard::rehearse`], and its output.
    rehearsal: Option<(Publisher<Stored>, Vec<u8>)>,
    /// Deadlines, each with the epoch before which all epochs end then.
    retire: Vec<(Moment, u32)>,
    unwritten: Unwritten,
    /// The key material of each epoch without a publisher, which identifies its bounds in the
    /// store.
    epoch_keys: BTreeMap<u32, Material>,
    /// The last topic that the group covered.
    covered: String,
    /// The topics of rotation messages: for all members, and for this device.
    rotations: Vec<String>,
    /// Whether the newest key is from the state directory and no rotation was received since.
    kept: bool,
    /// Whether a received rotation has no key for this device.
    left_out: bool,
}

/// With a store, most pairs of publisher and topic with a window in memory. The store has the others:
/// their number rises, as after a restart.
const REMEMBERED: usize = if cfg!(test) { 8 } else { 8192 };

/// A publisher's name for epoch keys. [`is_name`](crate::file::is_name) refuses it.
const NO_PUBLISHER: &[u8] = b"\0";

impl Membership {
    /// Derives the missing epoch keys.
    fn derive_epoch_keys(&mut self) {
        for epoch in self.group.epochs() {
            if let Some(epoch_key) = self.group.material(epoch, NO_PUBLISHER) {
                self.epoch_keys.entry(epoch).or_insert(epoch_key);
            }
        }
    }

    /// Whether the group protects a topic.
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

/// The outcome of a received message.
#[derive(Debug)]
pub enum Verdict {
    /// The topic belongs to no group. The buffer has the payload unchanged.
    Plain,
    /// The message is authentic and new. The buffer has the payload.
    Opened(Opened),
    /// The message is a rotation to a new epoch.
    Rotated {
        /// The group.
        group: String,
        /// The new epoch.
        epoch: u32,
    },
    /// The message is the current rotation or an older one. Nothing changed.
    Known {
        /// The group.
        group: String,
        /// The epoch of the message.
        epoch: u32,
        /// The newest known epoch.
        newest: u32,
    },
    /// The envelope was dropped.
    Refused(Dropped),
    /// The message on a rotation topic is no rotation for this device.
    NoRotation(RotationError),
}

/// A payload cannot be sealed.
#[derive(Debug)]
pub enum SealError {
    /// The topic belongs to no group.
    NoGroup(String),
    /// The group has no key yet.
    NoKey(String),
    /// The topic is signed, and there is no device key to sign with.
    NoSigner(String),
    /// The publisher has no name.
    NoName,
    /// There is no state directory for sequence numbers.
    NoState,
    /// The store failed.
    State(Fault),
    /// The payload or the topic is not possible.
    Payload(String),
}

impl std::error::Error for SealError {}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGroup(topic) => {
                write!(f, "the topic {topic:?} belongs to no group file, so nothing protects it")
            }
            Self::NoKey(group) => write!(
                f,
                "the group {group:?} has no key here yet: no rotation message for this device is retained"
            ),
            Self::NoSigner(topic) => {
                write!(f, "messages of {topic:?} are signed, and there is no device's key to sign with")
            }
            Self::NoName => f.write_str("there is no publisher's name"),
            Self::NoState => {
                f.write_str("there is no state directory, so nobody knows which sequence numbers were used")
            }
            Self::State(fault) => write!(f, "{fault:#}"),
            Self::Payload(why) => f.write_str(why),
        }
    }
}

impl SealError {
    /// The remedy.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::NoGroup(_) => "name its group file with --keys",
            Self::NoKey(_) => {
                "let the manager call antedate mqtt rotate, with this device among the group's members"
            }
            Self::NoSigner(_) => "name the device file with --device",
            Self::NoName => "name the publisher with --publisher, or its device file with --device",
            Self::NoState => "name it with --state, and make it once with antedate mqtt init",
            Self::State(_) => "",
            Self::Payload(_) => "publish less, or on a topic without wildcards, or choose another algorithm",
        }
    }
}

impl Guard {
    /// A guard for these groups. `publisher` defaults to the device's name. The store's last
    /// rotation of each group takes effect at once.
    #[must_use]
    pub fn new(
        files: Vec<GroupFile>,
        device: Option<Device>,
        store: Option<Store>,
        publisher: Option<String>,
    ) -> Self {
        let publisher = publisher.or_else(|| device.as_ref().map(|device| device.name.clone()));
        let mapped = files.iter().any(|file| !file.topic_maps.is_empty());
        let rotations = |file: &GroupFile| match &device {
            Some(device) if file.manager.is_some() => {
                vec![file.rotation_topic_here(None), file.rotation_topic_here(Some(&device.name))]
            }
            _ => Vec::new(),
        };
        let groups = files.into_iter().map(|file| Membership {
            rotations: rotations(&file),
            group: file.to_group(),
            file,
            publisher: None,
            rehearsal: None,
            retire: Vec::new(),
            unwritten: Unwritten::default(),
            epoch_keys: BTreeMap::new(),
            covered: String::new(),
            kept: false,
            left_out: false,
        });
        let groups = groups.collect();
        let mut guard = Self { groups, store, device, publisher, mapped };
        guard.groups.iter_mut().for_each(Membership::derive_epoch_keys);
        for at in 0..guard.groups.len() {
            guard.restore(at);
        }
        guard
    }

    /// The rotation topics that this client must subscribe to: for each group, that for all members and
    /// its own.
    #[must_use]
    pub fn rotation_topics(&self) -> Vec<String> {
        self.groups.iter().flat_map(|one| one.rotations.iter().cloned()).collect()
    }

    /// Whether a group protects a topic.
    #[must_use]
    pub fn covers(&self, topic: &str) -> bool {
        self.groups.iter().any(|one| one.file.covers(topic))
    }

    /// Seals a payload and appends the envelope to `out`. Returns its epoch and sequence number.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal(&mut self, topic: &str, payload: &[u8], out: &mut Vec<u8>) -> Result<(u32, u64), SealError> {
        let dated = self.max_age(topic).is_some();
        let named = self.sealed_name(topic);
        if let Some(group) = self.signed(topic) {
            let device = self.device.as_ref().ok_or_else(|| SealError::NoSigner(topic.to_owned()))?;
            let secret = device.signing();
            let publisher = self.publisher(topic)?;
            let (epoch, name) = (publisher.head().epoch, publisher.head().publisher.clone());
            let sign = |sequence| {
                let place = SignedPlace { group: &group, topic: &named, publisher: &name, epoch, sequence };
                place.sign(&secret, payload)
            };
            let sealed = publisher.seal_made(dated.then(now), &named, sign, out);
            return sealed.map(|number| (epoch, number)).map_err(|error| seal_error(publisher, error));
        }
        let publisher = self.publisher(topic)?;
        let epoch = publisher.head().epoch;
        let sealed = match dated {
            true => publisher.seal_at(now(), &named, payload, out),
            false => publisher.seal(&named, payload, out),
        };
        sealed.map(|number| (epoch, number)).map_err(|error| seal_error(publisher, error))
    }

    /// Prepares the next publish of a template. Takes a few microseconds, or a disk write when
    /// sequence numbers must be reserved. After the publish, [`idle`](Self::idle) prepares the next
    /// one of the same template.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn antedate(&mut self, template: &PayloadTemplate) -> Result<(), SealError> {
        if !self.is_preparable(template.topic()) {
            return Ok(());
        }
        let publisher = self.publisher(template.topic())?;
        publisher.antedate(template, u32::MAX);
        match publisher.numbers_mut().take_fault() {
            Some(fault) => Err(SealError::State(fault)),
            None => Ok(()),
        }
    }

    /// Seals a template with one value for each hole and appends the envelope to `out`. Returns its
    /// epoch and sequence number. Uses what [`antedate`](Self::antedate) prepared.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal_values(
        &mut self,
        template: &PayloadTemplate,
        values: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<(u32, u64), SealError> {
        if !self.is_preparable(template.topic()) {
            return self.seal(template.topic(), &template.fill(values), out);
        }
        let publisher = self.publisher(template.topic())?;
        let epoch = publisher.head().epoch;
        let sealed = publisher.seal_values(template, values, out);
        sealed.map(|number| (epoch, number)).map_err(|error| seal_error(publisher, error))
    }

    /// Reserves the next `count` sequence numbers of a topic's publisher on the disk.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn reserve(&mut self, topic: &str, count: u64) -> Result<(), SealError> {
        self.publisher(topic)?.numbers_mut().reserve(count).map_err(SealError::State)
    }

    /// Reserves sequence numbers of each group that has a key, so that a state which cannot be written is
    /// told at the start.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn reserve_all(&mut self) -> Result<(), SealError> {
        for at in 0..self.groups.len() {
            match self.publisher_of(at) {
                Ok(publisher) => publisher.numbers_mut().reserve(1).map_err(SealError::State)?,
                Err(SealError::NoKey(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether a template of a topic can be prepared. A time is not known before, a signature is of the
    /// whole payload, and the template has the topic of this side of a bridge.
    fn is_preparable(&mut self, topic: &str) -> bool {
        !self.mapped && self.max_age(topic).is_none() && self.signed(topic).is_none()
    }

    /// The name under which payloads of a topic are sealed.
    fn sealed_name<'a>(&mut self, topic: &'a str) -> Cow<'a, str> {
        if !self.mapped {
            return Cow::Borrowed(topic);
        }
        let one = self.groups.iter_mut().find_map(|one| one.covers(topic).then_some(one));
        one.map_or(Cow::Borrowed(topic), |one| one.file.sealed_name(topic))
    }

    /// The seconds after which a message of a topic is refused. The group that covers it says so.
    fn max_age(&mut self, topic: &str) -> Option<u32> {
        let one = self.groups.iter_mut().find_map(|one| one.covers(topic).then_some(one))?;
        one.file.max_age(&one.file.sealed_name(topic))
    }

    /// The groups in whose files no topic has a most age: a recorded message of any topic is new to a
    /// reader that was away.
    pub fn ageless(&self) -> impl Iterator<Item = &str> {
        let ageless = self.groups.iter().filter(|one| one.file.max_ages.is_empty());
        ageless.map(|one| one.file.group.as_str())
    }

    /// The name of the group that demands signatures on a topic.
    fn signed(&mut self, topic: &str) -> Option<String> {
        let one = self.groups.iter_mut().find_map(|one| one.covers(topic).then_some(one))?;
        one.file.is_signed(&one.file.sealed_name(topic)).then(|| one.file.group.clone())
    }

    fn publisher(&mut self, topic: &str) -> Result<&mut Publisher<Stored>, SealError> {
        let at = self.groups.iter_mut().position(|one| one.covers(topic));
        self.publisher_of(at.ok_or_else(|| SealError::NoGroup(topic.to_owned()))?)
    }

    /// The publisher of the group at this place.
    fn publisher_of(&mut self, at: usize) -> Result<&mut Publisher<Stored>, SealError> {
        let one = &mut self.groups[at];
        // The manager has left this device out since the rotation was kept.
        let newest = one.group.newest().filter(|_| !(one.kept && one.left_out));
        let newest = newest.ok_or_else(|| SealError::NoKey(one.file.group.clone()))?;
        let current = one.publisher.as_ref().is_some_and(|publisher| publisher.head().epoch == newest);
        if !current {
            let name = self.publisher.as_ref().ok_or(SealError::NoName)?;
            let store = self.store.as_ref().ok_or(SealError::NoState)?;
            let material = one.group.material(newest, name.as_bytes()).ok_or(SealError::NoName)?;
            let numbers = store.numbers(&one.file.group, &material).map_err(SealError::State)?;
            one.publisher = Some(Publisher::new(&material, numbers));
        }
        one.publisher.as_mut().ok_or(SealError::NoName)
    }

    /// Opens a received message into `out`.
    pub fn open(&mut self, topic: &str, message: &[u8], out: &mut Vec<u8>) -> Verdict {
        out.clear();
        self.retire();
        if let Some(at) = self.rotates(topic) {
            return self.rotate(at, topic, message);
        }
        let Some(one) = self.groups.iter_mut().find_map(|one| one.covers(topic).then_some(one)) else {
            out.extend_from_slice(message);
            return Verdict::Plain;
        };
        let store = self.store.as_ref();
        let named = one.file.sealed_name(topic);
        let topic = &*named;
        // Verified before the number counts: a member could use up another's.
        if one.file.is_signed(topic) {
            let peeked = one.group.peek_from(topic, message, out, lowest(store, &one.epoch_keys, topic));
            if let Err(refusal) = peeked.and_then(|opened| one.file.verified(topic, &opened, out)) {
                out.clear();
                return Verdict::Refused(refusal);
            }
        }
        match one.group.open_from(topic, message, out, lowest(store, &one.epoch_keys, topic)) {
            Ok(opened) => {
                // A stale message was received as well: its number is used.
                if store.is_some() {
                    one.unwritten.note(topic, &opened);
                }
                let verified = one.file.verified(topic, &opened, out);
                match verified.and_then(|()| fresh(one.file.max_age(topic), opened.time)) {
                    Ok(()) => Verdict::Opened(opened),
                    Err(refusal) => {
                        out.clear();
                        Verdict::Refused(refusal)
                    }
                }
            }
            Err(refusal) => Verdict::Refused(refusal),
        }
    }

    /// The group with this rotation topic.
    fn rotates(&self, topic: &str) -> Option<usize> {
        self.groups.iter().position(|one| one.rotations.iter().any(|own| own == topic))
    }

    /// Checks whether [`open`](Self::open) would open a message. The message does not count as
    /// received.
    ///
    /// # Errors
    /// When the message would be dropped.
    pub fn check(&mut self, topic: &str, message: &[u8]) -> Result<(), Dropped> {
        self.retire();
        let Some(one) = self.groups.iter_mut().find_map(|one| one.covers(topic).then_some(one)) else {
            return Ok(());
        };
        let named = one.file.sealed_name(topic);
        let topic = &*named;
        let mut payload = Vec::new();
        let lowest = lowest(self.store.as_ref(), &one.epoch_keys, topic);
        let opened = one.group.peek_from(topic, message, &mut payload, lowest)?;
        one.file.verified(topic, &opened, &mut payload)?;
        fresh(one.file.max_age(topic), opened.time)
    }

    /// Prepares the next messages of recent publishers and the next own publish, of the last
    /// template or length. Call it in idle time. Takes a few microseconds, or a disk write when
    /// sequence numbers must be reserved.
    pub fn idle(&mut self) {
        for one in &mut self.groups {
            one.group.idle(u32::MAX);
            // After a failure the next publish asks for a number again and reports the fault.
            if let Some(publisher) = &mut one.publisher
                && !publisher.numbers_mut().is_out()
            {
                publisher.idle(u32::MAX);
            }
        }
    }

    /// Rehearses the next publish to bring its code and data into the CPU's caches. Call it after
    /// [`idle`](Self::idle) or [`antedate`](Self::antedate), shortly before the publish. Takes a
    /// few microseconds.
    ///
    /// It uses a random key that protects nothing, and no sequence number of the publisher.
    pub fn rehearse(&mut self) {
        let Some(store) = &self.store else { return };
        for one in &mut self.groups {
            let Some(publisher) = &one.publisher else { continue };
            if one.rehearsal.is_none() {
                // A rehearsal is optional, so a failure is not reported.
                let Ok(secret) = manage::random() else { return };
                let head = publisher.head();
                let material = Material::derive("rehearsal", head.algorithm, 1, &secret, &head.publisher);
                one.rehearsal = material.map(|m| (Publisher::new(&m, store.fleeting(&m)), Vec::new()));
            }
            if let Some((rehearsal, out)) = &mut one.rehearsal {
                publisher.rehearse(rehearsal, out);
            }
        }
    }

    /// Loads a group's kept rotation, verified as a received one, and the former one for the rest
    /// of its grace.
    fn restore(&mut self, at: usize) {
        let (Some(one), Some(store)) = (self.groups.get(at), self.store.clone()) else { return };
        let group = one.file.group.clone();
        let Some(message) = store.rotation(&group) else { return };
        let Verdict::Rotated { epoch, .. } = self.rotate(at, "", &message) else { return };
        let (grace, first) =
            self.read(at, &message).map_or((0, epoch), |rotation| (rotation.grace, rotation.first()));
        let former = store.former_rotation(&group);
        let former = former.and_then(|(message, ago)| Some((self.read(at, &message).ok()?, ago)));
        let Some(one) = self.groups.get_mut(at) else { return };
        one.kept = true;
        if let Some((former, ago)) = former {
            let next = former.epoch.checked_add(1) == Some(epoch);
            let left = Duration::from_secs(if next { grace.into() } else { 0 }).saturating_sub(ago);
            one.group.install(former.epoch, &former.secret);
            one.derive_epoch_keys();
            one.retire.push((Moment::now() + left, first));
            // A crash may have prevented it.
            self.forget_numbers(at);
            // The grace may be over already.
            self.retire();
        }
    }

    /// Verifies and decrypts a rotation message.
    fn read(&self, at: usize, message: &[u8]) -> Result<Rotation, RotationError> {
        let (Some(one), Some(device)) = (self.groups.get(at), &self.device) else {
            return Err(RotationError::Format);
        };
        let manager = one.file.manager.ok_or(RotationError::Signature)?;
        let name = device.name.as_bytes();
        let rotation = rotation::open(&one.file.group, message, &manager, name, &device.secret)?;
        if rotation.algorithm == one.file.algorithm { Ok(rotation) } else { Err(RotationError::Format) }
    }

    /// Follows a rotation message of a topic.
    fn rotate(&mut self, at: usize, topic: &str, message: &[u8]) -> Verdict {
        let opened = self.read(at, message);
        let Some(one) = self.groups.get_mut(at) else { return Verdict::Plain };
        let Some(manager) = one.file.manager else { return Verdict::Plain };
        let rotation = match opened {
            Ok(rotation) => rotation,
            // On the topic for all it says that each member has a message of its own, whose topic is the
            // other one.
            Err(RotationError::PerMember) if one.rotations.first().is_some_and(|all| all == topic) => {
                let newest = one.group.newest().unwrap_or_default();
                return Verdict::Known { group: one.file.group.clone(), epoch: newest, newest };
            }
            Err(RotationError::PerMember) => {
                one.left_out = true;
                return Verdict::NoRotation(RotationError::NotMember);
            }
            Err(refusal) => {
                // With its name and another key the device was replaced.
                one.left_out |= matches!(refusal, RotationError::NotMember | RotationError::Unauthentic);
                return Verdict::NoRotation(refusal);
            }
        };
        let (group, epoch, first) = (one.file.group.clone(), rotation.epoch, rotation.first());
        // An older rotation from the broker would bring a revoked member back.
        let seen = self.store.as_ref().map_or(0, |store| store.epoch(&group, &manager));
        let before = one.group.newest();
        if epoch < seen || !one.group.rotate(&rotation) {
            if before == Some(epoch) && !one.group.has(epoch, &rotation.secret) {
                return Verdict::NoRotation(RotationError::OtherKey);
            }
            // The newest rotation is for this device, so an older one that left it out no longer
            // counts.
            one.left_out &= before != Some(epoch);
            let newest = one.group.newest().map_or(seen, |newest| newest.max(seen));
            return Verdict::Known { group, epoch, newest };
        }
        one.derive_epoch_keys();
        (one.kept, one.left_out) = (false, false);
        // The grace is for the previous epoch only: a revocation may have ended a missed one.
        let next = before.is_some_and(|before| before.checked_add(1) == Some(epoch));
        let grace = if next { rotation.grace } else { 0 };
        if let Some(store) = &self.store {
            // The message comes first: after a crash in between it is not older than the epoch. On
            // failure the next start waits for the broker's message.
            if store.rotation(&group).as_deref() != Some(message) {
                let _ = store.keep_rotation(&group, message, grace > 0);
            }
            // On failure the next start accepts an older rotation once more.
            let _ = store.reached(&group, &manager, epoch);
        }
        self.forget_numbers(at);
        let Some(one) = self.groups.get_mut(at) else { return Verdict::Plain };
        if before.is_some() {
            one.retire.push((Moment::now() + Duration::from_secs(grace.into()), first));
        }
        self.retire();
        Verdict::Rotated { group, epoch }
    }

    /// Forgets the sequence numbers of epochs before the reached one. Nothing is published under
    /// them.
    fn forget_numbers(&mut self, at: usize) {
        let (Some(store), Some(name)) = (&self.store, &self.publisher) else { return };
        let Some(one) = self.groups.get_mut(at) else { return };
        let Some(manager) = one.file.manager else { return };
        let reached = store.epoch(&one.file.group, &manager);
        // A publisher of such an epoch would reserve numbers again.
        one.publisher.take_if(|publisher| publisher.head().epoch < reached);
        let over: Vec<Material> =
            one.group.epochs().filter_map(|epoch| one.group.material(epoch, name.as_bytes())).collect();
        // On failure the records stay, which is harmless.
        let _ = store.forget_numbers(&one.file.group, &manager, &over);
    }

    /// Ends the epochs whose grace is over. A later rotation does not prolong an earlier grace.
    fn retire(&mut self) {
        for one in self.groups.iter_mut().filter(|one| !one.retire.is_empty()) {
            let now = Moment::now();
            let Some(epoch) =
                one.retire.iter().filter(|(when, _)| now >= *when).map(|(_, epoch)| *epoch).max()
            else {
                continue;
            };
            one.retire.retain(|(_, later)| *later > epoch);
            let over = one.group.retire_before(epoch);
            let epoch_keys = one.epoch_keys.split_off(&epoch);
            let epoch_keys = std::mem::replace(&mut one.epoch_keys, epoch_keys);
            let Some(store) = &self.store else { continue };
            // A key can come back by a message on the disk, by an unwritten epoch or from the group
            // file. Its bounds must stay then. On failure the records stay, which is harmless.
            let group = &one.file.group;
            let gone = !one.retire.is_empty() || store.drop_former_rotation(group).is_ok();
            let seen = one.file.manager.is_some_and(|manager| store.epoch(group, &manager) >= epoch);
            if gone && seen && one.file.keys.is_empty() {
                let _ = store.forget(over.iter().chain(epoch_keys.values()));
            }
        }
    }

    /// The groups with their newest epochs, of those that have a key.
    pub fn epochs(&self) -> impl Iterator<Item = (&str, u32)> {
        self.groups.iter().filter_map(|one| Some((one.file.group.as_str(), one.group.newest()?)))
    }

    /// Whether there is a publisher's name.
    #[must_use]
    pub const fn has_name(&self) -> bool {
        self.publisher.is_some()
    }

    /// The first group without a key, as the error of sealing for it.
    #[must_use]
    pub fn missing_key(&self) -> Option<SealError> {
        let one = self.groups.iter().find(|one| one.group.newest().is_none())?;
        Some(SealError::NoKey(one.file.group.clone()))
    }

    /// Whether every group has a key.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        self.groups.iter().all(|one| one.group.newest().is_some())
    }

    /// Makes the bounds of all received messages durable, so that none is accepted again after a
    /// restart.
    ///
    /// # Errors
    /// When it did not become durable.
    pub fn flush(&mut self) -> Result<(), Fault> {
        if self.unwritten() == 0 { Ok(()) } else { self.deliver(|| Ok(())) }
    }

    /// As [`flush`](Self::flush), with `act`, for example printing a payload, between the write and
    /// the rename that makes it count. A killed process has done both or neither, except within the
    /// moment between the two. Without a store this only calls `act`.
    ///
    /// # Errors
    /// When it did not become durable, or `act` failed. Nothing counts as received then.
    pub fn deliver(&mut self, act: impl FnOnce() -> std::io::Result<()>) -> Result<(), Fault> {
        let cannot =
            |error| Fault::of_io("the payload".as_ref(), "pass it on", &error, "give it somewhere to go");
        let Some(store) = &self.store else { return act().map_err(cannot) };
        let mut bounds = Vec::new();
        for one in &self.groups {
            for (topic, opened) in one.unwritten.pairs() {
                let received = one.group.received(opened, topic).zip(one.epoch_keys.get(&opened.epoch));
                if let Some(((material, next), epoch_key)) = received {
                    bounds.push((epoch_key, &material.head().publisher[..], topic, next));
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
            if one.group.streams() > REMEMBERED {
                one.group.shed(REMEMBERED / 2);
            }
        }
        Ok(())
    }

    /// Whether the store could be read so far. After a failed read messages are refused that may be
    /// new: they must not be acknowledged.
    ///
    /// # Errors
    /// The fault of a read that failed.
    pub fn check_store(&self) -> Result<(), Fault> {
        self.store.as_ref().map_or(Ok(()), Store::check)
    }

    /// The number of received messages that are not on the disk.
    #[must_use]
    pub fn unwritten(&self) -> usize {
        self.groups.iter().map(|one| one.unwritten.messages()).sum()
    }

    /// The clean end: writes all bounds and the exact next sequence numbers.
    ///
    /// # Errors
    /// When it did not become durable. Numbers are lost then, none is used twice.
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

/// The seconds since 1970. A clock that is set before has no time to compare with.
pub fn now() -> u32 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

/// Checks the time of sealing where the topic has a most age. As much is allowed in the future, for
/// clocks that differ.
fn fresh(max_age: Option<u32>, time: Option<u32>) -> Result<(), Dropped> {
    let Some(max_age) = max_age else { return Ok(()) };
    let age = i64::from(now()) - i64::from(time.ok_or(Dropped::Undated)?);
    if age.unsigned_abs() > max_age.into() { Err(Dropped::Stale { age, max_age }) } else { Ok(()) }
}

/// The lowest acceptable number of a publisher on a topic.
fn lowest(
    store: Option<&Store>,
    epoch_keys: &BTreeMap<u32, Material>,
    topic: &str,
) -> impl FnOnce(&Material) -> u64 {
    move |material| {
        let epoch_key = epoch_keys.get(&material.head().epoch);
        store.zip(epoch_key).map_or(1, |(store, epoch_key)| store.lowest(epoch_key, material, topic))
    }
}

fn seal_error<E: std::fmt::Display>(publisher: &mut Publisher<Stored>, error: PublishError<E>) -> SealError {
    match publisher.numbers_mut().take_fault() {
        Some(fault) => SealError::State(fault),
        None => SealError::Payload(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
