//! A world of stations, each with a participant and real MACsec channels, and a network that loses,
//! duplicates, delays and cuts. A seed decides everything, in steps of ten milliseconds.
//!
//! Each station sends a frame in each step as soon as it can protect one. The world checks that a
//! nonce is used once, across restarts and changes of short SCIs, and counts every frame that a
//! receiver did not get.

use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet};
use std::vec;
use std::vec::Vec;

use core::time::Duration;

use antedate_wire::macsec::{An, Mpdu};
use antedate_wire::mka::Repr;
use antedate_wire::{EthernetAddress, Sci};

use super::super::*;
use crate::macsec::{
    CipherSuite, Discard, ReadyReceive, ReadyTransmit, Receive, ReceiveConfig, Sak, Transmit, TransmitConfig,
};
use crate::world::Rng;

pub(super) const STEP: Duration = Duration::from_millis(10);
pub(super) const CAK: [u8; 32] = [0x5a; 32];

/// Rates of the network's faults on MKPDUs, in thousandths.
#[derive(Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) lose: u32,
    /// Of two MKPDUs in succession with one CAK, from one station to another, one arrives.
    pub(super) singly: bool,
    pub(super) duplicate: u32,
    /// The maximum delay in steps.
    pub(super) delay: usize,
}

pub(super) struct Station {
    pub(super) participant: Option<Kay>,
    pub(super) config: Config,
    /// Its CAKs: name, key, priority.
    pub(super) caks: Vec<OneCak>,
    transmit: Transmit,
    receive: Receive,
    /// Keys whose installation takes a step or more.
    installing: Vec<(u64, Install)>,
    /// The transmit key, and its own short SCI.
    transmits: Option<(KeyIdentifier, Option<u32>)>,
    /// Frames of others that it failed to read while up, and frames it read.
    pub(super) lost: u64,
    pub(super) got: u64,
    /// Those of each other one that it failed to read.
    pub(super) lost_of: BTreeMap<usize, u64>,
    /// Frames that it could not protect after its first one.
    pub(super) unsent: u64,
    /// The others' last announcement of their second channel.
    pub(super) second_pn: Option<u64>,
}

/// A name, a key and a priority.
pub(super) type OneCak = (&'static [u8], Vec<u8>, i32);

/// Rewrites a station's MKPDU.
type Rewrite = Box<dyn Fn(usize, &[u8]) -> Vec<u8>>;

/// Whether MKPDUs from one station reach another by a destination.
type Carries = Box<dyn Fn(usize, usize, EthernetAddress) -> bool>;

/// The sender's part of a nonce: the short SCI with extended packet numbers, otherwise the SCI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Short(u32),
    Whole(Sci),
}

pub(super) struct World {
    pub(super) now: Duration,
    pub(super) stations: Vec<Station>,
    pub(super) faults: Faults,
    /// Pairs that do not hear each other.
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// The second of each pair does not hear the first.
    pub(super) unheard: BTreeSet<(usize, usize)>,
    flights: Vec<(Duration, usize, Vec<u8>)>,
    /// Senders, receivers and CKNs whose last MKPDU was lost.
    missed: BTreeSet<(usize, usize, Vec<u8>)>,
    pub(super) recording: Vec<Vec<u8>>,
    nonces: BTreeSet<(KeyIdentifier, Name, u32)>,
    /// Stations whose MKPDUs say that they do not want MACsec.
    pub(super) unwilling: BTreeSet<usize>,
    /// Rewrites MKPDUs.
    pub(super) rewrite: Option<Rewrite>,
    /// Whether the network carries MKPDUs from one station to another by this destination.
    pub(super) carries: Carries,
    pub(super) rng: Rng,
    /// The most steps that an installation takes.
    pub(super) slowness: usize,
    /// The station whose frames are withheld, except MKPDUs.
    pub(super) withhold: Option<usize>,
    withheld: Vec<Vec<u8>>,
}

pub(super) fn sci(number: usize) -> Sci {
    Sci::new(EthernetAddress([2, 0, 0, 0, 0, number as u8 + 1]), 1)
}

impl Station {
    fn new(config: Config, caks: Vec<OneCak>) -> Self {
        let suite = config.suites[0];
        let ssci = suite.is_xpn().then_some(0);
        let transmit = TransmitConfig { ssci, ..TransmitConfig::new(suite, config.sci) };
        Self {
            participant: None,
            caks,
            transmit: Transmit::new(transmit).unwrap(),
            receive: Receive::new(ReceiveConfig {
                max_peers: MAX_PEERS,
                replay_window: 1024,
                ..ReceiveConfig::new(suite)
            }),
            config,
            installing: Vec::new(),
            transmits: None,
            lost: 0,
            lost_of: BTreeMap::new(),
            got: 0,
            unsent: 0,
            second_pn: None,
        }
    }

    /// The participant of its first CAK.
    pub(super) fn up(&self) -> &Participant {
        &self.kay().actors[0].participant
    }

    pub(super) fn up_mut(&mut self) -> &mut Participant {
        &mut self.participant.as_mut().expect("it is up").actors[0].participant
    }

    pub(super) fn kay(&self) -> &Kay {
        self.participant.as_ref().expect("it is up")
    }

    pub(super) fn status(&self, now: Duration) -> Status {
        self.kay().status(now)
    }
}

impl World {
    /// Stations of priorities 10, 13, ... that are not up yet.
    pub(super) fn new(count: usize, seed: u64) -> Self {
        Self::with(count, seed, |_, _| {})
    }

    /// Stations as of [`new`](Self::new), with changed configurations.
    pub(super) fn with(count: usize, seed: u64, change: impl Fn(usize, &mut Config)) -> Self {
        let station = |number| {
            let mut config = Config { priority: 10 + 3 * number as u8, ..Config::new(sci(number)) };
            change(number, &mut config);
            Station::new(config, vec![(b"world", CAK.to_vec(), 0)])
        };
        Self {
            now: Duration::ZERO,
            stations: (0..count).map(station).collect(),
            faults: Faults::default(),
            cut: BTreeSet::new(),
            unheard: BTreeSet::new(),
            flights: Vec::new(),
            missed: BTreeSet::new(),
            recording: Vec::new(),
            nonces: BTreeSet::new(),
            unwilling: BTreeSet::new(),
            rewrite: None,
            carries: Box::new(|_, _, _| true),
            rng: Rng::new(seed),
            slowness: 2,
            withhold: None,
            withheld: Vec::new(),
        }
    }

    pub(super) fn start(&mut self, number: usize) {
        let rng = &mut self.rng;
        let station = &mut self.stations[number];
        // A killed process forgets everything but its configuration.
        *station = Station::new(station.config.clone(), station.caks.clone());
        station.participant = Some(Kay::new(listed(&station.caks), station.config.clone(), &mut fill(rng)));
    }

    /// A station reads these CAKs while it runs.
    pub(super) fn reload(&mut self, number: usize, caks: &[OneCak]) {
        self.replace(number, caks, Some(GRACE));
    }

    /// As [`reload`](Self::reload), with another time for removed ones.
    pub(super) fn replace(&mut self, number: usize, caks: &[OneCak], grace: Option<Duration>) {
        let station = &mut self.stations[number];
        station.caks = caks.to_vec();
        let kay = station.participant.as_mut().expect("it is up");
        kay.replace(self.now, listed(caks), grace, &mut fill(&mut self.rng)).unwrap();
    }

    pub(super) fn start_all(&mut self) {
        (0..self.stations.len()).for_each(|number| self.start(number));
    }

    pub(super) fn kill(&mut self, number: usize) {
        self.stations[number].participant = None;
    }

    pub(super) fn set_cak(&mut self, number: usize, cak: &[u8]) {
        self.stations[number].caks[0].1 = cak.to_vec();
    }

    /// Sends an outsider's frame to all stations.
    pub(super) fn inject(&mut self, frame: &[u8]) {
        for to in 0..self.stations.len() {
            self.flights.push((self.now, to, frame.to_vec()));
        }
    }

    pub(super) fn run(&mut self, seconds: f64) {
        let end = self.now + Duration::from_secs_f64(seconds);
        while self.now < end {
            self.step();
        }
    }

    /// Runs until all running stations transmit with one key of the same key server. Returns the
    /// time taken.
    pub(super) fn until_agreed(&mut self, seconds: f64) -> Duration {
        let start = self.now;
        while !self.agreed() {
            assert!(
                self.now < start + Duration::from_secs_f64(seconds),
                "no agreement: {:#?}",
                self.statuses()
            );
            self.step();
        }
        self.now - start
    }

    pub(super) fn statuses(&self) -> Vec<Status> {
        self.stations.iter().filter_map(|s| Some(s.participant.as_ref()?.status(self.now))).collect()
    }

    pub(super) fn agreed(&self) -> bool {
        let all = self.statuses();
        let keys: BTreeSet<_> =
            all.iter().map(|s| s.keys[0].filter(|key| key.transmits).map(|key| key.key)).collect();
        let live = |s: &Status| s.members.iter().filter(|member| member.live).count();
        keys.len() == 1 && !keys.contains(&None) && all.iter().all(|s| live(s) + 1 == all.len())
    }

    pub(super) fn step(&mut self) {
        self.now += STEP;
        let now = self.now;
        let (due, later) = core::mem::take(&mut self.flights).into_iter().partition(|(at, ..)| *at <= now);
        self.flights = later;
        for (_, to, frame) in due as Vec<(Duration, usize, Vec<u8>)> {
            if let Some(participant) = &mut self.stations[to].participant {
                let _ = participant.receive(now, &frame);
                participant.tick(now, &mut fill(&mut self.rng));
            }
        }
        for number in 0..self.stations.len() {
            self.act(number);
        }
        self.data();
    }

    fn act(&mut self, number: usize) {
        let now = self.now;
        let station = &mut self.stations[number];
        let Some(participant) = &mut station.participant else { return };
        let step = (now.as_millis() / STEP.as_millis()) as u64;
        let (ready, waiting) =
            core::mem::take(&mut station.installing).into_iter().partition(|(at, _)| *at <= step);
        station.installing = waiting;
        for (_, install) in ready as Vec<(u64, Install)> {
            for (sci, ssci) in &install.members {
                let ready = ReadyReceive::new(*sci, *ssci, install.an, &install.sak, 1).unwrap();
                station.receive.adopt(ready).unwrap();
            }
            participant.receives(install.key);
        }
        participant.tick(now, &mut fill(&mut self.rng));
        if let Some((an, next)) = station.transmit.encoding() {
            participant.progress(an, next, None);
        }
        let mut frames = Vec::new();
        while let Some(action) = participant.next_action() {
            match action {
                Action::Send(frame) => frames.push(frame),
                Action::Receive(install) => {
                    let delay = self.rng.below(self.slowness + 1) as u64;
                    station.installing.push((step + delay, install));
                }
                Action::Transmit(install) => {
                    let (suite, ssci) = (install.sak.suite(), install.ssci);
                    let config = TransmitConfig { suite, ssci, ..*station.transmit.config() };
                    let ready = ReadyTransmit::new(config, install.an, &install.sak, 1, u64::MAX).unwrap();
                    station.transmit.adopt(ready).unwrap();
                    station.transmit.set_encoding_sa(install.an).unwrap();
                    station.transmits = Some((install.key, ssci));
                }
                Action::Lowest { sci, an, lowest_pn, second_pn } => {
                    station.second_pn = second_pn;
                    station.receive.set_lowest_acceptable_pn(sci, an, lowest_pn);
                }
                Action::Remove(an) => {
                    station.installing.retain(|(_, install)| install.an != an);
                    station.transmit.remove(an);
                    station.receive.remove_all(an);
                }
                Action::Forget(sci) => {
                    station.receive.remove_peer(sci);
                }
            }
        }
        for frame in frames {
            self.send(number, &frame);
        }
    }

    fn send(&mut self, from: usize, frame: &[u8]) {
        let frame = match &self.rewrite {
            _ if self.unwilling.contains(&from) => &changed(frame, |repr| repr.basic.macsec_desired = false),
            Some(rewrite) => &rewrite(from, frame),
            None => frame,
        };
        self.recording.push(frame.to_vec());
        for to in (0..self.stations.len()).filter(|to| *to != from) {
            let cut = self.cut.contains(&(from, to)) || self.cut.contains(&(to, from));
            let cut = cut || self.unheard.contains(&(from, to));
            let group = frame.first_chunk().map(|octets| EthernetAddress(*octets)).unwrap_or_default();
            if cut || !(self.carries)(from, to, group) || self.is_lost(from, to, frame) {
                continue;
            }
            let copies = 1 + usize::from(self.rng.happens(self.faults.duplicate));
            for _ in 0..copies {
                let delay = 1 + self.rng.below(self.faults.delay + 1) as u32;
                self.flights.push((self.now + STEP * delay, to, frame.to_vec()));
            }
        }
    }

    fn is_lost(&mut self, from: usize, to: usize, frame: &[u8]) -> bool {
        let mut lost = self.rng.happens(self.faults.lose);
        if self.faults.singly {
            let name = Repr::parse(frame).map(|parsed| parsed.repr.basic.ckn.to_vec());
            let way = (from, to, name.unwrap_or_default());
            lost &= !self.missed.remove(&way);
            if lost {
                self.missed.insert(way);
            }
        }
        lost
    }

    /// Every station sends a frame to all others.
    fn data(&mut self) {
        for from in 0..self.stations.len() {
            let station = &mut self.stations[from];
            if station.participant.is_none() {
                continue;
            }
            let frame = [&[0xff; 6][..], &[2; 6], &[0x88, 0x92], &[7; 50]].concat();
            let mut protected = vec![0; 128];
            let Ok(len) = station.transmit.protect(&frame, &mut protected) else {
                station.unsent += u64::from(station.transmits.is_some());
                continue;
            };
            let protected = &protected[..len];
            let (tag, (key, ssci)) = (Mpdu::parse(protected).unwrap().tag, station.transmits.expect("a key"));
            let name = ssci.map_or(Name::Whole(station.config.sci), Name::Short);
            let nonce = (key, name, tag.packet_number);
            assert!(self.nonces.insert(nonce), "a nonce is used twice: {nonce:?}");
            if self.withhold == Some(from) {
                self.withheld.push(protected.to_vec());
                continue;
            }
            for to in (0..self.stations.len()).filter(|to| *to != from) {
                let station = &mut self.stations[to];
                if station.participant.is_some() && !self.cut.contains(&(from.min(to), from.max(to))) {
                    match station.receive.validate(protected, &mut [0; 128]) {
                        Ok(_) => station.got += 1,
                        Err(_) => {
                            station.lost += 1;
                            *station.lost_of.entry(from).or_default() += 1;
                        }
                    }
                }
            }
        }
    }

    /// Delivers withheld frames to a station. Returns how many were accepted, and how many were
    /// late.
    pub(super) fn deliver_withheld(&mut self, to: usize) -> (u64, u64) {
        let (mut accepted, mut late) = (0, 0);
        for frame in core::mem::take(&mut self.withheld) {
            match self.stations[to].receive.validate(&frame, &mut [0; 128]) {
                Ok(_) => accepted += 1,
                Err(discard) => {
                    assert_eq!(discard, Discard::Late);
                    late += 1;
                }
            }
        }
        (accepted, late)
    }

    /// A frame of an outsider, protected with its own key.
    pub(super) fn frame_of_a_stranger(&self) -> Vec<u8> {
        let suite = CipherSuite::GcmAes128;
        let mut transmit = Transmit::new(TransmitConfig::new(suite, sci(200))).unwrap();
        transmit.install(An::ALL[0], &Sak::new(suite, &[1; 16], None).unwrap(), 1, u64::MAX).unwrap();
        let frame = [&[0xff; 6][..], &[2; 6], &[0x88, 0x92], &[7; 50]].concat();
        let mut protected = vec![0; 128];
        let len = transmit.protect(&frame, &mut protected).unwrap();
        protected.truncate(len);
        protected
    }

    /// Delivers a frame to all stations, which must discard it for this reason.
    pub(super) fn deliver(&mut self, frame: &[u8], why: Discard) {
        for station in &mut self.stations {
            assert_eq!(station.receive.validate(frame, &mut [0; 128]), Err(why));
        }
    }

    /// Whether a station would receive on this channel.
    pub(super) fn receives(&self, number: usize, sci: Sci) -> bool {
        self.stations[number].receive.status().any(|sa| sa.sci == sci)
    }

    /// Receive associations of all stations.
    pub(super) fn held(&self) -> usize {
        self.stations.iter().map(|station| station.receive.status().count()).sum()
    }

    pub(super) fn lost(&self) -> u64 {
        self.stations.iter().map(|station| station.lost).sum()
    }

    pub(super) fn unsent(&self) -> u64 {
        self.stations.iter().map(|station| station.unsent).sum()
    }

    pub(super) fn got(&self) -> u64 {
        self.stations.iter().map(|station| station.got).sum()
    }

    pub(super) fn key(&self, number: usize) -> Option<(KeyIdentifier, An, CipherSuite)> {
        self.stations[number].status(self.now).keys[0].map(|key| (key.key, key.an, key.suite))
    }
}

fn listed(caks: &[OneCak]) -> Vec<Listed> {
    let one = |(name, key, priority): &OneCak| {
        let cak = Cak::new(key, name).unwrap();
        Listed { cak: cak.into(), priority: *priority }
    };
    caks.iter().map(one).collect()
}

/// An MKPDU with one change, and a genuine ICV.
pub(super) fn changed<'a>(frame: &'a [u8], change: impl FnOnce(&mut Repr<'a>)) -> Vec<u8> {
    let mut repr = Repr::parse(frame).unwrap().repr;
    change(&mut repr);
    let cak = Cak::new(&CAK, repr.basic.ckn).unwrap();
    let mut out = vec![0; repr.buffer_len()];
    repr.emit(&mut out, |covered| cak.icv(covered)).unwrap();
    out
}

/// Random octets of the world's seed.
pub(super) fn fill(rng: &mut Rng) -> impl FnMut(&mut [u8]) + '_ {
    |octets| octets.iter_mut().for_each(|octet| *octet = rng.number() as u8)
}
