//! What a running gateway tells: snapshots of the forwarding threads, put together to the [`Status`].

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use antedate_channel::macsec::{Receive, ReceiveSaStatus, SLOTS, Transmit, TransmitSaStatus};
use antedate_wire::EthernetAddress;
use antedate_wire::Sci;
use antedate_wire::macsec::An;

use crate::agreement;
use crate::config::{Checked, Keyed, Poll};
use crate::control::{Command, Refusal, StatusSource};
use crate::counters::{Counter, PathCounters};
use crate::daemon::lock;
use crate::gate::Class;
use crate::mailbox::Mailbox;
use crate::poll::Governor;
use crate::setup::Granted;
use crate::status::{Forwarding, Macsec, Port, Preparation, ReceiveSa, Status, Thread, TransmitSa};
use crate::sys::interface;
use crate::sys::thread;
use crate::worker::Letter;

/// How long a forwarding thread may take to answer: it looks at its letters after 16 frames at most.
const PATIENCE: Duration = Duration::from_millis(500);

/// The state of forwarding threads at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The association that protects.
    pub encoding: Option<An>,
    /// The transmit associations.
    pub transmit: Vec<TransmitSaStatus>,
    /// The receive associations.
    pub receive: Vec<ReceiveSaStatus>,
    /// Packet numbers prepared for sending.
    pub sealing: Preparation,
    /// Packet numbers prepared for receiving.
    pub opening: Preparation,
    /// MACsec's counters by the standard's names.
    pub counters: BTreeMap<String, u64>,
    /// How the threads waited.
    pub waits: Vec<Waits>,
}

/// How a thread waited, and what it used.
#[derive(Debug, Clone, Copy, Default)]
pub struct Waits {
    /// Sleeps so far.
    pub sleeps: u64,
    /// Frames that found it awake.
    pub caught: u64,
    /// Frames that woke it.
    pub woken: u64,
    /// Flows with a rhythm.
    pub flows: u64,
    /// Nanoseconds of CPU time so far.
    pub cpu: u64,
}

impl Snapshot {
    /// What the calling forwarding thread knows.
    #[must_use]
    pub fn take(
        transmit: Option<&Transmit>,
        express: Option<&Transmit>,
        receive: Option<&Receive>,
        governor: &Governor,
    ) -> Self {
        let mut snapshot = Self::default();
        if let Some(transmit) = transmit {
            snapshot.transmitted(transmit);
        }
        // Its frames are counted with all others.
        for (name, count) in express.iter().flat_map(|express| express.counters().named()) {
            *snapshot.counters.entry(name.to_owned()).or_default() += count;
        }
        if let Some(receive) = receive {
            snapshot.received(receive);
        }
        snapshot.waits.push(Waits {
            sleeps: governor.sleeps,
            caught: governor.caught,
            woken: governor.woken,
            flows: governor.flows() as u64,
            cpu: thread::cpu_time(),
        });
        snapshot
    }

    /// Adds the state of the transmit channel.
    pub fn transmitted(&mut self, transmit: &Transmit) {
        self.encoding = transmit.encoding().map(|(an, _)| an);
        self.transmit.extend(transmit.status());
        let target = transmit.config().prepare as u64;
        let prepared = transmit.status().filter(|sa| sa.encoding).map(|sa| sa.prepared as u64).sum();
        self.sealing = Preparation { target, prepared };
        self.counters.extend(transmit.counters().named().map(|(name, value)| (name.to_owned(), value)));
    }

    /// Adds the state of the receive channels.
    pub fn received(&mut self, receive: &Receive) {
        self.receive.extend(receive.status());
        let prepared = receive.status().map(|sa| sa.prepared as u64).sum();
        self.opening = Preparation { target: (SLOTS * receive.status().count()) as u64, prepared };
        let counters = receive.counters().named().chain(receive.fragments().named());
        self.counters.extend(counters.map(|(name, value)| (name.to_owned(), value)));
    }

    /// Adds what another thread knows.
    fn merge(&mut self, other: Self) {
        self.encoding = self.encoding.or(other.encoding);
        self.transmit.extend(other.transmit);
        self.receive.extend(other.receive);
        // Each direction is the business of one thread; the other knows nothing of it.
        for (mine, theirs) in [(&mut self.sealing, other.sealing), (&mut self.opening, other.opening)] {
            if theirs.target > 0 {
                *mine = theirs;
            }
        }
        self.counters.extend(other.counters);
        self.waits.extend(other.waits);
    }
}

/// What does not change while the gateway runs.
#[derive(Debug, Clone)]
pub struct About {
    started: Instant,
    config: String,
    /// `macsec`, `wireguard` or `none`.
    pub protection: &'static str,
    pub(crate) field: Port,
    pub(crate) uplink: Port,
    poll: Poll,
    macsec: Option<(String, Sci, BTreeMap<Sci, String>)>,
}

impl About {
    /// Of a gateway that starts now.
    #[must_use]
    pub fn new(checked: &Checked) -> Self {
        let port =
            |interface: &interface::Interface| Port { interface: interface.name.clone(), ..Port::default() };
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
                Keyed::Overlay { private: Some(_), .. } => "wireguard",
                Keyed::Overlay { private: None, .. } | Keyed::Plain => "none",
            },
            field: port(&checked.field),
            uplink: port(&checked.uplink),
            poll: checked.config.run.poll,
            macsec,
        }
    }

    /// The part of the status that says who answers.
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

/// What may change of a port when its interface is replaced, or given another MTU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carries {
    /// Its address.
    pub address: EthernetAddress,
    /// The longest payload that it carries.
    pub mtu: usize,
}

impl Carries {
    /// Of an interface as it is now, on a path that carries so many octets.
    #[must_use]
    pub fn of(interface: &interface::Interface, mtu: usize) -> Self {
        Self { address: EthernetAddress(interface.address), mtu }
    }
}

/// A forwarding thread and what it was given.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// `both`, `out` or `in`.
    pub direction: &'static str,
    /// CPU and priority.
    pub granted: Granted,
}

/// Answers for the daemon.
#[derive(Debug)]
pub struct Desk {
    /// What does not change.
    pub about: About,
    /// The forwarding threads, in the order of [`Self::places`]: out first, in last.
    pub mailboxes: Vec<Arc<Mailbox<Letter>>>,
    /// From the machines to the uplink.
    pub out: Arc<PathCounters>,
    /// From the uplink to the machines.
    pub inward: Arc<PathCounters>,
    /// Where the threads run.
    pub places: Vec<Arc<Mutex<Place>>>,
    /// What key agreement tells of itself.
    pub agreement: Mutex<Option<agreement::View>>,
    /// Packet numbers below these are reserved.
    pub limits: Mutex<Vec<(An, u64)>>,
    /// What may change of the ports: field, uplink.
    pub ports: Mutex<[Carries; 2]>,
    /// State of the links, and how often they went down: field, uplink.
    pub links: Mutex<[(bool, u64); 2]>,
    /// What the threads used of late.
    pub shares: Shares,
}

/// What forwarding threads used, since the last time that it was asked.
#[derive(Debug, Default)]
pub struct Shares {
    /// CPU times at the last status.
    last: Mutex<Option<(Instant, Vec<u64>)>>,
}

impl Desk {
    /// Asks all forwarding threads. `None` when one does not answer.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let ask = |mailbox: &Arc<Mailbox<Letter>>| -> Receiver<Snapshot> {
            let (answer, receiver) = mpsc::channel();
            mailbox.post(Letter::Snapshot(answer));
            receiver
        };
        let asked: Vec<_> = self.mailboxes.iter().map(ask).collect();
        let mut whole = Snapshot::default();
        for receiver in asked {
            whole.merge(receiver.recv_timeout(PATIENCE).ok()?);
        }
        Some(whole)
    }

    /// Protects with another association from the next frame on.
    ///
    /// # Errors
    /// What the channel says, or that nothing answers.
    pub fn switch(&self, an: An) -> Result<(), String> {
        let mailbox = self.mailboxes.first().ok_or("there is no forwarding thread")?;
        let (answer, receiver) = mpsc::channel();
        mailbox.post(Letter::Switch(an, answer));
        match receiver.recv_timeout(PATIENCE) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(refused)) => Err(refused.to_string()),
            Err(_) => {
                Err("this gateway has no secure channel, or its forwarding thread does not answer".into())
            }
        }
    }

    /// Takes note of the links: field, uplink.
    pub fn link_changes(&self, up: [bool; 2]) {
        for ((known, downs), now) in lock(&self.links).iter_mut().zip(up) {
            if *known && !now {
                *downs += 1;
            }
            *known = now;
        }
    }

    fn macsec(&self, snapshot: &Snapshot) -> Option<Macsec> {
        let (suite, own, members) = self.about.macsec.as_ref()?;
        let limits = lock(&self.limits);
        let view = lock(&self.agreement).clone();
        let agreement = view.and_then(|view| lock(&view).as_ref().map(agreement::report::document));
        let limit = |an: An| limits.iter().find(|(known, _)| *known == an).map_or(0, |(_, limit)| *limit);
        let transmit = snapshot.transmit.iter().map(|sa| TransmitSa {
            an: sa.an.number(),
            next_pn: sa.next_pn,
            // A key that was agreed upon needs no reservation.
            reserved_until: if agreement.is_some() { sa.limit } else { limit(sa.an) },
        });
        let transmit: Vec<_> = transmit.collect();
        let receive = snapshot.receive.iter().map(|sa| ReceiveSa {
            sci: sa.sci.to_string(),
            member: members.get(&sa.sci).cloned().unwrap_or_default(),
            an: sa.an.number(),
            lowest_pn: sa.lowest_pn,
        });
        let used = agreement.as_ref().and_then(|known| known.keys.iter().find(|key| key.transmits));
        Some(Macsec {
            suite: used.map_or(suite, |key| &key.suite).clone(),
            sci: own.to_string(),
            encoding_sa: snapshot.encoding.map(An::number),
            transmit,
            receive: receive.collect(),
            agreement,
            sealing: snapshot.sealing.clone(),
            opening: snapshot.opening.clone(),
            counters: snapshot.counters.clone(),
        })
    }
}

impl Shares {
    /// A row for each thread.
    pub(crate) fn threads(
        &self,
        about: &About,
        waits: &[Waits],
        places: &[Arc<Mutex<Place>>],
    ) -> Vec<Thread> {
        let now = Instant::now();
        let cpu: Vec<u64> = waits.iter().map(|w| w.cpu).collect();
        let before = lock(&self.last).replace((now, cpu));
        let (poll, percent) = match about.poll {
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

/// One direction.
pub(crate) fn forwarding(counters: &PathCounters) -> Forwarding {
    let reasons = [
        ("too-long", &counters.too_long),
        ("not-protected", &counters.not_protected),
        ("bulk-queue-full", &counters.bulk_full),
        ("unsupported-offload", &counters.unsupported_offload),
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
        refused: policy.chain(rest).filter(|(_, count)| *count > 0).collect(),
        rules: counters.rules.iter().map(Counter::get).collect(),
        express_frames: counters.express.get(),
        segmented: counters.super_frames.get(),
        joined: counters.joined.get(),
        checksums_completed: counters.checksums_completed.get(),
    }
}

/// A port, of which frames come `from` and to which they go.
pub(crate) fn port(
    about: &Port,
    from: &PathCounters,
    to: &PathCounters,
    (link, link_downs): (bool, u64),
    now: Carries,
) -> Port {
    Port {
        address: now.address.to_string(),
        mtu: now.mtu as u64,
        link,
        link_downs,
        received_frames: from.received.get(),
        ring_drops: from.overruns.get() + from.truncated.get(),
        sent_frames: to.sent.get(),
        send_errors: to.queue_full.get() + to.link_down.get() + to.send_failed.get(),
        ..about.clone()
    }
}

impl StatusSource for Desk {
    fn status(&self) -> Status {
        let snapshot = self.snapshot();
        let answering = snapshot.is_some();
        let snapshot = snapshot.unwrap_or_default();
        let [field, uplink] = *lock(&self.links);
        let [field_now, uplink_now] = *lock(&self.ports);
        Status {
            forwarding: answering,
            field: port(&self.about.field, &self.out, &self.inward, field, field_now),
            uplink: port(&self.about.uplink, &self.inward, &self.out, uplink, uplink_now),
            out: forwarding(&self.out),
            inward: forwarding(&self.inward),
            threads: self.shares.threads(&self.about, &snapshot.waits, &self.places),
            macsec: self.macsec(&snapshot),
            ..self.about.head()
        }
    }

    fn command(&self, command: Command) -> Result<String, Refusal> {
        let Command::SwitchSa { an } = command else {
            return Err(Refusal {
                what: "this gateway has no sessions".into(),
                remedy: "keys that are agreed upon change by themselves; `antedate gateway switch-sa` changes static ones".into(),
            });
        };
        let known: Vec<String> = lock(&self.limits).iter().map(|(an, _)| an.to_string()).collect();
        let remedy = match known.split_last() {
            Some((last, [])) => format!("the key file has association {last} alone"),
            Some((last, rest)) => {
                format!("name an association of the key file: {} or {last}", rest.join(", "))
            }
            None => "only gateways with a key_file have associations to change between".to_owned(),
        };
        let refusal = |what: String| Refusal { what, remedy: remedy.clone() };
        if lock(&self.agreement).is_some() {
            return Err(Refusal {
                what: "keys are agreed upon with the other members, who would not hear of it".into(),
                remedy: "the key server changes them: see mka_rekey_seconds".into(),
            });
        }
        let an = An::new(an).ok_or_else(|| refusal(format!("{an} is no association number")))?;
        self.switch(an).map_err(refusal)?;
        Ok(format!("frames are protected with association {an} from now on"))
    }
}

#[cfg(test)]
mod tests {
    use antedate_channel::macsec::{CipherSuite, TransmitConfig};

    use super::*;
    use crate::poll::Mode;

    #[test]
    fn frames_of_the_express_channel_are_counted_with_all_others() {
        let [usual, express] = [1, 2].map(|frames| {
            let config = TransmitConfig::new(CipherSuite::GcmAes128, Sci([2, 0, 0, 0, 0, 1, 0, frames]));
            let mut transmit = Transmit::new(config).expect("a channel");
            (0..frames).for_each(|_| assert!(transmit.protect(&[0; 60], &mut [0; 100]).is_err()));
            transmit
        });
        let governor = Governor::new(Mode::Block, 0, 0);
        let counted =
            |express| Snapshot::take(Some(&usual), express, None, &governor).counters["OutDiscardedNoSA"];
        assert_eq!((counted(None), counted(Some(&express))), (1, 3));
    }
}
