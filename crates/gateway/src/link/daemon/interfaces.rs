//! Follows links and interfaces, and reopens the ports of replaced ones.

use std::path::Path;

use super::Supervisor;
use crate::link::channels;
use crate::link::message::Message;
use crate::run::lock;
use crate::run::report::Carries;
use crate::run::setup;
use crate::sys::interface::{self, Interface};

/// An interface with the state of its link.
pub(super) struct Watched {
    pub(super) interface: Interface,
    pub(super) up: bool,
}

pub(super) fn is_up(interface: &Interface) -> bool {
    interface::link_up(&interface.name) == Some(true)
}

impl Supervisor<'_> {
    /// Follows the links. Reopens the ports when an interface was replaced or has another MTU.
    pub(super) fn follow(&mut self) {
        let names = [&mut self.field, &mut self.uplink].map(|port| {
            // First, as it follows a new name.
            let there = port.interface.still_there();
            let up = is_up(&port.interface);
            if up != port.up {
                port.up = up;
                let name = &port.interface.name;
                if up {
                    tracing::info!(interface = %name, "link up");
                } else {
                    tracing::warn!(interface = %name, "link down");
                }
            }
            let same = there && interface::mtu(&port.interface.name) == Some(port.interface.mtu);
            (up, same)
        });
        let [(field_up, field_same), (uplink_up, uplink_same)] = names;
        for (shown, port) in lock(&self.answers.ports).iter_mut().zip([&self.field, &self.uplink]) {
            shown.name.clone_from(&port.interface.name);
        }
        self.answers.link_changes([field_up, uplink_up]);
        self.follow_rate();
        if !(field_same && uplink_same) {
            self.reopen();
        }
        self.surroundings.follow(&self.field.interface, &self.uplink.interface, &self.answers.watch);
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
        let uplink_mtu = setup::uplink_mtu(&self.config, &uplink);
        let run = &self.config.run;
        let file: &Path = &self.config.file;
        let outbound = channels::outward(file, &field, &uplink, uplink_mtu, run);
        let inbound = channels::inward(file, &uplink, &field, run);
        match (outbound, inbound) {
            (Ok(outbound), Ok(inbound)) => {
                tracing::info!(
                    field_mtu = field.mtu,
                    uplink_mtu,
                    "an interface was replaced or has another MTU: ports opened again"
                );
                *lock(&self.answers.ports) =
                    [Carries::of(&field, field.mtu), Carries::of(&uplink, uplink_mtu)];
                if let Some(mailbox) = self.mailboxes.first() {
                    mailbox.post(Message::Outbound(outbound));
                }
                if let Some(mailbox) = self.mailboxes.last() {
                    mailbox.post(Message::Inbound(inbound));
                }
                self.field.interface = field;
                self.uplink.interface = uplink;
            }
            (Err(fault), _) | (_, Err(fault)) => self.complain(&format!("{fault:#}")),
        }
    }
}
