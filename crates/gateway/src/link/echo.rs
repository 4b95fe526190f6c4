//! Echoes between Antedate gateways ([`antedate_wire::echo`]), protected like every frame.
//!
//! The inbound thread hands an echo to the [`Desk`]. The answer to a request goes to the mailbox of
//! the outbound thread, which protects it with the next packet number. No echo reaches the machines,
//! and none of theirs the uplink.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antedate_wire::echo::{ECHO_LEN, Kind, Repr};
use antedate_wire::hello::{self, MAX_HELLO_LEN, Uplinks, is_hello};
use antedate_wire::probe::{TOKEN_LEN, is_probe};
use antedate_wire::standby::is_standby;
use antedate_wire::{EthernetAddress, Sci};

use crate::link::loops::{Guard, Pass};
use crate::link::message::Message;
use crate::link::pair::Pair;
use crate::link::standby::Via;
use crate::link::ways::Pilot;
use crate::run::lock;
use crate::run::loss::hellos::{Hellos, Told};
use crate::run::mailbox::Mailbox;
use crate::sys::sender::Carries;
use crate::sys::thread;

/// The most answers in a second: a member may not make this gateway send at its pleasure.
const ANSWERS: u32 = 100;
const SECOND: u64 = 1_000_000_000;
/// The longest echo.
pub const LONGEST: usize = 9_216;
/// The most requests that wait for answers.
const WAITING: usize = 128;

/// A request to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// The member. Zero for everyone.
    pub to: Sci,
    /// Its address on the uplink.
    pub destination: EthernetAddress,
    /// Octets of the request, unprotected.
    pub len: usize,
    /// Octets of the answer.
    pub wanted: usize,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The number of the request.
    pub sequence: u32,
    /// The member that answered.
    pub from: Sci,
    /// Nanoseconds from request to answer.
    pub took: u64,
    /// Octets of the request as it arrived.
    pub heard: usize,
    /// Octets of the answer.
    pub len: usize,
}

/// Where echoes meet: asked here, answered here.
#[derive(Debug)]
pub struct Desk {
    own: Sci,
    source: EthernetAddress,
    /// Tells this process from an earlier one.
    id: u32,
    out: Arc<Mailbox<Message>>,
    next: AtomicU32,
    /// The number of the next hello.
    rounds: AtomicU32,
    waiting: Mutex<Vec<Waiting>>,
    /// The current second and the answers in it.
    answered: Mutex<(u64, u32)>,
    /// The gateways that say hello.
    pub hellos: Hellos<Sci>,
    /// The gateways that stand by for one another, if this is one of them.
    pub pair: Option<Arc<Pair>>,
    /// The choice between two uplinks, if one of them waits.
    pub pilot: Option<Arc<Pilot>>,
    /// The guard against loops with the mailbox of the inbound thread, if it looks for some.
    pub guard: Option<(Arc<Guard>, Arc<Mailbox<Message>>)>,
}

#[derive(Debug)]
struct Waiting {
    sequence: u32,
    asked: u64,
    answers: Sender<Answer>,
}

impl Desk {
    /// A desk of the gateway with this SCI and address. `out` is the mailbox of the outbound thread.
    #[must_use]
    pub fn new(own: Sci, source: EthernetAddress, out: Arc<Mailbox<Message>>) -> Self {
        let mut id = [0; 4];
        // Without random numbers an answer to an earlier process may be taken for one to this.
        let _ = getrandom::fill(&mut id);
        Self {
            own,
            source,
            id: u32::from_ne_bytes(id),
            out,
            next: AtomicU32::new(1),
            rounds: AtomicU32::new(1),
            waiting: Mutex::default(),
            answered: Mutex::default(),
            hellos: Hellos::default(),
            pair: None,
            pilot: None,
            guard: None,
        }
    }

    /// Sends a request. Its number, and the place of its answers, which several members may send.
    #[must_use]
    pub fn ask(&self, ask: Ask) -> (u32, Receiver<Answer>) {
        let sequence = self.next.fetch_add(1, Ordering::Relaxed);
        let (answers, receiver) = mpsc::channel();
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= WAITING {
            waiting.remove(0);
        }
        waiting.push(Waiting { sequence, asked: thread::now(), answers });
        drop(waiting);
        let wanted = ask.wanted.clamp(ECHO_LEN, LONGEST);
        self.send(ask.len, |own| Repr {
            destination: ask.destination,
            kind: Kind::Request,
            sequence,
            to: ask.to,
            wanted_len: wanted as u16,
            ..own
        });
        (sequence, receiver)
    }

    /// Sends a request and waits for one answer.
    #[must_use]
    pub fn answer(&self, ask: Ask, patience: Duration) -> Option<Answer> {
        self.ask(ask).1.recv_timeout(patience).ok()
    }

    fn send(&self, len: usize, of: impl FnOnce(Repr) -> Repr) {
        let own = Repr {
            destination: EthernetAddress::BROADCAST,
            source: self.source,
            kind: Kind::Request,
            id: self.id,
            sequence: 0,
            from: self.own,
            to: Sci([0; 8]),
            heard_len: 0,
            wanted_len: 0,
        };
        let mut frame = vec![0; len.clamp(ECHO_LEN, LONGEST)];
        // Cannot fail: the frame has the length of an echo.
        if of(own).emit(&mut frame).is_ok() {
            self.out.post(Message::Echo(frame));
        }
    }

    /// Says hello to the other gateways.
    pub fn say_hello(&self, interval: Duration, field_down: bool) {
        let sequence = self.rounds.fetch_add(1, Ordering::Relaxed);
        self.out.post(Message::Echo(self.hello(sequence, interval, field_down, None)));
    }

    /// Says hello by each of two uplinks of which one waits. `second_carries` and `heard` are parts of
    /// [`Uplinks`].
    pub fn say_hello_by_each(
        &self,
        interval: Duration,
        field_down: bool,
        second_carries: bool,
        heard: &[u8],
    ) {
        let sequence = self.rounds.fetch_add(1, Ordering::Relaxed);
        for (by, by_second) in [(Carries::First, false), (Carries::Second, true)] {
            let uplinks = Uplinks { by_second, second_carries, heard };
            self.out.post(Message::HelloBy(by, self.hello(sequence, interval, field_down, Some(uplinks))));
        }
    }

    fn hello(
        &self,
        sequence: u32,
        interval: Duration,
        field_down: bool,
        uplinks: Option<Uplinks<'_>>,
    ) -> Vec<u8> {
        let hello = hello::Repr {
            source: self.source,
            id: self.id,
            sequence,
            from: self.own,
            interval_ms: interval.as_millis() as u16,
            field_down,
            uplinks,
        };
        let mut frame = [0; MAX_HELLO_LEN];
        hello.emit(&mut frame).to_vec()
    }

    /// As [`Self::heard`], with the uplink by which the frame came.
    #[cold]
    #[inline(never)]
    pub fn heard_by(&self, by_second: bool, frame: &[u8]) {
        if let Some(pilot) = &self.pilot
            && let Ok(hello) = hello::Repr::parse(frame)
        {
            pilot.heard(by_second, &hello, thread::now());
        }
        self.heard(frame);
    }

    /// Takes an authenticated echo or hello from the uplink.
    #[cold]
    #[inline(never)]
    pub fn heard(&self, frame: &[u8]) {
        if is_hello(frame) {
            let Ok(hello) = hello::Repr::parse(frame) else { return };
            if let Some(pair) = &self.pair {
                pair.heard_far(hello.from, hello.interval_ms);
            }
            let hello::Repr { id, sequence, interval_ms, field_down, .. } = hello;
            let told = Told { id, sequence, interval_ms, field_down };
            return self.hellos.note(hello.from, told, thread::now());
        }
        if is_probe(frame) {
            return self.heard_probe(Via::Uplink, frame);
        }
        if is_standby(frame) {
            return self.pair.as_ref().map_or((), |pair| pair.heard(Via::Uplink, frame));
        }
        let Ok(echo) = Repr::parse(frame) else { return };
        match echo.kind {
            Kind::Request
                if (echo.to == self.own || echo.to == Sci([0; 8])) && self.may_answer(thread::now()) =>
            {
                self.send(echo.wanted_len.into(), |own| Repr {
                    destination: echo.source,
                    kind: Kind::Answer,
                    id: echo.id,
                    sequence: echo.sequence,
                    to: echo.from,
                    heard_len: frame.len() as u16,
                    ..own
                });
            }
            Kind::Answer if echo.to == self.own && echo.id == self.id => {
                let mut waiting = lock(&self.waiting);
                let now = thread::now();
                // Those who asked and went away.
                waiting.retain(|one| now < one.asked + 10 * SECOND);
                let Some(one) = waiting.iter().find(|one| one.sequence == echo.sequence) else { return };
                let _ = one.answers.send(Answer {
                    sequence: echo.sequence,
                    from: echo.from,
                    took: now.saturating_sub(one.asked),
                    heard: echo.heard_len.into(),
                    len: frame.len(),
                });
            }
            _ => {}
        }
    }

    /// Sends a probe for loops.
    pub fn say_probe(&self) {
        let Some((guard, _)) = &self.guard else { return };
        let mut token = [0; TOKEN_LEN];
        // Without random numbers a machine could guess it.
        if getrandom::fill(&mut token).is_ok() {
            self.out.post(Message::Echo(guard.probe(token).to_vec()));
        }
    }

    /// Takes a probe, and sends that of another gateway on.
    #[cold]
    #[inline(never)]
    pub fn heard_probe(&self, via: Via, frame: &[u8]) {
        let Some((guard, inward)) = &self.guard else { return };
        let forwards = self.pair.as_ref().is_none_or(|pair| pair.forwards());
        match guard.heard(via, frame, forwards, thread::now()) {
            Pass::Nothing => {}
            Pass::On(frame) if via == Via::Field => self.out.post(Message::Echo(frame.to_vec())),
            Pass::On(frame) => inward.post(Message::ToField(frame.to_vec())),
        }
    }

    fn may_answer(&self, now: u64) -> bool {
        let mut answered = lock(&self.answered);
        let (second, count) = &mut *answered;
        if now / SECOND != *second {
            (*second, *count) = (now / SECOND, 0);
        }
        *count += 1;
        *count <= ANSWERS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::loss::hellos::Far;

    fn desk(number: u8) -> (Desk, Arc<Mailbox<Message>>) {
        let out = Arc::new(Mailbox::new().unwrap());
        let address = EthernetAddress([2, 0, 0, 0, 0, number]);
        (Desk::new(Sci::new(address, 1), address, Arc::clone(&out)), out)
    }

    fn sent(out: &Mailbox<Message>) -> Vec<u8> {
        match out.take() {
            Some(Message::Echo(frame)) => frame,
            other => panic!("{other:?}"),
        }
    }

    fn ask(to: &Desk, len: usize, wanted: usize) -> Ask {
        Ask { to: to.own, destination: to.source, len, wanted }
    }

    #[test]
    fn request_is_answered_with_its_length() {
        let ((a, from_a), (b, from_b)) = (desk(1), desk(2));
        let (sequence, answers) = a.ask(ask(&b, 1000, 200));
        let request = sent(&from_a);
        assert_eq!(request.len(), 1000);
        b.heard(&request);
        let answer = sent(&from_b);
        assert_eq!(answer.len(), 200);
        a.heard(&answer);
        let got = answers.try_recv().unwrap();
        assert_eq!((got.sequence, got.from, got.heard, got.len), (sequence, b.own, 1000, 200));
    }

    #[test]
    fn hello_is_noted_and_not_answered() {
        let ((a, from_a), (b, from_b)) = (desk(1), desk(2));
        assert_eq!(b.hellos.far(thread::now()), Far::Unknown);
        for field_down in [true, false] {
            a.say_hello(Duration::from_secs(1), field_down);
            b.heard(&sent(&from_a));
            assert_eq!(b.hellos.far(thread::now()), Far::There { field_down });
        }
        assert!(from_b.take().is_none());
    }

    #[test]
    fn echoes_for_others_are_ignored() {
        let ((a, from_a), (b, from_b), (c, from_c)) = (desk(1), desk(2), desk(3));
        let (_, answers) = a.ask(ask(&b, 60, 60));
        let request = sent(&from_a);
        c.heard(&request);
        assert!(from_c.take().is_none());
        b.heard(&request);
        let answer = sent(&from_b);
        c.heard(&answer);
        // An answer to an earlier process of the same gateway.
        let (again, _) = desk(1);
        let (_, none) = again.ask(ask(&b, 60, 60));
        if again.id != a.id {
            again.heard(&answer);
            assert!(none.try_recv().is_err());
        }
        a.heard(&answer);
        assert!(answers.try_recv().is_ok());
        a.heard(&request);
        assert!(from_a.take().is_none(), "its own request is for another");
    }

    #[test]
    fn answers_are_bounded() {
        let ((a, from_a), (b, from_b)) = (desk(1), desk(2));
        let mut answers = 0;
        let start = thread::now() / SECOND;
        for _ in 0..3 * ANSWERS {
            let _asked = a.ask(ask(&b, 60, 60));
            b.heard(&sent(&from_a));
            answers += u32::from(from_b.take().is_some());
        }
        let seconds = (thread::now() / SECOND - start + 1) as u32;
        assert!(answers <= seconds * ANSWERS, "{answers} in {seconds} s");
        assert!(answers >= ANSWERS);
        assert!(lock(&a.waiting).len() <= WAITING);
    }
}
