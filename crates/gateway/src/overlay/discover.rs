//! The path MTU of each peer: from the interface, from the kernel, and from probes in the tunnel
//! ([`antedate_channel::overlay::discovery`]).
//!
//! An Antedate end answers probes of its own kind. A stock end answers echo requests to its address
//! in the tunnel; if it does not, datagrams over IPv4 are as long as the interface and the kernel
//! say, and routers fragment those that the path does not carry. Over IPv6 they have the length
//! that each link carries.
//!
//! With two uplinks each path has a search of its own, and datagrams fit both.

use std::net::SocketAddr;

use antedate_channel::overlay::discovery::Probe;
use antedate_channel::overlay::echo::{self, Answer};
use antedate_channel::overlay::message::Number;
use antedate_channel::wireguard::HEADROOM;

use super::hops::Asked;
use super::news::News;
use super::search::{NewPathMtu, Search, fitting};
use super::state::{Core, Crypt};
use crate::config::overlay::LongFrames;
use crate::config::uplink::Which;
use crate::sys::thread;

/// Interval of requests to follow the kernel's path MTU, in nanoseconds.
const FOLLOW: u64 = 5_000_000_000;
/// The most probes to a peer in one turn: frames wait for them.
const AT_ONCE: usize = 4;
/// The bit of an echo request's number that says its path.
pub(super) const SECOND: u32 = 1 << 31;
/// The bit of one that `antedate gateway ping` sends. No search has as many rounds.
pub(super) const PINGED: u32 = 1 << 30;

impl Core {
    /// Sends the probes that are due.
    pub(super) fn discover(&mut self, now: u64) {
        if self.overlay.fragmentation == LongFrames::Outside {
            return;
        }
        for place in 0..self.peers.len() {
            for which in [Which::First, Which::Second] {
                self.probe(now, place, which);
            }
            self.refit(place);
        }
    }

    fn probe(&mut self, now: u64, place: usize, which: Which) {
        let Crypt::Wireguard(device) = &self.crypt else { return };
        let Some(peer) = self.peers.get_mut(place) else { return };
        let (to, outward) = match which {
            Which::First => (device.endpoint(peer.id), Some(&self.uplink)),
            Which::Second => (peer.settings.second_endpoint, self.second.as_ref()),
        };
        let (Some(to), Some(outward)) = (to, outward) else { return };
        let ready = device.is_ready(now, peer.id) && !peer.is_being_asked();
        let mtu = self.mtus[which as usize].unwrap_or_default();
        let search = match &mut peer.searches[which as usize] {
            Some(search) if search.to == to && search.mtu == mtu => search,
            search => search.insert(Search::new(to, mtu, &self.overlay, self.trusted, now)),
        };
        // The other end is asked first whether it answers probes.
        if !ready {
            return;
        }
        if now >= search.follow {
            search.follow = now + FOLLOW;
            outward.ask(Asked::Path(to));
        }
        let traffic = peer.traffic.sent.wrapping_add(peer.traffic.received);
        for _ in 0..AT_ONCE {
            let Some(search) = &mut self.peers[place].searches[which as usize] else { return };
            let Some(probe) = search.found.poll(now, traffic) else { return };
            self.send_probe(now, place, which, to, probe);
        }
        // The rest of the round leaves in the next turns.
        self.look = now;
    }

    fn send_probe(&mut self, now: u64, place: usize, which: Which, to: SocketAddr, probe: Probe) {
        let asks_ours = self.peers[place].answers_probes();
        let ends = (self.overlay.address, self.peers[place].settings.address);
        // Without a session, or with a short buffer, the probe counts as lost.
        self.send_whole(now, place, (which, to), probe.size, |packet| {
            if asks_ours {
                packet.fill(0);
                let octets = Number { path: which as u8, number: probe.number }.probe();
                packet.iter_mut().zip(octets).for_each(|(to, from)| *to = from);
            } else {
                let path = if which == Which::Second { SECOND } else { 0 };
                let number = probe.number & !(SECOND | PINGED) | path;
                echo::request(packet, ends.0, ends.1, number);
            }
        });
    }

    /// Sends a packet of `size` octets on one uplink, whole or not at all. Returns whether it left
    /// for the wire.
    #[cold]
    pub(super) fn send_whole(
        &mut self,
        now: u64,
        place: usize,
        (which, to): (Which, SocketAddr),
        size: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> bool {
        let Crypt::Wireguard(device) = &mut self.crypt else { return false };
        let outward = match which {
            Which::First => Some(&mut self.uplink),
            Which::Second => self.second.as_mut(),
        };
        let (Some(outward), Some(peer)) = (outward, self.peers.get(place)) else { return false };
        // Alone, since it must not be fragmented.
        outward.flush(&self.out);
        let Some(room) = outward.place(&self.out) else { return false };
        let Some(packet) = room.get_mut(HEADROOM..HEADROOM + size) else { return false };
        write(packet);
        let Ok((_, sealed)) = device.seal(now, peer.id, room, size) else { return false };
        outward.put_whole(&self.out, now, sealed, to);
        true
    }

    /// Handles the answer to a probe.
    #[cold]
    pub(super) fn probe_answered(&mut self, now: u64, place: usize, path: usize, number: u32) {
        let Some(peer) = self.peers.get_mut(place) else { return };
        let Some(Some(search)) = peer.searches.get_mut(path) else { return };
        search.found.answered(now, number);
        self.refit(place);
    }

    /// Handles the answer of a stock end. Returns whether the packet is one.
    #[cold]
    pub(super) fn echo_answered(&mut self, now: u64, place: usize, packet: &[u8]) -> bool {
        let Some(peer) = self.peers.get(place) else { return false };
        match echo::answer(packet, peer.settings.address) {
            Some(Answer::Number(number)) if number & PINGED != 0 => {
                self.pings.answered(thread::now(), place, number & !(SECOND | PINGED), None);
            }
            Some(Answer::Number(number)) => {
                self.probe_answered(now, place, usize::from(number & SECOND != 0), number & !SECOND);
            }
            Some(Answer::Rest) => {}
            None => return false,
        }
        true
    }

    /// Stores the kernel's path MTU to an address.
    pub(super) fn learn_path(&mut self, now: u64, which: Which, to: SocketAddr, mtu: Option<usize>) {
        for place in 0..self.peers.len() {
            let Some(search) = &mut self.peers[place].searches[which as usize] else { continue };
            if search.to.ip() == to.ip() {
                let mtu = mtu.filter(|mtu| *mtu < search.mtu);
                search.kernel = mtu;
                search.found.hint(now, mtu.map(|mtu| fitting(mtu, to.ip())));
                self.look = 0;
                self.refit(place);
            }
        }
    }

    /// Applies the results of a peer's searches.
    fn refit(&mut self, place: usize) {
        let Some(peer) = self.peers.get_mut(place) else { return };
        let sizes = peer.searches.iter().flatten().map(|search| search.found.size());
        let Some(limit) = sizes.min() else { return };
        for (which, search) in [Which::First, Which::Second].into_iter().zip(&mut peer.searches) {
            let Some(search) = search.as_mut().filter(|search| search.found.is_settled()) else { continue };
            let mtu = search.path_mtu();
            if search.told != Some(mtu.octets) {
                let before = search.told.replace(mtu.octets);
                // The main thread may have stopped.
                let _ = self.news.send(News::PathMtu(NewPathMtu { peer: place, which, mtu, before }));
            }
        }
        peer.limit = limit;
        self.shortest = self.peers.iter().map(|peer| peer.limit).min().unwrap_or(limit);
    }
}
