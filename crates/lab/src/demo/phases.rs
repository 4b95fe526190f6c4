//! The phases of a demonstration: undisturbed operation, then one fault after the other, each
//! judged by itself.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::gateway::{Refused, add, more};
use super::plant::{LIVE_MS, Plant};
use super::scenario::{Incident, Scenario};
use super::verdict::{self, Material};
use super::view::View;
use super::{DemoError, Options, Outcome, Secure};
use crate::emulator::fault::Fault;
use crate::emulator::{Command, Counts as WireCounts, State};
use crate::ns::Privilege;
use crate::station::meter::Counts;
use crate::sys::clock::monotonic_ns;
use crate::sys::signal;

/// A fault strikes one frame in this many of a direction.
const EVERY: u32 = 20;
/// Intended strikes per direction in a phase.
const STRIKES: u32 = 20;
/// Duration of a provoked outage beyond the watchdog's time.
const OUTAGE: Duration = Duration::from_millis(250);
/// Bound from restart or repair to traffic.
const RECOVERY_LIMIT_MS: f64 = 500.0;
/// Allowance beyond the watchdog's time: the station's thread must wake.
const NOTICE_SLACK_MS: f64 = 20.0;
const PATIENCE: Duration = Duration::from_secs(5);

/// One fault and its effects. Field names are stable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Name of the fault.
    pub fault: String,
    /// Strikes in both directions.
    pub injected: u64,
    /// Refusals of both gateways meanwhile, by reason.
    pub refused: Refused,
    /// Frames on the field side that no station sent in this order: damaged, foreign, duplicated,
    /// reordered, unexpected.
    pub reached_field: u64,
    /// Missed cycles, without those of stalled stations.
    pub missed: u64,
    /// Frames that never arrived.
    pub lost: u64,
    /// Frames that arrived too late.
    pub late: u64,
    /// Bus errors of both stations, without those of stalled stations.
    pub bus_errors: u64,
    /// From the incident to the last station's bus error, milliseconds.
    pub noticed_ms: Option<f64>,
    /// From the restart or repair to valid data at the last station, milliseconds.
    pub recovered_ms: Option<f64>,
    /// The expectation was met.
    pub passed: bool,
    /// The part of it was met that a busy machine must meet too: all but delays and missed cycles.
    #[serde(default)]
    pub holds: bool,
    /// The deviation, or a remark.
    pub note: String,
}

/// A running demonstration.
pub(super) struct Session<'a> {
    plant: Plant,
    options: &'a Options,
    privilege: Privilege,
    view: View,
    phases: Vec<Phase>,
    /// Counts of the phases by station: PLC, device.
    provoked: [Counts; 2],
    /// Refusals of gateways before they were killed.
    refused_before_kill: Refused,
    undisturbed: Duration,
    /// It was asked to end early.
    cut_short: bool,
}

/// All counters at one moment.
struct Moment {
    stations: [Counts; 2],
    refused: [Refused; 2],
    wire: State,
}

impl<'a> Session<'a> {
    pub(super) fn new(plant: Plant, options: &'a Options, privilege: Privilege) -> Self {
        let view = View::new(options);
        Self {
            plant,
            options,
            privilege,
            view,
            phases: Vec::new(),
            provoked: Default::default(),
            refused_before_kill: Refused::new(),
            undisturbed: Duration::ZERO,
            cut_short: false,
        }
    }

    /// Marks the demonstration as incomplete.
    pub(super) fn cut_short(&mut self) {
        self.cut_short = true;
    }

    /// Runs without faults.
    pub(super) fn undisturbed(&mut self, duration: Duration) -> Result<(), DemoError> {
        let began = Instant::now();
        self.pause(duration, "undisturbed")?;
        self.undisturbed = began.elapsed();
        self.plant.check_gateways()?;
        if self.options.faults.is_empty() { Ok(()) } else { self.plant.freeze_histograms() }
    }

    fn pause(&mut self, duration: Duration, phase: &str) -> Result<(), DemoError> {
        let deadline = Instant::now() + duration;
        while Instant::now() < deadline && !signal::stopping() {
            self.plant.check()?;
            self.view.draw(&self.plant, phase);
            let left = deadline.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
        self.cut_short |= Instant::now() < deadline;
        self.plant.check()
    }

    /// Provokes one fault and judges its effects.
    pub(super) fn provoke(&mut self, scenario: Scenario) -> Result<(), DemoError> {
        let (phase, before, after) = match scenario {
            Scenario::Wire(fault) => self.frames(fault)?,
            Scenario::Plant(incident) => self.incident(scenario, incident)?,
        };
        for ((provoked, before), after) in self.provoked.iter_mut().zip(&before.stations).zip(&after.stations)
        {
            provoked.bus_errors += after.bus_errors - before.bus_errors;
            provoked.bus_errors_stalled += after.bus_errors_stalled.saturating_sub(before.bus_errors_stalled);
            provoked.missed += after.missed - before.missed;
            provoked.missed_stalled += after.missed_stalled.saturating_sub(before.missed_stalled);
            provoked.late += after.late - before.late;
            provoked.lost += after.lost.saturating_sub(before.lost);
        }
        self.phases.push(phase);
        Ok(())
    }

    fn frames(&mut self, fault: Fault) -> Result<(Phase, Moment, Moment), DemoError> {
        let name = Scenario::Wire(fault).name();
        let before = self.moment(name)?;
        let delay_us = self.options.cycle_us * 2 / 5;
        self.plant.command(Command { fault: Some(fault), every: EVERY, delay_us, ..Command::default() })?;
        let cycles = Duration::from_micros(self.options.cycle_us.into()) * EVERY * STRIKES;
        self.pause(cycles.max(Duration::from_millis(500)), name)?;
        self.plant.command(Command::default())?;
        let after = self.moment(name)?;

        let struck = |counts: fn(&State) -> &WireCounts| {
            let of = |state: &State| counts(state).faults.get(name).copied().unwrap_or_default();
            of(&after.wire) - of(&before.wire)
        };
        let struck = [struck(|state| &state.b_to_a), struck(|state| &state.a_to_b)];
        let mut phase = difference(name, &before, &after);
        phase.injected = struck.iter().sum();
        if (self.options.secure, fault) == (Secure::Overlay, Fault::Reorder) {
            // WireGuard's window accepts them, in the order in which they came.
            phase.reached_field = phase.reached_field.saturating_sub(reordered(&before, &after));
        }
        if self.options.secure.protects() {
            let refused =
                [0, 1].map(|at| more(&before.refused[at], &after.refused[at]).values().sum::<u64>());
            judge_frames(&mut phase, fault, self.options.secure, struck, refused);
        } else {
            (phase.passed, phase.holds) = (true, true);
        }
        Ok((phase, before, after))
    }

    fn incident(
        &mut self,
        scenario: Scenario,
        incident: Incident,
    ) -> Result<(Phase, Moment, Moment), DemoError> {
        let name = scenario.name();
        let before = self.moment(name)?;
        let began = monotonic_ns();
        match incident {
            Incident::KillA | Incident::KillB => {
                let index = usize::from(incident == Incident::KillB);
                if let Some(gateway) = self.plant.gateways.get_mut(index) {
                    add(&mut self.refused_before_kill, &before.refused[index]);
                    gateway.kill().map_err(|error| DemoError::Start(format!("the kill: {error}")))?;
                }
            }
            Incident::Cut => drop(self.plant.command(Command { cut: true, ..Command::default() })?),
            Incident::Unplug => self.plant.plug(false)?,
        }
        let begun = monotonic_ns();
        let noticed =
            self.both(name, |plant| [plant.plc.bus_error_after(began), plant.device.bus_error_after(began)])?;
        self.pause(OUTAGE, name)?;
        let repaired = match incident {
            Incident::KillA => self.plant.restart_gateway(0)?,
            Incident::KillB => self.plant.restart_gateway(1)?,
            Incident::Cut => {
                let at = monotonic_ns();
                self.plant.command(Command::default())?;
                at
            }
            Incident::Unplug => {
                let at = monotonic_ns();
                self.plant.plug(true)?;
                at
            }
        };
        let recovered = self.both(name, |plant| {
            [plant.plc.recovered_after(repaired), plant.device.recovered_after(repaired)]
        })?;
        let after = self.moment(name)?;
        let mut phase = difference(name, &before, &after);
        phase.injected = 1;
        let milliseconds = |from: u64, to: Option<u64>| to.map(|to| to.saturating_sub(from) as f64 / 1e6);
        phase.noticed_ms = milliseconds(began, noticed);
        phase.recovered_ms = milliseconds(repaired, recovered);
        // The watchdog counts from the last frame, up to a cycle before the incident, which had
        // happened when its command returned. A withheld core delays stations and gateways alike.
        let watchdog_ms = f64::from(self.options.cycle_us) * 3.0 / 1e3;
        let withheld_ms = |from, to: Option<u64>| self.plant.stalled(from, to.unwrap_or(from)) as f64 / 1e6;
        let limits = Limits {
            notice_ms: watchdog_ms
                + NOTICE_SLACK_MS
                + (begun - began) as f64 / 1e6
                + withheld_ms(began, noticed),
            recovery_ms: RECOVERY_LIMIT_MS + withheld_ms(repaired, recovered),
        };
        judge_incident(&mut phase, &limits);
        Ok((phase, before, after))
    }

    /// Waits until both stations have an event. Returns the later one.
    fn both(
        &mut self,
        phase: &str,
        events: impl Fn(&Plant) -> [Option<u64>; 2],
    ) -> Result<Option<u64>, DemoError> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && !signal::stopping() {
            if let [Some(plc), Some(device)] = events(&self.plant) {
                return Ok(Some(plc.max(device)));
            }
            self.pause(Duration::from_millis(5), phase)?;
        }
        self.cut_short |= Instant::now() < deadline;
        Ok(None)
    }

    /// Waits until all frames under way have arrived and been counted. A missed frame shows with
    /// the next one.
    fn moment(&mut self, phase: &str) -> Result<Moment, DemoError> {
        let cycles = Duration::from_micros(self.options.cycle_us.into()) * 2;
        self.pause(Duration::from_millis(u64::from(LIVE_MS) * 3) + cycles, phase)?;
        let wire = self.plant.command(Command::default())?;
        let refused =
            [0, 1].map(|at| self.plant.gateways.get(at).map(|gateway| gateway.refused()).unwrap_or_default());
        let stations = [self.plant.plc.live.counts.clone(), self.plant.device.live.counts.clone()];
        Ok(Moment { stations, refused, wire })
    }

    /// Stops everything and judges.
    pub(super) fn end(mut self) -> Result<Outcome, DemoError> {
        self.view.finish();
        let statuses: Vec<_> =
            self.plant.gateways.iter().map(|gateway| gateway.status().unwrap_or_default()).collect();
        let mut refused = self.refused_before_kill;
        for gateway in &self.plant.gateways {
            add(&mut refused, &gateway.refused());
        }
        let placement = self.plant.placement.clone();
        let ends = self.plant.stop()?;
        Ok(verdict::judge(Material {
            options: self.options,
            privilege: self.privilege,
            placement,
            undisturbed: self.undisturbed,
            interrupted: self.cut_short,
            phases: self.phases,
            provoked: self.provoked,
            refused,
            statuses,
            ends,
        }))
    }
}

/// Changes between two moments.
fn difference(name: &str, before: &Moment, after: &Moment) -> Phase {
    let sum = |count: fn(&Counts) -> u64| -> u64 {
        let pairs = before.stations.iter().zip(&after.stations);
        pairs.map(|(before, after)| count(after).saturating_sub(count(before))).sum()
    };
    let mut refused = Refused::new();
    for (before, after) in before.refused.iter().zip(&after.refused) {
        add(&mut refused, &more(before, after));
    }
    Phase {
        fault: name.to_owned(),
        refused,
        reached_field: sum(|c| c.damaged + c.foreign + c.duplicated + c.reordered + c.unexpected),
        missed: sum(|c| c.missed).saturating_sub(sum(|c| c.missed_stalled)),
        lost: sum(|c| c.lost),
        late: sum(|c| c.late),
        bus_errors: sum(|c| c.bus_errors).saturating_sub(sum(|c| c.bus_errors_stalled)),
        ..Phase::default()
    }
}

/// Frames behind a newer one, at both stations.
fn reordered(before: &Moment, after: &Moment) -> u64 {
    let pairs = before.stations.iter().zip(&after.stations);
    pairs.map(|(before, after)| after.reordered.saturating_sub(before.reordered)).sum()
}

/// With protection: no struck frame reaches the field side, each is refused and counted, good
/// traffic continues.
fn judge_frames(phase: &mut Phase, fault: Fault, secure: Secure, struck: [u64; 2], refused: [u64; 2]) {
    let mut wrong = Vec::new();
    if phase.injected == 0 {
        wrong.push("it never struck".to_owned());
    }
    if phase.reached_field > 0 {
        wrong.push(format!("{} frames reached the field side", phase.reached_field));
    }
    if fault.must_be_counted(secure == Secure::Overlay) && struck != refused {
        wrong.push(format!(
            "gateways A and B refused {} and {} of {} and {} frames",
            refused[0], refused[1], struck[0], struck[1]
        ));
    }
    // An added frame must not cost a good one; otherwise each strike would show. A machine may miss
    // one cycle in ten strikes by stalls that are too short for the witness.
    let mut untimely = Vec::new();
    let may_miss =
        if fault.removes() || fault == Fault::Delay { phase.injected * 2 } else { phase.injected / 10 };
    if phase.missed > may_miss {
        untimely.push(format!("{} cycles missed", phase.missed));
    }
    if phase.bus_errors > 0 {
        untimely.push(format!("{} bus errors", phase.bus_errors));
    }
    phase.conclude(wrong, untimely);
}

/// Bounds in milliseconds from an incident to its notice, and from its end to recovery.
struct Limits {
    notice_ms: f64,
    recovery_ms: f64,
}

/// An outage must be noticed in the watchdog's time and end soon after its cause.
fn judge_incident(phase: &mut Phase, limits: &Limits) {
    let (mut wrong, mut untimely) = (Vec::new(), Vec::new());
    match phase.noticed_ms {
        Some(ms) if ms <= limits.notice_ms => {}
        Some(ms) => untimely.push(format!("bus error after {ms:.0} ms, {:.0} allowed", limits.notice_ms)),
        None => wrong.push("a station had no bus error".to_owned()),
    }
    match phase.recovered_ms {
        Some(ms) if ms <= limits.recovery_ms => {}
        Some(ms) => {
            untimely.push(format!("traffic again after {ms:.0} ms, {:.0} allowed", limits.recovery_ms))
        }
        None => wrong.push("traffic did not come back".to_owned()),
    }
    if phase.reached_field > 0 {
        wrong.push(format!("{} frames reached the field side", phase.reached_field));
    }
    phase.conclude(wrong, untimely);
}

impl Phase {
    fn conclude(&mut self, wrong: Vec<String>, untimely: Vec<String>) {
        self.holds = wrong.is_empty();
        self.passed = self.holds && untimely.is_empty();
        self.note = [wrong, untimely].concat().join("; ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase() -> Phase {
        Phase { injected: 4, ..Phase::default() }
    }

    #[test]
    fn fault_passes_if_all_frames_are_refused() {
        let mut good = phase();
        judge_frames(&mut good, Fault::Replay, Secure::Macsec, [2, 2], [2, 2]);
        assert!(good.passed, "{good:?}");
        let mut missing = phase();
        judge_frames(&mut missing, Fault::Replay, Secure::Macsec, [2, 2], [2, 1]);
        assert!(!missing.passed && missing.note.contains("refused 2 and 1"), "{missing:?}");
        let mut through = Phase { reached_field: 1, ..phase() };
        judge_frames(&mut through, Fault::Replay, Secure::Macsec, [2, 2], [2, 2]);
        assert!(!through.passed && !through.holds);
        let mut nothing = Phase::default();
        judge_frames(&mut nothing, Fault::Lose, Secure::Macsec, [0, 0], [0, 0]);
        assert!(!nothing.passed && !nothing.holds);
    }

    #[test]
    fn overlay_counts_what_reaches_it() {
        let judged = |fault, refused| {
            let mut phase = phase();
            judge_frames(&mut phase, fault, Secure::Overlay, [2, 2], refused);
            phase.passed
        };
        assert!(judged(Fault::Reorder, [0, 0]) && judged(Fault::Inject, [0, 0]));
        assert!(!judged(Fault::Replay, [2, 1]) && judged(Fault::Replay, [2, 2]));
        assert!(!judged(Fault::ForeignKey, [0, 2]));
    }

    #[test]
    fn added_frames_must_not_cost_cycles() {
        let mut added = Phase { missed: 1, ..phase() };
        judge_frames(&mut added, Fault::Inject, Secure::Macsec, [2, 2], [2, 2]);
        assert!(!added.passed && added.holds, "a busy machine misses cycles too");
        let mut taken = Phase { missed: 4, lost: 4, ..phase() };
        judge_frames(&mut taken, Fault::Lose, Secure::Macsec, [2, 2], [0, 0]);
        assert!(taken.passed, "{taken:?}");
    }

    #[test]
    fn an_outage_must_be_noticed_and_end() {
        let incident = |noticed_ms, recovered_ms| {
            let mut phase = Phase { noticed_ms, recovered_ms, ..phase() };
            judge_incident(&mut phase, &Limits { notice_ms: 32.0, recovery_ms: RECOVERY_LIMIT_MS });
            (phase.passed, phase.holds)
        };
        assert_eq!(incident(Some(13.0), Some(400.0)), (true, true));
        assert_eq!(incident(Some(40.0), Some(400.0)), (false, true));
        assert_eq!(incident(Some(13.0), Some(501.0)), (false, true));
        assert_eq!(incident(None, Some(1.0)), (false, false));
        assert_eq!(incident(Some(13.0), None), (false, false));
    }
}
