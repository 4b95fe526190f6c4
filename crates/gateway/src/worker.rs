//! A forwarding thread: takes frames from its ports, prepares the next packet numbers when there are none, and rests.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::Sender as Answer;

use antedate_channel::macsec::{An, SwitchError};

use crate::counters::Counter;
use crate::mailbox::Mailbox;
use crate::path::{Inbound, Outbound, Ports, Protector, Validator};
use crate::poll::{Governor, Mode, Rest};
use crate::report::Snapshot;
use crate::sys::thread;

/// Steps of preparation between two looks at the ports. A step is some 10 to 20 ns, so no frame waits longer than a
/// fraction of a microsecond.
const STEPS: u32 = 4;

/// What the other threads ask of a forwarding thread.
#[derive(Debug)]
pub enum Letter {
    /// Packet numbers below `limit` are reserved on disk now.
    Reserve {
        /// The association.
        an: An,
        /// The first number that is not reserved.
        limit: u64,
    },
    /// Protect with another association from now on.
    Switch(An, Answer<Result<(), SwitchError>>),
    /// Tell the state of all there is.
    Snapshot(Answer<Snapshot>),
    /// Use these ports from now on, for the interface was replaced.
    Outbound(Ports),
    /// As [`Self::Outbound`], for the other direction.
    Inbound(Ports),
    /// Send no more and end.
    Stop,
}

/// What a thread shows to all others at any time, without being asked.
#[derive(Debug, Default)]
pub struct Shown {
    /// The association that protects, plus one; 0 when nothing does.
    pub encoding: Counter,
    /// Its next packet number.
    pub next_pn: Counter,
}

/// One direction or both, and how to wait.
#[derive(Debug)]
pub struct Worker {
    /// From the machines to the uplink.
    pub outbound: Option<Outbound>,
    /// From the uplink to the machines.
    pub inbound: Option<Inbound>,
    /// How to wait.
    pub mode: Mode,
    /// Letters from the others.
    pub mailbox: Arc<Mailbox<Letter>>,
    /// What the others see.
    pub shown: Arc<Shown>,
}

impl Worker {
    /// Forwards until it is told to stop; the channels are in the returned value.
    #[must_use]
    pub fn run(mut self) -> Self {
        let mut governor = Governor::new(self.mode, thread::now(), thread::cpu_time());
        let listens = governor.listens();
        loop {
            while let Some(letter) = self.mailbox.take() {
                if !self.read(letter, &governor) {
                    return self;
                }
            }
            let mut done = 0;
            if let Some(outbound) = &mut self.outbound {
                done += outbound.turn(|flow| {
                    if listens {
                        governor.frame(flow, thread::now());
                    }
                });
            }
            if let Some(inbound) = &mut self.inbound {
                done += inbound.turn(|flow| {
                    if listens {
                        governor.frame(flow, thread::now());
                    }
                });
            }
            if done > 0 {
                self.show();
                continue;
            }
            // Whoever waits for the frame that was just sent may wait for this CPU.
            thread::yield_now();
            if self.prepare() {
                continue;
            }
            // The clock is read only where it decides something.
            let now = if listens { thread::now() } else { 0 };
            match governor.rest(now, thread::cpu_time) {
                Rest::Poll => {}
                Rest::Sleep(pause) => {
                    self.sleep(pause);
                    if listens {
                        governor.awake(thread::now());
                    }
                }
            }
        }
    }

    /// Does a few steps of preparation. Returns whether there was anything to prepare.
    #[inline]
    fn prepare(&mut self) -> bool {
        let out = self.outbound.as_mut().map_or(0, |outbound| outbound.idle(STEPS));
        let into = self.inbound.as_mut().map_or(0, |inbound| inbound.idle(STEPS));
        out + into > 0
    }

    fn sleep(&mut self, pause: std::time::Duration) {
        let fd = |receiver: Option<&crate::sys::packet::Receiver>| receiver.map_or(-1, AsRawFd::as_raw_fd);
        let field: RawFd = fd(self.outbound.as_ref().map(|o| &o.ports.from));
        let uplink: RawFd = fd(self.inbound.as_ref().map(|i| &i.ports.from));
        let [from_field, from_uplink, _] =
            thread::wait([field, uplink, self.mailbox.as_raw_fd()], Some(pause));
        // A link that went down leaves an error, which would end every wait at once until it is taken.
        if let (true, Some(outbound)) = (from_field, &self.outbound)
            && !outbound.ports.from.ready()
        {
            outbound.ports.from.take_error();
        }
        if let (true, Some(inbound)) = (from_uplink, &self.inbound)
            && !inbound.ports.from.ready()
        {
            inbound.ports.from.take_error();
        }
    }

    /// Adds what the kernel dropped since the last time. The steward asks for a snapshot every second.
    fn census(&self) {
        if let Some(outbound) = &self.outbound {
            outbound.counters().overruns.add(outbound.ports.from.overruns());
        }
        if let Some(inbound) = &self.inbound {
            inbound.counters().overruns.add(inbound.ports.from.overruns());
        }
    }

    #[inline]
    fn show(&self) {
        if let Some(Outbound { protector: Protector::Macsec(transmit), .. }) = &self.outbound
            && let Some((an, next_pn)) = transmit.encoding()
        {
            self.shown.next_pn.set(next_pn);
            self.shown.encoding.set(u64::from(an.number()) + 1);
        }
    }

    fn transmit(&mut self) -> Option<&mut antedate_channel::macsec::Transmit> {
        match &mut self.outbound {
            Some(Outbound { protector: Protector::Macsec(transmit), .. }) => Some(transmit),
            _ => None,
        }
    }

    /// Does what a letter asks. Returns whether to go on.
    #[cold]
    fn read(&mut self, letter: Letter, governor: &Governor) -> bool {
        match letter {
            Letter::Reserve { an, limit } => {
                if let Some(transmit) = self.transmit() {
                    transmit.reserve_until(an, limit);
                }
            }
            Letter::Switch(an, answer) => {
                if let Some(transmit) = self.transmit() {
                    // Whoever asked may have gone; nothing depends on it.
                    let _ = answer.send(transmit.set_encoding_sa(an));
                }
                self.show();
            }
            Letter::Snapshot(answer) => {
                self.census();
                let transmit = match &self.outbound {
                    Some(Outbound { protector: Protector::Macsec(transmit), .. }) => Some(&**transmit),
                    _ => None,
                };
                let receive = match &self.inbound {
                    Some(Inbound { validator: Validator::Macsec(receive), .. }) => Some(&**receive),
                    _ => None,
                };
                let _ = answer.send(Snapshot::take(transmit, receive, governor));
            }
            Letter::Outbound(ports) => {
                if let Some(outbound) = &mut self.outbound {
                    outbound.ports = ports;
                }
            }
            Letter::Inbound(ports) => {
                if let Some(inbound) = &mut self.inbound {
                    inbound.ports = ports;
                }
            }
            Letter::Stop => return false,
        }
        true
    }
}
