//! All short lives of a reservation, and proof that the exploration notices what it must.

use super::super::model::{Bounds, Choices, Counter, RESERVE, explore};
use super::*;

/// A plain counter.
struct Plain {
    next: u64,
    limit: u64,
}

impl Counter for Plain {
    fn start(next: u64, limit: u64) -> Self {
        Self { next, limit }
    }

    fn reserve_until(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    fn spend(&mut self) -> Option<Vec<u8>> {
        let number = self.next;
        (number < self.limit).then(|| {
            self.next += 1;
            number.to_be_bytes().to_vec()
        })
    }

    fn next(&mut self) -> u64 {
        self.next
    }
}

/// Uses a number before its reservation is durable.
struct Eager(Plain);

impl Counter for Eager {
    fn start(next: u64, limit: u64) -> Self {
        Self(Plain::start(next, limit))
    }

    fn reserve_until(&mut self, limit: u64) {
        self.0.reserve_until(limit);
    }

    fn spend(&mut self) -> Option<Vec<u8>> {
        self.0.limit = self.0.limit.max(self.0.next + 1).min(RESERVE + 2);
        self.0.spend()
    }

    fn next(&mut self) -> u64 {
        self.0.next
    }
}

#[test]
fn each_sequence_of_choices_is_run() {
    let mut seen = Vec::new();
    let runs = explore(|choices: &mut Choices| {
        let first = choices.pick(3);
        let second = if first == 1 { choices.pick(2) } else { 0 };
        seen.push((first, second));
    });
    assert_eq!((runs, seen), (4, vec![(0, 0), (1, 0), (1, 1), (2, 0)]));
}

#[test]
fn no_number_repeats_in_any_life() {
    let explored = Bounds::new(1, u64::MAX).lives::<Plain>(made);
    assert!(explored.runs > 5_000 && explored.refused > 1_000, "{explored:?}");
    assert!(explored.packets > 2 * explored.runs, "{explored:?}");
}

#[test]
fn no_number_repeats_at_the_end() {
    let explored = Bounds::new(u64::MAX - 4, u64::MAX).lives::<Plain>(made);
    assert!(explored.runs > 5_000, "{explored:?}");
}

#[test]
#[should_panic(expected = "a packet leaves twice")]
fn number_before_its_reservation_is_found() {
    Bounds::new(1, u64::MAX).lives::<Eager>(made);
}

#[test]
#[should_panic(expected = "a packet leaves twice")]
fn name_that_is_not_durable_is_found() {
    Bounds::new(1, u64::MAX).lives::<Plain>(|| made().forgetful());
}

/// The reason to bind a file to its place: no counter survives the return of an older one.
#[test]
fn older_file_is_refused_until_a_restart() {
    let medium = made();
    let key = KeyId::new("kind", &[1]);
    let run = || {
        let mut file = open(&medium)?;
        let mut numbers = Reservation::open(&file, key, 100)?;
        numbers.extend(&mut file, RESERVE)?;
        Ok(numbers.take())
    };
    let number = |run: Result<Option<u64>, NumbersError>| run.map_err(|error| format!("{:?}", error.kind));
    let older = medium.file();
    assert_eq!((number(run()), number(run())), (Ok(Some(1)), Ok(Some(3))));
    let last = medium.file();
    // Copied over the last one.
    medium.overwrite(older.clone().expect("a file").bytes);
    assert_eq!(number(run()), Err("Older".into()));
    medium.restart();
    assert_eq!(number(run()), Err("Copied".into()));
    // As a snapshot of its file system returns it.
    medium.put(last);
    assert_eq!(number(run()), Ok(Some(5)));
    medium.put(older);
    assert_eq!(number(run()), Err("Older".into()));
    // The limit: after a restart of the machine nothing outside the file system knows more.
    medium.restart();
    assert_eq!(number(run()), Ok(Some(1)));
}
