//! Sequence numbers, replay bounds and epochs of one client, in a state directory that survives a
//! crash.
//!
//! The state file has the sequence numbers and epochs. Replay bounds are many, so a database beside
//! it has them (`received`).
//!
//! Numbers are reserved ahead: the limit is on the disk before a number below it is used. A clean
//! end writes the exact next number. After a crash the rest of the reservation is never used.

mod received;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use antedate_channel::mqtt::{Material, NoNumberError, Numbers};
use antedate_host::fault::Fault;
use antedate_host::numbers::{self, KeyId, NumberFile, NumbersError, NumbersErrorKind, Place, Reservation};
use antedate_host::replace;
use sha2::{Digest, Sha256};

use received::{FIRST_BATCH, Former, Pair, Received};

/// The first reservation and the largest. Each reservation is twice as large as the one before.
const FIRST_CHUNK: u64 = 32;
const LAST_CHUNK: u64 = 1 << 16;

/// The state directory of one client, locked against other processes.
#[derive(Debug, Clone)]
pub struct Store {
    directory: PathBuf,
    state: Arc<Mutex<State>>,
    /// The keys with a live [`Stored`].
    in_use: Arc<Mutex<Vec<KeyId>>>,
}

#[derive(Debug)]
struct State {
    /// `None` after the clean end.
    file: Option<NumberFile>,
    /// `None` before the first message.
    received: Option<Received>,
    /// The fault of a failed read of it. Each caller until then got the highest bound, which refuses
    /// every number.
    unread: Option<Fault>,
}

impl Store {
    /// Opens and locks a state directory.
    ///
    /// # Errors
    /// When the state is missing or damaged, or another process holds it.
    pub fn open(directory: &Path) -> Result<Self, Fault> {
        let file = NumberFile::open(directory).map_err(|error| fault(directory, error))?;
        let counted = file.bound(&batch_key(), place(""));
        let received = (counted >= FIRST_BATCH).then(|| Received::open(directory, counted)).transpose()?;
        let state = State { file: Some(file), received, unread: None };
        let (directory, state) = (directory.to_owned(), Arc::new(Mutex::new(state)));
        Ok(Self { directory, state, in_use: Arc::default() })
    }

    /// Makes an empty state. It knows no key, so it is right only for a publisher's name that never
    /// published under the group's keys.
    ///
    /// # Errors
    /// When the directory has a state already, or it cannot be written.
    pub fn create(directory: &Path) -> Result<(), Fault> {
        NumberFile::create(directory).map(drop).map_err(|error| fault(directory, error))
    }

    /// Permits a state in memory (tmpfs), which ends with the machine. Right only for keys that are
    /// made anew at each start of the machine.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn permit_volatile(directory: &Path) -> Result<(), Fault> {
        numbers::permit_volatile(directory).map_err(|error| fault(directory, error))
    }

    /// Makes a state at home that was moved here. Right only if it is the last one, and no copy of it
    /// was used since.
    ///
    /// # Errors
    /// When it cannot be read or written, or a later one was used on this machine.
    pub fn settle(directory: &Path) -> Result<(), Fault> {
        NumberFile::settle(directory).map(drop).map_err(|error| fault(directory, error))
    }

    /// Whether an earlier version wrote the state, which does not tell copies.
    #[must_use]
    pub fn is_homeless(&self) -> bool {
        self.state().file.as_ref().is_some_and(NumberFile::is_homeless)
    }

    /// Whether the state ends with the machine, by the operator's permission.
    #[must_use]
    pub fn is_volatile(&self) -> bool {
        self.state().file.as_ref().is_some_and(NumberFile::is_volatile)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(&mut NumberFile) -> Result<T, NumbersError>) -> Result<T, Fault> {
        let mut state = self.state();
        act(self.opened(&mut state.file)?).map_err(|error| fault(&self.directory, error))
    }

    /// The state file. Nothing is reserved after the clean end.
    fn opened<'a>(&self, file: &'a mut Option<NumberFile>) -> Result<&'a mut NumberFile, Fault> {
        file.as_mut().ok_or_else(|| Fault::of_file(&self.directory, "was closed", "open it again"))
    }

    fn in_use(&self) -> MutexGuard<'_, Vec<KeyId>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers of a publisher of a group. Each key has one [`Stored`] at a time: two could give
    /// the same number.
    ///
    /// # Errors
    /// When the number file refuses the key, its numbers are in use, or they were
    /// [forgotten](Self::forget_numbers).
    pub fn numbers(&self, group: &str, material: &Material) -> Result<Stored, Fault> {
        let key = publisher_key(material);
        // Locked until the key is listed, so that its numbers are not forgotten meanwhile.
        let mut in_use = self.in_use();
        let reserved = self.with(|file| Reservation::open(file, key, u64::MAX))?;
        let (epoch, first) = (material.head().epoch, self.first_epoch(group));
        if epoch < first {
            return Err(Fault::of_file(
                &self.directory,
                format!(
                    "the key of the group {group:?} is of epoch {epoch}, but epoch {first} began here, and the sequence numbers of those before are forgotten"
                ),
                format!(
                    "rotate until epoch {first} or later; for a group that was made anew, give its [[key]] such an epoch, or the group another name"
                ),
            ));
        }
        if in_use.contains(&key) {
            return Err(Fault::of_file(
                &self.directory,
                "two group files have the same key, so sequence numbers would be used twice",
                "name all topics of a group in one file",
            ));
        }
        in_use.push(key);
        drop(in_use);
        Ok(Stored { store: self.clone(), reserved, chunk: FIRST_CHUNK, fault: None })
    }

    /// The first epoch of a group whose numbers are not forgotten.
    fn first_epoch(&self, group: &str) -> u32 {
        self.epoch_below(&forgotten_key(group))
    }

    /// Forgets the numbers of a group's keys of epochs before the one that it has
    /// [reached](Self::reached). From then on [`numbers`](Self::numbers) refuses every key of such
    /// an epoch, because an old file or another manager could bring one back. Both are one write.
    /// Numbers in use are not forgotten.
    ///
    /// # Errors
    /// When it did not become durable. The records stay then, which is harmless.
    pub fn forget_numbers<'a>(
        &self,
        group: &str,
        manager: &[u8],
        over: impl IntoIterator<Item = &'a Material>,
    ) -> Result<(), Fault> {
        let reached = self.epoch(group, manager);
        let in_use = self.in_use();
        let keys: Vec<KeyId> = over
            .into_iter()
            .filter(|material| material.head().epoch < reached)
            .map(publisher_key)
            .filter(|key| !in_use.contains(key))
            .collect();
        let bound = (forgotten_key(group), place(""), u64::from(reached) + 1);
        self.with(|file| file.forget_numbers(&keys, bound))
    }

    /// Numbers of a key that protects nothing. They are not on the disk.
    pub(crate) fn fleeting(&self, material: &Material) -> Stored {
        let reserved = Reservation::fleeting(publisher_key(material));
        Stored { store: self.clone(), reserved, chunk: FIRST_CHUNK, fault: None }
    }

    /// The lowest acceptable number of a publisher on a topic. `epoch_key` is the group's key
    /// material of that epoch without a publisher. It identifies all bounds of the epoch, which are
    /// forgotten together. After a failed read every number is too low, and
    /// [`check`](Self::check) tells why.
    #[must_use]
    pub fn lowest(&self, epoch_key: &Material, material: &Material, topic: &str) -> u64 {
        let mut state = self.state();
        let State { file: Some(file), received, unread } = &mut *state else { return 1 };
        let pair = pair(epoch_key, &material.head().publisher, topic);
        // Earlier versions kept bounds in the state file, and first under the publisher's key.
        let former = [(received_key(epoch_key), first_octets(&pair)), (received_key(material), place(topic))];
        let lowest = former.iter().map(|(key, place)| file.bound(key, *place)).max().unwrap_or(1);
        let Some(received) = received else { return lowest };
        match received.lowest(&pair, former.map(|(key, place)| former_pair(&key.digest(), place))) {
            Ok(found) => found.max(lowest),
            Err(fault) => {
                unread.get_or_insert(fault);
                u64::MAX
            }
        }
    }

    /// Whether all bounds could be read so far.
    ///
    /// # Errors
    /// The fault of a read that failed.
    pub fn check(&self) -> Result<(), Fault> {
        self.state().unread.take().map_or(Ok(()), Err)
    }

    /// As after a read that failed.
    #[cfg(test)]
    pub(crate) fn fail_read(&self, fault: Fault) {
        self.state().unread = Some(fault);
    }

    /// Makes bounds durable: epoch key, publisher, topic, lowest acceptable number. `act` runs
    /// between the write and the rename that makes it count: a killed process has done both or
    /// neither, except within that moment.
    ///
    /// # Errors
    /// When it did not become durable, or `act` failed. The former bounds hold at the next start then.
    pub fn received_with<'a>(
        &self,
        bounds: impl IntoIterator<Item = (&'a Material, &'a [u8], &'a str, u64)>,
        act: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<(), Fault> {
        let bounds: Vec<(Pair, u64)> = bounds
            .into_iter()
            .map(|(epoch_key, publisher, topic, lowest)| (pair(epoch_key, publisher, topic), lowest))
            .collect();
        let mut state = self.state();
        let State { file, received, .. } = &mut *state;
        let file = self.opened(file)?;
        let received = match received {
            Some(received) => received,
            None => received.insert(self.begin(file)?),
        };
        let batch = file.bound(&batch_key(), place("")) + 1;
        received.write(batch, &bounds)?;
        file.raise_with(&[(batch_key(), place(""), batch)], act)
            .map_err(|error| fault(&self.directory, error))
    }

    /// Makes the database, and moves the bounds of an earlier version into it.
    fn begin(&self, file: &mut NumberFile) -> Result<Received, Fault> {
        // Epochs have the place of no topic.
        let is_bound = |at: Place| at != place("");
        let former = file.bounds().filter(|(_, at, _)| is_bound(*at));
        let former: Vec<(Former, u64)> =
            former.map(|(key, at, lowest)| (former_pair(&key, at), lowest)).collect();
        let received = Received::create(&self.directory, &former)?;
        let mark = (batch_key(), place(""), FIRST_BATCH);
        file.move_bounds(is_bound, mark).map_err(|error| fault(&self.directory, error))?;
        Ok(received)
    }

    /// Forgets the bounds under keys of past epochs: epoch keys, and publishers' keys of earlier
    /// versions.
    ///
    /// # Errors
    /// When it did not become durable.
    pub fn forget<'a>(&self, over: impl IntoIterator<Item = &'a Material>) -> Result<(), Fault> {
        let keys: Vec<KeyId> = over.into_iter().map(received_key).collect();
        self.with(|file| file.forget_bounds(&keys))?;
        let digests: Vec<[u8; 16]> = keys.iter().map(KeyId::digest).collect();
        self.state().received.as_ref().map_or(Ok(()), |received| received.forget(&digests))
    }

    /// The newest known epoch of a group of this manager: an older rotation is refused after a
    /// restart too.
    #[must_use]
    pub fn epoch(&self, group: &str, manager: &[u8]) -> u32 {
        self.epoch_below(&epoch_key(group, manager))
    }

    /// The epoch in the bound of a key; 0 if there is none.
    fn epoch_below(&self, key: &KeyId) -> u32 {
        // Bounds begin at 1, epochs at 0.
        let above = self.state().file.as_ref().map_or(1, |file| file.bound(key, place("")));
        u32::try_from(above - 1).unwrap_or(u32::MAX)
    }

    /// Makes durable that a group has reached an epoch.
    ///
    /// # Errors
    /// When it did not become durable.
    pub fn reached(&self, group: &str, manager: &[u8], epoch: u32) -> Result<(), Fault> {
        let key = epoch_key(group, manager);
        self.with(|file| file.raise(&[(key, place(""), u64::from(epoch) + 1)]))
    }

    /// The kept rotation message of a group. `None` if it is missing or unreadable; the broker has
    /// it too.
    #[must_use]
    pub fn rotation(&self, group: &str) -> Option<Vec<u8>> {
        std::fs::read(self.directory.join(rotation_name(group))).ok()
    }

    /// The kept rotation message before [`rotation`](Self::rotation), and its age since it was
    /// replaced.
    #[must_use]
    pub fn former_rotation(&self, group: &str) -> Option<(Vec<u8>, Duration)> {
        let message = std::fs::read(self.directory.join(former_name(group))).ok()?;
        let replaced = std::fs::metadata(self.directory.join(rotation_name(group))).ok()?.modified().ok()?;
        // A clock that was set back gives no age.
        Some((message, replaced.elapsed().unwrap_or(Duration::MAX)))
    }

    /// Keeps a rotation message as received, sealed for each member, so that its key is known at
    /// the next start. With `former`, the message that it replaces is kept too.
    ///
    /// # Errors
    /// When it did not become durable. The message before is kept then.
    pub fn keep_rotation(&self, group: &str, message: &[u8], former: bool) -> Result<(), Fault> {
        // The file is another process's after the clean end.
        self.with(|_| Ok(()))?;
        // On failure the next start reads the newest message alone.
        let _ = match self.rotation(group).filter(|_| former) {
            Some(before) => replace::replace(&self.directory.join(former_name(group)), &before).map(drop),
            None => self.drop_former_rotation(group),
        };
        replace::replace(&self.directory.join(rotation_name(group)), message).map(drop)
    }

    /// Removes the former rotation message after its grace.
    ///
    /// # Errors
    /// When the file is still there.
    pub fn drop_former_rotation(&self, group: &str) -> Result<(), Fault> {
        let file = self.directory.join(former_name(group));
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Fault::of_io(&file, "remove the file", &error, "give a directory that you can write to"))
            }
            _ => Ok(()),
        }
    }

    /// The clean end: writes the exact next numbers. Nothing can be reserved afterwards.
    ///
    /// # Errors
    /// When it did not become durable. Numbers are lost then, none is used twice.
    pub fn close<'a>(&self, numbers: impl IntoIterator<Item = &'a Stored>) -> Result<(), Fault> {
        let next: Vec<(KeyId, u64)> =
            numbers.into_iter().map(|one| (one.reserved.key(), one.reserved.next())).collect();
        let mut state = self.state();
        state.received = None;
        match state.file.take() {
            Some(file) => file.close(&next, &[]).map_err(|error| fault(&self.directory, error)),
            None => Ok(()),
        }
    }
}

/// The identity of a publisher's key.
fn publisher_key(material: &Material) -> KeyId {
    KeyId::new("antedate MQTT key", material.key())
}

/// The identity of a group's newest epoch. A recreated group has another manager's key.
fn epoch_key(group: &str, manager: &[u8]) -> KeyId {
    KeyId::new("antedate MQTT epoch", &[manager, group.as_bytes()].concat())
}

/// The identity of a group's first epoch with numbers. It has the group's name alone: another
/// manager or file can bring the same key.
fn forgotten_key(group: &str) -> KeyId {
    KeyId::new("antedate MQTT forgotten", group.as_bytes())
}

/// The identity of bounds under a key.
fn received_key(material: &Material) -> KeyId {
    KeyId::new("antedate MQTT received", material.key())
}

/// The file of a group's last rotation message. A group's name has only letters, digits and - _ .
fn rotation_name(group: &str) -> String {
    format!("rotation-{group}")
}

/// The file of the rotation message before it.
fn former_name(group: &str) -> String {
    format!("former-{group}")
}

/// The identity of the count of batches in the database.
fn batch_key() -> KeyId {
    KeyId::new("antedate MQTT batches", &[])
}

/// A publisher and topic under an epoch key.
fn pair(epoch_key: &Material, publisher: &[u8], topic: &str) -> Pair {
    let digest = Sha256::new()
        .chain_update([publisher.len() as u8])
        .chain_update(publisher)
        .chain_update(topic)
        .finalize();
    let octets = received_key(epoch_key).digest().into_iter().chain(digest);
    let mut pair = [0; 32];
    pair.iter_mut().zip(octets).for_each(|(to, from)| *to = from);
    pair
}

/// The place of a pair in the state file of earlier versions.
fn first_octets(pair: &Pair) -> Place {
    let mut first = [0; 8];
    first.iter_mut().zip(&pair[16..]).for_each(|(to, from)| *to = *from);
    Place(first)
}

fn former_pair(key: &[u8; 16], Place(place): Place) -> Former {
    let mut pair = [0; 24];
    pair.iter_mut().zip(key.iter().chain(&place)).for_each(|(to, from)| *to = *from);
    pair
}

/// The place of a topic.
fn place(topic: &str) -> Place {
    let mut first = [0; 8];
    first.iter_mut().zip(Sha256::digest(topic)).for_each(|(to, from)| *to = from);
    Place(first)
}

fn fault(directory: &Path, error: NumbersError) -> Fault {
    let shown = directory.display();
    error.into_fault(|kind| match kind {
        NumbersErrorKind::NoDirectory | NumbersErrorKind::Missing => {
            format!(
                "antedate mqtt init {shown} creates it, only for a publisher's name that never published under these keys"
            )
        }
        NumbersErrorKind::InUse => {
            "give each client a state directory and a publisher's name of its own".into()
        }
        NumbersErrorKind::Exists => "nothing to do: it goes on where it stopped".into(),
        NumbersErrorKind::Copied | NumbersErrorKind::OtherMachine => format!(
            "rotate the group's key, then remove {shown} and call antedate mqtt init {shown}; only if this is the last state and no \
             copy of it was used since: antedate mqtt init --state-moved {shown}"
        ),
        _ => format!("rotate the group's key, then remove {shown} and call antedate mqtt init {shown}"),
    })
}

/// The numbers of one publisher, reserved on the disk before use.
#[derive(Debug)]
pub struct Stored {
    store: Store,
    reserved: Reservation,
    chunk: u64,
    fault: Option<Fault>,
}

impl Stored {
    /// Whether the last [`take`](Numbers::take) failed.
    pub const fn is_out(&self) -> bool {
        self.fault.is_some()
    }

    /// The reason of the last failure.
    pub const fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    /// Reserves the next `count` numbers.
    ///
    /// # Errors
    /// When it did not become durable.
    pub fn reserve(&mut self, count: u64) -> Result<(), Fault> {
        let reserved = &mut self.reserved;
        self.store.with(|file| {
            reserved.extend(file, count)?;
            let exhausted = || NumbersError::new(file.path(), NumbersErrorKind::Exhausted);
            if reserved.is_exhausted() { Err(exhausted()) } else { Ok(()) }
        })
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.store.in_use().retain(|key| *key != self.reserved.key());
    }
}

impl Numbers for Stored {
    type Error = NoNumberError;

    fn take(&mut self) -> Result<u64, NoNumberError> {
        self.fault = None;
        if let Err(fault) = self.store.with(|file| file.check_machine()) {
            self.fault = Some(fault);
            return Err(NoNumberError);
        }
        if self.reserved.left() == 0 {
            if let Err(fault) = self.reserve(self.chunk) {
                self.fault = Some(fault);
                return Err(NoNumberError);
            }
            self.chunk = (2 * self.chunk).min(LAST_CHUNK);
        }
        self.reserved.take().ok_or(NoNumberError)
    }
}

#[cfg(test)]
mod tests;
