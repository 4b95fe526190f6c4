//! The AF_XDP sockets of the ports, while the gateway runs.
//!
//! The kernel frees the queue of a closed socket some time later, and a port that is opened again
//! has its old socket until its thread has taken the new one. So frames leave by the packet socket
//! first.

use std::time::Duration;

use super::Supervisor;
use crate::config::Checked;
use crate::config::io::{RING, XDP};
use crate::link::channels::Attached;
use crate::link::message::Message;
use crate::run::lock;
use crate::run::report::Carries;
use crate::sys::xdp::{Xdp, XdpError};

/// Tries, one a second, before a port stays as it is.
const TRIES: u32 = 10;

/// How frames leave by the field port and by the uplink.
#[derive(Debug)]
pub(super) struct Leaves([Now; 2]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Now {
    Ring,
    /// By the packet socket, with so many tries left.
    Until(u32),
    Xdp,
}

impl Leaves {
    pub(super) fn new(attached: [&Attached; 2]) -> Self {
        Self(attached.map(|attached| match attached {
            Attached::No => Now::Ring,
            Attached::Later => Now::Until(TRIES),
            Attached::Xdp(_) => Now::Xdp,
        }))
    }

    /// Logs the ways and the reasons.
    pub(super) fn tell(&self, checked: &Checked) {
        let ports = [&checked.field, &checked.uplink];
        for ((port, leave), now) in ports.into_iter().zip(&checked.leave).zip(self.0) {
            let io = if now == Now::Xdp { XDP } else { RING };
            let why = if leave.xdp && io == RING { "AF_XDP is refused or busy" } else { &*leave.why };
            tracing::info!(interface = %port.name, io, why, "frames leave");
        }
    }

    /// The ports were opened again, without AF_XDP sockets.
    pub(super) fn again(&mut self) {
        self.0 = [Now::Until(TRIES); 2];
    }

    /// With the ways of frames.
    pub(super) fn shown(&self, ports: [Carries; 2]) -> [Carries; 2] {
        let [field, uplink] = self.0.map(|now| if now == Now::Xdp { XDP } else { RING });
        let [of_field, of_uplink] = ports;
        [Carries { io: field, ..of_field }, Carries { io: uplink, ..of_uplink }]
    }
}

impl Supervisor<'_> {
    /// Opens the AF_XDP sockets that ports lack.
    pub(super) fn attach(&mut self) {
        let ports = [&self.field.interface, &self.uplink.interface];
        let each = self.leaves.0.iter_mut().zip(ports).zip(&self.checked.leave).enumerate();
        for (side, ((now, port), leave)) in each {
            let Now::Until(tries) = *now else { continue };
            *now = match Xdp::open(port, Duration::ZERO) {
                _ if !leave.xdp => Now::Ring,
                Ok(xdp) => {
                    let (mailbox, message) = match side {
                        0 => (self.mailboxes.last(), Message::InboundXdp(Box::new(xdp), leave.in_order)),
                        _ => (self.mailboxes.first(), Message::OutboundXdp(Box::new(xdp), leave.in_order)),
                    };
                    if let Some(mailbox) = mailbox {
                        mailbox.post(message);
                    }
                    Now::Xdp
                }
                Err(XdpError::Busy) if tries > 0 => Now::Until(tries - 1),
                Err(error) => {
                    tracing::warn!(interface = %port.name, %error, "frames leave by a packet socket");
                    Now::Ring
                }
            };
        }
        let mut ports = lock(&self.answers.ports);
        *ports = self.leaves.shown(ports.clone());
    }
}
