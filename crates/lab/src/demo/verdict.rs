//! The verdict: expectations and results, as text and as JSON with stable names.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::gateway::Refused;
pub use super::phases::Phase;
use super::placement::Placement;
use super::plant::Ends;
use super::scenario::{Incident, Scenario};
use super::{Options, Outcome, Secure};
use crate::histogram::Summary;
use crate::ns::Privilege;
use crate::realtime::list;
use crate::station;
use crate::station::meter::Counts;
use crate::tap::view::Seen;

/// Name of the check that the demonstration is complete.
pub(super) const RAN_TO_ITS_END: &str = "it ran to its end";
const NO_BUS_ERROR: &str = "no bus error on the way";
const NO_CYCLE_MISSED: &str = "no cycle missed on the way";

/// An expectation and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The expectation.
    pub name: String,
    /// Whether it was met.
    pub passed: bool,
    /// The machine's other load decides about it too.
    #[serde(default)]
    pub timing: bool,
    /// The result.
    pub found: String,
}

/// The result of a demonstration. Field names are stable.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// All checks passed.
    pub passed: bool,
    /// All that must hold on a busy machine too: `passed` without delays and missed cycles.
    #[serde(default)]
    pub holds: bool,
    /// Ended early, therefore not passed.
    #[serde(default)]
    pub interrupted: bool,
    /// Bus errors of both stations without a provoked fault or a stall: errors of the path.
    pub bus_errors: u64,
    /// Further bus errors, while the machine stalled a station.
    pub bus_errors_stalled: u64,
    /// The longest stall of a station's core in microseconds.
    pub longest_stall_us: u64,
    /// Missed cycles of both stations without a provoked fault or a stall.
    pub missed: u64,
    /// Further missed cycles, while the machine stalled a station.
    pub missed_stalled: u64,
    /// Late frames without a provoked fault.
    pub late: u64,
    /// Lost frames without a provoked fault.
    pub lost: u64,
    /// Readable frames on the wire.
    pub plaintext_frames_on_wire: u64,
    /// Packet numbers used twice under one key.
    pub nonce_reuse: u64,
    /// Both stations counted as many edges as the other made.
    pub edges_agree: bool,
    /// Refusals of both gateways on their uplinks, by reason.
    pub refused: Refused,
    /// `macsec`, `none` or `bridge`.
    pub secure: Secure,
    /// Update time in microseconds.
    pub cycle_us: u32,
    /// Octets of a cyclic frame without frame check sequence.
    pub frame_bytes: usize,
    /// Seconds of undisturbed operation.
    pub seconds: f64,
    /// Interval of frames received by the controller, in microseconds.
    pub plc_interval_us: Summary,
    /// Interval of frames received by the device, in microseconds.
    pub device_interval_us: Summary,
    /// Round trip from the controller to the device, in microseconds.
    pub round_trip_us: Summary,
    /// One way to the device by this machine's clock, in microseconds.
    pub to_device_us: Summary,
    /// One way to the controller by this machine's clock, in microseconds.
    pub to_plc_us: Summary,
    /// The checks.
    pub checks: Vec<Check>,
    /// The provoked faults.
    pub faults: Vec<Phase>,
    /// Kind of wire: `bridge` or `emulator`.
    pub wire: String,
    /// `root` or `user namespace`.
    pub privilege: String,
    /// Cores of the processes.
    pub placement: Option<Placement>,
    /// The machine.
    pub machine: BTreeMap<String, String>,
    /// The version of Antedate.
    pub antedate: String,
    /// The controller's report.
    pub plc: Option<station::Report>,
    /// The device's report.
    pub device: Option<station::Report>,
    /// The tap's results.
    pub tap: Seen,
    /// Counters of the emulated wire, if any.
    pub wire_counts: Option<crate::emulator::State>,
    /// Final status of the gateways: A, B.
    pub gateways: Vec<Value>,
}

/// Input of a verdict.
pub(super) struct Material<'a> {
    pub(super) options: &'a Options,
    pub(super) privilege: Privilege,
    pub(super) placement: Placement,
    pub(super) undisturbed: Duration,
    pub(super) interrupted: bool,
    pub(super) phases: Vec<Phase>,
    pub(super) provoked: [Counts; 2],
    pub(super) refused: Refused,
    pub(super) statuses: Vec<Value>,
    pub(super) ends: Ends,
}

/// Judges.
pub(super) fn judge(material: Material<'_>) -> Outcome {
    let Material { options, provoked, ends, .. } = &material;
    let counts = [&ends.plc.measured.counts, &ends.device.measured.counts];
    let unprovoked = |count: fn(&Counts) -> u64| -> u64 {
        counts.iter().zip(provoked).map(|(all, provoked)| count(all).saturating_sub(count(provoked))).sum()
    };
    let mut report = Report {
        interrupted: material.interrupted,
        bus_errors: unprovoked(|c| c.bus_errors.saturating_sub(c.bus_errors_stalled)),
        bus_errors_stalled: unprovoked(|c| c.bus_errors_stalled),
        longest_stall_us: counts.iter().map(|counts| counts.longest_stall_us).max().unwrap_or_default(),
        missed: unprovoked(|c| c.missed.saturating_sub(c.missed_stalled)),
        missed_stalled: unprovoked(|c| c.missed_stalled),
        late: unprovoked(|c| c.late),
        lost: unprovoked(|c| c.lost),
        plaintext_frames_on_wire: ends.tap.counts.plaintext_frames,
        nonce_reuse: ends.tap.nonces.reused,
        edges_agree: ends.plc.measured.edges.agree && ends.device.measured.edges.agree,
        secure: options.secure,
        cycle_us: options.cycle_us,
        frame_bytes: options.frame_bytes,
        seconds: (material.undisturbed.as_secs_f64() * 1e3).round() / 1e3,
        plc_interval_us: ends.plc.measured.interval_us.clone(),
        device_interval_us: ends.device.measured.interval_us.clone(),
        round_trip_us: ends.plc.measured.round_trip_us.clone(),
        to_device_us: ends.device.measured.one_way_us.clone(),
        to_plc_us: ends.plc.measured.one_way_us.clone(),
        wire: if options.faults.is_empty() { "bridge" } else { "emulator" }.into(),
        privilege: match material.privilege {
            Privilege::Root => "root".into(),
            Privilege::UserNamespace => "user namespace".into(),
        },
        machine: machine(),
        antedate: env!("CARGO_PKG_VERSION").into(),
        ..Report::default()
    };
    report.checks = checks(&report, options, ends);
    report.checks.push(ran_to_its_end(&report, options, &material.phases));
    report.passed =
        report.checks.iter().all(|check| check.passed) && material.phases.iter().all(|phase| phase.passed);
    report.holds = report.checks.iter().all(|check| check.passed || check.timing)
        && material.phases.iter().all(|phase| phase.holds);
    report.refused = material.refused;
    report.faults = material.phases;
    report.placement = Some(material.placement);
    report.gateways = material.statuses;
    report.wire_counts = material.ends.wire;
    report.tap = material.ends.tap;
    report.plc = Some(material.ends.plc);
    report.device = Some(material.ends.device);
    Outcome { passed: report.passed, text: text(&report), report }
}

fn checks(report: &Report, options: &Options, ends: &Ends) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut expect = |name: &str, passed: bool, found: String| {
        let timing = [NO_BUS_ERROR, NO_CYCLE_MISSED].contains(&name);
        checks.push(Check { name: name.to_owned(), passed, timing, found });
    };
    let stalled = |n: u64| match n {
        0 => String::new(),
        n => format!(", and {n} while this machine stalled a station itself"),
    };
    let errors = format!("{}{}", report.bus_errors, stalled(report.bus_errors_stalled));
    expect(NO_BUS_ERROR, report.bus_errors == 0, errors);
    let missed = format!("{} in {:.1} s{}", report.missed, report.seconds, stalled(report.missed_stalled));
    expect(NO_CYCLE_MISSED, report.missed == 0, missed);
    let due = (report.seconds * 1e6 / f64::from(options.cycle_us)) as u64;
    let came = [&ends.plc, &ends.device].map(|end| &end.measured.counts);
    let found = format!("PLC {}, device {}, of {due} cycles undisturbed", came[0].received, came[1].received);
    expect("frames came to both stations", came.iter().all(|counts| counts.heard(due)), found);
    let [plc, device] = [&ends.plc, &ends.device].map(|end| &end.connection);
    // The last alarm may be on its way at the end.
    let acknowledged = device.alarms_acknowledged > 0 && device.alarms <= device.alarms_acknowledged + 1;
    let once = plc.connections == 1 && device.connections == 1;
    let found = format!(
        "{} connection, {} records read, {} of {} alarms acknowledged",
        plc.connections, plc.records_read, device.alarms_acknowledged, device.alarms
    );
    expect(
        "the connection held, with records and alarms",
        once && plc.records_read > 0 && acknowledged,
        found,
    );
    let edges = [&ends.plc, &ends.device].map(|end| end.measured.edges);
    let found = format!(
        "PLC {} of {}, device {} of {}",
        edges[0].seen, edges[0].announced, edges[1].seen, edges[1].announced
    );
    // An outage can swallow a pulse. So can faults, which take at most two frames in a row, for a
    // pulse below three cycles. The counters then differ rightly.
    let toggle_us = station::Options::default().toggle_ms * 1_000;
    let swallows = |scenario: &Scenario| match scenario {
        Scenario::Plant(_) => true,
        Scenario::Wire(fault) => fault.removes() && options.cycle_us * 3 > toggle_us,
    };
    let outages = options.faults.iter().any(swallows);
    expect("both count the same edges", report.edges_agree || outages, found);
    let intact = |counts: &Counts| counts.damaged + counts.foreign + counts.unexpected;
    let strange = intact(&ends.plc.measured.counts) + intact(&ends.device.measured.counts);
    let may_come = !options.secure.protects() && !options.faults.is_empty();
    expect(
        "nothing but the stations' own frames on the field side",
        strange == 0 || may_come,
        strange.to_string(),
    );
    if options.secure.protects() {
        expect(
            "not one readable frame on the wire",
            report.plaintext_frames_on_wire == 0 && ends.tap.counts.encrypted > 0,
            format!("{} of {}", report.plaintext_frames_on_wire, ends.tap.counts.frames),
        );
        expect(
            "no packet number spent twice",
            report.nonce_reuse == 0 && ends.tap.nonces.unrecorded == 0,
            format!("{} of {}", report.nonce_reuse, ends.tap.nonces.seen),
        );
        expect(
            "the tap saw every frame",
            ends.tap.counts.dropped == 0,
            format!("{} missed", ends.tap.counts.dropped),
        );
    }
    expect("gateways end cleanly", ends.gateways_ended_cleanly, ends.gateways_ended_cleanly.to_string());
    let dropped = ends.plc.measured.counts.samples_dropped + ends.device.measured.counts.samples_dropped;
    expect("the stations measured every frame", dropped == 0, format!("{dropped} missed"));
    checks
}

/// Left out parts have no result.
fn ran_to_its_end(report: &Report, options: &Options, phases: &[Phase]) -> Check {
    let asked = options.milliseconds as f64 / 1e3;
    let mut found = format!("{:.1} of {asked:.1} s", report.seconds);
    if !options.faults.is_empty() {
        let _ = write!(found, ", {} of {} faults", phases.len(), options.faults.len());
    }
    if report.interrupted {
        found.push_str(", interrupted");
    }
    Check { name: RAN_TO_ITS_END.to_owned(), passed: !report.interrupted, timing: false, found }
}

/// The last line of the verdict.
pub(super) fn conclusion(report: &Report) -> &'static str {
    match (report.passed, report.interrupted) {
        (true, _) => "PASSED",
        (false, false) => "FAILED",
        (false, true) => "FAILED: interrupted before its end",
    }
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |words: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{words}");
    };
    let secure = match report.secure {
        Secure::Macsec => "protected by MACsec",
        Secure::Overlay => "protected by WireGuard, in VXLAN",
        Secure::None => "through the gateways, not protected",
        Secure::Bridge => "through plain bridges, not protected",
    };
    let cycle = f64::from(report.cycle_us) / 1e3;
    line(format_args!(
        "Profinet {secure}: cycle {cycle:.3} ms, frames of {} bytes, {:.1} s undisturbed",
        report.frame_bytes, report.seconds
    ));
    line(format_args!(""));
    line(format_args!(
        "{:26} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "microseconds", "min", "median", "p99", "p99.9", "max"
    ));
    for (name, s) in [
        ("interval at the PLC", &report.plc_interval_us),
        ("interval at the device", &report.device_interval_us),
        ("round trip", &report.round_trip_us),
        ("one way to the device", &report.to_device_us),
        ("one way to the PLC", &report.to_plc_us),
    ] {
        line(format_args!(
            "{name:26} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1}",
            s.min, s.p50, s.p99, s.p99_9, s.max
        ));
    }
    line(format_args!(""));
    let seen = &report.tap;
    line(format_args!(
        "An attacker on the wire saw {} frames, {} of them readable; {:.2} bits of entropy per byte. One of them:",
        seen.counts.frames, seen.counts.plaintext_frames, seen.entropy_bits_per_octet
    ));
    line(format_args!("  {}", seen.example));
    if !report.refused.is_empty() {
        let refused: Vec<_> = report.refused.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
        line(format_args!("Refused on the uplinks: {}", refused.join(", ")));
    }
    if let Some(placement) = &report.placement {
        let observers =
            if placement.observers.is_empty() { "any".into() } else { list(&placement.observers) };
        line(format_args!(
            "Cores: PLC and gateway A {}, device and gateway B {}, observers {observers}; the wire is a {}; as {}",
            list(&placement.plc_side),
            list(&placement.device_side),
            if report.wire == "bridge" { "Linux bridge" } else { "program" },
            report.privilege
        ));
    }
    if let Some(plc) = &report.plc {
        line(format_args!("Stations: {}", plc.in_force));
    }
    if report.longest_stall_us > 0 {
        line(format_args!(
            "This machine took a core away from a station for {:.1} ms at the longest",
            report.longest_stall_us as f64 / 1e3
        ));
    }
    line(format_args!(""));
    for phase in &report.faults {
        line(format_args!("{} {:54} {}", mark(phase.passed), describe(&phase.fault), found(phase)));
    }
    for check in &report.checks {
        line(format_args!("{} {:54} {}", mark(check.passed), check.name, check.found));
    }
    line(format_args!(""));
    line(format_args!("{}", conclusion(report)));
    text
}

fn mark(passed: bool) -> &'static str {
    if passed { "pass" } else { "FAIL" }
}

fn describe(fault: &str) -> String {
    Scenario::all()
        .find(|scenario| scenario.name() == fault)
        .map_or(fault.into(), |scenario| scenario.describe().into())
}

fn found(phase: &Phase) -> String {
    let mut found = Vec::new();
    let incident = Incident::ALL.iter().any(|&incident| Scenario::Plant(incident).name() == phase.fault);
    if incident {
        let ms = |value: Option<f64>| value.map_or("never".to_owned(), |ms| format!("after {ms:.1} ms"));
        found.push(format!("bus error {}, traffic again {}", ms(phase.noticed_ms), ms(phase.recovered_ms)));
    } else {
        found.push(format!("{} times", phase.injected));
        let refused: Vec<_> = phase.refused.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
        if !refused.is_empty() {
            found.push(format!("refused {}", refused.join(", ")));
        }
        if phase.missed > 0 {
            found.push(format!("{} cycles missed", phase.missed));
        }
        found.push(format!("{} reached the field", phase.reached_field));
    }
    if !phase.note.is_empty() {
        found.push(format!("WRONG: {}", phase.note));
    }
    found.join("; ")
}

/// Description of the machine.
pub(super) fn machine() -> BTreeMap<String, String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let model = model.trim_start_matches([':', '\t', ' ']);
    BTreeMap::from([
        ("kernel".to_owned(), read("/proc/sys/kernel/osrelease").trim().to_owned()),
        ("cpu".to_owned(), model.to_owned()),
        ("cores".to_owned(), crate::sys::sched::allowed_cpus().len().to_string()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::fault::Fault;
    use crate::station::Role;
    use crate::station::meter::Measured;

    /// Results of a plant whose stations received this many frames.
    fn ends(plc: u64, device: u64) -> Ends {
        let station = |role, received| station::Report {
            role,
            options: station::Options::default(),
            in_force: String::new(),
            seconds: 10.0,
            peer: String::new(),
            announcements: 0,
            edges_made: 0,
            connection: station::controller::Counts {
                connections: 1,
                records_read: 10,
                alarms: 10,
                alarms_acknowledged: 9,
            },
            measured: Measured {
                counts: Counts { sent: 2_500, received, ..Counts::default() },
                ..Measured::default()
            },
        };
        let mut tap = Seen::default();
        tap.counts.encrypted = 2_500;
        let (plc, device) = (station(Role::Plc, plc), station(Role::Device, device));
        Ends { plc, device, tap, wire: None, gateways_ended_cleanly: true }
    }

    #[test]
    fn deaf_station_fails_the_verdict() {
        let options = Options { cycle_us: 4_000, ..Options::default() };
        let report = Report { seconds: 10.0, edges_agree: true, ..Report::default() };
        let failed = |plc, device| -> Vec<String> {
            let checks = checks(&report, &options, &ends(plc, device));
            checks.into_iter().filter(|check| !check.passed).map(|check| check.name).collect()
        };
        assert!(failed(2_500, 2_500).is_empty());
        assert_eq!(failed(0, 2_500), ["frames came to both stations"]);
        assert_eq!(failed(2_500, 100), ["frames came to both stations"]);
    }

    #[test]
    fn only_delays_depend_on_the_machine() {
        let report = Report { bus_errors: 1, missed: 3, plaintext_frames_on_wire: 1, ..Report::default() };
        let checks = checks(&report, &Options::default(), &ends(2_500, 2_500));
        let failed = |timing: bool| -> Vec<&str> {
            let named = checks.iter().filter(|check| !check.passed && check.timing == timing);
            named.map(|check| check.name.as_str()).collect()
        };
        assert_eq!(failed(true), [NO_BUS_ERROR, NO_CYCLE_MISSED]);
        assert_eq!(failed(false), ["both count the same edges", "not one readable frame on the wire"]);
    }

    #[test]
    fn unacknowledged_alarms_fail_the_verdict() {
        let failed = |change: fn(&mut station::controller::Counts)| {
            let mut ends = ends(2_500, 2_500);
            change(&mut ends.device.connection);
            let checks = checks(&Report::default(), &Options::default(), &ends);
            checks.iter().any(|check| check.name.starts_with("the connection held") && !check.passed)
        };
        assert!(!failed(|_| ()));
        assert!(failed(|device| device.alarms_acknowledged = 0));
        assert!(failed(|device| device.alarms = 11));
        assert!(failed(|device| device.connections = 2));
    }

    #[test]
    fn two_cycle_pulse_may_be_lost() {
        let missing = |cycle_us, fault| {
            let options = Options { cycle_us, faults: vec![Scenario::Wire(fault)], ..Options::default() };
            let checks = checks(&Report::default(), &options, &ends(2_500, 2_500));
            checks.iter().any(|check| check.name == "both count the same edges" && !check.passed)
        };
        assert!(missing(4_000, Fault::Lose) && missing(40_000, Fault::Reorder));
        assert!(!missing(100_000, Fault::Lose) && !missing(50_000, Fault::Reorder));
        assert!(missing(100_000, Fault::Inject), "it takes none");
    }

    #[test]
    fn interrupted_run_does_not_pass() {
        let options =
            Options { milliseconds: 3_000, faults: Scenario::all().collect(), ..Options::default() };
        let end = |interrupted| {
            let report = Report { seconds: 3.0, interrupted, ..Report::default() };
            ran_to_its_end(&report, &options, &[Phase::default()])
        };
        assert!(end(false).passed);
        let cut = end(true);
        let expected = format!("3.0 of 3.0 s, 1 of {} faults, interrupted", options.faults.len());
        assert_eq!((cut.passed, cut.found), (false, expected));
        let report = Report { interrupted: true, ..Report::default() };
        assert_eq!(conclusion(&report), "FAILED: interrupted before its end");
        assert_eq!(conclusion(&Report::default()), "FAILED");
        assert_eq!(conclusion(&Report { passed: true, ..Report::default() }), "PASSED");
    }
}
