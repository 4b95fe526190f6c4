//! The receiving side: messages of a group's members.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::{string::String, sync::Arc, vec::Vec};
use core::fmt;

use zeroize::Zeroizing;

use super::cipher::Cipher;
use super::derive::Material;
use super::envelope::{Envelope, associated_data};
use super::layout::Layout;
use super::long::{LongKey, is_long};
use super::rotation::Rotation;
use super::{Algorithm, Dropped, SECRET_LEN, topic};
use crate::replay::{MAX_WINDOW, ReplayError as Replayed, ReplayWindow};

/// The most pairs of publisher and topic to remember. Only authentic messages are remembered.
pub(super) const STREAMS_MAX: usize = 1 << 16;
/// Other topics and publishers tried to explain an unauthentic message.
const SUSPECTS: usize = 8;
/// Pairs of publisher and topic whose next message is prepared.
pub(super) const RECENT: usize = 8;

/// The keys of a group of topics, and the messages received under them.
pub struct Group {
    name: String,
    algorithm: Algorithm,
    epochs: BTreeMap<u32, Zeroizing<[u8; SECRET_LEN]>>,
    newest: Option<u32>,
    /// The permitted publishers. `None` permits every member.
    publishers: Option<BTreeSet<Vec<u8>>>,
    /// The index in `senders` of a publisher in an epoch.
    known: BTreeMap<(u32, Vec<u8>), usize>,
    senders: Vec<Sender>,
    pub(super) streams: usize,
    /// Publisher and topic of the last messages.
    pub(super) recent: Vec<Recent>,
    /// The entry of `recent` to replace next.
    oldest: usize,
    /// Messages received so far.
    messages: u64,
}

/// A publisher in an epoch, and the topic of one of its messages.
pub(super) struct Recent {
    /// Its index in `senders`, and the topic's index in its windows.
    place: (usize, usize),
    layout: Layout,
}

/// The state of a publisher in an epoch.
struct Sender {
    material: Material,
    /// Its name.
    publisher: Arc<[u8]>,
    cipher: Cipher,
    /// The key of payloads that are too long for the cipher, once one has come.
    long: Option<LongKey>,
    /// One above the highest number received.
    next: u64,
    /// Bytes of its last message's ciphertext.
    len: usize,
    /// The index in `windows` of that message's topic.
    stream: usize,
    /// That message's place among all of the group.
    last: u64,
    /// The index in `windows` of each topic.
    topics: BTreeMap<String, usize>,
    /// A window for each topic, so a retained message, or one held back by a broker, is not late
    /// because of another topic.
    windows: Vec<ReplayWindow>,
}

/// Treatment of a message's number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replay {
    /// It must be new, and counts as received.
    Mark,
    /// It must be new.
    Check,
    /// The caller judges it.
    Ignore,
}

/// The origin of an opened message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The publisher.
    pub publisher: Arc<[u8]>,
    /// The epoch of the key.
    pub epoch: u32,
    /// The publisher's sequence number.
    pub sequence: u64,
    /// The authentic time of sealing in seconds since 1970, if the envelope has one.
    pub time: Option<u32>,
}

impl Group {
    /// A group without keys. The name is an input to every key.
    pub fn new(name: &str, algorithm: Algorithm) -> Self {
        Self {
            name: name.into(),
            algorithm,
            epochs: BTreeMap::new(),
            newest: None,
            publishers: None,
            known: BTreeMap::new(),
            senders: Vec::new(),
            streams: 0,
            recent: Vec::new(),
            oldest: 0,
            messages: 0,
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The newest epoch, in which members publish.
    pub const fn newest(&self) -> Option<u32> {
        self.newest
    }

    /// The readable epochs.
    pub fn epochs(&self) -> impl Iterator<Item = u32> {
        self.epochs.keys().copied()
    }

    /// Permits only these publishers.
    pub fn allow(&mut self, publishers: impl IntoIterator<Item = Vec<u8>>) {
        self.publishers = Some(publishers.into_iter().collect());
        self.recent.clear();
    }

    /// Installs the secret of an epoch. An installed secret stays.
    pub fn install(&mut self, epoch: u32, secret: &[u8; SECRET_LEN]) {
        self.epochs.entry(epoch).or_insert_with(|| Zeroizing::new(*secret));
        self.newest = self.newest.max(Some(epoch));
    }

    /// Whether this is the secret of an epoch.
    pub fn has(&self, epoch: u32, secret: &[u8; SECRET_LEN]) -> bool {
        let differ =
            |own: &Zeroizing<[u8; SECRET_LEN]>| own.iter().zip(secret).fold(0, |all, (a, b)| all | (a ^ b));
        self.epochs.get(&epoch).is_some_and(|own| differ(own) == 0)
    }

    /// Applies a verified rotation. Returns false if its epoch is not newer than all known ones, as
    /// in a replayed rotation.
    pub fn rotate(&mut self, rotation: &Rotation) -> bool {
        if self.newest.is_some_and(|newest| rotation.epoch <= newest) {
            return false;
        }
        for (epoch, secret) in rotation.past() {
            self.install(epoch, secret);
        }
        self.install(rotation.epoch, &rotation.secret);
        true
    }

    /// Ends all epochs before this one, whose messages are refused from now on. Returns the
    /// publishers' materials in them, for recording their numbers.
    pub fn retire_before(&mut self, epoch: u32) -> Vec<Material> {
        self.epochs.retain(|known, _| *known >= epoch);
        let over = self.keep(|sender| sender.material.head.epoch >= epoch);
        over.into_iter().map(|sender| sender.material).collect()
    }

    /// The pairs of publisher and topic with a replay window in memory.
    pub const fn streams(&self) -> usize {
        self.streams
    }

    /// Forgets the publishers that were silent longest, until at most so many pairs of publisher and
    /// topic have a window. Only for callers that have recorded all of [`received`](Self::received)
    /// and give it back to [`open_from`](Self::open_from).
    pub fn shed(&mut self, most: usize) {
        let mut order: Vec<(u64, usize)> =
            self.senders.iter().map(|sender| (sender.last, sender.windows.len())).collect();
        order.sort_unstable_by(|one, other| other.cmp(one));
        let mut left = most;
        let first_over = order.into_iter().find(|(_, windows)| {
            let fits = *windows <= left;
            left = left.saturating_sub(*windows);
            !fits
        });
        if let Some((last, _)) = first_over {
            self.keep(|sender| sender.last > last);
        }
    }

    /// Keeps some publishers, and returns the others.
    fn keep(&mut self, keep: impl Fn(&Sender) -> bool) -> Vec<Sender> {
        let senders = core::mem::take(&mut self.senders).into_iter();
        let (kept, over) = senders.partition(keep);
        self.senders = kept;
        let place =
            |(at, sender): (usize, &Sender)| ((sender.material.head.epoch, sender.publisher.to_vec()), at);
        self.known = self.senders.iter().enumerate().map(place).collect();
        // Indices have changed.
        self.recent.clear();
        self.streams = self.senders.iter().map(|sender| sender.windows.len()).sum();
        over
    }

    /// A publisher's material in an epoch. `None` if the epoch is unknown or the name invalid.
    pub fn material(&self, epoch: u32, publisher: &[u8]) -> Option<Material> {
        Material::derive(&self.name, self.algorithm, epoch, self.epochs.get(&epoch)?, publisher)
    }

    /// Opens a message from a topic into `out`, if it is authentic and new.
    ///
    /// # Errors
    /// The reason for the refusal. `out` is empty then.
    pub fn open(&mut self, topic: &str, message: &[u8], out: &mut Vec<u8>) -> Result<Opened, Dropped> {
        self.open_from(topic, message, out, |_| 1)
    }

    /// Opens a message as [`open`](Self::open) does. Calls `lowest` once for each publisher and
    /// topic, with the publisher's material, for the lowest acceptable number, as recorded before a
    /// restart.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_from(
        &mut self,
        topic: &str,
        message: &[u8],
        out: &mut Vec<u8>,
        lowest: impl FnOnce(&Material) -> u64,
    ) -> Result<Opened, Dropped> {
        self.open_to(Replay::Mark, topic, message, out, lowest)
    }

    /// Checks whether [`open_from`](Self::open_from) would open a message now, without marking it
    /// as received.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn check_from(
        &mut self,
        topic: &str,
        message: &[u8],
        lowest: impl FnOnce(&Material) -> u64,
    ) -> Result<Opened, Dropped> {
        self.open_to(Replay::Check, topic, message, &mut Vec::new(), lowest)
    }

    /// As [`check_from`](Self::check_from), with the payload in `out`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn peek_from(
        &mut self,
        topic: &str,
        message: &[u8],
        out: &mut Vec<u8>,
        lowest: impl FnOnce(&Material) -> u64,
    ) -> Result<Opened, Dropped> {
        self.open_to(Replay::Check, topic, message, out, lowest)
    }

    /// Opens a message as [`open`](Self::open) does, whether its number is new or not. For callers
    /// with several readers, each of which receives a message once: they keep replay windows of
    /// their own.
    ///
    /// # Errors
    /// As [`open`](Self::open), but for repeated and late messages.
    pub fn authenticate(
        &mut self,
        topic: &str,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Opened, Dropped> {
        if self.streams >= STREAMS_MAX {
            self.shed(STREAMS_MAX / 2);
        }
        self.open_to(Replay::Ignore, topic, message, out, |_| 1)
    }

    fn open_to(
        &mut self,
        replay: Replay,
        topic: &str,
        message: &[u8],
        out: &mut Vec<u8>,
        lowest: impl FnOnce(&Material) -> u64,
    ) -> Result<Opened, Dropped> {
        out.clear();
        let mark = replay != Replay::Check;
        if mark && let Some(opened) = self.open_known(replay, topic, message, out)? {
            return Ok(opened);
        }
        topic::check_name(topic).map_err(Dropped::Topic)?;
        let envelope = Envelope::parse(message).map_err(Dropped::NotEnvelope)?;
        let Envelope { epoch, publisher, sequence, time, .. } = envelope;
        let long = is_long(self.algorithm, envelope.algorithm, envelope.ciphertext.len());
        if envelope.algorithm != self.algorithm.number() && !long {
            return Err(Dropped::Algorithm { given: envelope.algorithm, expected: self.algorithm });
        }
        if !self.epochs.contains_key(&epoch) {
            return Err(match self.newest {
                Some(newest) if epoch < newest => Dropped::OldEpoch { epoch, newest },
                newest => Dropped::UnknownEpoch { epoch, newest },
            });
        }
        let name = || String::from_utf8_lossy(publisher).into_owned();
        if self.publishers.as_ref().is_some_and(|known| !known.contains(publisher)) {
            return Err(Dropped::NotPublisher { publisher: name() });
        }
        let unauthentic = || Dropped::Unauthentic { publisher: name(), epoch };
        let aad = associated_data(envelope.protected, topic, publisher, epoch, sequence);
        let index = (epoch, publisher.to_vec());
        let place = self.known.get(&index).copied();
        if let Some(at) = place
            && let Some(sender) = self.senders.get_mut(at)
            && let Some(&stream) = sender.topics.get(topic)
            && let Some(window) = sender.windows.get(stream)
        {
            // The cheap check first. Only authentic numbers are marked.
            check(replay, window, sequence)?;
            if sender.open(long, sequence, envelope.ciphertext, &aad, out) {
                let publisher = Arc::clone(&sender.publisher);
                if !mark {
                    return Ok(Opened { publisher, epoch, sequence, time });
                }
                if let Some(window) = sender.windows.get_mut(stream) {
                    mark_in(replay, window, sequence);
                }
                self.remember((at, stream), topic, message, (sequence, envelope.ciphertext));
                return Ok(Opened { publisher, epoch, sequence, time });
            }
            return Err(self.suspect(&envelope, topic, out).unwrap_or_else(unauthentic));
        }
        let mut fresh = match place {
            Some(_) => None,
            // Remembered only once authentic: strangers could fill the memory with names.
            None => {
                let material = self.material(epoch, publisher).ok_or_else(unauthentic)?;
                let cipher = Cipher::new(&material).map_err(|_| unauthentic())?;
                Some(Sender::new(material, cipher))
            }
        };
        let known = match &mut fresh {
            Some(sender) => Some(sender),
            None => place.and_then(|at| self.senders.get_mut(at)),
        };
        let sender = known.ok_or_else(unauthentic)?;
        if !sender.open(long, sequence, envelope.ciphertext, &aad, out) {
            return Err(self.suspect(&envelope, topic, out).unwrap_or_else(unauthentic));
        }
        let mut window = ReplayWindow::new(lowest(&sender.material).max(1), MAX_WINDOW);
        if let Err(why) = check(replay, &window, sequence) {
            out.clear();
            return Err(why);
        }
        if self.streams >= STREAMS_MAX {
            out.clear();
            return Err(Dropped::Crowded);
        }
        if !mark {
            return Ok(Opened { publisher: Arc::clone(&sender.publisher), epoch, sequence, time });
        }
        mark_in(replay, &mut window, sequence);
        let at = place.unwrap_or(self.senders.len());
        if let Some(sender) = fresh {
            self.senders.push(sender);
            self.known.insert(index, at);
        }
        let sender = self.senders.get_mut(at).ok_or_else(unauthentic)?;
        let (publisher, stream) = (Arc::clone(&sender.publisher), sender.windows.len());
        sender.windows.push(window);
        sender.topics.insert(topic.into(), stream);
        self.streams += 1;
        self.remember((at, stream), topic, message, (sequence, envelope.ciphertext));
        Ok(Opened { publisher, epoch, sequence, time })
    }

    /// Prepares for the next messages of the last senders, at most `budget` steps of some 64 bytes
    /// each (with CCM also of 16, for the start of the MAC). Returns the number done, fewer if
    /// everything is prepared.
    pub fn idle(&mut self, budget: u32) -> u32 {
        let mut left = budget;
        for Recent { place: (at, stream), layout } in &mut self.recent {
            // A publisher counts across all its topics: the last one is the best guess.
            if let Some(sender) = self.senders.get_mut(*at).filter(|sender| sender.stream == *stream) {
                left -=
                    sender.cipher.idle(sender.next, layout.associated_data(sender.next), sender.len, left);
            }
        }
        budget - left
    }

    /// Opens a message of one of the last senders. A message of another form, or an unauthentic
    /// one, is left to the ordinary path, which determines the reason.
    #[inline]
    fn open_known(
        &mut self,
        replay: Replay,
        topic: &str,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Opened>, Dropped> {
        let Self { recent, senders, messages, .. } = self;
        let known = recent.iter_mut().filter(|recent| recent.layout.is_of(topic));
        for Recent { place: (at, stream), layout } in known {
            let Some((sequence, ciphertext)) = layout.read(message) else { continue };
            let Some(sender) = senders.get_mut(*at) else { continue };
            let Some(window) = sender.windows.get_mut(*stream) else { continue };
            check(replay, window, sequence)?;
            let aad = layout.associated_data(sequence);
            if !sender.cipher.open(sequence, ciphertext, aad, out) {
                return Ok(None);
            }
            mark_in(replay, window, sequence);
            *messages += 1;
            sender.came(*messages, *stream, sequence, ciphertext);
            let (epoch, publisher) = (sender.material.head.epoch, Arc::clone(&sender.publisher));
            // A layout has no time.
            return Ok(Some(Opened { publisher, epoch, sequence, time: None }));
        }
        Ok(None)
    }

    /// Remembers the publisher and topic of an authentic message.
    fn remember(
        &mut self,
        place: (usize, usize),
        topic: &str,
        message: &[u8],
        (sequence, ciphertext): (u64, &[u8]),
    ) {
        let Some(sender) = self.senders.get_mut(place.0) else { return };
        self.messages += 1;
        sender.came(self.messages, place.1, sequence, ciphertext);
        let same = |recent: &Recent| recent.place == place;
        let at = match self.recent.iter().position(same) {
            Some(at) => at,
            None if self.recent.len() < RECENT => {
                self.recent.push(Recent { place, layout: Layout::default() });
                self.recent.len() - 1
            }
            None => {
                self.oldest = (self.oldest + 1) % RECENT;
                self.oldest
            }
        };
        let Some(recent) = self.recent.get_mut(at) else { return };
        recent.place = place;
        let head = sender.material.head();
        recent.layout.renew(head, &head.protected(), topic, sequence);
        // Another implementation may encode differently. Its messages are parsed item by item.
        if recent.layout.read(message) != Some((sequence, ciphertext)) {
            self.recent.swap_remove(at);
        }
    }

    /// One above the highest number received from a publisher on a topic, and the publisher's
    /// material, for recording it.
    pub fn received(&self, opened: &Opened, topic: &str) -> Option<(&Material, u64)> {
        let sender = self.senders.get(*self.known.get(&(opened.epoch, opened.publisher.to_vec()))?)?;
        Some((&sender.material, sender.windows.get(*sender.topics.get(topic)?)?.next()))
    }

    /// Explains an unauthentic message: was it sealed for another topic, or by another publisher?
    /// Tries a few known ones, so it costs a few times as much as a refusal.
    fn suspect(&mut self, envelope: &Envelope<'_>, topic: &str, out: &mut Vec<u8>) -> Option<Dropped> {
        // One of a long payload is not tried, for its length.
        if !self.algorithm.is_authenticated() || envelope.algorithm != self.algorithm.number() {
            return None;
        }
        let Envelope { protected, epoch, publisher, sequence, .. } = *envelope;
        let mut authentic = |cipher: &mut Cipher, topic: &str, publisher: &[u8]| {
            let aad = associated_data(protected, topic, publisher, epoch, sequence);
            let authentic = cipher.open(sequence, envelope.ciphertext, &aad, out);
            out.clear();
            authentic
        };
        let others = self.known.range((epoch, Vec::new())..).take_while(|((of, _), _)| *of == epoch);
        for ((_, other), &at) in others.take(SUSPECTS) {
            let Some(sender) = self.senders.get_mut(at) else { continue };
            if other != publisher && authentic(&mut sender.cipher, topic, other) {
                let [named, by] = [publisher, other].map(|name| String::from_utf8_lossy(name).into_owned());
                return Some(Dropped::Impersonated { named, by });
            }
        }
        let topics = self.senders.iter().flat_map(|sender| sender.topics.keys());
        let topics: Vec<String> = topics.filter(|from| *from != topic).take(SUSPECTS).cloned().collect();
        let named = self.senders.get_mut(*self.known.get(&(epoch, publisher.to_vec()))?)?;
        let from = topics.into_iter().find(|from| authentic(&mut named.cipher, from, publisher));
        from.map(|from| Dropped::Moved { from })
    }
}

impl Sender {
    /// A publisher before its first message.
    fn new(material: Material, cipher: Cipher) -> Self {
        let publisher = material.head.publisher.as_slice().into();
        let (topics, windows) = (BTreeMap::new(), Vec::new());
        Self { material, publisher, cipher, long: None, next: 1, len: 0, stream: 0, last: 0, topics, windows }
    }

    /// Opens a ciphertext into `out`. A refusal outputs nothing.
    fn open(&mut self, long: bool, number: u64, ciphertext: &[u8], aad: &[u8], out: &mut Vec<u8>) -> bool {
        if !long {
            return self.cipher.open(number, ciphertext, aad, out);
        }
        if self.long.is_none() {
            self.long = self.material.long.as_deref().and_then(|long| LongKey::new(long).ok());
        }
        self.long.as_ref().is_some_and(|key| key.open(number, ciphertext, aad, out))
    }

    /// Records an authentic message on the topic with index `stream`.
    #[inline]
    fn came(&mut self, messages: u64, stream: usize, sequence: u64, ciphertext: &[u8]) {
        self.next = self.next.max(sequence.saturating_add(1));
        (self.len, self.stream, self.last) = (ciphertext.len(), stream, messages);
    }
}

#[inline]
fn check(replay: Replay, window: &ReplayWindow, sequence: u64) -> Result<(), Dropped> {
    match replay {
        Replay::Ignore => Ok(()),
        _ => window.check(sequence).map_err(|why| replayed(why, sequence, window)),
    }
}

#[inline]
fn mark_in(replay: Replay, window: &mut ReplayWindow, sequence: u64) {
    if replay == Replay::Mark {
        window.mark(sequence);
    }
}

fn replayed(why: Replayed, sequence: u64, window: &ReplayWindow) -> Dropped {
    match why {
        Replayed::Duplicate => Dropped::Repeated { sequence },
        Replayed::Late => Dropped::Late { sequence, lowest: window.lowest() },
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({:?}, {}, newest epoch {:?}, ..)", self.name, self.algorithm, self.newest)
    }
}
