//! A machine that goes on from a snapshot.

use std::cell::Cell;
use std::rc::Rc;

use super::*;

/// A medium of such a machine, once the flag is set.
struct Snapshot(Medium, Rc<Cell<bool>>);

impl Disk for Snapshot {
    fn is_cloned(&mut self) -> bool {
        self.1.get()
    }

    fn read(&self) -> io::Result<Option<Stored>> {
        self.0.read()
    }

    fn witnessed(&mut self, state: &[u8; 16]) -> u64 {
        self.0.witnessed(state)
    }

    fn witness(&mut self, state: &[u8; 16], writes: u64) {
        self.0.witness(state, writes);
    }

    fn create_new(&mut self) -> io::Result<Origin> {
        self.0.create_new()
    }

    fn write_new(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_new(bytes)
    }

    fn sync_new(&mut self) -> io::Result<()> {
        self.0.sync_new()
    }

    fn replace(&mut self) -> io::Result<()> {
        self.0.replace()
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        self.0.sync_directory()
    }
}

#[test]
fn snapshot_spends_all_numbers() {
    let (medium, cloned) = (made(), Rc::new(Cell::new(false)));
    let open = || NumberFile::on(Path::new("state"), Snapshot(medium.clone(), Rc::clone(&cloned))).unwrap();
    let keys = [1, 2].map(|octet| KeyId::new("kind", &[octet]));
    let mut file = open();
    let mut numbers = keys.map(|key| Reservation::open(&file, key, 1 << 32).unwrap());
    Reservation::extend_all(&mut numbers, &mut file, 100).unwrap();
    assert_eq!((numbers[0].take(), numbers[0].refill(&mut file, 100).unwrap()), (Some(1), None));
    cloned.set(true);
    for _ in 0..2 {
        let refused = numbers[0].refill(&mut file, 100).map_err(|error| error.kind);
        assert!(matches!(refused, Err(NumbersErrorKind::Cloned)), "{refused:?}");
        assert_eq!(numbers[0].take(), None, "a number after the snapshot");
    }
    // The clean end gives nothing back, and the next start has no number of either key.
    let closed = file.close(&keys.map(|key| (key, 5)), &[]);
    assert!(closed.is_err_and(|error| matches!(error.kind, NumbersErrorKind::Cloned)));
    cloned.set(false);
    let file = open();
    for key in keys {
        assert!(Reservation::open(&file, key, 1 << 32).unwrap().is_exhausted());
    }
    // A key that was not used here begins at 1.
    assert_eq!(file.next(&KeyId::new("kind", &[3])).unwrap(), 1);
}

#[test]
fn clean_end_notices_a_snapshot() {
    let (medium, cloned) = (made(), Rc::new(Cell::new(false)));
    let open = || NumberFile::on(Path::new("state"), Snapshot(medium.clone(), Rc::clone(&cloned))).unwrap();
    let (key, mut file) = (KeyId::new("kind", &[1]), open());
    file.reserve(&[(key, 100)]).unwrap();
    cloned.set(true);
    assert!(file.close(&[(key, 5)], &[]).is_err());
    assert_eq!(open().next(&key).unwrap(), u64::MAX);
}
