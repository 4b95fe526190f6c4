//! Experiment `nonces`: real senders under traffic are killed at any moment, and their state is
//! damaged, exchanged and moved. Every nonce that leaves is compared with all before: none leaves
//! twice under one key, or the start is refused with the right status and words.
//!
//! - `parties`: the senders
//! - `victim`: a process that is killed and started again
//! - `state`: changes of a state directory
//! - `heard`: the nonces on the wire

mod heard;
mod parties;
mod state;
pub(crate) mod victim;

use std::time::{Duration, Instant};

use antedate_lab::emulator::schedule::Random;

use crate::{ExperimentError, Options, Report, Row};
use heard::Heard;
use parties::Party;
use state::Change;
use victim::{Started, Victim};

/// Kills of a whole run, and of a smoke test.
const KILLS: u32 = 1_000;
const QUICK_KILLS: u32 = 20;
/// Exit status of a refused start.
const REFUSED: i32 = 2;
/// Each kind has at least so many rounds: a kill, a damaged state, a changed one, and again.
const ROUNDS: u32 = 6;
/// A gateway writes at least once in this time.
const NOTICE: Duration = Duration::from_millis(1_500);
/// Pause between two looks at all victims.
const PAUSE: Duration = Duration::from_micros(500);

/// A kind of sender: name, its share of the kills in percent, and how it is built.
struct Kind {
    name: &'static str,
    share: u32,
    build: fn() -> Result<Party, ExperimentError>,
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "gateways, static keys, gcm-aes-128",
        share: 30,
        build: || parties::gateways(Some("gcm-aes-128")),
    },
    Kind {
        name: "gateways, static keys, gcm-aes-xpn-256",
        share: 15,
        build: || parties::gateways(Some("gcm-aes-xpn-256")),
    },
    Kind { name: "gateways, agreed keys", share: 10, build: || parties::gateways(None) },
    Kind { name: "MQTT publisher", share: 25, build: parties::mqtt },
    Kind { name: "GOOSE publisher", share: 20, build: parties::goose },
];

/// Results of a kind.
#[derive(Debug, Default)]
struct Tally {
    rounds: u32,
    kills: u32,
    /// Starts with a damaged state, and of these those that were refused rightly.
    damaged: u32,
    refused: u32,
    /// Changes under a running process, and those that it reported.
    exchanged: u32,
    noticed: u32,
    /// What must not happen.
    wrong: Vec<String>,
}

/// Runs the experiment.
pub(crate) fn run(options: &Options) -> Result<Report, ExperimentError> {
    crate::in_namespaces()?;
    let mut report = Report::new("nonces", "");
    let kills = options.kills.unwrap_or(if options.quick { QUICK_KILLS } else { KILLS });
    let mut random = Random::new(1);
    let (mut done, mut packets, mut twice, mut keyless) = (0, 0, 0, 0);
    for kind in KINDS {
        let share = (kills * kind.share).div_ceil(100);
        let (mut heard, mut tally) = (Heard::default(), Tally::default());
        let mut party = (kind.build)()?;
        while tally.kills < share || tally.rounds < ROUNDS {
            options.progress((done + tally.kills) as usize, kills as usize, kind.name);
            party.round(&mut random, &mut heard, &mut tally)?;
        }
        // Another directory of the same name may follow.
        drop(party);
        rows(&mut report, kind.name, &heard, &tally);
        let wrong: Vec<_> = tally.wrong.iter().chain(&heard.examples).map(String::as_str).collect();
        let outcome = if wrong.is_empty() { String::new() } else { format!(": {}", wrong.join("; ")) };
        report.check(
            format!(
                "{}: {} of {} starts with a damaged state refused with status {REFUSED} and the reason{outcome}",
                kind.name, tally.refused, tally.damaged
            ),
            tally.refused == tally.damaged && tally.wrong.is_empty(),
        );
        done += tally.kills;
        packets += heard.packets;
        twice += heard.twice;
        keyless += heard.keyless;
    }
    options.progress(1, 1, "");
    report.check(format!("{done} kills, {packets} packets: {twice} numbers twice under one key"), twice == 0);
    report.check(format!("{keyless} packets whose key nobody announced"), keyless == 0);
    Ok(report)
}

fn rows(report: &mut Report, name: &str, heard: &Heard, tally: &Tally) {
    let mut row = |metric: &str, value: u64, note: &str| {
        report.row(Row::new(name, metric, "").antedated(value as f64).note(note));
    };
    row("SIGKILLs", tally.kills.into(), "");
    row("packets", heard.packets, "");
    row("keys", heard.keys() as u64, "");
    row("numbers twice", heard.twice, "");
    if tally.damaged + tally.exchanged > 0 {
        row(
            "starts with a damaged state",
            tally.damaged.into(),
            "missing, empty, truncated, torn, moved away, an older or the last one restored",
        );
        row("of these refused", tally.refused.into(), "");
        row("state changed under the process", tally.exchanged.into(), "put back after the kill");
        row("of these reported at once", tally.noticed.into(), "the others had not to write before the kill");
    }
}

impl Party {
    /// Kills one victim at any moment of its life, and starts it again, with the right state or
    /// another.
    fn round(
        &mut self,
        random: &mut Random,
        heard: &mut Heard,
        tally: &mut Tally,
    ) -> Result<(), ExperimentError> {
        if tally.rounds == 0 {
            // Gateways with agreed keys wait for each other.
            self.victims.iter_mut().try_for_each(Victim::launch)?;
            (0..self.victims.len()).try_for_each(|at| self.must_send(at, heard, tally))?;
        }
        let turn = tally.rounds;
        let at = turn as usize % self.victims.len();
        tally.rounds += 1;
        tally.kills += 1;
        let has_state = self.victims[at].state.is_some();
        if has_state && turn % 3 == 2 {
            return self.exchange(at, tally.exchanged as usize, heard, tally);
        }
        self.dwell(Duration::from_micros(random.below(60_000) as u64), heard)?;
        self.victims[at].kill(heard)?;
        if has_state && turn % 3 == 1 {
            self.damage(at, tally.damaged as usize, heard, tally)?;
        }
        // Killed again at any moment of its start, in which it reserves.
        self.victims[at].launch()?;
        if random.below(2) == 0 {
            let begun = Instant::now();
            self.must_send(at, heard, tally)?;
            let start = begun.elapsed().as_micros() as usize;
            self.victims[at].kill(heard)?;
            self.victims[at].launch()?;
            self.dwell(Duration::from_micros(random.below(start) as u64), heard)?;
            self.victims[at].kill(heard)?;
            self.victims[at].launch()?;
            tally.kills += 2;
        }
        self.must_send(at, heard, tally)
    }

    /// Feeds and hears all victims for a while.
    fn dwell(&mut self, time: Duration, heard: &mut Heard) -> Result<(), ExperimentError> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            for victim in &mut self.victims {
                victim.look(heard)?;
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Waits until a victim with the right state sends.
    fn must_send(&mut self, at: usize, heard: &mut Heard, tally: &mut Tally) -> Result<(), ExperimentError> {
        match self.victims[at].outcome(heard)? {
            Started::Sends => Ok(()),
            Started::Refused(status, said) => {
                tally
                    .wrong
                    .push(format!("{} with its right state ends: {status:?} {said}", self.victims[at].name));
                Err(format!("{} does not start: {said}", self.victims[at].name).into())
            }
        }
    }

    /// Starts a victim with a damaged or restored state, which it must refuse.
    fn damage(
        &mut self,
        at: usize,
        turn: usize,
        heard: &mut Heard,
        tally: &mut Tally,
    ) -> Result<(), ExperimentError> {
        let (change, words) = Change::REFUSED[turn % Change::REFUSED.len()];
        self.state(at)?.change(change)?;
        self.victims[at].launch()?;
        tally.damaged += 1;
        match self.victims[at].outcome(heard)? {
            Started::Refused(Some(REFUSED), said) if said.contains(words) => tally.refused += 1,
            other => tally.wrong.push(format!("{change:?}: {other:?} and not \"{words}\"")),
        }
        self.victims[at].kill(heard)?;
        Ok(self.state(at)?.restore(change)?)
    }

    /// Changes the state of a running victim, lets it run on, kills it, and undoes the change.
    fn exchange(
        &mut self,
        at: usize,
        turn: usize,
        heard: &mut Heard,
        tally: &mut Tally,
    ) -> Result<(), ExperimentError> {
        let (change, words) = Change::NOTICED[turn % Change::NOTICED.len()];
        self.state(at)?.change(change)?;
        self.dwell(NOTICE, heard)?;
        let said = self.victims[at].kill(heard)?;
        tally.exchanged += 1;
        tally.noticed += u32::from(said.contains(words));
        self.state(at)?.restore(change)?;
        self.victims[at].launch()?;
        self.must_send(at, heard, tally)
    }

    fn state(&self, at: usize) -> Result<&state::State, ExperimentError> {
        self.victims[at].state.as_ref().ok_or_else(|| "keeps no state".into())
    }
}
