//! Sequence numbers and replay bounds that survive a crash, in the state file that the gateway has for packet numbers.
//!
//! Numbers are reserved ahead: the upper bound is on the disk before a number below it is used. A clean end writes the exact next
//! number; after a crash the rest of the reservation is never used.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use antedate_channel::mqtt::{Material, NoNumberError, Numbers};
use antedate_host::fault::Fault;
use antedate_host::numbers::{Bound, KeyId, NumberFile, NumbersError, NumbersErrorKind, Place, Reservation};
use antedate_host::replace;
use sha2::{Digest, Sha256};

/// The first reservation, and the largest: it doubles while numbers are used up.
const FIRST_CHUNK: u64 = 32;
const LAST_CHUNK: u64 = 1 << 16;

/// The state of one client, which no other process can use meanwhile.
#[derive(Debug, Clone)]
pub struct Store {
    directory: PathBuf,
    state: Arc<Mutex<Option<NumberFile>>>,
    /// The keys whose numbers somebody has.
    given: Arc<Mutex<Vec<KeyId>>>,
}

impl Store {
    /// Takes the state of a directory.
    ///
    /// # Errors
    /// When there is none, it is damaged, or another process has it.
    pub fn open(directory: &Path) -> Result<Self, Fault> {
        let state = NumberFile::open(directory).map_err(|error| fault(directory, error))?;
        let given = Arc::default();
        Ok(Self { directory: directory.to_owned(), state: Arc::new(Mutex::new(Some(state))), given })
    }

    /// Makes an empty state. Every key is unknown to it, so it is right only for a publisher's name that never published
    /// under the group's keys.
    ///
    /// # Errors
    /// When there is one already, or it cannot be written.
    pub fn create(directory: &Path) -> Result<(), Fault> {
        NumberFile::create(directory).map(drop).map_err(|error| fault(directory, error))
    }

    fn state(&self) -> MutexGuard<'_, Option<NumberFile>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(&mut NumberFile) -> Result<T, NumbersError>) -> Result<T, Fault> {
        let mut state = self.state();
        // After the end nothing is reserved any more.
        let state =
            state.as_mut().ok_or_else(|| Fault::of_file(&self.directory, "was closed", "open it again"))?;
        act(state).map_err(|error| fault(&self.directory, error))
    }

    fn given(&self) -> MutexGuard<'_, Vec<KeyId>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers of a publisher of a group. There is one at a time for a key: with two, a number could be used twice.
    ///
    /// # Errors
    /// When the state file refuses the key, somebody has its numbers, or they were [forgotten](Self::forget_numbers).
    pub fn numbers(&self, group: &str, material: &Material) -> Result<Stored, Fault> {
        let key = KeyId::new("antedate MQTT key", material.key());
        // Held meanwhile, so that nothing is forgotten of a key that is being given.
        let mut given = self.given();
        let reserved = self.with(|state| Reservation::open(state, key, u64::MAX))?;
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
        if given.contains(&key) {
            return Err(Fault::of_file(
                &self.directory,
                "two group files have the same key, so sequence numbers would be used twice",
                "name all topics of a group in one file",
            ));
        }
        given.push(key);
        drop(given);
        Ok(Stored { store: self.clone(), reserved, chunk: FIRST_CHUNK, fault: None })
    }

    /// The first epoch of a group whose numbers were not forgotten.
    fn first_epoch(&self, group: &str) -> u32 {
        self.bound(&forgotten(group))
    }

    /// Forgets the numbers of a group's keys of epochs before the one that it has [reached](Self::reached), and gives none of such
    /// epochs from then on, wherever a key comes from: a file of before, or another manager, could bring one back. Both are one write.
    /// Of keys whose numbers somebody has nothing is forgotten.
    ///
    /// # Errors
    /// When it did not become durable: then the records only stay.
    pub fn forget_numbers<'a>(
        &self,
        group: &str,
        manager: &[u8],
        over: impl IntoIterator<Item = &'a Material>,
    ) -> Result<(), Fault> {
        let reached = self.epoch(group, manager);
        let given = self.given();
        let keys: Vec<KeyId> = over
            .into_iter()
            .filter(|material| material.head().epoch < reached)
            .map(|material| KeyId::new("antedate MQTT key", material.key()))
            .filter(|key| !given.contains(key))
            .collect();
        let bound = (forgotten(group), place(""), u64::from(reached) + 1);
        self.with(|state| state.forget_numbers(&keys, bound))
    }

    /// Numbers for a key that protects nothing: they are kept nowhere.
    pub(crate) fn fleeting(&self, material: &Material) -> Stored {
        let key = KeyId::new("antedate MQTT key", material.key());
        Stored { store: self.clone(), reserved: Reservation::fleeting(key), chunk: FIRST_CHUNK, fault: None }
    }

    /// The lowest number that may come from a publisher on a topic. `book` is what its group derives in that epoch for nobody: what
    /// comes in an epoch is known by it, and is forgotten with it.
    #[must_use]
    pub fn lowest(&self, book: &Material, material: &Material, topic: &str) -> u64 {
        let place = place_of(&material.head().publisher, topic);
        self.state().as_ref().map_or(1, |state| {
            // Versions before had a key for each publisher.
            let before = state.bound(&received(material), self::place(topic));
            state.bound(&received(book), place).max(before)
        })
    }

    /// Makes durable what was received: book, publisher, topic, lowest number to come.
    ///
    /// # Errors
    /// When it did not become durable.
    pub fn received<'a>(
        &self,
        bounds: impl IntoIterator<Item = (&'a Material, &'a [u8], &'a str, u64)>,
    ) -> Result<(), Fault> {
        self.received_with(bounds, || Ok(()))
    }

    /// As [`received`](Self::received), with `act` at the last moment before it counts: a process that is killed has done both or
    /// neither, but for the time between the two.
    ///
    /// # Errors
    /// When it did not become durable, or `act` failed: then nothing counts as received.
    pub fn received_with<'a>(
        &self,
        bounds: impl IntoIterator<Item = (&'a Material, &'a [u8], &'a str, u64)>,
        act: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<(), Fault> {
        let records: Vec<Bound> = bounds
            .into_iter()
            .map(|(book, publisher, topic, lowest)| (received(book), place_of(publisher, topic), lowest))
            .collect();
        self.with(|state| state.raise_with(&records, act))
    }

    /// Forgets what was received under keys of epochs that are over: their books, and publishers of which versions before have written.
    ///
    /// # Errors
    /// When it did not become durable.
    pub fn forget<'a>(&self, over: impl IntoIterator<Item = &'a Material>) -> Result<(), Fault> {
        let keys: Vec<KeyId> = over.into_iter().map(received).collect();
        self.with(|state| state.forget_bounds(&keys))
    }

    /// The newest epoch of a group of this manager that was seen, so that an older rotation does not come back after a restart.
    #[must_use]
    pub fn epoch(&self, group: &str, manager: &[u8]) -> u32 {
        self.bound(&epochs(group, manager))
    }

    /// The epoch that is written down under a key; 0 if there is none.
    fn bound(&self, key: &KeyId) -> u32 {
        // Bounds begin at 1, epochs at 0.
        let above = self.state().as_ref().map_or(1, |state| state.bound(key, place("")));
        u32::try_from(above - 1).unwrap_or(u32::MAX)
    }

    /// Makes durable that a group has reached an epoch.
    ///
    /// # Errors
    /// When it did not become durable.
    pub fn reached(&self, group: &str, manager: &[u8], epoch: u32) -> Result<(), Fault> {
        let key = epochs(group, manager);
        self.with(|state| state.raise(&[(key, place(""), u64::from(epoch) + 1)]))
    }

    /// The last rotation message of a group that was kept. None if there is none, or it cannot be read: then the broker brings it.
    #[must_use]
    pub fn rotation(&self, group: &str) -> Option<Vec<u8>> {
        std::fs::read(self.directory.join(rotation_name(group))).ok()
    }

    /// The rotation message before that one, if it was kept too, and how long ago it was replaced.
    #[must_use]
    pub fn former_rotation(&self, group: &str) -> Option<(Vec<u8>, Duration)> {
        let message = std::fs::read(self.directory.join(former_name(group))).ok()?;
        let replaced = std::fs::metadata(self.directory.join(rotation_name(group))).ok()?.modified().ok()?;
        // A clock that was set back tells nothing.
        Some((message, replaced.elapsed().unwrap_or(Duration::MAX)))
    }

    /// Keeps the last rotation message of a group, so that its key is there at the next start. It is kept as it came, sealed for each
    /// member. So is the one before, where `former` is still to be read then.
    ///
    /// # Errors
    /// When it did not become durable: then the message before is still there.
    pub fn keep_rotation(&self, group: &str, message: &[u8], former: bool) -> Result<(), Fault> {
        // As with numbers, nobody writes there after the end.
        self.with(|_| Ok(()))?;
        // If this does not get to the disk, the next start reads the newest alone.
        let _ = match self.rotation(group).filter(|_| former) {
            Some(before) => replace::replace(&self.directory.join(former_name(group)), &before).map(drop),
            None => self.drop_former_rotation(group),
        };
        replace::replace(&self.directory.join(rotation_name(group)), message).map(drop)
    }

    /// Forgets the rotation message before the last one, whose time is over.
    ///
    /// # Errors
    /// When it is still there.
    pub fn drop_former_rotation(&self, group: &str) -> Result<(), Fault> {
        let file = self.directory.join(former_name(group));
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Fault::of_io(&file, "remove the file", &error, "give a directory that you can write to"))
            }
            _ => Ok(()),
        }
    }

    /// The clean end: writes the exact next numbers. Nothing can be sealed any more.
    ///
    /// # Errors
    /// When it did not become durable: then numbers are lost, not used twice.
    pub fn close<'a>(&self, numbers: impl IntoIterator<Item = &'a Stored>) -> Result<(), Fault> {
        let next: Vec<(KeyId, u64)> =
            numbers.into_iter().map(|one| (one.reserved.key(), one.reserved.next())).collect();
        match self.state().take() {
            Some(state) => state.close(&next, &[]).map_err(|error| fault(&self.directory, error)),
            None => Ok(()),
        }
    }
}

/// What the state file knows the epochs of a group by. A group that was made anew has another manager's key.
fn epochs(group: &str, manager: &[u8]) -> KeyId {
    KeyId::new("antedate MQTT epoch", &[manager, group.as_bytes()].concat())
}

/// What it knows by from which epoch of a group on numbers are not forgotten. By the group's name alone: with the manager's key and the
/// file, where a key comes from may change, and the key be the same.
fn forgotten(group: &str) -> KeyId {
    KeyId::new("antedate MQTT forgotten", group.as_bytes())
}

/// The file of a group's last rotation message; a group's name has only letters, digits and - _ .
fn rotation_name(group: &str) -> String {
    format!("rotation-{group}")
}

/// That of the one before.
fn former_name(group: &str) -> String {
    format!("former-{group}")
}

/// What the state file knows what was received by.
fn received(material: &Material) -> KeyId {
    KeyId::new("antedate MQTT received", material.key())
}

/// What it knows a publisher's topic by, in the book of an epoch.
fn place_of(publisher: &[u8], topic: &str) -> Place {
    first_of(Sha256::new().chain_update([publisher.len() as u8]).chain_update(publisher).chain_update(topic))
}

/// What the state file knows a topic by: the first bytes of its digest.
fn place(topic: &str) -> Place {
    first_of(Sha256::new().chain_update(topic))
}

fn first_of(digest: Sha256) -> Place {
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
        _ => format!("rotate the group's key, then remove {shown} and call antedate mqtt init {shown}"),
    })
}

/// The numbers of one publisher, reserved on disk ahead of use.
#[derive(Debug)]
pub struct Stored {
    store: Store,
    reserved: Reservation,
    chunk: u64,
    fault: Option<Fault>,
}

impl Stored {
    /// Whether the last number could not be given.
    pub const fn is_out(&self) -> bool {
        self.fault.is_some()
    }

    /// Why the last number could not be given.
    pub const fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    /// Reserves now, so that the next `count` numbers need no disk.
    ///
    /// # Errors
    /// When it did not become durable.
    pub fn reserve(&mut self, count: u64) -> Result<(), Fault> {
        let reserved = &mut self.reserved;
        self.store.with(|state| reserved.extend(state, count))
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.store.given().retain(|key| *key != self.reserved.key());
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
    fn a_number_comes_once_over_crashes_and_clean_ends() {
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
            // Every other run crashes.
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
        let fault = store.numbers("g", &material(b"a")).expect_err("somebody has them");
        assert!(fault.remedy.contains("one file"), "{fault:?}");
        let last = (0..100).map(|_| first.take().expect("a number")).max().expect("some");
        drop(first);
        let mut second = store.numbers("g", &material(b"a")).expect("nobody has them any more");
        assert!(second.take().expect("a number") > last);
        // Should the file know of more than we have reserved, we go on behind it.
        let key = second.reserved.key();
        store.with(|state| state.reserve(&[(key, 5000)])).expect("reserved");
        while second.reserved.left() > 0 {
            second.take().expect("a number");
        }
        assert_eq!(second.take(), Ok(5000));
    }

    #[test]
    fn numbers_of_epochs_that_are_over_are_forgotten_and_never_given_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("state");
        Store::create(&place).expect("created");
        let store = Store::open(&place).expect("opened");
        let material =
            |epoch: u32| Material::derive("g", Algorithm::A128Gcm, epoch, &[1; 32], b"a").expect("material");
        let known = |store: &Store, epoch: u32| {
            let key = KeyId::new("antedate MQTT key", material(epoch).key());
            store.with(|state| state.next(&key)).expect("known") > 1
        };
        let [first, second, third] = [1, 2, 3].map(material);
        let mut numbers = store.numbers("g", &first).expect("numbers");
        numbers.take().expect("a number");
        store.numbers("g", &second).expect("numbers").take().expect("a number");
        // Nobody has said that their epoch is over.
        store.forget_numbers("g", b"m", [&first, &second]).expect("nothing to do");
        store.reached("g", b"m", 2).expect("durable");
        store.reached("g", b"n", 9).expect("durable");
        store.forget_numbers("g", b"m", [&first, &second]).expect("nothing to do");
        assert!(known(&store, 1) && known(&store, 2), "somebody has the first one's numbers");
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
    fn bounds_and_epochs_are_remembered() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("state");
        Store::create(&place).expect("created");
        let store = Store::open(&place).expect("opened");
        let (book, a, b) = (material(b"\0"), material(b"a"), material(b"b"));
        assert_eq!((store.lowest(&book, &a, "t"), store.epoch("g", b"m")), (1, 0));
        store.received([(&book, &b"a"[..], "t", 8)]).expect("durable");
        store.reached("g", b"m", 3).expect("durable");
        drop(store);
        let store = Store::open(&place).expect("opened");
        let lowest = |store: &Store| {
            [(&a, "t"), (&a, "u"), (&b, "t")].map(|(who, topic)| store.lowest(&book, who, topic))
        };
        assert_eq!((lowest(&store), store.epoch("g", b"m")), ([8, 1, 1], 3));
        assert_eq!(store.epoch("g", b"n"), 0, "a group of the same name, made anew");
        // As versions before have written it.
        store.with(|state| state.raise(&[(received(&b), super::place("t"), 5)])).expect("durable");
        assert_eq!(lowest(&store), [8, 1, 5]);
        store.forget([&material(b"c")]).expect("nothing to forget");
        assert_eq!(lowest(&store), [8, 1, 5]);
        store.forget([&book]).expect("forgotten");
        assert_eq!(lowest(&store), [1, 1, 5]);
        store.forget([&b]).expect("forgotten");
        assert_eq!(lowest(&store), [1, 1, 1]);
    }

    #[test]
    fn the_last_rotation_message_of_each_group_is_kept_and_replaced_as_a_whole() {
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
