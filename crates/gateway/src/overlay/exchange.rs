//! The forwarding thread takes over a [`Change`].

use std::mem;

use antedate_channel::overlay::encapsulation::Template;
use antedate_channel::wireguard::PeerId;

use super::change::Change;
use super::path::Path;
use super::search::{first_limit, limit};
use super::state::{Core, Crypt};
use crate::config;
use crate::frames::bound::Bound;
use crate::frames::gate::Way;
use crate::sys::age::Bounds;
use crate::sys::thread;

impl Path {
    /// Exchanges the settings.
    #[cold]
    pub(super) fn change(&mut self, change: &mut Change) {
        let workers = self.core.workers.clone();
        // Peers have one place for all workers.
        if let Some(workers) = &workers {
            workers.meet();
        }
        self.census();
        self.from_field.bound(change.max_age);
        for uplink in std::iter::once(&mut self.from_uplink).chain(&mut self.from_second) {
            uplink.bound(change.max_age);
        }
        self.core.change(thread::now(), change);
        if let Some(workers) = &workers {
            workers.meet();
        }
    }
}

impl Core {
    fn change(&mut self, now: u64, change: &mut Change) {
        [Way::Out, Way::In].into_iter().for_each(|way| change.gate.take_over(way, &self.gate));
        mem::swap(&mut self.gate, &mut change.gate);
        mem::swap(&mut self.named, &mut change.named);
        mem::swap(&mut self.names, &mut change.names);
        self.bound(change.max_age);
        let storm_limit = self.overlay.storm_limit;
        mem::swap(&mut self.overlay, &mut change.overlay);
        if self.overlay.storm_limit != storm_limit {
            self.bounds = [(); 2].map(|()| Bound::of_frames(self.overlay.storm_limit.into(), 0, now));
        }
        self.remove_others(change);
        self.stay(now, change);
        for (mut peer, ready) in change.join.drain(..) {
            peer.id = match (&mut self.crypt, ready) {
                (Crypt::Wireguard(device), Some(ready)) => device.join(ready),
                _ => PeerId(self.peers.len()),
            };
            peer.limit = first_limit(&self.overlay, self.mtus, self.trusted);
            self.peers.push(peer);
        }
        self.resolve_missing();
        let places: Vec<_> = change.stay.iter().map(|(before, _)| *before).collect();
        let place = |before: usize| places.binary_search(&before).ok();
        let fixed = self.peers.iter().enumerate();
        let fixed = fixed.flat_map(|(place, peer)| peer.settings.macs.iter().map(move |mac| (*mac, place)));
        if self.own == 0 {
            self.table.with(|table| {
                table.set_ageing(u64::from(self.overlay.mac_ageing_seconds) * 1_000_000_000);
                table.replace_peers(self.peers.len(), place, fixed);
            });
        }
        self.changes = self.changes.wrapping_add(1);
        self.pings.replace_peers(place);
        self.shortest = limit(&self.overlay, self.mtus);
        self.look = 0;
    }

    /// Has the names of peers without an address resolved: the thread takes names for resolved that
    /// were there before.
    fn resolve_missing(&self) {
        let (Some(names), Crypt::Wireguard(device)) = (&self.names, &self.crypt) else { return };
        let missing = self.peers.iter().filter(|peer| device.endpoint(peer.id).is_none());
        for host in missing.filter_map(|peer| peer.settings.host.as_ref()) {
            // The thread may have ended.
            let _ = names.send(host.clone());
        }
    }

    fn bound(&mut self, max_age: Bounds) {
        self.max_age = max_age;
        self.to_field.bound(max_age);
        self.uplink.bound(max_age);
        if let Some(second) = &mut self.second {
            second.bound(max_age);
        }
    }

    /// Removes the peers that do not stay.
    fn remove_others(&mut self, change: &mut Change) {
        let Change { stay, gone, .. } = change;
        for place in (0..self.peers.len()).rev() {
            if stay.binary_search_by_key(&place, |(before, _)| *before).is_ok() {
                continue;
            }
            let keys = match &mut self.crypt {
                Crypt::Wireguard(device) => device.remove_peer(PeerId(place)),
                Crypt::Bare => None,
            };
            gone.push((self.peers.remove(place), keys));
        }
    }

    /// Changes the settings of the peers that stay.
    fn stay(&mut self, now: u64, change: &mut Change) {
        let Change { stay, rekeyed, keys, own_key_changed, .. } = change;
        let Self { peers, overlay, crypt, .. } = self;
        if let (Crypt::Wireguard(device), Some(keys)) = (&mut *crypt, keys) {
            *own_key_changed = device.set_keys(now, keys);
        }
        let all = peers.iter_mut().zip(&overlay.peers).zip(stay).enumerate();
        for (place, ((peer, settings), (_, preshared))) in all {
            peer.id = PeerId(place);
            let old = mem::replace(&mut peer.settings, settings.clone());
            let config::overlay::Peer { endpoint, second_endpoint, address, keepalive_seconds, .. } =
                settings;
            if *address != old.address {
                peer.template = Template::new(overlay.address, *address, overlay.port, overlay.vni);
            }
            if *second_endpoint != old.second_endpoint {
                peer.searches[1] = None;
            }
            let Crypt::Wireguard(device) = crypt else {
                peer.endpoint = *endpoint;
                continue;
            };
            // Unless the file moves it, it stays where it was heard last.
            if let Some(at) = endpoint.filter(|_| *endpoint != old.endpoint) {
                device.set_endpoint(now, peer.id, at);
            }
            device.set_keepalive(now, peer.id, *keepalive_seconds);
            let preshared = preshared.as_ref().map_or(&[0; 32], |key| &**key);
            if device.set_preshared(now, peer.id, preshared) {
                rekeyed.push(place);
            }
        }
    }
}
