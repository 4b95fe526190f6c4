//! Gateways that stand by for one another: of a group at one field segment, one forwards.
//!
//! Each says hello at an interval, by the field port and by the uplink
//! ([`antedate_wire::standby`]). The idea is that of VRRP (RFC 9568), with three additions: a lease,
//! a term, and hellos that say who *can* forward.
//!
//! - **Lease.** A gateway forwards until two and a half intervals after it last sent a hello. The others
//!   take over three intervals after they last heard one. So a gateway that was stopped, or whose
//!   hellos stay, ceases to forward before another begins, without a word between them.
//! - **Term.** Each takeover raises the term, which all hellos carry. Of two that forward, because hellos
//!   were lost, the one with the lower term stops when it hears the other; of equal terms the less
//!   preferred one.
//! - **Able.** A gateway without link at either port, without keys, or without the far gateways that it
//!   heard before, cannot forward, says so at once, and stops. One begins to forward only when it has
//!   said for an interval that it can, and then the preferred one of those.
//!
//! Gateways that hear one another by neither port are not parallel, and each forwards. Hellos of the
//! field are authenticated by the caller. They are taken only when they are new: they go on from a hello
//! that was taken, or name one that this process just sent. So recorded ones are of no use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use antedate_wire::Sci;
use antedate_wire::standby::Hello;

use crate::config::standby::StandbySettings;

/// Half intervals for which a gateway forwards after a hello of its own.
const LEASE: u64 = 5;
/// Half intervals without a hello after which its sender counts as gone.
const GONE: u64 = 6;
/// Nanoseconds that a hello may be late.
const LATE: u64 = 2_000_000;
/// The shortest time in nanoseconds for which a gateway listens after its start.
const LISTEN: u64 = 300_000_000;
/// Intervals for which it listens after a link was lost: two processes know each other after two.
const LISTENS: u64 = 6;
/// The same after it stood: hellos wait.
const STOOD: u64 = 3;
/// Nanoseconds for which one that is gone is awaited: so long does the lease bind.
const AWAITED: u64 = 1_000_000_000;
/// Intervals for which a preferred gateway is able before it asks for the task.
const PROVEN: u64 = 50;
/// Own hellos back to which another one may answer as heard.
const RECENT: u64 = 8;
/// The most others of a group.
const MOST: usize = 8;
/// The most gateways behind the uplink that are remembered.
const MOST_FAR: usize = 64;

/// The time until which the forwarding threads forward, for all threads. 0: not at all.
#[derive(Debug, Default)]
pub struct Role(AtomicU64);

impl Role {
    /// Whether to forward. `now` is called where the time counts.
    #[inline]
    #[must_use]
    pub fn forwards(&self, now: impl FnOnce() -> u64) -> bool {
        match self.0.load(Ordering::Acquire) {
            0 => false,
            u64::MAX => true,
            until => now() <= until,
        }
    }
}

/// The port by which a hello came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// The machines' port.
    Field,
    /// The uplink, inside MACsec.
    Uplink,
}

/// What the gateway's ports and keys permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// Whether the field port has a link.
    pub field: bool,
    /// Whether an uplink has a link.
    pub uplink: bool,
    /// Whether there is a key to protect with.
    pub keys: bool,
}

/// The reason why a gateway cannot forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unable {
    /// Its field port has no link.
    Field,
    /// Its uplink has no link.
    Uplink,
    /// It has no key.
    Keys,
    /// No gateway of another group answers.
    Far,
    /// It began to listen just now.
    Listens,
}

impl Unable {
    /// The reason in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Field => "the field port has no link",
            Self::Uplink => "the uplink has no link",
            Self::Keys => "there is no key",
            Self::Far => "no gateway of another group answers",
            Self::Listens => "it listens for others first",
        }
    }
}

/// Another gateway of the group.
#[derive(Debug, Clone, Copy)]
struct Other {
    sci: Sci,
    id: u64,
    sequence: u64,
    heard: u64,
    interval: u64,
    active: bool,
    able: bool,
    priority: u8,
}

impl Other {
    const fn gone_at(&self) -> u64 {
        self.heard + GONE * self.interval / 2 + LATE
    }

    const fn is_there(&self, now: u64) -> bool {
        now <= self.gone_at()
    }
}

/// The group as a status shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Whether this gateway forwards.
    pub active: bool,
    /// Why it cannot, if so.
    pub unable: Option<Unable>,
    /// The others that are there: SCI, whether each forwards, and whether it can.
    pub others: Vec<(Sci, bool, bool)>,
    /// Takeovers of this gateway.
    pub takeovers: u64,
    /// Hellos of the field that were refused.
    pub refused: u64,
    /// Whether a gateway of another group is at this field.
    pub stranger: bool,
}

/// The state. Times are in nanoseconds.
#[derive(Debug)]
pub struct Standby {
    own: Sci,
    settings: StandbySettings,
    interval: u64,
    role: Arc<Role>,
    /// Tells this process from an earlier one.
    id: u64,
    sequence: u64,
    term: u32,
    active: bool,
    /// The time until which it forwards.
    until: u64,
    /// The time until which it listens.
    listens: u64,
    /// The time of the last look.
    looked: u64,
    /// The time of its last hello that left.
    said: u64,
    /// The time until which the lease binds: another gateway is there, or was of late.
    bound: u64,
    unable: Option<Unable>,
    /// The time of its first hello that said that it can, while it can.
    able_since: Option<u64>,
    others: Vec<Other>,
    /// The last hello of the field that was not taken, for its sender to hear of it.
    candidate: (u64, u64),
    /// The gateways behind the uplink that said hello, and the time until which one of them counts as
    /// there.
    far: Vec<Sci>,
    far_until: u64,
    /// The time until which a gateway of another group counts as one of this field.
    stranger: u64,
    takeovers: u64,
    refused: u64,
}

impl Standby {
    /// The gateway with this SCI, which listens first. `id` is a random number.
    #[must_use]
    pub fn new(own: Sci, settings: StandbySettings, id: u64, now: u64) -> Self {
        let interval = settings.hello.as_nanos() as u64;
        Self {
            own,
            settings,
            interval,
            role: Arc::default(),
            id,
            sequence: 0,
            term: 0,
            active: false,
            until: 0,
            listens: now + LISTEN.max(LISTENS * interval),
            looked: now,
            said: 0,
            bound: 0,
            unable: Some(Unable::Listens),
            able_since: None,
            others: Vec::new(),
            candidate: (0, 0),
            far: Vec::new(),
            far_until: 0,
            stranger: 0,
            takeovers: 0,
            refused: 0,
        }
    }

    /// What the forwarding threads look at.
    #[must_use]
    pub fn role(&self) -> Arc<Role> {
        Arc::clone(&self.role)
    }

    /// Whether it forwards.
    #[must_use]
    pub const fn active(&self) -> bool {
        self.active
    }

    /// The group.
    #[must_use]
    pub fn seen(&self, now: u64) -> Seen {
        let there = self.others.iter().filter(|other| other.is_there(now));
        Seen {
            active: self.active,
            unable: self.unable,
            others: there.map(|other| (other.sci, other.active, other.able)).collect(),
            takeovers: self.takeovers,
            refused: self.refused,
            stranger: now < self.stranger,
        }
    }

    /// Counts a hello of the field that is not authentic.
    pub const fn refuse(&mut self) {
        self.refused += 1;
    }

    /// Notes the hello of a gateway behind the uplink.
    pub fn heard_far(&mut self, from: Sci, interval_ms: u16, now: u64) {
        if !self.far.contains(&from) && self.far.len() < MOST_FAR {
            self.far.push(from);
        }
        let until = now + GONE * u64::from(interval_ms) * 1_000_000 / 2 + LATE;
        self.far_until = self.far_until.max(until);
    }

    /// Takes an authentic hello. Returns whether its addresses of machines are news, and whether the
    /// thread is to look at once.
    pub fn heard(&mut self, via: Via, hello: &Hello<'_>, now: u64) -> (bool, bool) {
        if hello.from == self.own {
            return (false, false);
        }
        if hello.group != self.settings.group {
            match via {
                Via::Uplink => self.heard_far(hello.from, hello.interval_ms, now),
                Via::Field => self.stranger = now + AWAITED,
            }
            return (false, false);
        }
        let (own_id, own_sequence) = hello.heard;
        let answers = own_id == self.id && self.sequence.wrapping_sub(own_sequence) < RECENT;
        let at = self.others.iter().position(|other| other.sci == hello.from);
        let before = at.and_then(|at| self.others.get(at)).copied();
        match before.filter(|other| other.id == hello.id) {
            // The copy by the other port, or a recorded one.
            Some(other) if hello.sequence <= other.sequence => return (false, false),
            Some(_) => {}
            None if via == Via::Uplink || answers => {}
            None => {
                self.candidate = (hello.id, hello.sequence);
                self.refused += 1;
                self.bind(hello, now);
                return (false, false);
            }
        }
        self.bind(hello, now);
        let other = Other {
            sci: hello.from,
            id: hello.id,
            sequence: hello.sequence,
            heard: now,
            interval: u64::from(hello.interval_ms) * 1_000_000,
            active: hello.active,
            able: hello.able,
            priority: hello.priority,
        };
        match at.and_then(|at| self.others.get_mut(at)) {
            Some(place) => *place = other,
            None => {
                if self.others.len() >= MOST {
                    self.others.retain(|other| other.is_there(now));
                    self.others.truncate(MOST - 1);
                }
                self.others.push(other);
            }
        }
        if self.candidate.0 == hello.id {
            self.candidate = (0, 0);
        }
        let mut look = before.is_none_or(|before| before.active && !hello.active);
        if self.active {
            let theirs = (hello.term, hello.priority, hello.from.0);
            if hello.active {
                look = true;
                if theirs > (self.term, self.settings.priority, self.own.0) {
                    self.active = false;
                }
            } else if hello.asks && hello.able && hello.priority > self.settings.priority {
                self.active = false;
                look = true;
            }
            self.publish();
        }
        self.term = self.term.max(hello.term);
        (hello.active, look)
    }

    /// Notes that a hello leaves now, and extends the lease. The thread that sends it calls this.
    pub fn said(&mut self, now: u64) {
        if self.active && !self.lapse(now) {
            self.said = now;
            self.until = if self.is_bound(now) { now + self.lease() } else { u64::MAX };
            self.publish();
        }
    }

    /// Looks at the ports, decides, and composes a hello without addresses. `members` are those that
    /// key agreement knows to be live: such a one counts as there while it has never said hello.
    pub fn look(&mut self, ports: Ports, members: &[Sci], now: u64) -> Hello<'static> {
        self.lapse(now);
        if now > self.looked + self.lease() {
            // It stood, and hellos may wait.
            self.listen(now, STOOD);
        }
        self.looked = now;
        self.unable = self.cannot(ports, members, now);
        if !(ports.field && ports.uplink && ports.keys) {
            // It may have missed hellos.
            self.listen(now, LISTENS);
        }
        if self.unable.is_some() {
            (self.active, self.able_since) = (false, None);
        } else if self.active {
            if !self.is_bound(now) {
                self.until = u64::MAX;
            }
        } else if self.may_begin(now) {
            self.active = true;
            self.takeovers += 1;
            self.term = self.term.saturating_add(1);
            // The hello of this look leaves at once, or the lease ends.
            self.said = now;
            self.until = if self.is_bound(now) { now + self.lease() } else { u64::MAX };
        }
        self.publish();
        if self.unable.is_none() && self.able_since.is_none() {
            self.able_since = Some(now);
        }
        self.sequence += 1;
        Hello {
            source: self.own.address(),
            group: self.settings.group,
            active: self.active,
            able: self.unable.is_none(),
            asks: self.asks(now),
            priority: self.settings.priority,
            interval_ms: self.settings.hello.as_millis() as u16,
            term: self.term,
            from: self.own,
            id: self.id,
            sequence: self.sequence,
            heard: self.answered(now),
            near: &[],
            far: &[],
        }
    }

    /// The time of the next look: `next`, or when one that forwards counts as gone.
    #[must_use]
    pub fn due(&self, next: u64) -> u64 {
        let active = self.others.iter().filter(|other| other.active);
        let gone = active.map(|other| other.gone_at() + 1).filter(|_| !self.active);
        // One that is gone for longer was looked at.
        gone.filter(|at| *at + self.interval > next).chain([next]).min().unwrap_or(next)
    }

    const fn lease(&self) -> u64 {
        LEASE * self.interval / 2
    }

    fn publish(&self) {
        self.role.0.store(if self.active { self.until } else { 0 }, Ordering::Release);
    }

    /// Whether another gateway may take over, so that the lease binds.
    const fn is_bound(&self, now: u64) -> bool {
        now <= self.bound
    }

    /// Notes that another gateway is there, even if it may be a recorded one: it may take over.
    fn bind(&mut self, hello: &Hello<'_>, now: u64) {
        self.bound = now + GONE * u64::from(hello.interval_ms) * 1_000_000 / 2 + AWAITED;
        if self.active {
            self.until = self.until.min(self.said + self.lease());
            self.publish();
        }
    }

    /// Ceases to forward, and listens, if the lease ended: another gateway may forward.
    fn lapse(&mut self, now: u64) -> bool {
        let lapsed = self.active && now > self.until;
        if lapsed {
            self.active = false;
            self.listen(now, STOOD);
            self.publish();
        }
        lapsed
    }

    /// Listens before it can forward again.
    fn listen(&mut self, now: u64, intervals: u64) {
        let longest = self.others.iter().map(|other| other.interval).max().unwrap_or(0);
        self.listens = self.listens.max(now + intervals * longest.max(self.interval));
    }

    fn cannot(&self, ports: Ports, members: &[Sci], now: u64) -> Option<Unable> {
        let speaks = |sci: &Sci| self.far.contains(sci) || self.others.iter().any(|other| other.sci == *sci);
        let far = self.far.is_empty() || now <= self.far_until || !members.iter().all(speaks);
        match ports {
            Ports { field: false, .. } => Some(Unable::Field),
            Ports { uplink: false, .. } => Some(Unable::Uplink),
            Ports { keys: false, .. } => Some(Unable::Keys),
            _ if !far => Some(Unable::Far),
            _ if now < self.listens => Some(Unable::Listens),
            _ => None,
        }
    }

    fn may_begin(&self, now: u64) -> bool {
        let own = (self.settings.priority, self.own.0);
        let hinders = |other: &Other| other.active || other.able && (other.priority, other.sci.0) > own;
        self.able_since.is_some_and(|since| now >= since + self.interval)
            && !self.others.iter().any(|other| other.is_there(now) && hinders(other))
    }

    fn asks(&self, now: u64) -> bool {
        let yields = |other: &Other| other.active && other.priority < self.settings.priority;
        let proven = self.able_since.is_some_and(|since| now >= since + PROVEN * self.interval);
        self.settings.preempt
            && !self.active
            && proven
            && self.others.iter().any(|other| other.is_there(now) && yields(other))
    }

    /// The hello to name as heard: in turns those that were taken, and the candidate.
    fn answered(&self, now: u64) -> (u64, u64) {
        let there: Vec<_> = self.others.iter().filter(|other| other.is_there(now)).collect();
        let turn = (self.sequence / 2) as usize % there.len().max(1);
        match there.get(turn) {
            Some(other) if self.candidate.0 == 0 || self.sequence.is_multiple_of(2) => {
                (other.id, other.sequence)
            }
            _ => self.candidate,
        }
    }
}

#[cfg(test)]
mod tests;
