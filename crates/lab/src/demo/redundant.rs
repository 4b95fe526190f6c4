//! `--topology redundant`: two uplinks, and two gateways a side that stand by for one another.
//!
//! ```text
//!                ┌─ a1 ─┬── way 1 ──┬─ b1 ─┐
//!   station A ───┤      ╳           ╳      ├─── station B
//!                └─ a2 ─┴── way 2 ──┴─ b2 ─┘
//! ```
//!
//! Each gateway is a process in a namespace of its own, with a cable to the switch of its field and one
//! to the switch of each way. The stations send numbered frames to each other, every sixteenth as a
//! broadcast. Faults strike the gateway that forwards. All frames are counted at both stations.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::gateway::{antedate, status, write_private};
use super::plant::Directory;
use super::{DemoError, Options, Secure};
use crate::ns::{self, Namespace, Privilege};
use crate::process::{Place, Process, executable};
use crate::sys::clock::{monotonic_ns, sleep_until};
use crate::sys::packet::{self, PacketSocket};
use crate::sys::signal;

/// Bound of the time until both pairs are whole.
const WHOLE: Duration = Duration::from_secs(30);
/// Time after a fault in which frames are counted for it.
const AFTER: Duration = Duration::from_millis(600);
/// The bound of a takeover in milliseconds.
const BOUND_MS: f64 = 100.0;
/// Every such frame is a broadcast.
const BROADCASTS: u32 = 16;
const GATEWAYS: [&str; 4] = ["a1", "a2", "b1", "b2"];
/// Priority of the gateways, where permitted.
const PRIORITY: u8 = 20;

/// A fault of the gateway that forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// It is killed, as by a loss of power.
    Kill,
    /// It is stopped in order.
    Stop,
    /// One of its two uplinks is cut.
    OneUplink,
    /// Both are cut.
    BothUplinks,
    /// The cable of its field port is cut.
    FieldCable,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 5] = [Self::Kill, Self::Stop, Self::OneUplink, Self::BothUplinks, Self::FieldCable];

    /// The fault in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Kill => "gateway killed",
            Self::Stop => "gateway stopped",
            Self::OneUplink => "one uplink cut",
            Self::BothUplinks => "both uplinks cut",
            Self::FieldCable => "field cable cut",
        }
    }

    /// Whether the other gateway must take over.
    const fn hands_over(self) -> bool {
        !matches!(self, Self::OneUplink)
    }
}

/// All strokes of one fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Strokes {
    /// How often it struck.
    pub times: usize,
    /// Frames lost, of both directions.
    pub lost: u64,
    /// The longest times without a frame in milliseconds, ascending: one a stroke.
    pub gaps_ms: Vec<f64>,
    /// Strokes after which the wrong gateway forwarded.
    pub wrong: usize,
}

impl Strokes {
    /// The gap that this share of the strokes does not exceed.
    fn gap(&self, percent: usize) -> f64 {
        let at = (self.gaps_ms.len() * percent).div_ceil(100).max(1) - 1;
        self.gaps_ms.get(at).copied().unwrap_or(0.0)
    }
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// All checks passed.
    pub passed: bool,
    /// All that must hold on any machine: no frame twice, and the right gateway after each fault.
    pub holds: bool,
    /// It was ended early, which is no verdict.
    pub interrupted: bool,
    /// The update time in microseconds.
    pub cycle_us: u32,
    /// Frames sent, of both directions.
    pub sent: u64,
    /// Frames that came.
    pub received: u64,
    /// Frames that came more than once.
    pub twice: u64,
    /// Frames lost without a fault.
    pub lost_undisturbed: u64,
    /// By fault.
    pub faults: BTreeMap<Fault, Strokes>,
}

/// The result with its text.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The verdict as text.
    pub text: String,
    /// The verdict as JSON.
    pub report: Report,
}

/// Runs the demonstration, as [`super::run`]. Each fault strikes `rounds` times, at either side in
/// turns.
///
/// # Errors
/// When there is no verdict.
pub fn run(options: &Options, rounds: usize) -> Result<Outcome, DemoError> {
    options.check()?;
    if options.secure != Secure::Macsec || options.ports.is_some() {
        return Err(DemoError::Usage(
            "--topology redundant is for --secure macsec on the virtual plant".into(),
        ));
    }
    if !options.faults.is_empty() || options.pcap.is_some() || options.mtu.is_some() || options.express {
        let what = "--topology redundant has faults of its own, and no --faults, --pcap, --mtu and --express";
        return Err(DemoError::Usage(what.into()));
    }
    signal::install();
    let privilege = ns::acquire()?;
    ns::sweep();
    let mut plant = Plant::build(privilege)?;
    plant.until_whole(None)?;
    let traffic = Traffic::open(&plant.fields)?;
    let mut report = Report { cycle_us: options.cycle_us, ..Report::default() };
    let (stop, counted) = (AtomicBool::new(false), Mutex::new(Counted::default()));
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| traffic.run(options, &stop, &counted));
        let done = plant.provoke(options, rounds, &counted, &mut report);
        stop.store(true, Ordering::Release);
        let ended = sender.join().map_err(|_| DemoError::Start("the stations: they panicked".into()));
        done.and(ended?)
    })?;
    report.interrupted = signal::stopping();
    let counted = counted.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    report.sent = 2 * counted.sent.len() as u64;
    for came in &counted.came {
        let mut sorted = came.clone();
        sorted.sort_unstable();
        report.twice += sorted.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
        report.received += came.len() as u64;
    }
    report.holds =
        !report.interrupted && report.twice == 0 && report.faults.values().all(|strokes| strokes.wrong == 0);
    report.passed = !report.interrupted && verdict(&report).iter().all(|(_, good)| *good);
    Ok(Outcome { text: text(&report), report })
}

/// What must hold, and whether it does.
fn verdict(report: &Report) -> Vec<(String, bool)> {
    let mut all = vec![
        (format!("{} frames came twice", report.twice), report.twice == 0),
        (format!("{} frames lost without a fault", report.lost_undisturbed), report.lost_undisturbed == 0),
    ];
    for (fault, strokes) in &report.faults {
        let Strokes { times, lost, wrong, .. } = strokes;
        let words = fault.words();
        if fault.hands_over() {
            let worst = strokes.gap(99);
            let what = format!(
                "{words}, {times} times: at most {worst:.0} ms without a frame in 99 of 100, bound {BOUND_MS:.0} ms"
            );
            all.push((what, worst < BOUND_MS && *wrong == 0));
        } else {
            all.push((format!("{words}, {times} times: {lost} frames lost"), *lost == 0 && *wrong == 0));
        }
    }
    all
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "{:<18} {:>6} {:>8} {:>14} {:>14} {:>14}\n",
        "fault", "times", "lost", "gap median ms", "gap p99 ms", "gap longest ms"
    );
    for (fault, strokes) in &report.faults {
        let [median, most, longest] = [50, 99, 100].map(|percent| strokes.gap(percent));
        text.push_str(&format!(
            "{:<18} {:>6} {:>8} {median:>14.1} {most:>14.1} {longest:>14.1}\n",
            fault.words(),
            strokes.times,
            strokes.lost
        ));
    }
    let Report { sent, received, cycle_us, .. } = report;
    text.push_str(&format!("\n{sent} frames sent each {cycle_us} us in two directions, {received} came\n\n"));
    for (what, good) in verdict(report) {
        text.push_str(&format!("{} {what}\n", if good { "ok    " } else { "FAILED" }));
    }
    let word = if report.interrupted {
        "interrupted, which is no verdict"
    } else if report.passed {
        "PASSED"
    } else {
        "FAILED"
    };
    text.push_str(&format!("\nverdict: {word}\n"));
    text
}

/// What the stations sent and received.
#[derive(Debug, Default)]
struct Counted {
    /// The time at which each frame left.
    sent: Vec<u64>,
    /// The numbers that came, from A to B and back.
    came: [Vec<u32>; 2],
}

impl Counted {
    /// Frames lost between two numbers, and the longest time without one in milliseconds.
    fn between(&self, from: usize, to: usize) -> (u64, f64) {
        let (mut lost, mut longest) = (0, 0);
        for came in &self.came {
            let mut here = vec![false; to.saturating_sub(from)];
            for number in came {
                if let Some(place) = (*number as usize).checked_sub(from).and_then(|at| here.get_mut(at)) {
                    *place = true;
                }
            }
            let mut last = from;
            for (at, _) in here.iter().enumerate().filter(|(_, came)| **came) {
                let number = from + at;
                if number > last + 1 {
                    longest = longest.max(self.sent[number] - self.sent[last]);
                }
                last = number;
            }
            if last + 1 < to {
                longest = longest.max(self.sent[to - 1] - self.sent[last]);
            }
            lost += here.iter().filter(|came| !**came).count() as u64;
        }
        (lost, longest as f64 / 1e6)
    }
}

/// Two stations: a socket at the switch of each field.
struct Traffic([PacketSocket; 2]);

impl Traffic {
    fn open(fields: &[Namespace; 2]) -> Result<Self, DemoError> {
        let open = |field: &Namespace| {
            let options = packet::Options { promiscuous: true, ..packet::Options::default() };
            field.run(|| PacketSocket::open("br0", options)).and_then(|socket| socket)
        };
        let [a, b] = fields.each_ref().map(open);
        let failed = |error| DemoError::Start(format!("a station: {error}"));
        Ok(Self([a.map_err(failed)?, b.map_err(failed)?]))
    }

    fn run(&self, options: &Options, stop: &AtomicBool, counted: &Mutex<Counted>) -> Result<(), DemoError> {
        let lost = |error| DemoError::Start(format!("a station's frame: {error}"));
        let mut buffer = vec![0; 2048];
        let start = monotonic_ns();
        let mut number = 0u32;
        // Some time for the last frames.
        let mut left = 50;
        while left > 0 {
            sleep_until(start + u64::from(number) * u64::from(options.cycle_us) * 1_000);
            let sends = !stop.load(Ordering::Acquire);
            left -= u32::from(!sends);
            let mut came: [Vec<u32>; 2] = Default::default();
            for (side, came) in came.iter_mut().enumerate() {
                while let Some(length) = self.0[1 - side].receive(&mut buffer, false).map_err(lost)? {
                    came.extend(numbered(&buffer[..length], side));
                }
            }
            let mut counted = counted.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if sends {
                counted.sent.push(monotonic_ns());
            }
            for (all, new) in counted.came.iter_mut().zip(came) {
                all.extend(new);
            }
            drop(counted);
            if sends {
                for side in 0..2 {
                    self.0[side].send(&frame(side, number, options.frame_bytes)).map_err(lost)?;
                }
            }
            number += 1;
        }
        Ok(())
    }
}

const fn station(side: usize) -> [u8; 6] {
    [2, 0, 0x5e, 0x10, 0, 0x0a + side as u8]
}

/// A cyclic Profinet frame of a side's station.
fn frame(side: usize, number: u32, len: usize) -> Vec<u8> {
    let to = if number.is_multiple_of(BROADCASTS) { [0xff; 6] } else { station(1 - side) };
    let mut frame = [&to[..], &station(side), &[0x88, 0x92, 0x80, 0x01], &number.to_be_bytes()].concat();
    frame.resize(len, 0);
    frame
}

/// The number of a frame of a side's station.
fn numbered(frame: &[u8], side: usize) -> Option<u32> {
    let cyclic =
        frame.get(6..12) == Some(&station(side)) && frame.get(12..16) == Some(&[0x88, 0x92, 0x80, 0x01]);
    frame
        .get(16..20)
        .and_then(<[u8]>::first_chunk)
        .filter(|_| cyclic)
        .map(|octets| u32::from_be_bytes(*octets))
}

struct Gateway {
    space: Namespace,
    file: PathBuf,
    socket: PathBuf,
    process: Option<Process>,
}

impl Gateway {
    fn start(&mut self, name: &str) -> Result<(), DemoError> {
        let program = executable().map_err(|error| DemoError::Start(format!("this program: {error}")))?;
        let place = Place { namespace: Some(self.space.file()), cpus: &[] };
        let process =
            Process::start(name, &program, &["gateway", "run", &self.file.to_string_lossy()], &place)
                .map_err(|error| DemoError::Start(format!("gateway {name}: {error}")))?;
        self.process = Some(process);
        Ok(())
    }

    /// The part of its status about the group, if it answers.
    fn standby(&self) -> Option<Value> {
        status(&self.socket)?.get_mut("standby").map(Value::take)
    }
}

struct Plant {
    gateways: [Gateway; 4],
    ways: [Namespace; 2],
    fields: [Namespace; 2],
    _directory: Directory,
}

/// A switch. Its own address is that of the station at it.
fn switch(role: &str, address: [u8; 6]) -> Result<Namespace, DemoError> {
    let space = Namespace::create(role)?;
    let [a, b, c, d, e, f] = address;
    space.batch(&[
        format!(
            "link add br0 mtu 1550 address {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x} type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
        ),
        "link set dev br0 up".into(),
    ])?;
    Ok(space)
}

impl Plant {
    fn build(privilege: Privilege) -> Result<Self, DemoError> {
        let directory = Directory::create()?;
        let key = directory.0.join("cak");
        antedate(&["keygen", "macsec", "--cak", "--out", &key.to_string_lossy()])?;
        let fields = [switch("field-a", station(0))?, switch("field-b", station(1))?];
        let ways = [switch("way1", [2, 0, 0x5e, 0x11, 0, 1])?, switch("way2", [2, 0, 0x5e, 0x11, 0, 2])?];
        let mut gateways = Vec::new();
        for (number, name) in GATEWAYS.into_iter().enumerate() {
            let space = Namespace::create(name)?;
            let cable = |port: &str, mtu: u16, at: &Namespace| -> Result<(), DemoError> {
                let ends = format!(
                    "link add name {port} mtu {mtu} type veth peer name {name} mtu {mtu} netns {}",
                    at.name()
                );
                space.batch(&[ends, format!("link set dev {port} up")])?;
                at.batch(&[format!("link set dev {name} master br0"), format!("link set dev {name} up")])?;
                Ok(())
            };
            cable("field", 1500, &fields[number / 2])?;
            cable("uplink", 1550, &ways[0])?;
            cable("second", 1550, &ways[1])?;
            let (file, socket) =
                (directory.0.join(format!("{name}.toml")), directory.0.join(format!("{name}.sock")));
            let priority =
                if privilege == Privilege::Root { format!("priority = {PRIORITY}\n") } else { String::new() };
            write_private(
                &file,
                &format!(
                    "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n[second_uplink]\ninterface = \"second\"\n\
                     [macsec]\ncak_file = \"cak\"\n[standby]\ngroup = {}\n[policy]\nallow = [\"profinet-rt\"]\n\
                     [run]\npoll = \"block\"\nmax_age_cyclic_ms = 1000\n{priority}[control]\nsocket = \"{name}.sock\"\n",
                    1 + number / 2
                ),
            )?;
            let mut gateway = Gateway { space, file, socket, process: None };
            gateway.start(name)?;
            gateways.push(gateway);
        }
        let gateways = gateways.try_into().map_err(|_| DemoError::Start("four gateways".into()))?;
        Ok(Self { gateways, ways, fields, _directory: directory })
    }

    /// Waits until each pair has one that forwards and one that can. Returns those that forward.
    fn until_whole(&mut self, wanted: Option<(usize, usize)>) -> Result<[usize; 2], DemoError> {
        let end = Instant::now() + WHOLE;
        let is_true = |value: Option<&Value>| value == Some(&Value::Bool(true));
        loop {
            let all: Vec<_> = self.gateways.iter().map(Gateway::standby).collect();
            let active = |number: &usize| is_true(all[*number].as_ref().and_then(|one| one.get("active")));
            let whole = |one: &Option<Value>| {
                let other = one.as_ref().and_then(|one| one.pointer("/others/0"));
                is_true(other.and_then(|other| other.get("able")))
            };
            let actives = [[0, 1], [2, 3]].map(|pair| pair.into_iter().filter(active).collect::<Vec<_>>());
            if let ([a], [b]) = (&actives[0][..], &actives[1][..])
                && all.iter().all(whole)
            {
                return Ok([*a, *b]);
            }
            for (gateway, name) in self.gateways.iter_mut().zip(GATEWAYS) {
                if let Some(process) = &mut gateway.process
                    && !process.is_running()
                {
                    return Err(DemoError::process(&format!("gateway {name}"), process.errors().join("\n")));
                }
            }
            if Instant::now() > end {
                return Err(DemoError::Start(format!("the pairs, after {wanted:?}: {all:?}")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn provoke(
        &mut self,
        options: &Options,
        rounds: usize,
        counted: &Mutex<Counted>,
        report: &mut Report,
    ) -> Result<(), DemoError> {
        let now = || counted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).sent.len();
        let window = |from: usize, to: usize| {
            counted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).between(from, to)
        };
        // The first frames of a switch and of the kernel's sockets.
        std::thread::sleep(Duration::from_millis(100));
        let from = now();
        let end = Instant::now() + Duration::from_millis(options.milliseconds);
        while Instant::now() < end && !signal::stopping() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let to = now();
        std::thread::sleep(Duration::from_millis(100));
        report.lost_undisturbed = window(from, to).0;
        for round in 0..rounds {
            for (turn, fault) in Fault::ALL.into_iter().enumerate() {
                let side = (round + turn) % 2;
                let before = self.until_whole(Some((round, turn)))?[side];
                if signal::stopping() {
                    return Ok(());
                }
                let from = now();
                self.strike(fault, before)?;
                std::thread::sleep(AFTER);
                let to = now();
                // Frames under way.
                std::thread::sleep(Duration::from_millis(100));
                let other = before ^ 1;
                let right = if fault.hands_over() { other } else { before };
                let forwards = self.gateways[right].standby();
                let is_right = forwards.and_then(|one| one.get("active").cloned()) == Some(Value::Bool(true));
                let (lost, gap) = window(from, to);
                let strokes = report.faults.entry(fault).or_default();
                strokes.times += 1;
                strokes.lost += lost;
                strokes.wrong += usize::from(!is_right);
                strokes.gaps_ms.push(gap);
                strokes.gaps_ms.sort_unstable_by(f64::total_cmp);
                if options.live {
                    println!(
                        "{} of {}: {lost} frames lost, {gap:.1} ms without one",
                        fault.words(),
                        GATEWAYS[before]
                    );
                }
                self.repair(fault, before)?;
            }
        }
        let _ = self.until_whole(None)?;
        Ok(())
    }

    /// The far end of a cable of a gateway is set up or down.
    fn cable(&self, at: &Namespace, number: usize, up: bool) -> Result<(), DemoError> {
        Ok(at.set_link(GATEWAYS[number], up)?)
    }

    fn strike(&mut self, fault: Fault, number: usize) -> Result<(), DemoError> {
        let name = GATEWAYS[number];
        match fault {
            Fault::Kill | Fault::Stop => {
                if let Some(process) = &mut self.gateways[number].process {
                    if fault == Fault::Stop {
                        process.terminate();
                    } else {
                        process.kill().map_err(|error| DemoError::process(name, error.to_string()))?;
                    }
                }
            }
            Fault::OneUplink => self.cable(&self.ways[0], number, false)?,
            Fault::BothUplinks => {
                self.cable(&self.ways[0], number, false)?;
                self.cable(&self.ways[1], number, false)?;
            }
            Fault::FieldCable => self.cable(&self.fields[number / 2], number, false)?,
        }
        Ok(())
    }

    fn repair(&mut self, fault: Fault, number: usize) -> Result<(), DemoError> {
        match fault {
            Fault::Kill | Fault::Stop => {
                if let Some(mut process) = self.gateways[number].process.take() {
                    process.end();
                }
                self.gateways[number].start(GATEWAYS[number])
            }
            Fault::OneUplink => self.cable(&self.ways[0], number, true),
            Fault::BothUplinks => {
                self.cable(&self.ways[0], number, true)?;
                self.cable(&self.ways[1], number, true)
            }
            Fault::FieldCable => self.cable(&self.fields[number / 2], number, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_times_of_the_sender() {
        let sent = (0..10).map(|number| number * 1_000_000).collect();
        let counted = Counted { sent, came: [vec![0, 1, 2, 6, 7, 8, 9], vec![9, 8, 7, 6, 5, 4, 3, 2, 1, 0]] };
        assert_eq!(counted.between(0, 10), (3, 4.0));
        assert_eq!(counted.between(6, 10), (0, 0.0));
        assert_eq!(counted.between(2, 5), (2, 2.0), "the rest of the window counts");
    }

    #[test]
    fn frame_has_its_number() {
        for number in [0, 1, 16, u32::MAX] {
            let frame = frame(1, number, 64);
            assert_eq!((numbered(&frame, 1), numbered(&frame, 0), frame.len()), (Some(number), None, 64));
            assert_eq!(frame[0] == 0xff, number.is_multiple_of(BROADCASTS));
        }
    }

    #[test]
    fn verdict_needs_every_promise() {
        let strokes = |gap: f64| Strokes { times: 1, lost: 3, gaps_ms: vec![gap], wrong: 0 };
        let mut report = Report::default();
        report.faults.insert(Fault::Kill, strokes(99.0));
        report.faults.insert(Fault::OneUplink, Strokes { lost: 0, ..strokes(0.0) });
        let good = |report: &Report| verdict(report).iter().all(|(_, good)| *good);
        assert!(good(&report));
        assert!(!good(&Report { twice: 1, ..report.clone() }));
        assert!(!good(&Report { lost_undisturbed: 1, ..report.clone() }));
        for (fault, bad) in [
            (Fault::Kill, strokes(100.0)),
            (Fault::Kill, Strokes { wrong: 1, ..strokes(1.0) }),
            (Fault::OneUplink, strokes(0.0)),
        ] {
            let mut other = report.clone();
            other.faults.insert(fault, bad);
            assert!(!good(&other), "{fault:?}");
            assert!(text(&other).contains("FAILED"));
        }
    }

    #[test]
    fn percentile_is_one_of_the_gaps() {
        let strokes = Strokes { gaps_ms: (1..=50).map(f64::from).collect(), ..Strokes::default() };
        assert_eq!([50, 99, 100].map(|percent| strokes.gap(percent)), [25.0, 50.0, 50.0]);
        assert_eq!(Strokes::default().gap(99), 0.0);
    }
}
