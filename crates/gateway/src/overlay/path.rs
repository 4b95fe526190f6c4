//! One turn of the forwarding thread: handles a bounded number of frames in both directions.
//!
//! Out: complete offloads, apply the policy, find the peers, write VXLAN's headers and the frame
//! after the space for WireGuard's header, encrypt in place, send. In: decrypt in place, remove the
//! headers, apply the policy, send. An outgoing frame is copied once, an incoming one only if it
//! came in parts.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::mpsc::Sender as Post;

use antedate_channel::wireguard::{Device, Done, KeyLogEntry};

use super::ask::Ask;
use super::drops::Drops;
use super::hops::Asked;
use super::news::News;
use super::peers::Peer;
use super::ping::Pings;
use super::release::Release;
use super::search::limit;
use super::state::{Core, Crypt, Doubles, Machines};
use super::table::Table;
use super::uplink::{Inward, Port};
use super::workers::{Addresses, OwnedJob, Passed, Workers};
use crate::config::overlay::{Host, Overlay};
use crate::config::uplink::Which;
use crate::frames::bound::Bound;
use crate::frames::delivery::Delivery;
use crate::frames::gate::Gate;
use crate::frames::offload;
use crate::frames::port::flow;
use crate::run::counters::PathCounters;
use crate::run::loss::hellos::Hellos;
use crate::sys::age::Bounds;
use crate::sys::lanes::Lanes;
use crate::sys::packet::Next;
use crate::sys::route::Hop;
use crate::sys::thread;

/// The most frames of one direction in a turn.
const TURN: usize = 16;

/// Both directions.
pub struct Path {
    pub(super) from_field: Lanes,
    pub(super) from_uplink: Inward,
    pub(super) from_second: Option<Inward>,
    /// The next-hops thread of each uplink.
    ask: [Option<Post<Asked>>; 2],
    scratch: Box<[u8]>,
    pub(super) core: Core,
}

/// The parts of a [`Path`].
pub struct Parts {
    /// The field port and its MTU.
    pub field: (Lanes, Delivery, usize),
    /// The uplink, its next-hops thread, and its MTU.
    pub uplink: (Port, Post<Asked>, usize),
    /// Whether its MTU is the administrator's word about the path.
    pub trusted: bool,
    /// The same of the second uplink, if any.
    pub second: Option<(Port, Post<Asked>, usize)>,
    /// The WireGuard device. `None` without WireGuard.
    pub device: Option<Box<Device>>,
    /// The settings of `[overlay]`.
    pub overlay: Overlay,
    /// The ages from which on frames are dropped.
    pub max_age: Bounds,
    /// The policy.
    pub gate: Arc<Gate>,
    /// The counters of frames from the field, and to it.
    pub counters: [Arc<PathCounters>; 2],
    /// The handshake thread.
    pub jobs: Post<OwnedJob>,
    /// Several workers.
    pub share: Option<Share>,
    /// The peers that tell that they live.
    pub hellos: Arc<Hellos<[u8; 32]>>,
    /// News for the log.
    pub news: Post<News>,
    /// The policy without `all`.
    pub named: Gate,
    /// The thread that resolves names of peers, if there are any.
    pub names: Option<Post<Host>>,
    /// The key log, if any.
    pub key_log: Option<Post<Vec<KeyLogEntry>>>,
}

/// The part of one of several workers.
pub struct Share {
    /// Its number.
    pub own: u8,
    /// The worker of each peer.
    pub owners: Vec<u8>,
    /// The state of all.
    pub workers: Arc<Workers>,
    /// Where the first one tells which worker has the frames to which machines.
    pub machines: Option<Post<Machines>>,
}

/// The address table of an overlay, with its static entries.
pub(super) fn table(overlay: &Overlay) -> Table {
    let ageing = u64::from(overlay.mac_ageing_seconds) * 1_000_000_000;
    let mut table = Table::new(overlay.peers.len(), overlay.mac_limit, ageing);
    for (place, peer) in overlay.peers.iter().enumerate() {
        peer.macs.iter().for_each(|mac| table.fix(*mac, place));
    }
    table
}

impl Path {
    /// Builds a path.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts {
            field: (from_field, to_field, field_mtu), uplink: (port, ask, mtu), overlay, second, ..
        } = parts;
        let now = thread::now();
        let (from_uplink, uplink) = port.sides(ask.clone());
        let ask = [Some(ask), second.as_ref().map(|(_, ask, _)| ask.clone())];
        let mtus = [Some(mtu), second.as_ref().map(|(.., mtu)| *mtu)];
        let (from_second, second) = second.map(|(port, ask, _)| port.sides(ask)).unzip();
        let peers = overlay.peers.iter().enumerate();
        let mut peers: Vec<_> =
            peers.map(|(place, peer)| Peer::new(&overlay, place, peer, mtus, parts.trusted)).collect();
        let (mut own, mut workers, mut machines) = (0, None, None);
        if let Some(share) = parts.share {
            peers.iter_mut().zip(share.owners).for_each(|(peer, worker)| peer.worker = worker);
            (own, workers, machines) = (share.own, Some(share.workers), share.machines);
        }
        let table = match &workers {
            None => Addresses::Own(table(&overlay)),
            Some(workers) => Addresses::Shared(Arc::clone(workers)),
        };
        let [out, inward] = parts.counters;
        let core = Core {
            to_field,
            field_mtu,
            uplink,
            second,
            crypt: parts.device.map_or(Crypt::Bare, Crypt::Wireguard),
            peers,
            table,
            own,
            workers,
            changes: 0,
            machines,
            told: 0,
            passed: 0,
            release: (overlay.release_clock_us > 0)
                .then(|| Release::new(u64::from(overlay.release_clock_us) * 1_000)),
            bounds: [(); 2].map(|()| Bound::of_frames(overlay.storm_limit.into(), 0, now)),
            overlay,
            max_age: parts.max_age,
            late: false,
            gate: parts.gate,
            out,
            inward,
            mtus,
            trusted: parts.trusted,
            shortest: 0,
            news: parts.news,
            named: parts.named,
            names: parts.names,
            strayed: 0,
            drops: Drops::default(),
            cookies: 0,
            hellos: parts.hellos,
            pings: Pings::default(),
            look: 0,
            aged: now,
            jobs: parts.jobs,
            in_flight: 0,
            doubles: Doubles::default(),
            key_log: parts.key_log,
        };
        let mut core = core;
        core.shortest = limit(&core.overlay, core.mtus);
        Self { from_field, from_uplink, from_second, ask, scratch: vec![0; 16 * 1024].into(), core }
    }

    /// Handles a bounded number of frames in both directions. Calls `heard` with the flow of each.
    /// Returns their number.
    #[inline]
    pub(super) fn turn(&mut self, mut heard: impl FnMut(u32) -> u64) -> usize {
        let done = self.turn_out(&mut heard) + self.turn_in(&mut heard);
        let now = thread::now();
        let done = done + self.core.release(now);
        if now >= self.core.look {
            self.core.timers(now);
            self.core.ask(now);
        }
        self.core.flush();
        done
    }

    #[inline]
    fn turn_out(&mut self, heard: &mut impl FnMut(u32) -> u64) -> usize {
        let Self { from_field, scratch, core, .. } = self;
        let mut count = 0;
        while count < TURN {
            match from_field.peek() {
                Next::Empty => break,
                Next::Truncated => {
                    core.out.truncated.count();
                    count += 1;
                }
                Next::Frame(received) => {
                    heard(flow(received.frame()));
                    core.out.received.count();
                    core.out.octets_received.add(received.frame().len() as u64);
                    let offload = received.offload;
                    core.late = received.late;
                    let now = thread::now();
                    let done =
                        offload::finish(received, scratch, |frame| core.outbound(now, frame.into_frame()));
                    count += done.unwrap_or(1);
                    match done {
                        Err(offload::UnsupportedError) => core.out.unsupported_offload.count(),
                        Ok(_) if offload.segmentation != 0 => core.out.super_frames.count(),
                        Ok(_) if offload.needs_checksum => core.out.checksums_completed.count(),
                        Ok(_) => {}
                    }
                }
            }
            from_field.release();
        }
        // Sends a single frame at once, and several in one system call.
        core.flush();
        count
    }

    #[inline]
    fn turn_in(&mut self, heard: &mut impl FnMut(u32) -> u64) -> usize {
        let Self { from_uplink, from_second, core, .. } = self;
        let now = thread::now();
        let count = from_uplink.turn(now, core, Core::is_peer, |core, datagram, from, class, late| {
            core.late = late;
            core.inbound(now, Which::First, datagram, from, class, heard)
        });
        let second = from_second.as_mut().map_or(0, |second| {
            second.turn(now, core, Core::is_second_peer, |core, datagram, from, class, late| {
                core.late = late;
                core.inbound_second(now, datagram, from, class, heard)
            })
        });
        core.to_field.flush(&core.inward);
        count + second
    }

    /// The time of the release clock's next frame.
    pub(super) fn due(&self) -> Option<u64> {
        self.core.release.as_ref().and_then(Release::due)
    }

    pub(super) const fn clock(&self) -> Option<&Release> {
        self.core.release.as_ref()
    }

    /// Does at most `budget` steps of preparation. Returns the number of steps.
    #[inline]
    pub(super) fn idle(&mut self, budget: u32) -> u32 {
        match &mut self.core.crypt {
            Crypt::Wireguard(device) => device.idle(budget),
            Crypt::Bare => 0,
        }
    }

    /// Starts new sessions with all peers.
    pub(super) fn rekey(&mut self) {
        let now = thread::now();
        if let Crypt::Wireguard(device) = &mut self.core.crypt {
            let own = self.core.own;
            let peers = self.core.peers.iter().filter(|peer| peer.worker == own);
            peers.for_each(|peer| device.want_handshake(now, peer.id));
        }
        self.core.look = 0;
    }

    /// Sends an echo to a peer.
    pub(super) fn ping(&mut self, ask: Ask) {
        self.core.ping(thread::now(), ask);
    }

    /// Replaces the field port.
    pub(super) fn replace_field(&mut self, from: Lanes, to: Delivery, mtu: usize) {
        self.census();
        self.from_field = from;
        (self.core.to_field, self.core.field_mtu) = (to, mtu);
    }

    /// Replaces an uplink or its MTU.
    pub(super) fn replace_uplink(&mut self, which: Which, port: Port, mtu: usize) {
        let [first, second] = &self.ask;
        let ask = if which == Which::First { first } else { second };
        let Some(ask) = ask.clone() else { return };
        self.census();
        let (inward, outward) = port.sides(ask);
        if which == Which::Second {
            (self.from_second, self.core.second) = (Some(inward), Some(outward));
            self.core.mtus[1] = Some(mtu);
        } else {
            let damaged = self.from_uplink.damaged;
            (self.from_uplink, self.core.uplink) = (inward, outward);
            self.from_uplink.damaged = damaged;
            self.core.mtus[0] = Some(mtu);
        }
        let longest = limit(&self.core.overlay, self.core.mtus);
        // Until the searches on the new uplink begin, at once.
        for peer in &mut self.core.peers {
            let searched = peer.searches.iter().any(Option::is_some);
            peer.limit = if searched { longest.min(peer.limit) } else { longest };
        }
        self.core.look = 0;
    }

    /// Uses another link address on an uplink.
    pub(super) fn readdress_uplink(&mut self, which: Which, link: [u8; 6]) {
        match (which, &mut self.core.second) {
            (Which::First, _) => self.core.uplink.readdress(link),
            (Which::Second, Some(second)) => second.readdress(link),
            (Which::Second, None) => {}
        }
    }

    /// Stores the address of the peers with this host name.
    pub(super) fn found(&mut self, host: &Host, at: SocketAddr) {
        self.core.found(thread::now(), host, at);
    }

    /// Stores the kernel's path MTU to an address.
    pub(super) fn learn_path(&mut self, which: Which, to: SocketAddr, mtu: Option<usize>) {
        self.core.learn_path(thread::now(), which, to, mtu);
    }

    /// Finishes a job of a handshake.
    pub(super) fn handshake(&mut self, done: Done) {
        self.core.handshake(thread::now(), done);
        self.core.flush();
    }

    /// Takes over the result of a handshake that another worker received.
    pub(super) fn finish(&mut self, done: Done) {
        self.core.finish(thread::now(), done);
        self.core.flush();
    }

    /// Sends a frame that another worker passed on.
    pub(super) fn send_passed(&mut self, passed: &Passed) {
        self.core.send_passed(thread::now(), passed);
    }

    /// Stores the next hop of a peer's address, or that there is none.
    pub(super) fn learn_hop(&mut self, which: Which, to: SocketAddrV4, hop: Option<Hop>) {
        match (which, &mut self.core.second) {
            (Which::First, _) => self.core.uplink.learn(to, hop),
            (Which::Second, Some(second)) => second.learn(to, hop),
            (Which::Second, None) => {}
        }
    }

    pub(super) const fn ports(&self) -> (&Lanes, &Inward, Option<&Inward>) {
        (&self.from_field, &self.from_uplink, self.from_second.as_ref())
    }

    /// The counters of the second uplink, if any.
    pub(super) fn doubles(&self) -> Option<Doubles> {
        self.from_second.as_ref().map(|_| self.core.doubles)
    }

    /// The way of incoming datagrams, the number of addresses that bypass the kernel's IP stack,
    /// and the damaged datagrams.
    pub(super) fn uplink(&self) -> (&'static str, usize, u64) {
        (self.from_uplink.way(), self.core.uplink.direct(), self.from_uplink.damaged)
    }

    pub(super) const fn peers(&self) -> &[Peer] {
        self.core.peers.as_slice()
    }

    pub(super) const fn overlay(&self) -> &Overlay {
        &self.core.overlay
    }

    pub(super) const fn table(&mut self) -> &mut Addresses {
        &mut self.core.table
    }

    /// Frames passed to other workers.
    pub(super) const fn passed(&self) -> u64 {
        self.core.passed
    }

    /// The number of this worker.
    pub(super) const fn own(&self) -> u8 {
        self.core.own
    }

    pub(super) const fn drops(&self) -> (&Drops, u64) {
        (&self.core.drops, self.core.cookies)
    }

    pub(super) fn device(&self) -> Option<&Device> {
        match &self.core.crypt {
            Crypt::Wireguard(device) => Some(device),
            Crypt::Bare => None,
        }
    }

    /// Counts the frames that the kernel dropped, and the stale ones, since the last call.
    pub(super) fn census(&mut self) {
        self.core.out.lost(self.from_field.overruns());
        self.core.out.stale.add(self.from_field.take_stale());
        for uplink in std::iter::once(&mut self.from_uplink).chain(&mut self.from_second) {
            self.core.inward.overruns.add(uplink.overruns());
            self.core.inward.stale.add(uplink.take_stale());
        }
    }
}
