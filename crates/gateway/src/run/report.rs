//! Parts of the status that all gateways have.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use antedate_wire::{EthernetAddress, Sci};

use crate::config::io::RING;
use crate::config::policy::Class;
use crate::config::{Checked, Keyed, Poll};
use crate::run::counters::{Counter, PathCounters};
use crate::run::lock;
use crate::run::setup::Granted;
use crate::run::status::{Forwarding, Port, Status, Thread};
use crate::sys::interface;

/// The longest wait for a forwarding thread's answer. It reads its messages after at most 16
/// frames.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// How a thread waited, and its CPU time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Waits {
    /// Number of sleeps.
    pub sleeps: u64,
    /// Frames that found it polling.
    pub caught: u64,
    /// Frames that woke it.
    pub woken: u64,
    /// Flows with a known period.
    pub flows: u64,
    /// Nanoseconds of CPU time.
    pub cpu: u64,
}

/// The part of the status that only a reload changes.
#[derive(Debug)]
pub struct About {
    started: Instant,
    pub(crate) config: String,
    /// `macsec`, `wireguard` or `none`.
    pub protection: &'static str,
    poll: Mutex<Poll>,
    pub(crate) macsec: Option<(String, Sci, BTreeMap<Sci, String>)>,
    /// Whether there is a standby.
    pub(crate) standby: bool,
    /// Whether links are forwarded.
    pub(crate) link_loss: bool,
}

impl About {
    /// This part of a gateway that starts now.
    #[must_use]
    pub fn new(checked: &Checked) -> Self {
        let macsec = match &checked.protection {
            Keyed::Plain | Keyed::Overlay { .. } => None,
            Keyed::Macsec { keys, own, .. } => {
                let members = keys.members.iter().map(|member| (member.sci, member.name.clone()));
                Some((keys.suite.name().to_owned(), *own, members.collect()))
            }
            Keyed::Agreed { own, .. } => {
                Some((checked.protection.cipher().to_owned(), *own, BTreeMap::new()))
            }
        };
        Self {
            started: Instant::now(),
            config: checked.config.file.display().to_string(),
            protection: match &checked.protection {
                Keyed::Macsec { .. } | Keyed::Agreed { .. } => "macsec",
                Keyed::Overlay { public: Some(_), .. } => "wireguard",
                Keyed::Overlay { public: None, .. } | Keyed::Plain => "none",
            },
            poll: Mutex::new(checked.config.run.poll),
            macsec,
            standby: checked.config.standby.is_some(),
            link_loss: checked.config.link_loss.is_some(),
        }
    }

    /// Another way to poll.
    pub(crate) fn set_poll(&self, poll: Poll) {
        *lock(&self.poll) = poll;
    }

    /// The part of the status that identifies the gateway.
    pub(crate) fn head(&self) -> Status {
        Status {
            antedate: env!("CARGO_PKG_VERSION").into(),
            config: self.config.clone(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            protection: self.protection.into(),
            ..Status::default()
        }
    }
}

/// The part of a port that changes when its interface is replaced or gets another MTU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carries {
    /// Its present name.
    pub name: String,
    /// Its address.
    pub address: EthernetAddress,
    /// Its longest payload.
    pub mtu: usize,
    /// How frames leave.
    pub io: &'static str,
}

impl Carries {
    /// Of an interface in its current state, on a path with this MTU.
    #[must_use]
    pub fn of(interface: &interface::Interface, mtu: usize) -> Self {
        Self { name: interface.name.clone(), address: EthernetAddress(interface.address), mtu, io: RING }
    }
}

/// A forwarding thread with its CPU and priority.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// `both`, `out` or `in`.
    pub direction: &'static str,
    /// Its CPU and priority.
    pub granted: Granted,
}

/// CPU shares of the forwarding threads since the last query.
#[derive(Debug, Default)]
pub struct Shares {
    /// CPU times at the last query.
    last: Mutex<Option<(Instant, Vec<u64>)>>,
}

impl Shares {
    /// One row per thread.
    pub(crate) fn threads(
        &self,
        about: &About,
        waits: &[Waits],
        places: &[Arc<Mutex<Place>>],
    ) -> Vec<Thread> {
        let now = Instant::now();
        let cpu: Vec<u64> = waits.iter().map(|w| w.cpu).collect();
        let before = lock(&self.last).replace((now, cpu));
        let (poll, percent) = match *lock(&about.poll) {
            Poll::Adaptive { cpu_percent } => ("adaptive", Some(cpu_percent)),
            Poll::Busy => ("busy", None),
            Poll::Block => ("block", None),
        };
        let share = |index: usize, cpu: u64| {
            let (since, used) = before
                .as_ref()
                .map_or((about.started, 0), |(then, cpus)| (*then, cpus.get(index).copied().unwrap_or(0)));
            let wall = (now - since).as_nanos().max(1);
            cpu.saturating_sub(used) as f64 * 100.0 / wall as f64
        };
        let row = |(index, (waits, place)): (usize, (&Waits, &Arc<Mutex<Place>>))| {
            let place = *lock(place);
            Thread {
                direction: place.direction.into(),
                cpu: place.granted.cpu.map(|cpu| cpu as u64),
                priority: place.granted.priority,
                poll: poll.into(),
                poll_cpu_percent: percent,
                cpu_percent: share(index, waits.cpu),
                frames_caught: waits.caught,
                frames_woken: waits.woken,
                rhythms: waits.flows,
                sleeps: waits.sleeps,
            }
        };
        waits.iter().zip(places).enumerate().map(row).collect()
    }
}

/// The status of one direction, with the counters of its rules.
pub(crate) fn forwarding(counters: &PathCounters, rules: &[Counter]) -> Forwarding {
    let reasons = [
        ("too-long", &counters.too_long),
        ("not-protected", &counters.not_protected),
        ("bulk-queue-full", &counters.bulk_full),
        ("over-limit", &counters.over_limit),
        ("storm-broadcast", &counters.storm_broadcast),
        ("storm-multicast", &counters.storm_multicast),
        ("storm-unknown", &counters.storm_unknown),
        ("blocked", &counters.blocked),
        ("unsupported-offload", &counters.unsupported_offload),
        ("stale", &counters.stale),
        ("ptp-implausible", &counters.ptp_implausible),
        ("truncated", &counters.truncated),
        ("queue-full", &counters.queue_full),
        ("link-down", &counters.link_down),
        ("send-failed", &counters.send_failed),
    ];
    let policy = Class::names()
        .zip(&counters.refused)
        .map(|(name, counter)| (format!("policy:{name}"), counter.get()));
    let rest = reasons.iter().map(|(name, counter)| ((*name).to_owned(), counter.get()));
    Forwarding {
        forwarded_frames: counters.sent.get(),
        forwarded_octets: counters.octets_sent.get(),
        datagrams: 0,
        refused: policy.chain(rest).filter(|(_, count)| *count > 0).collect(),
        rules: rules.iter().map(Counter::get).collect(),
        express_frames: counters.express.get(),
        segmented: counters.super_frames.get(),
        joined: counters.joined.get(),
        checksums_completed: counters.checksums_completed.get(),
        outer_priorities_differ: counters.outer_priorities_differ.get(),
        ptp_corrected: counters.ptp_corrected.get(),
        ptp_signed: counters.ptp_signed.get(),
    }
}

/// The status of a port that frames come `from` and go `to`.
pub(crate) fn port(
    from: &PathCounters,
    to: &PathCounters,
    (link, link_downs): (bool, u64),
    now: &Carries,
) -> Port {
    Port {
        interface: now.name.clone(),
        address: now.address.to_string(),
        mtu: now.mtu as u64,
        io: now.io.to_owned(),
        link,
        link_downs,
        received_frames: from.received.get(),
        ring_drops: from.overruns.get() + from.truncated.get(),
        urgent_ring_drops: from.urgent_overruns.get(),
        sent_frames: to.sent.get(),
        send_errors: to.queue_full.get() + to.link_down.get() + to.send_failed.get(),
    }
}
