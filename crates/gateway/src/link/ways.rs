//! Two uplinks of which one carries, and the other one waits.
//!
//! A gateway says hello by both, and tells in each hello which others it hears by which of *their*
//! uplinks. So each knows where its own frames arrive, which no link and no received frame shows. It
//! carries by the uplink with the most gateways that it hears and that hear it; then by that with the
//! most that hear it. Between equal ones it stays, so that a repaired way changes nothing.
//!
//! A way is lost when three intervals passed without a hello by it, and the other one brought three
//! meanwhile. So silence by both, as of a machine that stood or a clock that jumped, changes nothing.
//!
//! Hellos are inside MACsec. Those of one round have one number. Each is new: its number follows the last
//! one of its process by that uplink.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use antedate_wire::Sci;
use antedate_wire::hello::{self, HEARD_LEN, MAX_HEARD, Repr};

use crate::config::uplink::Waiting;
use crate::link::message::Message;
use crate::run::lock;
use crate::run::loss::hellos::{LATE, MISSED};
use crate::run::mailbox::Mailbox;
use crate::sys::sender::Carries;

/// Intervals for which two equal uplinks stay so, before the preferred one, or that of the others, is
/// taken.
const SURE: u64 = 50;

/// The reason for a change of the uplink that carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The one before has no link.
    Link,
    /// Hellos by the one before are lost, in either direction.
    Hellos,
    /// Both are well, and the other gateways carry by this one.
    Others,
    /// Both are well, and the first one is preferred.
    Preferred,
}

impl Cause {
    /// The cause in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Link => "the other one has no link",
            Self::Hellos => "more gateways hear and are heard by it",
            Self::Others => "the other gateways carry by it",
            Self::Preferred => "it is preferred",
        }
    }
}

/// The fault of an uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lame {
    /// It has no link.
    Link,
    /// A gateway that is there is not heard by it.
    Unheard(Sci),
    /// A gateway that is there does not hear it.
    Deaf(Sci),
}

/// How many gateways an uplink reaches: those that hear and are heard by it, and those that hear it.
/// `None`: it has no link.
type Reach = Option<(usize, usize)>;

/// The last hello by a way.
#[derive(Debug, Clone, Copy)]
struct Last {
    sequence: u32,
    /// The time until which it counts. 0: none came.
    until: u64,
    /// Hellos by the other way since then.
    missed: u64,
    /// Our uplink by which it came.
    ours: usize,
}

impl Last {
    /// Whether the way brings hellos.
    const fn brings(&self, now: u64) -> bool {
        self.until > 0 && (now <= self.until || self.missed < MISSED)
    }
}

/// Another gateway.
#[derive(Debug, Clone, Copy)]
struct Other {
    sci: Sci,
    id: u32,
    /// By its uplinks.
    theirs: [Last; 2],
    /// By our uplinks.
    ours: [Last; 2],
    /// Which of our uplinks it hears.
    hears: [bool; 2],
    /// Its uplink that carries.
    carries: usize,
    /// The number of the hello that told the last two.
    told: u32,
}

impl Other {
    fn is_there(&self, now: u64) -> bool {
        self.theirs.iter().any(|last| now <= last.until)
    }

    /// Our uplink by which frames of its machines come.
    fn carries_here(&self, now: u64) -> Option<usize> {
        let last = &self.theirs[self.carries];
        last.brings(now).then_some(last.ours)
    }
}

/// The state of both uplinks. Times are in nanoseconds.
#[derive(Debug)]
pub struct Ways {
    own: Sci,
    preempt: bool,
    interval: u64,
    /// The uplink that carries: 0 or 1.
    carries: usize,
    /// Whether it was once chosen among equal ones.
    settled: bool,
    /// The time since which both are equal.
    equal: Option<u64>,
    others: Vec<Other>,
    switches: u64,
    cause: Option<Cause>,
}

/// What a look saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Whether the second uplink carries.
    pub second_carries: bool,
    /// How often the uplink changed.
    pub switches: u64,
    /// The cause of the last change.
    pub cause: Option<Cause>,
    /// What is wrong with either.
    pub lame: [Option<Lame>; 2],
    /// The gateways that are heard, [`HEARD_LEN`] octets each.
    pub heard: Vec<u8>,
}

impl Ways {
    /// Begins with the first uplink.
    #[must_use]
    pub const fn new(own: Sci, settings: &Waiting, interval: Duration) -> Self {
        Self {
            own,
            preempt: settings.preempt,
            interval: interval.as_nanos() as u64,
            carries: 0,
            settled: false,
            equal: None,
            others: Vec::new(),
            switches: 0,
            cause: None,
        }
    }

    /// Takes an authenticated hello that came by this uplink. Returns whether it tells something new.
    pub fn heard(&mut self, by_second: bool, hello: &Repr<'_>, now: u64) -> bool {
        let Some(uplinks) = hello.uplinks.filter(|_| hello.from != self.own) else { return false };
        let (ours, theirs) = (usize::from(by_second), usize::from(uplinks.by_second));
        let place = self.others.iter().position(|one| one.sci == hello.from && one.id == hello.id);
        let place = place.unwrap_or_else(|| {
            self.others.retain(|one| one.sci != hello.from);
            if self.others.len() >= MAX_HEARD {
                let latest = |one: &Other| one.theirs.iter().map(|last| last.until).max();
                let oldest = self.others.iter().enumerate().min_by_key(|(_, one)| latest(one));
                let oldest = oldest.map_or(0, |(at, _)| at);
                self.others.remove(oldest);
            }
            let before = hello.sequence.wrapping_sub(1);
            self.others.push(Other {
                sci: hello.from,
                id: hello.id,
                theirs: [Last { sequence: before, until: 0, missed: 0, ours: 0 }; 2],
                ours: [Last { sequence: before, until: 0, missed: 0, ours: 0 }; 2],
                hears: [false; 2],
                carries: 0,
                told: before,
            });
            self.others.len() - 1
        });
        let Some(other) = self.others.get_mut(place) else { return false };
        // Late, or held up by somebody on the way.
        let is_after = |last: u32| hello.sequence.wrapping_sub(last) as i32 > 0;
        if !is_after(other.theirs[theirs].sequence) {
            return false;
        }
        let until = now + MISSED * u64::from(hello.interval_ms) * 1_000_000 + LATE;
        let mut news = now > other.ours[ours].until || now > other.theirs[theirs].until;
        let last = Last { sequence: hello.sequence, until, missed: 0, ours };
        (other.theirs[theirs], other.ours[ours]) = (last, last);
        other.theirs[1 - theirs].missed += 1;
        other.ours[1 - ours].missed += 1;
        if is_after(other.told) {
            let (hears, carries) = (uplinks.hears(self.own), usize::from(uplinks.second_carries));
            news |= (hears, carries) != (other.hears, other.carries);
            (other.hears, other.carries, other.told) = (hears, carries, hello.sequence);
        }
        news
    }

    fn there(&self, now: u64) -> impl Iterator<Item = &Other> {
        self.others.iter().filter(move |one| one.is_there(now))
    }

    fn reach(&self, uplink: usize, link: bool, now: u64) -> Reach {
        let hear = || self.there(now).filter(|one| one.hears[uplink]);
        let heard = |one: &&Other| one.ours[uplink].brings(now);
        link.then(|| (hear().filter(heard).count(), hear().count()))
    }

    fn lame(&self, uplink: usize, link: bool, now: u64) -> Option<Lame> {
        if !link {
            return Some(Lame::Link);
        }
        self.there(now).find_map(|one| {
            if !one.ours[uplink].brings(now) {
                return Some(Lame::Unheard(one.sci));
            }
            (!one.hears[uplink]).then_some(Lame::Deaf(one.sci))
        })
    }

    /// Looks at both uplinks, and chooses.
    pub fn look(&mut self, links: [bool; 2], now: u64) -> Seen {
        let other = 1 - self.carries;
        let [here, there] = [self.carries, other].map(|uplink| self.reach(uplink, links[uplink], now));
        let cause = if there > here {
            Some(if links[self.carries] { Cause::Hellos } else { Cause::Link })
        } else if there == here && here.is_some() {
            let since = *self.equal.get_or_insert(now);
            self.among_equals(other, now >= since + SURE * self.interval, now)
        } else {
            None
        };
        if there != here {
            self.equal = None;
        }
        self.settled |= there == here && here.is_some_and(|(both, _)| both > 0);
        if cause.is_some() {
            self.carries = other;
            self.switches += 1;
            self.cause = cause;
            self.equal = None;
        }
        let heard = self.there(now).flat_map(|one| {
            let ways = one.theirs.map(|last| last.brings(now));
            hello::heard(one.sci, ways)
        });
        Seen {
            second_carries: self.carries == 1,
            switches: self.switches,
            cause: self.cause,
            heard: heard.take(MAX_HEARD * HEARD_LEN).collect(),
            lame: [0, 1].map(|uplink| self.lame(uplink, links[uplink], now)),
        }
    }

    /// Whether to take the other one of two equal uplinks, which are so for `sure`.
    fn among_equals(&self, other: usize, sure: bool, now: u64) -> Option<Cause> {
        if self.preempt {
            return (sure && other == 0).then_some(Cause::Preferred);
        }
        // At the start as the others do. Later the one with the lowest SCI leads.
        let leader = self.there(now).min_by_key(|one| one.sci.0)?;
        let follows = !self.settled || (sure && leader.sci.0 < self.own.0);
        (follows && leader.carries_here(now) == Some(other)).then_some(Cause::Others)
    }
}

/// The choice between two uplinks, which threads share.
#[derive(Debug)]
pub struct Pilot {
    state: Mutex<Ways>,
    links: [AtomicBool; 2],
    seen: Mutex<Seen>,
    /// The thread that looks.
    looks: OnceLock<Thread>,
    out: Arc<Mailbox<Message>>,
}

impl Pilot {
    /// The choice of a gateway. `out` is the mailbox of the outbound thread.
    #[must_use]
    pub fn new(ways: Ways, out: Arc<Mailbox<Message>>) -> Self {
        let links = [true; 2].map(AtomicBool::new);
        Self { state: Mutex::new(ways), links, seen: Mutex::default(), looks: OnceLock::new(), out }
    }

    /// Wakes this thread when both uplinks are to be looked at.
    pub fn wake(&self, thread: Thread) {
        let _ = self.looks.set(thread);
    }

    fn look_at_once(&self) {
        if let Some(thread) = self.looks.get() {
            thread.unpark();
        }
    }

    /// Takes an authenticated hello.
    pub fn heard(&self, by_second: bool, hello: &Repr<'_>, now: u64) {
        if lock(&self.state).heard(by_second, hello, now) {
            self.look_at_once();
        }
    }

    /// Notes which uplinks have a link.
    pub fn links(&self, up: [bool; 2]) {
        let before = [0, 1].map(|at| self.links[at].swap(up[at], Ordering::Relaxed));
        if before != up {
            self.look_at_once();
        }
    }

    /// Looks, and has frames leave by the chosen uplink. Returns what was seen before, and now.
    pub fn look(&self, now: u64) -> (Seen, Seen) {
        let links = [0, 1].map(|at| self.links[at].load(Ordering::Relaxed));
        let seen = lock(&self.state).look(links, now);
        let before = std::mem::replace(&mut *lock(&self.seen), seen.clone());
        if before.second_carries != seen.second_carries {
            let carries = if seen.second_carries { Carries::Second } else { Carries::First };
            self.out.post(Message::CarryBy(carries));
        }
        (before, seen)
    }

    /// What was seen last.
    #[must_use]
    pub fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }
}

#[cfg(test)]
mod tests;
