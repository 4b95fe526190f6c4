//! Takes over a configuration that was read again: settings, and peers that come, go or change.

use std::sync::Arc;
use std::sync::mpsc;

use antedate_channel::wireguard::{ReadyKeys, ReadyPeer};
use antedate_host::fault::{Fault, Faults};

use super::{Supervisor, no_peer, settings};
use crate::config::machine::ThisMachine;
use crate::config::overlay::{Host, Overlay, Peer};
use crate::config::policy::{Policy, Traffic};
use crate::config::reload::{Rekeyed, Reread, reread};
use crate::config::tunnel_keys::{Secret, TunnelKeys};
use crate::config::{Config, Protection};
use crate::frames::gate::Gate;
use crate::overlay::change::Change;
use crate::overlay::message::Message;
use crate::overlay::names;
use crate::overlay::peers;
use crate::overlay::workers::{assign, of_worker};
use crate::run::control::StatusSource;
use crate::run::lock;
use crate::run::mailbox::Mailbox;
use crate::run::reload::{TAKEN_OVER, told};
use crate::run::setup;

/// The policy without `all`.
pub(super) fn named(policy: &Policy) -> Gate {
    let mut named = policy.clone();
    named.allow.retain(|kind| *kind != Traffic::All);
    Gate::new(&named)
}

/// Peers by what becomes of them: those that stay with their places before, in rising order.
struct Sorted {
    stay: Vec<(usize, Peer, Option<Secret>)>,
    join: Vec<(Peer, Option<Secret>)>,
    gone: Vec<String>,
}

/// Finds the peers of the file among the present ones.
fn sorted(before: &[Peer], peers: &[Peer], preshared: Vec<Option<Secret>>, secured: bool) -> Sorted {
    let is = |a: &Peer, b: &Peer| if secured { a.shares_key(b) } else { a.name == b.name };
    let (mut stay, mut join) = (Vec::new(), Vec::new());
    for (peer, key) in peers.iter().cloned().zip(preshared) {
        match before.iter().position(|known| is(known, &peer)) {
            Some(place) => stay.push((place, peer, key)),
            None => join.push((peer, key)),
        }
    }
    stay.sort_by_key(|(place, ..)| *place);
    let lost = before.iter().filter(|known| !peers.iter().any(|peer| is(known, peer)));
    let gone = lost.map(|peer| peer.name.clone()).collect();
    Sorted { stay, join, gone }
}

impl Supervisor<'_> {
    /// Reads the configuration again, and takes all of it over or nothing. Returns a sentence.
    pub(super) fn reload(&mut self) -> Result<String, Faults> {
        let Reread { config, keys, changed, warnings } =
            reread(&self.config, &self.checked.protection, &ThisMachine)?;
        let (Protection::Overlay(overlay), Rekeyed::Peers(TunnelKeys { private, preshared })) =
            (&config.protection, keys)
        else {
            return Err(Fault::of_file(&config.file, "has no [overlay]", "put it back and reload").into());
        };
        let all = sorted(&self.overlay.peers, &overlay.peers, preshared, private.is_some());
        let (config, overlay) = (config.clone(), Overlay::clone(overlay));
        let prepared = self.changes(&config, overlay, private.as_ref(), all)?;
        let shows = self.endpoints.prepare(&config)?;
        for warning in &warnings {
            tracing::warn!("{warning:#}");
        }
        self.endpoints.apply(shows, &(self.answers.clone() as Arc<dyn StatusSource>));
        let peers = self.take_over(config, prepared);
        Ok(told(&self.config.file, &changed, peers))
    }

    /// Prepares the change of each worker, and tells what becomes of the peers.
    fn changes(
        &self,
        config: &Config,
        mut overlay: Overlay,
        private: Option<&Secret>,
        all: Sorted,
    ) -> Result<Prepared, Fault> {
        let Sorted { stay, join, gone } = &all;
        let differs = |(place, peer, _): &&(usize, Peer, Option<Secret>)| {
            self.overlay.peers.get(*place).is_none_or(|known| known != peer)
        };
        let told = Peers {
            join: join.iter().map(|(peer, _)| peer.name.clone()).collect(),
            changed: stay.iter().filter(differs).map(|(_, peer, _)| peer.name.clone()).collect(),
            gone: gone.clone(),
            rekeyed: Vec::new(),
            own: false,
        };
        overlay.peers =
            stay.iter().map(|(_, peer, _)| peer).chain(join.iter().map(|(peer, _)| peer)).cloned().collect();
        let before = lock(&self.answers.owners);
        let mut owners = stay.iter().filter_map(|(place, ..)| before.get(*place).copied()).collect();
        assign(&mut owners, overlay.peers.len(), self.mailboxes.len() as u8);
        let each = (0..).zip(&self.mailboxes);
        let changes = each
            .map(|(own, mailbox)| {
                self.change(config, of_worker(&overlay, &owners, own), &owners, private, &all, mailbox)
            })
            .collect::<Result<_, _>>()?;
        Ok(Prepared { changes, overlay: Arc::new(overlay), owners, told })
    }

    /// Prepares the change of a worker with these settings.
    fn change(
        &self,
        config: &Config,
        overlay: Overlay,
        owners: &[u8],
        private: Option<&Secret>,
        Sorted { stay, join, .. }: &Sorted,
        mailbox: &Arc<Mailbox<Message>>,
    ) -> Result<Change, Fault> {
        let mut mtus = self.wires.iter().map(|wire| config.uplink.carries(wire.interface.mtu));
        let mtus = [mtus.next(), mtus.next()];
        let trusted = config.uplink.mtu.is_some();
        let several = self.mailboxes.len() > 1;
        let keys = stay.iter().map(|(.., key)| key).chain(join.iter().map(|(_, key)| key));
        let settings = overlay.peers.iter().zip(keys).zip(owners).map(|((peer, preshared), owner)| {
            settings(&overlay, peer, preshared.as_ref(), mtus, several.then_some(*owner))
        });
        let (remaining, joining): (Vec<_>, Vec<_>) =
            settings.enumerate().partition(|(place, _)| *place < stay.len());
        let mut ready = Vec::new();
        for (place, settings) in joining {
            let (peer, owner) = (&overlay.peers[place], owners[place]);
            let made = |private: &Secret| {
                ReadyPeer::new(private, &settings).map_err(|error| no_peer(config, peer, error))
            };
            let made = private.map(made).transpose()?;
            // Its place comes when it joins.
            let mut peer = peers::Peer::new(&overlay, 0, peer, mtus, trusted);
            peer.worker = owner;
            ready.push((peer, made));
        }
        let remaining = remaining.iter().map(|(_, settings)| settings);
        let keys = private.map(|private| ReadyKeys::new(private, remaining)).transpose();
        let keys = keys.map_err(|(at, error)| match stay.get(at) {
            Some((_, peer, _)) => no_peer(config, peer, error),
            None => Fault::of_file(&config.file, error.to_string(), "see [[overlay.peer]]"),
        })?;
        let known: Vec<&Host> = self.overlay.peers.iter().filter_map(|peer| peer.host.as_ref()).collect();
        let names = names::start(&overlay, &known, mailbox)
            .map_err(|error| Fault::of_thread(&config.file, &error))?;
        Ok(Change {
            gate: Arc::new(Gate::after(&config.policy, &self.config.policy)),
            named: named(&config.policy),
            max_age: config.run.max_age,
            mode: setup::mode(config.run.poll),
            overlay,
            names,
            stay: stay.iter().map(|(place, _, preshared)| (*place, preshared.clone())).collect(),
            keys,
            own_key_changed: false,
            join: ready,
            gone: Vec::new(),
            rekeyed: Vec::new(),
        })
    }

    /// Exchanges the settings. Returns a sentence about the peers, if any changed.
    fn take_over(&mut self, config: Config, prepared: Prepared) -> Option<String> {
        let Prepared { changes, overlay, owners, told: mut peers } = prepared;
        let gates = changes.iter().map(|change| Arc::clone(&change.gate)).collect();
        let post = |(mailbox, change): (&Arc<Mailbox<Message>>, Change)| {
            let (answer, answers) = mpsc::channel();
            mailbox.post(Message::Change(Box::new(change), answer));
            answers
        };
        let asked: Vec<_> = self.mailboxes.iter().zip(changes).map(post).collect();
        let done: Result<Vec<_>, _> =
            asked.into_iter().map(|answers| answers.recv_timeout(TAKEN_OVER)).collect();
        match done {
            // All have the same keys.
            Ok(done) => {
                let done = done.first();
                let names = done.iter().flat_map(|done| &done.rekeyed);
                let names = names.filter_map(|place| overlay.peers.get(*place));
                peers.rekeyed = names.map(|peer| peer.name.clone()).collect();
                peers.own = done.is_some_and(|done| done.own_key_changed);
            }
            // The messages stay in the mailboxes.
            Err(_) => tracing::warn!("the forwarding thread is slow, and takes over the new settings later"),
        }
        // What came before the answer is about the peers before.
        self.log.rename(&overlay);
        let named = |name: &str| overlay.peers.iter().any(|peer| peer.name == name);
        let gone = self.overlay.peers.iter().filter(|peer| !named(&peer.name));
        gone.for_each(|peer| self.answers.watch.forget(&peer.name));
        self.answers.tally.watch(config.watchdog_cycles);
        *lock(&self.answers.gates) = gates;
        *lock(&self.answers.owners) = owners;
        *lock(&self.answers.overlay) = Arc::clone(&overlay);
        self.answers.about.set_poll(config.run.poll);
        (self.overlay, self.config) = (overlay, config);
        peers.sentence()
    }
}

/// What a reload exchanges.
struct Prepared {
    /// For each worker.
    changes: Vec<Change>,
    /// The settings of all.
    overlay: Arc<Overlay>,
    /// The worker of each peer.
    owners: Vec<u8>,
    told: Peers,
}

/// The names of the peers that a reload concerns.
struct Peers {
    join: Vec<String>,
    gone: Vec<String>,
    changed: Vec<String>,
    rekeyed: Vec<String>,
    /// The gateway has another private key.
    own: bool,
}

impl Peers {
    fn sentence(&self) -> Option<String> {
        let kinds = [
            ("new peers", &self.join),
            ("removed peers", &self.gone),
            ("changed peers", &self.changed),
            ("another preshared key", &self.rekeyed),
        ];
        let some = kinds.into_iter().filter(|(_, names)| !names.is_empty());
        let own = self.own.then(|| "another private key".to_owned());
        let named = some.map(|(kind, names)| format!("{kind}: {}", names.join(", ")));
        let all: Vec<_> = own.into_iter().chain(named).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}
