//! Follows links and interfaces, and reopens the ports of replaced ones.

use std::time::Instant;

use super::Supervisor;
use crate::link::channels;
use crate::link::message::Message;
use crate::link::snapshot::Snapshot;
use crate::run::lock;
use crate::run::report::Carries;
use crate::run::setup;
use crate::run::trouble::Trouble;
use crate::sys::interface::{self, Interface};

/// An interface with the state of its link.
pub(super) struct Watched {
    pub(super) interface: Interface,
    pub(super) up: bool,
}

impl Watched {
    /// Looks at it, and logs a change of its link. Returns whether the link is up, and whether the
    /// port is as it was opened.
    fn look(&mut self) -> (bool, bool) {
        // First, as it follows a new name.
        let there = self.interface.still_there();
        let up = is_up(&self.interface);
        if up != self.up {
            self.up = up;
            let name = &self.interface.name;
            if up {
                tracing::info!(interface = %name, "link up");
            } else {
                tracing::warn!(interface = %name, "link down");
            }
        }
        let same = there && interface::mtu(&self.interface.name) == Some(self.interface.mtu);
        (up, same)
    }
}

pub(in crate::link) fn is_up(interface: &Interface) -> bool {
    interface::link_up(&interface.name) == Some(true)
}

impl Supervisor<'_> {
    /// Follows the links. Reopens the ports when an interface was replaced or has another MTU.
    pub(super) fn follow(&mut self) {
        let [(field_up, field_same), (uplink_up, uplink_same)] =
            [&mut self.field, &mut self.uplink].map(Watched::look);
        let mut second_same = true;
        if let (Some(second), Some(shown)) = (&mut self.second, &self.answers.second) {
            let (up, same) = second.look();
            second_same = same;
            lock(shown).follow(&second.interface, up);
        }
        for (shown, port) in lock(&self.answers.ports).iter_mut().zip([&self.field, &self.uplink]) {
            shown.name.clone_from(&port.interface.name);
        }
        self.answers.link_changes([field_up, uplink_up]);
        self.follow_rate();
        if !(field_same && uplink_same && second_same) {
            self.reopen();
        } else {
            self.attach();
        }
        let uplinks: Vec<_> =
            [&self.uplink].into_iter().chain(&self.second).map(|port| &port.interface).collect();
        self.surroundings.follow(&self.field.interface, &uplinks, &self.answers.watch);
    }

    /// Watches whether each of two uplinks brings frames.
    pub(super) fn watch_uplinks(&self, snapshot: &Snapshot) {
        let Some(second) = &self.answers.second else { return };
        // Hellos tell more than frames, of which one brings hardly any.
        if self.answers.desk.as_ref().is_some_and(|desk| desk.pilot.is_some()) {
            return;
        }
        let silent = lock(second).note(snapshot.taken, Instant::now());
        let names = lock(&self.answers.ports)[1].name.clone();
        for (name, silent) in [names, lock(second).interface.clone()].iter().zip(silent) {
            let detail = silent.then_some("its frames come by the other one alone");
            self.answers.watch.holds(Trouble::SilentUplink, name, detail);
        }
    }

    /// Adapts the rate of bulk to the link. A link that is down reports none, and the last rate
    /// remains.
    fn follow_rate(&mut self) {
        let Some(known) = self.link_rate else { return };
        let name = &self.uplink.interface.name;
        let Some(mbit) = interface::speed(name).filter(|mbit| *mbit != known) else { return };
        tracing::info!(interface = %name, from = known, to = mbit, "the link has another rate in Mbit/s");
        self.link_rate = Some(mbit);
        if let Some(mailbox) = self.mailboxes.first() {
            mailbox.post(Message::Rate(mbit));
        }
    }

    /// Reopens all ports, once both interfaces exist.
    fn reopen(&mut self) {
        let found = [&self.field, &self.uplink].map(|port| port.interface.find_again());
        let [Ok(field), Ok(uplink)] = found else { return };
        let second = self.second.as_ref().map(|port| port.interface.find_again());
        let Ok(second) = second.transpose() else { return };
        let narrower = second.as_ref().filter(|second| second.mtu < uplink.mtu).unwrap_or(&uplink);
        let uplink_mtu = setup::uplink_mtu(&self.config, narrower);
        match channels::ports(&self.config, (&field, &uplink, second.as_ref()), uplink_mtu) {
            Ok(ports) => {
                if self.agreement.is_some()
                    && let Err(error) = self.spread.over(&ports)
                {
                    tracing::warn!(%error, "one worker sends: frames are not shared among the workers");
                }
                tracing::info!(
                    field_mtu = field.mtu,
                    uplink_mtu,
                    "an interface was replaced or has another MTU: ports opened again"
                );
                self.leaves.again();
                *lock(&self.answers.ports) =
                    self.leaves.shown([Carries::of(&field, field.mtu), Carries::of(&uplink, uplink_mtu)]);
                let workers = ports.len();
                for (worker, (outbound, inbound)) in ports.into_iter().enumerate() {
                    // The last thread receives, and one of several workers both.
                    let last = if workers > 1 { worker } else { self.mailboxes.len() - 1 };
                    if let Some(mailbox) = self.mailboxes.get(worker) {
                        mailbox.post(Message::Outbound(outbound));
                    }
                    if let Some(mailbox) = self.mailboxes.get(last) {
                        mailbox.post(Message::Inbound(inbound));
                    }
                }
                self.field.interface = field;
                self.uplink.interface = uplink;
                if let (Some(watched), Some(found)) = (&mut self.second, second) {
                    watched.interface = found;
                }
            }
            Err(fault) => self.complain(&format!("{fault:#}")),
        }
    }
}
