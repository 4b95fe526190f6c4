//! Sequence numbers, replay bounds and epochs of one client, in a number file that survives a
//! crash.
//!
//! Numbers are reserved ahead: the limit is on the disk before a number below it is used. A clean
//! end writes the exact next number. After a crash the rest of the reservation is never used.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use antedate_channel::mqtt::{Material, NoNumberError, Numbers};
use antedate_host::fault::Fault;
use antedate_host::numbers::{Bound, KeyId, NumberFile, NumbersError, NumbersErrorKind, Place, Reservation};
use antedate_host::replace;
use sha2::{Digest, Sha256};

/// The first reservation and the largest. Each reservation is twice as large as the one before.
const FIRST_CHUNK: u64 = 32;
const LAST_CHUNK: u64 = 1 << 16;

/// The state directory of one client, locked against other processes.
#[derive(Debug, Clone)]
pub struct Store {
    directory: PathBuf,
    file: Arc<Mutex<Option<NumberFile>>>,
    /// The keys with a live [`Stored`].
    in_use: Arc<Mutex<Vec<KeyId>>>,
}

impl Store {
    /// Opens and locks a state directory.
    ///
    /// # Errors
    /// When the state is missing or damaged, or another process holds it.
    pub fn open(directory: &Path) -> Result<Self, Fault> {
        let file = NumberFile::open(directory).map_err(|error| fault(directory, error))?;
        Ok(Self {
            directory: directory.to_owned(),
            file: Arc::new(Mutex::new(Some(file))),
            in_use: Arc::default(),
        })
    }

    /// Makes an empty state. It knows no key, so it is right only for a publisher's name that never
    /// published under the group's keys.
    ///
    /// # Errors
    /// When the directory has a state already, or it cannot be written.
    pub fn create(directory: &Path) -> Result<(), Fault> {
        NumberFile::create(directory).map(drop).map_err(|error| fault(directory, error))
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
        self.file().as_ref().is_some_and(NumberFile::is_homeless)
    }

    fn file(&self) -> MutexGuard<'_, Option<NumberFile>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(&mut NumberFile) -> Result<T, NumbersError>) -> Result<T, Fault> {
        let mut file = self.file();
        // Nothing is reserved after the clean end.
        let file =
            file.as_mut().ok_or_else(|| Fault::of_file(&self.directory, "was closed", "open it again"))?;
        act(file).map_err(|error| fault(&self.directory, error))
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
    /// forgotten together.
    #[must_use]
    pub fn lowest(&self, epoch_key: &Material, material: &Material, topic: &str) -> u64 {
        self.file().as_ref().map_or(1, |file| {
            // Earlier versions identified bounds by the publisher's key.
            let former = file.bound(&received_key(material), place(topic));
            let place = publisher_place(&material.head().publisher, topic);
            file.bound(&received_key(epoch_key), place).max(former)
        })
    }

    /// Makes bounds durable: epoch key, publisher, topic, lowest acceptable number. `act` runs
    /// between the write and the rename that makes it count: a killed process has done both or
    /// neither, except within that moment.
    ///
    /// # Errors
    /// When it did not become durable, or `act` failed. The former bounds hold then.
    pub fn received_with<'a>(
        &self,
        bounds: impl IntoIterator<Item = (&'a Material, &'a [u8], &'a str, u64)>,
        act: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<(), Fault> {
        let bounds: Vec<Bound> = bounds
            .into_iter()
            .map(|(epoch_key, publisher, topic, lowest)| {
                (received_key(epoch_key), publisher_place(publisher, topic), lowest)
            })
            .collect();
        self.with(|file| file.raise_with(&bounds, act))
    }

    /// Forgets the bounds under keys of past epochs: epoch keys, and publishers' keys of earlier
    /// versions.
    ///
    /// # Errors
    /// When it did not become durable.
    pub fn forget<'a>(&self, over: impl IntoIterator<Item = &'a Material>) -> Result<(), Fault> {
        let keys: Vec<KeyId> = over.into_iter().map(received_key).collect();
        self.with(|file| file.forget_bounds(&keys))
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
        let above = self.file().as_ref().map_or(1, |file| file.bound(key, place("")));
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
        match self.file().take() {
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

/// The place of a publisher's topic, under an epoch key.
fn publisher_place(publisher: &[u8], topic: &str) -> Place {
    first_octets(
        Sha256::new().chain_update([publisher.len() as u8]).chain_update(publisher).chain_update(topic),
    )
}

/// The place of a topic.
fn place(topic: &str) -> Place {
    first_octets(Sha256::new().chain_update(topic))
}

fn first_octets(digest: Sha256) -> Place {
    let digest = digest.finalize();
    let mut first = [0; 8];
    first.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
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
        self.store.with(|file| reserved.extend(file, count))
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
mod tests {
    use super::*;
    use antedate_channel::mqtt::Algorithm;

    fn material(name: &[u8]) -> Material {
        Material::derive("g", Algorithm::A128Gcm, 1, &[1; 32], name).expect("material")
    }

    #[test]
    fn crashes_and_clean_ends_repeat_no_number() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("state");
        assert!(Store::open(&place).expect_err("missing").remedy.contains("antedate mqtt init"));
        Store::create(&place).expect("created");
        let mut last = 0;
        for run in 0..20 {
            let store = Store::open(&place).expect("opened");
            assert!(Store::open(&place).is_err(), "one client to a state");
            let mut numbers = store.numbers("g", &material(b"a")).expect("numbers");
            for _ in 0..run * 3 {
                let number = numbers.take().expect("a number");
                assert!(number > last, "{number} after {last}");
                last = number;
            }
            // Every other run ends without closing: a crash.
            if run % 2 == 0 {
                store.close([&numbers]).expect("closed");
                assert!(numbers.reserved.left() > 0 || numbers.take().is_err());
            }
        }
        let store = Store::open(&place).expect("opened");
        assert_eq!(
            store.numbers("g", &material(b"b")).expect("numbers").take(),
            Ok(1),
            "another publisher begins anew"
        );
    }

    #[test]
    fn a_key_has_one_source_of_numbers() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("state");
        Store::create(&place).expect("created");
        let store = Store::open(&place).expect("opened");
        let mut first = store.numbers("g", &material(b"a")).expect("numbers");
        let fault = store.numbers("g", &material(b"a")).expect_err("in use");
        assert!(fault.remedy.contains("one file"), "{fault:?}");
        let last = (0..100).map(|_| first.take().expect("a number")).max().expect("some");
        drop(first);
        let mut second = store.numbers("g", &material(b"a")).expect("no longer in use");
        assert!(second.take().expect("a number") > last);
        // Another reservation in the file is skipped.
        let key = second.reserved.key();
        store.with(|file| file.reserve(&[(key, 5000)])).expect("reserved");
        while second.reserved.left() > 0 {
            second.take().expect("a number");
        }
        assert_eq!(second.take(), Ok(5000));
    }

    #[test]
    fn numbers_of_past_epochs_are_forgotten() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("state");
        Store::create(&place).expect("created");
        let store = Store::open(&place).expect("opened");
        let material =
            |epoch: u32| Material::derive("g", Algorithm::A128Gcm, epoch, &[1; 32], b"a").expect("material");
        let known = |store: &Store, epoch: u32| {
            let key = KeyId::new("antedate MQTT key", material(epoch).key());
            store.with(|file| file.next(&key)).expect("known") > 1
        };
        let [first, second, third] = [1, 2, 3].map(material);
        let mut numbers = store.numbers("g", &first).expect("numbers");
        numbers.take().expect("a number");
        store.numbers("g", &second).expect("numbers").take().expect("a number");
        // The epoch after them is not reached yet.
        store.forget_numbers("g", b"m", [&first, &second]).expect("nothing to do");
        store.reached("g", b"m", 2).expect("durable");
        store.reached("g", b"n", 9).expect("durable");
        store.forget_numbers("g", b"m", [&first, &second]).expect("nothing to do");
        assert!(known(&store, 1) && known(&store, 2), "the first one's numbers are in use");
        (0..100).for_each(|_| assert!(numbers.take().is_ok()));
        drop(numbers);
        store.forget_numbers("g", b"m", [&first, &second]).expect("forgotten");
        assert!(!known(&store, 1) && known(&store, 2));
        drop(store);
        let store = Store::open(&place).expect("opened");
        let fault = store.numbers("g", &first).expect_err("forgotten");
        assert!(fault.remedy.contains("rotate until epoch 2 or later"), "{fault:?}");
        assert!(store.numbers("g", &material(0)).is_err());
        assert!(store.numbers("g", &second).expect("numbers").take().expect("a number") > 1);
        assert_eq!(store.numbers("g", &third).expect("numbers").take(), Ok(1));
        store.numbers("h", &first).expect("another group");
    }

    #[test]
    fn bounds_and_epochs_survive_a_restart() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("state");
        Store::create(&place).expect("created");
        let store = Store::open(&place).expect("opened");
        let (epoch_key, a, b) = (material(b"\0"), material(b"a"), material(b"b"));
        assert_eq!((store.lowest(&epoch_key, &a, "t"), store.epoch("g", b"m")), (1, 0));
        store.received_with([(&epoch_key, &b"a"[..], "t", 8)], || Ok(())).expect("durable");
        store.reached("g", b"m", 3).expect("durable");
        drop(store);
        let store = Store::open(&place).expect("opened");
        let lowest = |store: &Store| {
            [(&a, "t"), (&a, "u"), (&b, "t")].map(|(who, topic)| store.lowest(&epoch_key, who, topic))
        };
        assert_eq!((lowest(&store), store.epoch("g", b"m")), ([8, 1, 1], 3));
        assert_eq!(store.epoch("g", b"n"), 0, "a group of the same name, made anew");
        // A bound of an earlier version.
        store.with(|file| file.raise(&[(received_key(&b), super::place("t"), 5)])).expect("durable");
        assert_eq!(lowest(&store), [8, 1, 5]);
        store.forget([&material(b"c")]).expect("nothing to forget");
        assert_eq!(lowest(&store), [8, 1, 5]);
        store.forget([&epoch_key]).expect("forgotten");
        assert_eq!(lowest(&store), [1, 1, 5]);
        store.forget([&b]).expect("forgotten");
        assert_eq!(lowest(&store), [1, 1, 1]);
    }

    #[test]
    fn rotation_messages_are_kept_for_each_group() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("state");
        Store::create(&place).expect("created");
        let store = Store::open(&place).expect("opened");
        assert_eq!(store.rotation("g"), None);
        store.keep_rotation("g", b"the first, which is longer", false).expect("kept");
        assert_eq!(store.former_rotation("g"), None);
        store.keep_rotation("g", b"second", true).expect("kept");
        store.keep_rotation("g.new", b"other", true).expect("kept");
        drop(store);
        let store = Store::open(&place).expect("opened");
        assert_eq!(store.rotation("g").as_deref(), Some(&b"second"[..]));
        assert_eq!(store.rotation("g.new").as_deref(), Some(&b"other"[..]));
        let former = store.former_rotation("g").map(|(message, _)| message);
        assert_eq!(former.as_deref(), Some(&b"the first, which is longer"[..]));
        store.keep_rotation("g", b"second", false).expect("kept");
        assert_eq!(store.former_rotation("g"), None);
        store.close([]).expect("closed");
        store.keep_rotation("g", b"late", true).expect_err("closed");
        assert_eq!(store.rotation("g").as_deref(), Some(&b"second"[..]));
    }
}
