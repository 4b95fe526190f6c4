//! The forwarding thread of a MACsec gateway.

use std::hint;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use antedate_channel::fragment::Limits;
use antedate_channel::macsec::{ReadyTransmit, Rehearsal, Retired, Transmit};
use antedate_hardening::stack;

use crate::link::message::{Change, InstallError, Message, Shown};
use crate::link::path::{Inbound, Outbound, Protector, Validator};
use crate::link::snapshot::Snapshot;
use crate::link::vouch::Vouched;
use crate::run::duty::{Break, Duty, LOOKS, forward};
use crate::run::governor::{Governor, Mode};
use crate::run::mailbox::Mailbox;
use crate::sys::lanes::Lanes;
use crate::sys::thread;

/// A forwarding thread of one direction or both.
#[derive(Debug)]
pub struct Worker {
    /// From the machines to the uplink.
    pub outbound: Option<Outbound>,
    /// From the uplink to the machines.
    pub inbound: Option<Inbound>,
    /// How it waits.
    pub mode: Mode,
    /// The rehearsal, if frames are protected.
    pub rehearsal: Option<Rehearsal>,
    /// The direction that was prepared first in the last call.
    pub inbound_first: bool,
    /// Whether frames may be opened, with delay protection.
    pub vouched: Vouched,
    /// Messages of other threads.
    pub mailbox: Arc<Mailbox<Message>>,
    /// State that other threads read.
    pub shown: Arc<Shown>,
}

impl Worker {
    /// Forwards until a message stops it. Returns itself with its channels.
    #[must_use]
    pub fn run(mut self) -> Self {
        let mode = self.mode;
        forward(&mut self, mode);
        self
    }
}

impl Duty for Worker {
    const PUNCTUAL: bool = false;
    const LINGERS: bool = true;

    #[inline]
    fn message(&mut self, governor: &Governor) -> ControlFlow<Break, bool> {
        match self.mailbox.take() {
            Some(message) => {
                let changes_keys = message.changes_keys();
                let flow = self.read(message, governor);
                // Registers with round keys may have been spilled to the stack.
                if changes_keys {
                    stack::wipe_some();
                }
                flow.map_continue(|()| true)
            }
            None => ControlFlow::Continue(false),
        }
    }

    #[inline]
    fn turn(&mut self, mut heard: impl FnMut(u32) -> u64) -> usize {
        let out = self.outbound.as_mut().map_or(0, |outbound| outbound.turn(&mut heard));
        if !self.opens() {
            return out;
        }
        out + self.inbound.as_mut().map_or(0, |inbound| inbound.turn(heard))
    }

    #[inline]
    fn show(&self) {
        // A receiving thread has nothing to show.
        let Some(outbound) = &self.outbound else { return };
        match outbound.encoding() {
            Some((an, next_pn, express)) => {
                // The association last, so that a reader of it sees packet numbers of this
                // association, or lower ones.
                self.shown.usual_pn.set(next_pn);
                self.shown.express_pn.set(express.unwrap_or(0));
                self.shown.encoding.set(u64::from(an.number()) + 1);
            }
            // The next key may have the same association number, and begins at 1.
            None => self.shown.encoding.set(0),
        }
    }

    #[inline]
    fn due(&self) -> Option<u64> {
        self.outbound.as_ref().and_then(Outbound::due)
    }

    #[inline]
    fn linger(&self) -> bool {
        let field = self.outbound.as_ref().map(|outbound| &outbound.ports.from);
        let uplink = self.inbound.as_ref().map(|inbound| &inbound.ports.from);
        (0..LOOKS).any(|_| {
            hint::spin_loop();
            field.is_some_and(Lanes::ready) || uplink.is_some_and(Lanes::ready)
        })
    }

    fn sleep(&mut self, pause: std::time::Duration) {
        let field = self.outbound.as_ref().map(|outbound| &outbound.ports.from);
        let uplink = self.inbound.as_ref().map(|inbound| &inbound.ports.from);
        let [[a, b, ..], [c, d, e, f]] = [field, uplink].map(|port| port.map_or([-1; 4], Lanes::descriptors));
        let woken = thread::wait([a, b, c, d, e, f, self.mailbox.as_raw_fd()], Some(pause));
        let (from_field, from_uplink) = woken.split_at(2);
        for (port, woken) in [(field, from_field), (uplink, from_uplink)] {
            if let Some(port) = port {
                port.take_errors(woken);
            }
        }
    }
}

impl Worker {
    /// Whether received frames may be opened.
    #[inline]
    fn opens(&mut self) -> bool {
        match self.shown.vouched.get() {
            0 => true,
            until => self.vouched.opens(thread::now(), until, self.mailbox.is_empty()),
        }
    }

    /// Counts the frames that the kernel dropped, and the stale ones, since the last call. The main
    /// thread requests a snapshot every second.
    fn census(&mut self) {
        let outbound = self.outbound.as_mut().map(|out| (Arc::clone(out.counters()), &mut out.ports.from));
        let inbound = self.inbound.as_mut().map(|in_| (Arc::clone(in_.counters()), &mut in_.ports.from));
        for (counters, from) in [outbound, inbound].into_iter().flatten() {
            counters.lost(from.overruns());
            counters.stale.add(from.take_stale());
        }
    }

    /// Exchanges the settings.
    fn change(&mut self, change: &mut Change) {
        let gate = Arc::clone(&change.gate);
        if let Some(outbound) = &mut self.outbound {
            change.gate = outbound.replace_gate(Arc::clone(&gate));
            outbound.ports.from.bound(change.max_age);
            if let Some(shapes) = change.flows.take() {
                outbound.channels().for_each(|transmit| transmit.set_flows(shapes.clone()));
            }
            if let Some(express) = &mut outbound.express {
                express.change(change.max_age, change.express.as_mut());
            }
        }
        if let Some(inbound) = &mut self.inbound {
            change.gate = inbound.replace_gate(gate);
            inbound.ports.from.bound(change.max_age);
            inbound.ports.to.bound(change.max_age);
        }
    }

    fn receive(&mut self) -> Option<&mut antedate_channel::macsec::Receive> {
        match &mut self.inbound {
            Some(Inbound { validator: Validator::Macsec(receive), .. }) => Some(receive),
            _ => None,
        }
    }

    /// Executes a message. Returns whether to continue.
    #[cold]
    fn read(&mut self, message: Message, governor: &Governor) -> ControlFlow<Break> {
        match message {
            Message::Change(mut change, answer) => {
                let mode = change.mode;
                self.change(&mut change);
                // The main thread may have given up waiting.
                let _ = answer.send(change);
                if mode != self.mode {
                    self.mode = mode;
                    return ControlFlow::Break(Break::Mode(mode));
                }
            }
            Message::Reserve { an, limit } => {
                for transmit in self.outbound.iter_mut().flat_map(Outbound::channels) {
                    transmit.reserve_until(an, limit);
                }
            }
            Message::Switch(an, answer) => {
                let channels = self.outbound.iter_mut().flat_map(Outbound::channels);
                if let Some(result) =
                    channels.map(|transmit| transmit.set_encoding_sa(an)).reduce(Result::and)
                {
                    // The requester may be gone.
                    let _ = answer.send(result);
                }
                self.show();
            }
            Message::SendFragments(marks) => {
                if let Some(outbound) = &mut self.outbound {
                    outbound.fragments = marks;
                }
            }
            Message::TakeFragments(sci, marks) => {
                if let Some(Inbound { validator: Validator::Macsec(receive), .. }) = &mut self.inbound {
                    receive.set_fragments(sci, marks, Limits::default());
                }
            }
            Message::Snapshot(answer) => {
                self.census();
                if let Some(Inbound { validator: Validator::Macsec(receive), .. }) = &mut self.inbound {
                    receive.expire(thread::now());
                }
                let transmit = match &self.outbound {
                    Some(Outbound { protector: Protector::Macsec(transmit), .. }) => Some(&**transmit),
                    _ => None,
                };
                let receive = match &self.inbound {
                    Some(Inbound { validator: Validator::Macsec(receive), .. }) => Some(&**receive),
                    _ => None,
                };
                let mut snapshot = Snapshot::take(transmit, receive, governor);
                if let Some(express) = self.outbound.as_ref().and_then(|outbound| outbound.express.as_ref()) {
                    snapshot.express(&express.transmit);
                }
                snapshot.taken = self.inbound.as_ref().map_or([0; 2], |inbound| inbound.ports.from.taken());
                let _ = answer.send(snapshot);
            }
            Message::InstallReceive(ready, answer) => {
                if let Some(receive) = self.receive() {
                    let _ = answer.send(receive.adopt(*ready).map_err(InstallError::from));
                }
            }
            Message::InstallTransmit(ready, answer) => {
                if let Some(outbound) = &mut self.outbound {
                    let mut retired = Retired::default();
                    let mut channels = outbound.channels().zip(ready);
                    let done = channels.try_for_each(|(transmit, ready)| {
                        retired.add(protect_with(transmit, ready)?);
                        Ok(())
                    });
                    let _ = answer.send(done.map(|()| retired));
                }
                self.show();
            }
            Message::Lowest(sci, an, lowest_pn) => {
                if let Some(receive) = self.receive() {
                    receive.set_lowest_acceptable_pn(sci, an, lowest_pn);
                }
            }
            Message::RemoveSa(an, answer) => {
                let mut retired = Retired::default();
                for transmit in self.outbound.iter_mut().flat_map(Outbound::channels) {
                    retired.add(transmit.remove(an));
                }
                if let Some(receive) = self.receive() {
                    retired.add(receive.remove_all(an));
                }
                self.show();
                let _ = answer.send(retired);
            }
            Message::ForgetPeer(sci, answer) => {
                if let Some(receive) = self.receive() {
                    let _ = answer.send(receive.remove_peer(sci));
                }
            }
            Message::Rate(mbit) => {
                if let Some(express) = self.outbound.as_mut().and_then(|out| out.express.as_mut()) {
                    express.set_rate(mbit);
                }
            }
            Message::Echo(frame) => {
                if let Some(outbound) = &mut self.outbound {
                    outbound.send_echo(&frame);
                }
            }
            Message::Hello(frame) => {
                if let Some(outbound) = &mut self.outbound {
                    outbound.say_hello(&frame);
                }
            }
            Message::HelloBy(by, frame) => {
                if let Some(outbound) = &mut self.outbound {
                    outbound.send_message(by, &frame);
                }
            }
            Message::CarryBy(carries) => {
                if let Some(outbound) = &mut self.outbound {
                    outbound.carry_by(carries);
                }
            }
            Message::HelloToField(frame) => {
                if let Some(inbound) = &mut self.inbound {
                    inbound.say_hello(&frame);
                }
            }
            Message::ToField(frame) => {
                if let Some(inbound) = &mut self.inbound {
                    inbound.to_field(&frame);
                }
            }
            Message::PathMtu(mtu) => {
                if let Some(outbound) = &mut self.outbound {
                    outbound.set_path(mtu);
                }
            }
            Message::Outbound(ports) => {
                self.census();
                if let Some(outbound) = &mut self.outbound {
                    outbound.replace_ports(ports);
                }
            }
            Message::Inbound(ports) => {
                self.census();
                if let Some(inbound) = &mut self.inbound {
                    inbound.replace_ports(ports);
                }
            }
            Message::OutboundXdp(xdp, in_order) => {
                if let Some(outbound) = &mut self.outbound {
                    outbound.ports.to.attach(*xdp, in_order);
                }
            }
            Message::InboundXdp(xdp, in_order) => {
                if let Some(inbound) = &mut self.inbound {
                    inbound.ports.to.attach(*xdp, in_order);
                }
            }
            Message::Stop => return ControlFlow::Break(Break::Stop),
        }
        ControlFlow::Continue(())
    }
}

/// Installs an agreed key, and protects with it from the next frame on. Returns the replaced one.
fn protect_with(transmit: &mut Transmit, ready: ReadyTransmit) -> Result<Retired, InstallError> {
    let an = ready.an();
    let retired = transmit.adopt(ready)?;
    transmit.set_encoding_sa(an)?;
    Ok(retired)
}
