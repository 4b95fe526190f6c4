//! What the threads of a side share: bounds, log lines, and mail to each other.
//!
//! Each session is one thread's, and the number of a session names it. A datagram takes nothing of
//! this; sessions do when they begin and end.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use antedate_host::clock::Moment;
use mio::Waker;
use serde_json::Value;
use std::net::SocketAddr;

use crate::event_loop::{FIRST_SESSION, random};
use crate::half_open::HalfOpen;
use crate::service::Keys;
use crate::summary::Summaries;

/// The most hints in a second.
const HINTS_A_SECOND: u64 = 100;
/// Bits of a hint's count below the second.
const COUNT_BITS: u32 = 16;

/// A message to a thread.
#[derive(Debug)]
pub(crate) enum Mail {
    /// other keys
    Keys(Arc<Keys>),
    /// the address of the destination
    Target(SocketAddr),
    /// the handshake of this session gives way
    GiveWay(usize),
    /// a quiet session of this identity gives way
    MakeSpace(Vec<u8>),
    /// the first thread wants the status
    StatusWanted,
    /// the status of the thread with this number
    Status(usize, Value),
}

#[derive(Debug)]
struct Member {
    waker: Waker,
    mail: Mutex<Vec<Mail>>,
    has_mail: AtomicBool,
    /// Turns of its loop.
    turns: AtomicU64,
}

/// The threads of a side.
#[derive(Debug)]
pub(crate) struct Crew {
    members: Vec<Member>,
    began: Moment,
    cookie_secret: [u8; 32],
    sessions: AtomicUsize,
    most_sessions: usize,
    half_open: Mutex<HalfOpen>,
    /// A second, and the hints sent in it.
    hints: AtomicU64,
    ended: AtomicBool,
    pub(crate) summaries: Summaries,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Crew {
    /// A crew of the threads that wait with these, with bounds of all sessions and handshakes.
    pub(crate) fn new(wakers: Vec<Waker>, most_sessions: usize, most_handshakes: usize) -> Self {
        let member = |waker| Member {
            waker,
            mail: Mutex::default(),
            has_mail: AtomicBool::new(false),
            turns: AtomicU64::new(0),
        };
        let mut cookie_secret = [0; 32];
        random(&mut cookie_secret);
        Self {
            members: wakers.into_iter().map(member).collect(),
            began: Moment::now(),
            cookie_secret,
            sessions: AtomicUsize::new(0),
            most_sessions,
            half_open: Mutex::new(HalfOpen::new(most_handshakes)),
            hints: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            summaries: Summaries::default(),
        }
    }

    /// The number of threads.
    pub(crate) fn size(&self) -> usize {
        self.members.len()
    }

    /// The first session number of a thread. The next one is [`Self::size`] further.
    pub(crate) const fn first_session(thread: usize) -> usize {
        FIRST_SESSION + thread
    }

    /// The thread of a session.
    fn owner(&self, session: usize) -> usize {
        session.saturating_sub(FIRST_SESSION) % self.size().max(1)
    }

    /// Milliseconds since the start, the same at all threads: cookies have a time.
    pub(crate) fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// The secret of cookies, which any thread may have to verify.
    pub(crate) const fn cookie_secret(&self) -> [u8; 32] {
        self.cookie_secret
    }

    /// Takes a place for a session. Returns false if all are taken.
    pub(crate) fn enter(&self) -> bool {
        let more = |sessions| (sessions < self.most_sessions).then_some(sessions + 1);
        self.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Gives a place back.
    pub(crate) fn leave(&self) {
        let before = self.sessions.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "as many leave as entered");
    }

    /// Handshakes in progress of all threads.
    pub(crate) fn half_open(&self) -> MutexGuard<'_, HalfOpen> {
        lock(&self.half_open)
    }

    /// Ends a handshake that another thread has, if it has. Returns whether.
    pub(crate) fn give_way(&self, thread: usize, session: usize) -> bool {
        let owner = self.owner(session);
        if owner == thread {
            return false;
        }
        self.half_open().end(session);
        self.send(owner, Mail::GiveWay(session));
        true
    }

    /// Whether a hint may be sent at this time.
    pub(crate) fn may_hint(&self, now: u64) -> bool {
        let second = now / 1000;
        let next = |hints: u64| {
            let count = if hints >> COUNT_BITS == second { hints & ((1 << COUNT_BITS) - 1) } else { 0 };
            (count < HINTS_A_SECOND).then_some(second << COUNT_BITS | (count + 1))
        };
        self.hints.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// Sends a message to a thread.
    pub(crate) fn send(&self, thread: usize, mail: Mail) {
        let Some(member) = self.members.get(thread) else { return };
        lock(&member.mail).push(mail);
        member.has_mail.store(true, Ordering::Release);
        if let Err(error) = member.waker.wake() {
            // It looks within 100 ms anyway.
            tracing::debug!(%error, "a thread is not woken");
        }
    }

    /// Sends a message to all threads but this one.
    pub(crate) fn send_others(&self, thread: usize, mail: impl Fn() -> Mail) {
        (0..self.size()).filter(|other| *other != thread).for_each(|other| self.send(other, mail()));
    }

    /// The messages since the last call.
    pub(crate) fn mail(&self, thread: usize) -> Vec<Mail> {
        match self.members.get(thread) {
            // Most often there is none, and the first look writes nothing.
            Some(member)
                if member.has_mail.load(Ordering::Relaxed)
                    && member.has_mail.swap(false, Ordering::AcqRel) =>
            {
                std::mem::take(&mut *lock(&member.mail))
            }
            _ => Vec::new(),
        }
    }

    /// Counts a turn of a thread's loop.
    pub(crate) fn turn(&self, thread: usize) {
        if let Some(member) = self.members.get(thread) {
            member.turns.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether each thread has made a turn since the last time that this was so. `seen` is empty at
    /// first.
    pub(crate) fn all_turned(&self, seen: &mut Vec<u64>) -> bool {
        seen.resize(self.size(), u64::MAX);
        let turns = |member: &Member| member.turns.load(Ordering::Relaxed);
        if self.members.iter().zip(&*seen).any(|(member, before)| turns(member) == *before) {
            return false;
        }
        self.members.iter().zip(seen).for_each(|(member, seen)| *seen = turns(member));
        true
    }

    /// Ends all threads.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        for member in &self.members {
            let _ = member.waker.wake();
        }
    }

    /// Whether a thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Poll, Token};

    fn crew(threads: usize) -> (Crew, Vec<Poll>) {
        let polls: Vec<Poll> = (0..threads).map(|_| Poll::new().unwrap()).collect();
        let wakers = polls.iter().map(|poll| Waker::new(poll.registry(), Token(0)).unwrap()).collect();
        (Crew::new(wakers, 3, 16), polls)
    }

    #[test]
    fn sessions_of_all_threads_share_the_places() {
        let (crew, _polls) = crew(2);
        let entered = std::thread::scope(|scope| {
            let enter = || (0..100).filter(|_| crew.enter()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(enter)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!(entered, 3);
        crew.leave();
        assert!(crew.enter() && !crew.enter());
    }

    #[test]
    fn hints_of_a_second_are_bounded() {
        let (crew, _polls) = crew(2);
        for second in [0, 1, 500_000] {
            let sent = (0..5000).filter(|at| crew.may_hint(second * 1000 + at % 1000)).count();
            assert_eq!(sent as u64, HINTS_A_SECOND);
        }
    }

    #[test]
    fn handshake_of_another_thread_gives_way() {
        let (crew, mut polls) = crew(3);
        let session = Crew::first_session(1) + 2 * crew.size();
        crew.half_open().begin(session, ([10, 0, 0, 1], 1).into());
        assert!(!crew.give_way(1, session), "its own thread does it");
        assert!(crew.mail(1).is_empty());
        assert!(crew.give_way(0, session));
        let mut events = mio::Events::with_capacity(4);
        polls[1].poll(&mut events, Some(std::time::Duration::from_secs(10))).unwrap();
        assert!(!events.is_empty(), "the thread is woken");
        assert!(matches!(crew.mail(1)[..], [Mail::GiveWay(of)] if of == session));
        assert!(crew.mail(1).is_empty() && crew.mail(0).is_empty());
        let full = (0..16).all(|other| {
            let from = ([10, 0, 0, other], 1).into();
            let free = crew.half_open().oldest_beyond(from).is_none();
            crew.half_open().begin(100 + usize::from(other), from);
            free
        });
        assert!(full, "its place is free at once");
    }

    #[test]
    fn stuck_thread_is_noticed() {
        let ((crew, _polls), mut seen) = (crew(2), Vec::new());
        assert!(crew.all_turned(&mut seen));
        crew.turn(0);
        assert!(!crew.all_turned(&mut seen));
        crew.turn(0);
        crew.turn(1);
        assert!(crew.all_turned(&mut seen));
        assert!(!crew.all_turned(&mut seen));
    }
}
