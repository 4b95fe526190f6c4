//! Takes a [`Snapshot`] of the forwarding thread.

use std::collections::BTreeMap;

use antedate_channel::wireguard::{Device, SLOTS};

use super::path::Path;
use super::peers::{Long, Peer};
use super::release::Release;
use super::search::Search;
use super::snapshot::Snapshot;
use crate::config::overlay::{LongFrames, Overlay};
use crate::config::tunnel_keys;
use crate::frames::gate::Way;
use crate::run::governor::Governor;
use crate::run::report::Waits;
use crate::run::status::{Overlay as Document, OverlayPeer, Preparation, ReleaseClock, SecondUplink};
use crate::sys::thread;

impl Snapshot {
    /// The state of the calling forwarding thread.
    #[must_use]
    pub(super) fn take(path: &mut Path, governor: &Governor) -> Self {
        let ((field, behind), [moved, full, loops]) =
            path.table().with(|table| (table.census(), [table.moved, table.full, table.loops]));
        let path = &*path;
        let (overlay, device, now) = (path.overlay(), path.device(), thread::now());
        let (drops, cookies) = path.drops();
        let (datagrams_by, direct_addresses, damaged) = path.uplink();
        let mut refused: [BTreeMap<String, u64>; 2] = Default::default();
        for (way, name, count) in drops.named() {
            *refused[if way == Way::Out { 0 } else { 1 }].entry(name.to_owned()).or_default() += count;
        }
        let [out, inward] = &mut refused;
        if let Some(device) = device {
            let wireguard = device.refusals().each();
            inward.extend(wireguard.map(|(name, count)| (format!("wireguard:{name}"), count)));
        }
        *inward.entry("damaged-datagram".to_owned()).or_default() += damaged;
        for peer in path.peers() {
            *out.entry("no-session".to_owned()).or_default() += peer.traffic.no_session;
            let Some(counters) = peer.reassembly.as_ref().map(|reassembly| *reassembly.counters()) else {
                continue;
            };
            for (name, count) in [
                ("parts-incomplete", counters.incomplete),
                ("parts-contradictory", counters.contradictory),
                ("parts-malformed", counters.malformed),
            ] {
                *inward.entry(name.to_owned()).or_default() += count;
            }
        }
        refused.iter_mut().for_each(|reasons| reasons.retain(|_, count| *count > 0));
        let mut all = BTreeMap::new();
        for (name, count) in refused.iter().flatten() {
            *all.entry(name.clone()).or_default() += count;
        }
        let peers = path.peers().iter().zip(&behind);
        let document = Document {
            protection: if device.is_some() { "wireguard" } else { "none" }.into(),
            public_key: device
                .map(|device| tunnel_keys::encode(device.public()).to_string())
                .unwrap_or_default(),
            listen: overlay.listen.to_string(),
            address: overlay.address.to_string(),
            vni: overlay.vni.number(),
            datagrams_by: datagrams_by.into(),
            direct_addresses: direct_addresses as u64,
            second_uplink: path.doubles().map(|doubles| SecondUplink {
                received: doubles.received,
                first: doubles.first,
                eliminated: doubles.eliminated,
                // The main thread adds the interface.
                ..SecondUplink::default()
            }),
            release_clock: path.clock().map(|clock| release_clock(clock, overlay)),
            peers: peers.map(|(peer, macs)| row(peer, overlay, device, *macs, now)).collect(),
            field_macs: field as u64,
            mac_limit: overlay.mac_limit as u64,
            macs_moved: moved,
            macs_not_learned: full,
            loops,
            cookies_sent: cookies,
            passed_frames: path.passed(),
            refused: all,
        };
        let waits = Waits {
            sleeps: governor.sleeps,
            caught: governor.caught,
            woken: governor.woken,
            flows: governor.flows() as u64,
            cpu: thread::cpu_time(),
        };
        let owners = path.peers().iter().map(|peer| peer.worker).collect();
        Self { document, owners, own: path.own(), refused, waits: vec![waits] }
    }
}

fn release_clock(clock: &Release, overlay: &Overlay) -> ReleaseClock {
    let counts = &clock.counts;
    let us = |ns: u64| ns as f64 / 1e3;
    ReleaseClock {
        flows: clock.clocks() as u64,
        limit_us: overlay.release_clock_us.into(),
        delay_us: us(clock.delay()),
        held: counts.held,
        added_mean_us: us(counts.delayed) / counts.held.max(1) as f64,
        added_max_us: us(counts.longest),
        late: counts.late,
        full: counts.full,
        jitter_in_p99_us: counts.before.per_mille(990),
        jitter_in_p999_us: counts.before.per_mille(999),
        jitter_out_p99_us: counts.after.per_mille(990),
        jitter_out_p999_us: counts.after.per_mille(999),
    }
}

fn row(peer: &Peer, overlay: &Overlay, device: Option<&Device>, macs: usize, now: u64) -> OverlayPeer {
    let counters = device.and_then(|device| device.counters(peer.id)).copied().unwrap_or_default();
    let used = device.and_then(|device| device.public_of_peer(peer.id)).copied();
    let other = used.and_then(|used| peer.settings.public_keys().find(|key| *key != used));
    let age = |at: u64| (at > 0).then(|| now.saturating_sub(at) as f64 / 1e9);
    let endpoint = device.map_or(peer.endpoint, |device| device.endpoint(peer.id));
    let parts = peer.reassembly.as_ref().map(|reassembly| *reassembly.counters()).unwrap_or_default();
    // The one that bounds the datagrams.
    let path = peer.searches.iter().flatten().map(Search::path_mtu).min_by_key(|path| path.octets);
    OverlayPeer {
        name: peer.settings.name.clone(),
        public_key: used.map(|key| tunnel_keys::encode(&key).to_string()).unwrap_or_default(),
        other_public_key: other.map(|key| tunnel_keys::encode(&key).to_string()).unwrap_or_default(),
        endpoint: endpoint.map(|at| at.to_string()).unwrap_or_default(),
        second_endpoint: peer.settings.second_endpoint.map(|at| at.to_string()).unwrap_or_default(),
        address: peer.settings.address.to_string(),
        session: device.is_none_or(|device| device.is_ready(now, peer.id)),
        initiations: counters.initiations_sent,
        handshakes: counters.handshakes,
        handshake_age_seconds: age(counters.last_handshake),
        silent_seconds: age(counters.last_received),
        roamed: counters.roamed,
        sent_frames: peer.traffic.sent,
        sent_octets: peer.traffic.octets_sent,
        received_frames: peer.traffic.received,
        received_octets: peer.traffic.octets_received,
        frames_in_pieces: peer.traffic.in_pieces,
        frames_in_fragments: peer.traffic.in_fragments,
        frames_reassembled: parts.whole,
        frames_without_session: peer.traffic.no_session,
        macs: macs as u64,
        antedate: peer.hello.is_some(),
        long_frames: long(peer, overlay, device.is_some()),
        path_mtu: path.map_or(0, |path| path.octets as u64),
        path_mtu_source: path.map_or("", |path| path.source).into(),
        path_mtu_age_seconds: path.and_then(|path| age(path.changed)),
        prepared: Preparation {
            target: SLOTS as u64,
            prepared: device.map_or(0, |device| device.prepared(peer.id)) as u64,
        },
    }
}

/// How long frames are sent to a peer, and why, as a sentence.
fn long(peer: &Peer, overlay: &Overlay, secured: bool) -> String {
    use antedate_channel::overlay::encapsulation::HEADER_LEN;
    if !secured {
        return "whole; the kernel fragments datagrams that the path does not carry".into();
    }
    let fits = peer.limit.saturating_sub(HEADER_LEN);
    if fits >= 1518 {
        return format!("whole: frames of up to {fits} octets fit a datagram");
    }
    let why = match peer.long(overlay.fragmentation, 1514) {
        Long::Pieces => "in pieces under adjacent counters, for the peer said that it reads them",
        Long::Inside if overlay.fragmentation == LongFrames::Auto => {
            "in IP fragments inside the tunnel, for the peer did not say that it reads pieces"
        }
        Long::Inside => "in IP fragments inside the tunnel, as configured",
        Long::Outside => "whole, and the kernel fragments the datagram, as configured",
        Long::Refused => "not at all, as configured",
    };
    format!("frames over {fits} octets go {why}")
}
