//! What the threads of a gateway that [stands by](super::standby) share.
//!
//! The forwarding threads look at the [`Role`], take hellos of both ports, and send those of this
//! gateway. A thread of its own looks at the state at an interval.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;

use antedate_channel::mka::{HelloKey, Listed};
use antedate_wire::standby::{Hello, ICV_LEN, MAX_ADDRESSES, MAX_HELLO_LEN, machine};
use antedate_wire::{EthernetAddress, Sci};

use crate::config::standby::StandbySettings;
use crate::link::machines::{Machines, Side};
use crate::link::message::Message;
use crate::link::standby::{Ports, Role, Seen, Standby, Via};
use crate::run::lock;
use crate::run::mailbox::Mailbox;
use crate::sys::thread::now;

/// The most hellos of the field whose ICV is computed in a tenth of a second.
const CHECKED: u32 = 100;
const TENTH: u64 = 100_000_000;

/// The keys of hellos at the field: the one to send with first. They follow the CAKs.
#[derive(Debug, Default)]
pub struct HelloKeys(Mutex<Vec<HelloKey>>);

impl HelloKeys {
    /// Takes over the keys of these CAKs.
    pub fn follow(&self, list: &[Listed]) {
        let mut sorted: Vec<_> = list.iter().collect();
        sorted.sort_by_key(|listed| std::cmp::Reverse(listed.priority));
        let new = sorted.into_iter().map(|listed| listed.cak.hello_key()).collect();
        drop(mem::replace(&mut *lock(&self.0), new));
    }

    fn icv(&self, covered: &[u8]) -> [u8; ICV_LEN] {
        lock(&self.0).first().map_or([0; ICV_LEN], |key| key.icv(covered))
    }

    fn verify(&self, covered: &[u8], icv: &[u8; ICV_LEN]) -> bool {
        lock(&self.0).iter().any(|key| key.verify(covered, icv))
    }
}

/// The shared parts.
#[derive(Debug)]
pub struct Pair {
    source: EthernetAddress,
    state: Mutex<Standby>,
    role: Arc<Role>,
    keys: Arc<HelloKeys>,
    machines: Machines,
    /// The place of the table from which the next hello has addresses.
    place: AtomicUsize,
    /// The mailboxes of the outbound and the inbound thread.
    out: Arc<Mailbox<Message>>,
    inward: Arc<Mailbox<Message>>,
    /// The thread that looks.
    looks: OnceLock<Thread>,
    /// A tenth of a second, and the ICVs computed in it.
    checked: Mutex<(u64, u32)>,
}

impl Pair {
    /// The parts of the gateway with this SCI and source address.
    #[must_use]
    pub fn new(
        own: Sci,
        source: EthernetAddress,
        settings: StandbySettings,
        keys: Arc<HelloKeys>,
        [out, inward]: [Arc<Mailbox<Message>>; 2],
    ) -> Self {
        let mut id = [0; 8];
        // Without random numbers the time tells this process from an earlier one.
        if getrandom::fill(&mut id).is_err() {
            id = now().to_be_bytes();
        }
        let state = Standby::new(own, settings, u64::from_be_bytes(id), now());
        Self {
            source,
            role: state.role(),
            state: Mutex::new(state),
            keys,
            machines: Machines::default(),
            place: AtomicUsize::new(0),
            out,
            inward,
            looks: OnceLock::new(),
            checked: Mutex::default(),
        }
    }

    /// Whether frames of machines pass. Notes the machine of one that does.
    #[inline]
    #[must_use]
    pub fn passes(&self, side: Side, frame: &[u8]) -> bool {
        let passes = self.role.forwards(now);
        if passes {
            self.machines.note(side, frame);
        }
        passes
    }

    /// Whether this gateway forwards now.
    #[must_use]
    pub fn forwards(&self) -> bool {
        self.role.forwards(now)
    }

    /// Wakes this thread when the state is to be looked at.
    pub fn wake(&self, thread: Thread) {
        let _ = self.looks.set(thread);
    }

    /// Has the state looked at.
    pub fn look_at_once(&self) {
        if let Some(thread) = self.looks.get() {
            thread.unpark();
        }
    }

    /// Takes a message of another gateway by the field, or by the uplink inside MACsec.
    #[cold]
    #[inline(never)]
    pub fn heard(&self, via: Via, frame: &[u8]) {
        // Machines' messages are for switches.
        let Ok((hello, covered, icv)) = Hello::parse(frame) else { return };
        let now = now();
        if via == Via::Field && !(self.may_check(now) && self.keys.verify(covered, icv)) {
            return lock(&self.state).refuse();
        }
        let (news, look) = lock(&self.state).heard(via, &hello, now);
        if news {
            for (side, addresses) in [(Side::Near, hello.near), (Side::Far, hello.far)] {
                addresses.as_chunks().0.iter().for_each(|address| self.machines.add(side, *address));
            }
        }
        if look {
            self.look_at_once();
        }
    }

    /// Notes the hello of a gateway with link loss forwarding.
    pub fn heard_far(&self, from: Sci, interval_ms: u16) {
        lock(&self.state).heard_far(from, interval_ms, now());
    }

    /// Notes that a hello leaves.
    pub fn said(&self) {
        lock(&self.state).said(now());
    }

    fn may_check(&self, now: u64) -> bool {
        let mut checked = lock(&self.checked);
        let (tenth, count) = &mut *checked;
        if now / TENTH != *tenth {
            (*tenth, *count) = (now / TENTH, 0);
        }
        *count += 1;
        *count <= CHECKED
    }

    /// Looks at the state, and says hello by both ports. Returns the group, and whether this gateway
    /// began or ceased to forward by this look.
    pub fn look(&self, ports: Ports, members: &[Sci]) -> Seen {
        let now = now();
        let mut state = lock(&self.state);
        let hello = state.look(ports, members, now);
        let seen = state.seen(now);
        drop(state);
        let (near, far) = if hello.active { self.some_machines() } else { Default::default() };
        let hello = Hello { source: self.source, near: &near, far: &far, ..hello };
        let mut frame = [0; MAX_HELLO_LEN];
        // Cannot fail: the addresses were counted.
        if let Ok(len) = hello.emit(&mut frame) {
            let icv = self.keys.icv(frame.get(..len).unwrap_or_default());
            let mut frame = frame.get(..len).unwrap_or_default().to_vec();
            frame.extend(icv);
            self.inward.post(Message::HelloToField(frame.clone()));
            self.out.post(Message::Hello(frame));
        }
        seen
    }

    /// The time of the next look, at `next` at the latest.
    pub fn due(&self, next: u64) -> u64 {
        lock(&self.state).due(next)
    }

    /// Some addresses of machines, in turns.
    fn some_machines(&self) -> (Vec<u8>, Vec<u8>) {
        let (mut near, mut far) = (Vec::new(), Vec::new());
        let start = self.place.load(Ordering::Relaxed);
        let mut next = 0;
        for (at, side, address) in self.machines.from(start).take(MAX_ADDRESSES) {
            if side == Side::Near { &mut near } else { &mut far }.extend(address.0);
            next = at + 1;
        }
        if near.len() + far.len() < 6 * MAX_ADDRESSES {
            next = 0;
        }
        self.place.store(next, Ordering::Relaxed);
        (near, far)
    }

    /// Shows the switches of both sides that the machines of the other one are behind this gateway
    /// now.
    pub fn announce(&self) {
        for (_, side, address) in self.machines.from(0) {
            let frame = machine(address).to_vec();
            match side {
                Side::Near => self.out.post(Message::Echo(frame)),
                Side::Far => self.inward.post(Message::ToField(frame)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_channel::mka::Cak;
    use std::time::Duration;

    fn pair(number: u8, key: u8) -> (Pair, Arc<Mailbox<Message>>) {
        let source = EthernetAddress([2, 0, 0, 0, 0, number]);
        let settings =
            StandbySettings { group: 1, priority: 100, hello: Duration::from_millis(20), preempt: false };
        let keys = Arc::new(HelloKeys::default());
        keys.follow(&[Listed { cak: Arc::new(Cak::new(&[key; 16], b"name").unwrap()), priority: 0 }]);
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let mailboxes = [Arc::clone(&mailbox), Arc::clone(&mailbox)];
        (Pair::new(Sci::new(source, 1), source, settings, keys, mailboxes), mailbox)
    }

    fn hello(pair: &Pair, mailbox: &Mailbox<Message>) -> Vec<u8> {
        while mailbox.take().is_some() {}
        let _ = pair.look(Ports { field: true, uplink: true, keys: true }, &[]);
        match mailbox.take() {
            Some(Message::HelloToField(frame)) => frame,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn hello_of_another_key_is_refused() {
        let ((a, from_a), (b, from_b)) = (pair(1, 7), pair(2, 7));
        let (stranger, from_stranger) = pair(3, 8);
        // Each hears the other, and the answer shows that both live.
        for _ in 0..3 {
            b.heard(Via::Field, &hello(&a, &from_a));
            a.heard(Via::Field, &hello(&b, &from_b));
        }
        b.heard(Via::Field, &hello(&stranger, &from_stranger));
        let mut changed = hello(&a, &from_a);
        changed[21] ^= 1;
        b.heard(Via::Field, &changed);
        let seen = lock(&b.state).seen(now());
        assert_eq!(seen.others.iter().map(|(sci, ..)| *sci).collect::<Vec<_>>(), [Sci::new(a.source, 1)]);
        assert!(seen.refused >= 2, "{seen:?}");
    }

    #[test]
    fn flood_of_hellos_costs_little() {
        let ((a, from_a), (b, _)) = (pair(1, 7), pair(2, 7));
        let frame = hello(&a, &from_a);
        let start = now() / TENTH;
        for _ in 0..3 * CHECKED {
            b.heard(Via::Field, &frame);
        }
        let tenths = (now() / TENTH - start + 1) as u32;
        let (_, last) = *lock(&b.checked);
        assert!(last > CHECKED || tenths > 2, "{last} in {tenths}");
        assert!(lock(&b.state).seen(now()).refused >= u64::from(3 * CHECKED));
    }

    #[test]
    fn machines_are_told_in_turns_and_announced() {
        let (a, from_a) = pair(1, 7);
        for last in 0..100 {
            a.machines.add(if last < 40 { Side::Near } else { Side::Far }, [2, 0, 0, 0, 9, last]);
        }
        let known = a.machines.from(0).count();
        let mut told = std::collections::BTreeSet::new();
        for _ in 0..known.div_ceil(MAX_ADDRESSES) {
            let (near, far) = a.some_machines();
            assert!(near.len() + far.len() <= 6 * MAX_ADDRESSES);
            told.extend([near, far].concat().as_chunks::<6>().0.iter().copied());
        }
        assert_eq!(told.len(), known);
        a.announce();
        let (mut near, mut far) = (0, 0);
        while let Some(message) = from_a.take() {
            match message {
                Message::Echo(frame) => near += u32::from(frame[11] < 40),
                Message::ToField(frame) => far += u32::from(frame[11] >= 40),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((near + far) as usize, known);
    }
}
