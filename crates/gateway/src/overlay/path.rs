//! What happens to a frame between the field port and the uplink: a turn takes what stands ready in both directions, a bounded
//! number of frames.
//!
//! Out: finish what the sender's stack left undone, ask the policy, find the peers, put VXLAN's headers and the frame behind the
//! room for WireGuard's, seal in place, send. In: open where the datagram lies, take the headers off, ask the policy, send. A
//! frame is copied once on its way out and not at all on its way in, unless it came in parts.

use std::sync::Arc;
use std::sync::mpsc::Sender as Post;

use antedate_channel::wireguard::{Device, KeyLogEntry};

use super::drops::Drops;
use super::peers::{Peer, limit};
use super::state::{Core, Crypt};
use super::storm::Bound;
use super::table::Table;
use super::uplink::{Inward, Outward};
use crate::config::overlay::Overlay;
use crate::counters::PathCounters;
use crate::gate::Gate;
use crate::offload;
use crate::path::flow;
use crate::sys::packet::{Next, Receiver, Sender};
use crate::sys::thread;
use crate::sys::udp::UdpSocket;

/// Frames that one direction handles before the other has its turn.
const TURN: usize = 16;

/// Both directions.
pub struct Path {
    from_field: Receiver,
    from_uplink: Inward,
    scratch: Box<[u8]>,
    core: Core,
}

/// What a path is made of.
pub struct Parts {
    /// The field port.
    pub field: (Receiver, Sender, usize),
    /// The uplink, and what it carries.
    pub socket: (UdpSocket, usize),
    /// Sessions; none without WireGuard.
    pub device: Option<Box<Device>>,
    /// What the file says.
    pub overlay: Overlay,
    /// The policy.
    pub gate: Arc<Gate>,
    /// From the field, and to it.
    pub counters: [Arc<PathCounters>; 2],
    /// Where keys go, if they are to be written down.
    pub key_log: Option<Post<Vec<KeyLogEntry>>>,
}

impl Path {
    /// A path of these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { field: (from_field, to_field, field_mtu), socket: (socket, mtu), overlay, .. } = parts;
        let (now, socket) = (thread::now(), Arc::new(socket));
        let peers = overlay.peers.iter().enumerate();
        let peers: Vec<_> = peers.map(|(place, peer)| Peer::new(&overlay, place, peer, mtu)).collect();
        let ageing = u64::from(overlay.mac_ageing_seconds) * 1_000_000_000;
        let mut table = Table::new(peers.len(), overlay.mac_limit, ageing);
        for (place, peer) in overlay.peers.iter().enumerate() {
            peer.macs.iter().for_each(|mac| table.fix(*mac, place));
        }
        let [out, inward] = parts.counters;
        let core = Core {
            to_field,
            field_mtu,
            uplink: Outward::new(Arc::clone(&socket)),
            crypt: parts.device.map_or(Crypt::Bare, Crypt::Wireguard),
            peers,
            table,
            bounds: [(); 2].map(|()| Bound::new(overlay.storm_limit, now)),
            overlay,
            gate: parts.gate,
            out,
            inward,
            mtu,
            drops: Drops::default(),
            cookies: 0,
            look: 0,
            aged: now,
            key_log: parts.key_log,
        };
        Self { from_field, from_uplink: Inward::new(socket), scratch: vec![0; 16 * 1024].into(), core }
    }

    /// Handles what stands ready in both directions, a bounded number of frames. `heard` is told the flow of each.
    #[inline]
    pub(super) fn turn(&mut self, mut heard: impl FnMut(u32)) -> usize {
        let done = self.turn_out(&mut heard) + self.turn_in(&mut heard);
        let now = thread::now();
        if now >= self.core.look {
            self.core.timers(now);
            self.core.ask(now);
        }
        self.core.flush();
        done
    }

    #[inline]
    fn turn_out(&mut self, heard: &mut impl FnMut(u32)) -> usize {
        let Self { from_field, scratch, core, .. } = self;
        let mut count = 0;
        while count < TURN {
            match from_field.peek() {
                Next::Empty => break,
                Next::Truncated => core.out.truncated.count(),
                Next::Frame(received) => {
                    heard(flow(received.frame));
                    core.out.received.count();
                    core.out.octets_received.add(received.frame.len() as u64);
                    let offload = received.offload;
                    let now = thread::now();
                    let done = offload::finish(received, scratch, |frame| core.outbound(now, frame));
                    match done {
                        Err(offload::Unsupported) => core.out.unsupported_offload.count(),
                        Ok(_) if offload.segmentation != 0 => core.out.super_frames.count(),
                        Ok(_) if offload.needs_checksum => core.out.checksums_completed.count(),
                        Ok(_) => {}
                    }
                }
            }
            from_field.release();
            count += 1;
        }
        // One alone leaves at once; several share a system call.
        core.flush();
        count
    }

    #[inline]
    fn turn_in(&mut self, heard: &mut impl FnMut(u32)) -> usize {
        let Self { from_uplink, core, .. } = self;
        from_uplink.turn(|datagram, from| core.inbound(thread::now(), datagram, from, heard))
    }

    /// Prepares, at most `budget` steps. Returns how many were done.
    #[inline]
    pub(super) fn idle(&mut self, budget: u32) -> u32 {
        match &mut self.core.crypt {
            Crypt::Wireguard(device) => device.idle(budget),
            Crypt::Bare => 0,
        }
    }

    /// Makes new sessions with all peers.
    pub(super) fn rekey(&mut self) {
        let now = thread::now();
        if let Crypt::Wireguard(device) = &mut self.core.crypt {
            self.core.peers.iter().for_each(|peer| device.want_handshake(now, peer.id));
        }
        self.core.look = 0;
    }

    /// Uses another field port from now on.
    pub(super) fn replace_field(&mut self, from: Receiver, to: Sender, mtu: usize) {
        self.from_field = from;
        (self.core.to_field, self.core.field_mtu) = (to, mtu);
    }

    /// Uses another socket from now on, or the same with another MTU.
    pub(super) fn replace_uplink(&mut self, socket: UdpSocket, mtu: usize) {
        let socket = Arc::new(socket);
        self.from_uplink.replace(Arc::clone(&socket));
        self.core.uplink.replace(socket);
        self.core.mtu = mtu;
        let longest = limit(&self.core.overlay, mtu);
        self.core.peers.iter_mut().for_each(|peer| peer.limit = longest);
    }

    pub(super) fn ports(&self) -> (&Receiver, &UdpSocket) {
        (&self.from_field, self.from_uplink.socket())
    }

    pub(super) const fn peers(&self) -> &[Peer] {
        self.core.peers.as_slice()
    }

    pub(super) const fn overlay(&self) -> &Overlay {
        &self.core.overlay
    }

    pub(super) const fn table(&self) -> &Table {
        &self.core.table
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

    /// Adds what the kernel dropped since the last time.
    pub(super) fn census(&self) {
        self.core.out.overruns.add(self.from_field.overruns());
    }
}
