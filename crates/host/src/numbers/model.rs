//! Explores all short lives of a counter, with a crash between any two writes.
//!
//! [`explore`] calls a test once for each sequence of its choices. [`Bounds::lives`] is such a
//! test: a process reserves numbers, protects packets, stops, is killed or loses its power within
//! any write; its file is lost, truncated, torn, exchanged or restored; it starts again. No packet leaves
//! twice.

use std::collections::BTreeSet;
use std::path::Path;

use super::medium::{Keep, Medium};
use super::{Disk as _, KeyId, NumberFile, NumbersError, NumbersErrorKind, Reservation, Stored};

/// The choices of one run. The first run takes option 0 each time.
#[derive(Debug, Default)]
pub struct Choices {
    /// Option and number of options.
    taken: Vec<(usize, usize)>,
    at: usize,
}

impl Choices {
    /// Chooses one of `of` options.
    ///
    /// # Panics
    /// When the run does not depend on its choices alone.
    pub fn pick(&mut self, of: usize) -> usize {
        if self.at == self.taken.len() {
            self.taken.push((0, of));
        }
        let (option, known) = self.taken[self.at];
        assert_eq!(known, of, "a run depends on its choices alone");
        self.at += 1;
        option
    }

    /// Moves on to the next sequence. False after the last.
    fn advance(&mut self) -> bool {
        self.at = 0;
        while let Some((option, of)) = self.taken.pop() {
            if option + 1 < of {
                self.taken.push((option + 1, of));
                return true;
            }
        }
        false
    }
}

impl Drop for Choices {
    /// Names the run that failed.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let options: Vec<_> = self.taken.iter().map(|(option, _)| option).collect();
            eprintln!("the choices were {options:?}");
        }
    }
}

/// Runs a test with each sequence of choices. Returns the number of runs.
pub fn explore(mut run: impl FnMut(&mut Choices)) -> u64 {
    let (mut choices, mut runs) = (Choices::default(), 0);
    loop {
        run(&mut choices);
        runs += 1;
        if !choices.advance() {
            return runs;
        }
    }
}

/// A source of packets with numbers of one key.
pub trait Counter: Sized {
    /// Begins with the numbers from `next` to below `limit`.
    fn start(next: u64, limit: u64) -> Self;

    /// Allows numbers below `limit`.
    fn reserve_until(&mut self, limit: u64);

    /// Protects the packet that is always the same. Two equal results have the same nonce. `None`:
    /// no number is left.
    fn spend(&mut self) -> Option<Vec<u8>>;

    /// The first number that is neither spent nor prepared.
    fn next(&mut self) -> u64;

    /// Reserves more if it is time.
    ///
    /// # Errors
    /// When the write did not become durable.
    fn more(numbers: &mut Reservation, file: &mut NumberFile<Medium>) -> Result<Option<u64>, NumbersError> {
        numbers.refill(file, RESERVE)
    }
}

/// Numbers of a reservation.
pub const RESERVE: u64 = 2;

/// The extent of an exploration.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The first number of the key.
    pub first: u64,
    /// The first number beyond the cipher's range.
    pub end: u64,
    /// Events of a life.
    pub events: usize,
    /// Of these, and of the starts after them, at most so many are faults.
    pub faults: usize,
}

/// The lives of an exploration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Explored {
    /// Lives.
    pub runs: u64,
    /// Packets of all lives.
    pub packets: u64,
    /// Starts that were refused, each rightly.
    pub refused: u64,
}

/// Power cuts: the step of the next write, and the part that reaches the medium. A name that
/// survives is a killed process, too.
const CUTS: [(u32, Keep); 6] = [
    (0, Keep::Nothing),
    (1, Keep::Nothing),
    (2, Keep::Nothing),
    (2, Keep::Name),
    (3, Keep::Nothing),
    (3, Keep::Name),
];

impl Bounds {
    /// A few events from the first number on, with one or two faults among them.
    #[must_use]
    pub const fn new(first: u64, end: u64) -> Self {
        Self { first, end, events: 4, faults: 2 }
    }

    /// Explores all lives of a counter on a medium.
    ///
    /// # Panics
    /// When a packet leaves twice, or a damaged file is believed.
    pub fn lives<C: Counter>(self, medium: impl Fn() -> Medium) -> Explored {
        let mut explored = Explored::default();
        let key = KeyId::new("explored", &[1]);
        explored.runs = explore(|choices| {
            let medium = medium();
            if self.first > 1 {
                let mut file = open(&medium).expect("a whole file");
                file.reserve(&[(key, self.first)]).expect("no fault yet");
            }
            let before = medium.file();
            let mut life = Life::<C> {
                bounds: self,
                faults: self.faults,
                key,
                before,
                medium,
                running: None,
                sent: BTreeSet::new(),
                refused: 0,
            };
            life.live(choices);
            explored.packets += life.sent.len() as u64;
            explored.refused += life.refused;
        });
        explored
    }
}

fn open(medium: &Medium) -> Result<NumberFile<Medium>, NumbersError> {
    NumberFile::on(Path::new("state"), medium.clone())
}

/// A process and its medium.
struct Life<C> {
    bounds: Bounds,
    /// Faults that may still happen.
    faults: usize,
    key: KeyId,
    /// The file before the last start.
    before: Option<Stored>,
    medium: Medium,
    running: Option<(NumberFile<Medium>, Reservation, C)>,
    /// All packets of all runs of the process.
    sent: BTreeSet<Vec<u8>>,
    refused: u64,
}

impl<C: Counter> Life<C> {
    fn live(&mut self, choices: &mut Choices) {
        self.start(choices);
        for _ in 0..self.bounds.events {
            match choices.pick(if self.faults > 0 { 6 } else { 3 }) {
                0 => self.send(1),
                1 => self.reserve(choices),
                2 => self.stop(choices),
                3 => self.kill(choices),
                4 => self.damage(choices),
                _ => self.exchange(choices),
            }
        }
        // What could still repeat shows now.
        self.faults = 0;
        self.kill(choices);
        self.send(u64::MAX);
    }

    /// Decides on a power cut within the next write.
    fn cut(&mut self, choices: &mut Choices) -> bool {
        let cut = if self.faults > 0 { choices.pick(1 + CUTS.len()) } else { 0 };
        if let Some((step, keep)) = cut.checked_sub(1).and_then(|cut| CUTS.get(cut)) {
            self.faults -= 1;
            self.medium.cut_at(*step, *keep);
        }
        cut > 0
    }

    /// Starts the process, and again after a power cut meanwhile.
    fn start(&mut self, choices: &mut Choices) {
        loop {
            let cut = self.cut(choices);
            self.before = self.medium.file();
            let mut file = open(&self.medium).expect("the file is whole");
            let mut numbers = Reservation::open(&file, self.key, self.bounds.end).expect("a known key");
            match numbers.extend(&mut file, RESERVE) {
                Ok(()) => {
                    let counter = C::start(numbers.next(), numbers.limit());
                    self.running = Some((file, numbers, counter));
                    if cut {
                        // At the end of the range nothing was written.
                        self.medium.restart();
                    }
                    return;
                }
                Err(error) => assert!(cut, "{error}"),
            }
            self.medium.restart();
        }
    }

    /// Sends at most `count` packets.
    fn send(&mut self, count: u64) {
        let Some((.., counter)) = &mut self.running else { return };
        for _ in 0..count {
            let Some(packet) = counter.spend() else { break };
            assert!(self.sent.insert(packet), "a packet leaves twice with one nonce");
        }
    }

    /// The main thread reserves more.
    fn reserve(&mut self, choices: &mut Choices) {
        let cut = self.cut(choices);
        let Some((file, numbers, counter)) = &mut self.running else { return };
        numbers.spend_below(counter.next());
        match C::more(numbers, file) {
            Ok(Some(limit)) => counter.reserve_until(limit),
            Ok(None) => {}
            Err(error) => {
                assert!(cut, "{error}");
                // What the reservation holds now may be used until the power is gone.
                counter.reserve_until(numbers.limit());
            }
        }
        if cut {
            self.crash(choices);
        }
    }

    /// The power goes. Until then the process sends all that it may.
    fn crash(&mut self, choices: &mut Choices) {
        self.send(u64::MAX);
        self.running = None;
        self.medium.restart();
        self.start(choices);
    }

    /// A clean end and a new start.
    fn stop(&mut self, choices: &mut Choices) {
        let cut = self.cut(choices);
        let Some((file, mut numbers, mut counter)) = self.running.take() else { return };
        numbers.spend_below(counter.next());
        let next = numbers.next();
        match file.close(&[(self.key, next)], &[]) {
            Ok(()) => {
                self.medium.restart();
                let file = open(&self.medium).expect("the file is whole");
                assert_eq!(file.next(&self.key).expect("known"), next, "a clean end loses no number");
            }
            Err(error) => assert!(cut, "{error}"),
        }
        self.medium.restart();
        self.start(choices);
    }

    /// SIGKILL: all writes survive.
    fn kill(&mut self, choices: &mut Choices) {
        self.faults = self.faults.saturating_sub(1);
        self.send(u64::MAX);
        self.running = None;
        self.start(choices);
    }

    /// The process is killed and its file damaged. It does not start until the right file is back.
    fn damage(&mut self, choices: &mut Choices) {
        self.faults -= 1;
        self.send(u64::MAX);
        self.running = None;
        let right = self.medium.file();
        let [whole, before] =
            [&right, &self.before].map(|file| file.clone().map(|file| file.bytes).unwrap_or_default());
        let half = whole.len() / 2;
        let damaged = match choices.pick(7) {
            0 => None,
            1 => Some(Vec::new()),
            2 => Some(whole[..half].to_vec()),
            3 => Some(whole[..whole.len() - 1].to_vec()),
            // The front of the new file, and the rest of the one before.
            4 => {
                let split = whole.iter().zip(&before).position(|(now, then)| now != then);
                split.map(|at| [&whole[..=at], &before[(at + 1).min(before.len())..]].concat())
            }
            // The one before, restored over the new file.
            5 => Some(before.clone()),
            // The one before itself, as after the return of its file system.
            _ => {
                let writes = self.medium.witnessed(&[0; 16]);
                if before != whole && writes > 0 {
                    self.medium.put(self.before.clone());
                    let error = open(&self.medium).expect_err("an older file is refused");
                    assert!(matches!(error.kind, NumbersErrorKind::Older), "{error}");
                    self.refused += 1;
                    self.medium.put(right.clone());
                }
                Some(whole.clone())
            }
        };
        if damaged.as_ref() != Some(&whole) {
            let (missing, restored) = (damaged.is_none(), damaged.as_ref() == Some(&before));
            match damaged {
                Some(damaged) => self.medium.overwrite(damaged),
                None => self.medium.put(None),
            }
            let error = open(&self.medium).expect_err("a damaged file is refused");
            assert!(
                match error.kind {
                    NumbersErrorKind::Missing => missing,
                    // An older file is told by either.
                    NumbersErrorKind::Copied | NumbersErrorKind::Older => restored,
                    NumbersErrorKind::Corrupt => !missing && !restored,
                    _ => false,
                },
                "{error}"
            );
            self.refused += 1;
            self.medium.put(right);
        }
        self.start(choices);
    }

    /// Someone puts the file of the last start, or none, into the place of that in use. The process
    /// sends what it may, reserves no more, and goes on when the right one is back.
    fn exchange(&mut self, choices: &mut Choices) {
        self.faults -= 1;
        let right = self.medium.file();
        let other = if choices.pick(2) == 0 { self.before.clone() } else { None };
        if other == right {
            return;
        }
        self.medium.put(other);
        self.send(u64::MAX);
        let Some((file, numbers, counter)) = &mut self.running else { return };
        numbers.spend_below(counter.next());
        let limit = numbers.limit();
        if let Err(error) = C::more(numbers, file) {
            assert!(matches!(error.kind, NumbersErrorKind::Exchanged), "{error}");
        }
        assert_eq!(numbers.limit(), limit, "no number is reserved in another's file");
        self.send(u64::MAX);
        self.medium.put(right);
    }
}
