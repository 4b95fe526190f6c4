//! The forwarding thread of a pair of gateways, and what the other threads ask of it.

use std::hint;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use antedate_channel::fragment::Limits;
use antedate_channel::macsec::{ReadyTransmit, Rehearsal, Retired, Transmit};

use crate::link::letter::{Letter, Shown};
use crate::link::path::{Inbound, Outbound, Protector, Validator};
use crate::link::snapshot::Snapshot;
use crate::run::duty::{Duty, HASTE, LOOKS, REHEARSAL, forward};
use crate::run::governor::{Governor, Mode};
use crate::run::mailbox::Mailbox;
use crate::sys::packet::Receiver;
use crate::sys::thread;

/// Nanoseconds of preparation between two looks at the ports: so long a frame may wait for it at most.
const LONGEST_PREPARATION: u64 = 200;
/// Steps of preparation that are taken at once where a step is cheapest.
const MOST_STEPS: u32 = 64;

/// One direction or both, and how to wait.
#[derive(Debug)]
pub struct Worker {
    /// From the machines to the uplink.
    pub outbound: Option<Outbound>,
    /// From the uplink to the machines.
    pub inbound: Option<Inbound>,
    /// How to wait.
    pub mode: Mode,
    /// Rehearses frames while none comes, where they are protected.
    pub rehearsal: Option<Rehearsal>,
    /// Which direction was prepared for first the last time.
    pub inbound_first: bool,
    /// Letters from the others.
    pub mailbox: Arc<Mailbox<Letter>>,
    /// What the others see.
    pub shown: Arc<Shown>,
}

impl Worker {
    /// Forwards until it is told to stop; the channels are in the returned value.
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
    fn letter(&mut self, governor: &Governor) -> ControlFlow<(), bool> {
        match self.mailbox.take() {
            Some(letter) => self.read(letter, governor).map_continue(|()| true),
            None => ControlFlow::Continue(false),
        }
    }

    #[inline]
    fn turn(&mut self, mut heard: impl FnMut(u32)) -> usize {
        let out = self.outbound.as_mut().map_or(0, |outbound| outbound.turn(&mut heard));
        out + self.inbound.as_mut().map_or(0, |inbound| inbound.turn(heard))
    }

    #[inline]
    fn show(&self) {
        // Who only receives has nothing to show.
        let Some(outbound) = &self.outbound else { return };
        match outbound.encoding() {
            Some((an, next_pn, express)) => {
                // The association last: whoever reads it first has numbers that are its own, or lower ones.
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

    /// Half of what the configuration lets lie prepared for sending.
    fn haste(&self) -> usize {
        let Some(Outbound { protector: Protector::Macsec(transmit), .. }) = &self.outbound else {
            return HASTE;
        };
        haste_of(transmit.config().prepare)
    }

    /// Prepares as much as there is memory for, before the first frame, and tells how many steps this CPU does in the time
    /// that a frame may wait: from some 50 with VAES to a single one without AES instructions.
    #[cold]
    #[inline(never)]
    fn steps(&mut self) -> u32 {
        let (start, mut done) = (thread::now(), 0);
        loop {
            match self.prepare(MOST_STEPS) {
                0 => break,
                steps => done += u64::from(steps),
            }
        }
        let fit = (LONGEST_PREPARATION * done) / (thread::now() - start).max(1);
        (fit as u32).clamp(1, MOST_STEPS)
    }

    /// Does at most so many steps of preparation. The directions take turns to come first: else one in which frames follow one another
    /// leaves nothing for the other. Returns how many it did: 0 when all is prepared.
    #[inline(never)]
    fn prepare(&mut self, steps: u32) -> u32 {
        let Self { outbound, inbound, inbound_first, .. } = self;
        let out = |steps| outbound.as_mut().map_or(0, |outbound| outbound.idle(steps));
        let into = |steps| inbound.as_mut().map_or(0, |inbound| inbound.idle(steps));
        in_turns(inbound_first, steps, out, into)
    }

    /// Polls for a frame that will find what it needs near, in either direction: at the first looks after a sleep, and every so often.
    #[inline]
    fn rehearse(&mut self, looks: u32) {
        let turn = looks % REHEARSAL;
        if let Some(rehearsal) = self.rehearsal.as_mut().filter(|_| turn < 2) {
            if looks == 0 {
                rehearsal.prepare();
            }
            match (turn, &self.outbound, &self.inbound) {
                (0, Some(outbound), _) => outbound.rehearse(rehearsal),
                (1, _, Some(inbound)) => inbound.rehearse(rehearsal),
                _ => {}
            }
        }
        // Behind those of the cipher, which push out what these bring.
        match (turn, &mut self.outbound, &mut self.inbound) {
            (2, Some(outbound), _) => outbound.ports.to.rehearse(),
            (3, _, Some(inbound)) => inbound.ports.to.rehearse(),
            _ => {}
        }
    }

    #[inline]
    fn linger(&self) -> bool {
        let field = self.outbound.as_ref().map(|outbound| &outbound.ports.from);
        let uplink = self.inbound.as_ref().map(|inbound| &inbound.ports.from);
        (0..LOOKS).any(|_| {
            hint::spin_loop();
            field.is_some_and(Receiver::ready) || uplink.is_some_and(Receiver::ready)
        })
    }

    fn sleep(&mut self, pause: std::time::Duration) {
        let fd = |receiver: Option<&Receiver>| receiver.map_or(-1, AsRawFd::as_raw_fd);
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
}

impl Worker {
    /// Adds what the kernel dropped since the last time. The steward asks for a snapshot every second.
    fn census(&self) {
        if let Some(outbound) = &self.outbound {
            outbound.counters().overruns.add(outbound.ports.from.overruns());
        }
        if let Some(inbound) = &self.inbound {
            inbound.counters().overruns.add(inbound.ports.from.overruns());
        }
    }

    fn receive(&mut self) -> Option<&mut antedate_channel::macsec::Receive> {
        match &mut self.inbound {
            Some(Inbound { validator: Validator::Macsec(receive), .. }) => Some(receive),
            _ => None,
        }
    }

    /// Does what a letter asks, and tells whether to go on.
    #[cold]
    fn read(&mut self, letter: Letter, governor: &Governor) -> ControlFlow<()> {
        match letter {
            Letter::Reserve { an, limit } => {
                for transmit in self.outbound.iter_mut().flat_map(Outbound::channels) {
                    transmit.reserve_until(an, limit);
                }
            }
            Letter::Switch(an, answer) => {
                let channels = self.outbound.iter_mut().flat_map(Outbound::channels);
                if let Some(result) =
                    channels.map(|transmit| transmit.set_encoding_sa(an)).reduce(Result::and)
                {
                    // Whoever asked may have gone; nothing depends on it.
                    let _ = answer.send(result);
                }
                self.show();
            }
            Letter::SendFragments(marks) => {
                if let Some(outbound) = &mut self.outbound {
                    outbound.fragments = marks;
                }
            }
            Letter::TakeFragments(sci, marks) => {
                if let Some(Inbound { validator: Validator::Macsec(receive), .. }) = &mut self.inbound {
                    receive.set_fragments(sci, marks, Limits::default());
                }
            }
            Letter::Snapshot(answer) => {
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
                let _ = answer.send(snapshot);
            }
            Letter::InstallReceive(ready, answer) => {
                if let Some(receive) = self.receive() {
                    let _ = answer.send(receive.adopt(*ready).map_err(|e| e.to_string()));
                }
            }
            Letter::InstallTransmit(ready, answer) => {
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
            Letter::Lowest(sci, an, lowest_pn) => {
                if let Some(receive) = self.receive() {
                    receive.set_lowest_acceptable_pn(sci, an, lowest_pn);
                }
            }
            Letter::RemoveSa(an, answer) => {
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
            Letter::ForgetPeer(sci, answer) => {
                if let Some(receive) = self.receive() {
                    let _ = answer.send(receive.remove_peer(sci));
                }
            }
            Letter::Rate(mbit) => {
                if let Some(express) = self.outbound.as_mut().and_then(|out| out.express.as_mut()) {
                    express.set_rate(mbit);
                }
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
            Letter::Stop => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }
}

/// Installs a key that is agreed upon, and protects with it from the next frame on. Gives what it replaces.
fn protect_with(transmit: &mut Transmit, ready: ReadyTransmit) -> Result<Retired, String> {
    let an = ready.an();
    let retired = transmit.adopt(ready).map_err(|error| error.to_string())?;
    transmit.set_encoding_sa(an).map_err(|error| error.to_string())?;
    Ok(retired)
}

/// Does at most so many steps, the other one first than the last time.
#[inline]
fn in_turns(
    second_first: &mut bool,
    steps: u32,
    first: impl FnOnce(u32) -> u32,
    second: impl FnOnce(u32) -> u32,
) -> u32 {
    *second_first = !*second_first;
    if *second_first {
        one_then_the_other(steps, second, first)
    } else {
        one_then_the_other(steps, first, second)
    }
}

/// Does at most so many steps, and the second what the first leaves of them. Returns how many were done.
#[inline]
fn one_then_the_other(steps: u32, one: impl FnOnce(u32) -> u32, other: impl FnOnce(u32) -> u32) -> u32 {
    let done = one(steps);
    if done < steps { done + other(steps - done) } else { done }
}

/// Frames that may come before more is prepared, where so many packet numbers are to lie prepared: half of those.
fn haste_of(prepare: usize) -> usize {
    match prepare {
        // Nothing is, and nothing runs out.
        0 => HASTE,
        prepare => (prepare / 2).clamp(1, HASTE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_channel::macsec::SLOTS;

    #[test]
    fn neither_direction_takes_all_steps_from_the_other() {
        let (mut turn, mut done) = (false, [0; 2]);
        let [first, second] = &mut done;
        for _ in 0..6 {
            // Both have more to do than there is time for.
            let [mut of_first, mut of_second] = [0; 2];
            let all = |done: &mut u32, steps| {
                *done = steps;
                steps
            };
            assert_eq!(in_turns(&mut turn, 3, |s| all(&mut of_first, s), |s| all(&mut of_second, s)), 3);
            (*first, *second) = (*first + of_first, *second + of_second);
        }
        assert_eq!(done, [9, 9]);
    }

    #[test]
    fn the_second_direction_has_what_the_first_leaves() {
        let does = |left: u32| move |steps: u32| steps.min(left);
        let done = [(0, 0), (3, 0), (0, 3), (3, 4), (9, 9)].map(|(one, other)| {
            let mut asked = None;
            let done = one_then_the_other(5, does(one), |steps| {
                asked = Some(steps);
                does(other)(steps)
            });
            (done, asked)
        });
        assert_eq!(done, [(0, Some(5)), (3, Some(2)), (3, Some(5)), (5, Some(2)), (5, None)]);
    }

    #[test]
    fn what_lies_prepared_never_runs_out_before_more_is_prepared() {
        assert_eq!([0, 1, 2, 3, 8].map(haste_of), [HASTE, 1, 1, 1, 4]);
        for prepare in 1..=2 * SLOTS {
            assert!((1..=prepare.min(SLOTS)).contains(&haste_of(prepare)), "{prepare}");
        }
    }
}
