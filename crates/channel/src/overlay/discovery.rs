//! Discovery of the longest packet that a path carries, without the network's help: Datagram
//! Packetization Layer Path MTU Discovery (RFC 8899).
//!
//! Probes are packets of different sizes which the other end answers. Each round has a short one
//! as well: without its answer the other end is silent, and the round says nothing about sizes. A
//! size is in use once it was answered; until then the base is, which nearly every path carries.
//! Rounds with longer candidates search upwards. Later rounds confirm the size in use, as long as
//! there is traffic, and sometimes try longer ones, since a path may grow.
//!
//! The kernel's path MTU (ICMP) is a hint: it lowers the size at once, and the next answer to a
//! longer probe overrules it. So a forged one costs a round trip.
//!
//! Times are nanoseconds. Sizes are octets of a packet in the tunnel.

/// Sizes are multiples of this, as WireGuard pads to it.
pub const STEP: usize = 16;
/// Octets of the short probe.
const SHORT: usize = 64;
/// The most candidates of a round.
const CANDIDATES: usize = 8;
/// The most probes of a round: candidates, the size in use, and the short one.
const PROBES: usize = CANDIDATES + 2;
/// Wait for the answers of a round: the least of RFC 8899, 5.1.1 (`PROBE_TIMER`).
const ANSWER: u64 = 1_000_000_000;
/// Rounds until a verdict (`MAX_PROBES`).
const ROUNDS: u8 = 3;
/// Interval of rounds that confirm the size in use (`CONFIRMATION_TIMER`).
const CONFIRM: u64 = 5_000_000_000;
/// Interval of searches for a longer size (`PMTU_RAISE_TIMER`). The RFC's 600 s would leave a path
/// that has grown unused for ten minutes, and a search costs a few packets.
const RAISE: u64 = 30_000_000_000;

/// A probe to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Its size.
    pub size: usize,
    /// The number that its answer repeats.
    pub number: u32,
}

/// The reason for the size in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The own interface carries no more.
    Interface,
    /// The kernel's path MTU.
    Kernel,
    /// A probe was answered.
    Probe,
    /// No probe was answered so far.
    Base,
}

impl Source {
    /// Its name in the status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interface => "interface",
            Self::Kernel => "kernel",
            Self::Probe => "probe",
            Self::Base => "base",
        }
    }
}

/// Bounds of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The size that every path carries.
    pub least: usize,
    /// The size in use before the first answer.
    pub base: usize,
    /// The longest size that the own interface carries.
    pub most: usize,
    /// The size in use if the other end answers no probe.
    pub blind: usize,
}

/// The search on one path.
#[derive(Debug, Clone)]
pub struct Discovery {
    bounds: Bounds,
    kernel: Option<usize>,
    /// The size in use.
    size: usize,
    /// Whether a probe of this size was answered.
    answered: bool,
    /// The time of its last change.
    changed: u64,
    searching: bool,
    /// The longest candidate that was not refuted.
    top: usize,
    /// Rounds without a longer size, without an answer of the size in use, and without any.
    failed: u8,
    lost: u8,
    silent: u8,
    /// Whether the other end ever answered.
    heard: bool,
    round: u32,
    probes: [usize; PROBES],
    count: usize,
    sent: usize,
    /// A bit for each answered probe of the round.
    answers: u16,
    raised: bool,
    /// The end of the round, or the time of the next one.
    due: u64,
    raise: u64,
    /// The traffic at the last round.
    traffic: u64,
}

impl Bounds {
    fn clamp(self) -> Self {
        let round = |size: usize| size.min(self.most) / STEP * STEP;
        let most = round(self.most);
        Self { least: round(self.least), base: round(self.base), most, blind: round(self.blind) }
    }
}

impl Discovery {
    /// A search that begins at `now`.
    #[must_use]
    pub fn new(bounds: Bounds, now: u64) -> Self {
        let bounds = bounds.clamp();
        Self {
            bounds,
            kernel: None,
            size: bounds.base,
            answered: false,
            changed: now,
            searching: true,
            top: bounds.most,
            failed: 0,
            lost: 0,
            silent: 0,
            heard: false,
            round: 0,
            probes: [0; PROBES],
            count: 0,
            sent: 0,
            answers: 0,
            raised: false,
            due: now,
            raise: now,
            traffic: 0,
        }
    }

    /// Begins anew on another path, or with another interface.
    pub fn restart(&mut self, bounds: Bounds, now: u64) {
        *self = Self { round: self.round.wrapping_add(1), ..Self::new(bounds, now) };
    }

    /// The longest packet to send.
    #[inline]
    #[must_use]
    pub fn size(&self) -> usize {
        if self.is_blind() { self.bounds.blind.min(self.kernel.unwrap_or(usize::MAX)) } else { self.size }
    }

    /// The reason for this size.
    #[must_use]
    pub fn source(&self) -> Source {
        let size = self.size();
        if self.kernel == Some(size) {
            Source::Kernel
        } else if size == self.bounds.most {
            Source::Interface
        } else if self.answered && !self.is_blind() {
            Source::Probe
        } else {
            Source::Base
        }
    }

    /// The time of the last change.
    #[must_use]
    pub const fn changed(&self) -> u64 {
        self.changed
    }

    /// Whether the search has a result.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        !self.searching || self.is_blind()
    }

    /// Whether the other end answers no probes.
    const fn is_blind(&self) -> bool {
        !self.heard && self.silent >= ROUNDS
    }

    /// Stores the kernel's path MTU, as the longest packet that fits it. `None` if it has none.
    pub fn hint(&mut self, now: u64, size: Option<usize>) {
        let size = size.map(|size| size / STEP * STEP).filter(|size| *size < self.bounds.most);
        if self.kernel == size {
            return;
        }
        let before = self.size();
        self.kernel = size;
        if let Some(size) = size
            && size < self.size
        {
            (self.size, self.answered) = (size, false);
        }
        if self.size() != before {
            self.changed = now;
        }
        // A shorter path, or one that may have grown.
        self.search(now);
    }

    /// The next probe to send. Call it until it returns `None`. `traffic` grows with each packet;
    /// an idle path is not probed.
    pub fn poll(&mut self, now: u64, traffic: u64) -> Option<Probe> {
        if self.sent == self.count {
            if now < self.due {
                return None;
            }
            self.judge(now);
            if now < self.due {
                return None;
            }
            if !self.searching && self.traffic == traffic {
                self.due = now + CONFIRM;
                return None;
            }
            self.traffic = traffic;
            self.begin(now);
        }
        let probe = Probe { size: self.probes[self.sent], number: self.round << 4 | self.sent as u32 };
        self.sent += 1;
        Some(probe)
    }

    /// Handles the answer to a probe. Returns whether the size in use is another one now.
    pub fn answered(&mut self, now: u64, number: u32) -> bool {
        let at = (number & 0xf) as usize;
        if number >> 4 != self.round & (u32::MAX >> 4) || at >= self.sent {
            return false;
        }
        self.answers |= 1 << at;
        let before = self.size();
        (self.heard, self.silent) = (true, 0);
        let size = self.probes[at];
        if size == self.size {
            (self.answered, self.lost) = (true, 0);
        }
        if size > self.size {
            (self.size, self.answered, self.raised) = (size, true, true);
            self.lost = 0;
        }
        if self.size == self.bounds.most && self.searching {
            self.settle(now);
        }
        let changed = self.size() != before;
        if changed {
            self.changed = now;
        }
        changed
    }

    /// Judges the round that has ended.
    fn judge(&mut self, now: u64) {
        if self.count == 0 {
            return;
        }
        let came = |at: usize| self.answers >> at & 1 == 1;
        let in_use = self.probes[..self.count].iter().position(|size| *size == self.size);
        let (confirmed, heard) = (in_use.is_some_and(came), self.answers != 0);
        let refuted = (0..self.count).filter(|at| self.probes[*at] > self.size && !came(*at));
        let refuted = refuted.map(|at| self.probes[at]).min();
        self.count = 0;
        self.sent = 0;
        if !heard {
            let before = self.size();
            self.silent = self.silent.saturating_add(1);
            if self.size() != before {
                self.changed = now;
            }
            // The other end is away, or answers no probes.
            self.due = now + if self.silent >= ROUNDS { CONFIRM } else { 0 };
        } else if self.raised || confirmed {
            // Between the size in use and the shortest refuted one. A probe may just have been
            // lost, so the verdict needs several rounds.
            self.top = refuted.map_or(self.bounds.most, |size| size - STEP);
            if self.top <= self.size {
                self.top = (self.size + CANDIDATES * STEP).min(self.bounds.most);
                self.failed += 1;
            }
            if !self.searching || self.failed >= ROUNDS {
                self.settle(now);
            }
        } else {
            self.lost += 1;
            if self.lost >= ROUNDS {
                self.shrink(now);
            }
        }
    }

    /// The path carries no more packets of the size in use.
    fn shrink(&mut self, now: u64) {
        let size = if self.size > self.bounds.base { self.bounds.base } else { self.bounds.least };
        if size < self.size {
            (self.size, self.changed) = (size, now);
        }
        self.answered = false;
        self.search(now);
    }

    fn search(&mut self, now: u64) {
        self.searching = true;
        (self.failed, self.lost, self.raised) = (0, 0, false);
        (self.count, self.sent) = (0, 0);
        (self.top, self.due) = (self.bounds.most, now);
    }

    fn settle(&mut self, now: u64) {
        if self.searching {
            self.searching = false;
            self.raise = now + RAISE;
        } else if now >= self.raise && self.size < self.bounds.most {
            self.search(now);
            return;
        }
        (self.count, self.sent, self.failed) = (0, 0, 0);
        self.due = now + CONFIRM;
    }

    /// Begins a round. The longest probe comes first.
    fn begin(&mut self, now: u64) {
        self.round = self.round.wrapping_add(1);
        (self.count, self.sent, self.answers, self.raised) = (0, 0, 0, false);
        let room = self.top.saturating_sub(self.size) / STEP;
        if self.searching && !self.is_blind() {
            let count = room.min(CANDIDATES);
            for number in (1..=count).rev() {
                self.add(self.size + room * number / count * STEP);
            }
        }
        if !self.is_blind() {
            self.add(self.size);
        }
        if self.size > SHORT {
            self.add(SHORT);
        }
        self.due = now + ANSWER;
    }

    fn add(&mut self, size: usize) {
        self.probes[self.count] = size;
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { least: 512, base: 1216, most: 1440, blind: 1440 };
    const MS: u64 = 1_000_000;

    /// A path with an MTU, and the time.
    struct World {
        search: Discovery,
        now: u64,
        carries: usize,
        answers: bool,
        /// One packet of this many is lost.
        loses: u32,
        traffic: u64,
        sent: u32,
    }

    impl World {
        fn new(carries: usize) -> Self {
            let search = Discovery::new(BOUNDS, 0);
            Self { search, now: 0, carries, answers: true, loses: u32::MAX, traffic: 0, sent: 0 }
        }

        /// Runs for some time, with traffic.
        fn run(&mut self, milliseconds: u64) -> usize {
            for _ in 0..milliseconds / 10 {
                self.now += 10 * MS;
                self.traffic += 1;
                self.step();
            }
            self.search.size()
        }

        fn step(&mut self) {
            while let Some(probe) = self.search.poll(self.now, self.traffic) {
                self.sent += 1;
                let lost = self.sent % self.loses == self.loses - 1;
                if self.answers && probe.size <= self.carries && !lost {
                    self.search.answered(self.now, probe.number);
                }
            }
        }
    }

    #[test]
    fn whole_interface_is_used_at_once() {
        let mut world = World::new(1440);
        assert_eq!((world.search.size(), world.search.source()), (1216, Source::Base));
        assert_eq!(world.run(10), 1440);
        assert!(world.search.is_settled());
        assert_eq!(world.search.source(), Source::Interface);
    }

    #[test]
    fn each_shorter_path_is_found() {
        for carries in (512..1456).step_by(8) {
            let mut world = World::new(carries);
            let size = world.run(20_000);
            assert_eq!(size, carries.min(1440) / STEP * STEP, "{carries}");
            assert!(world.search.is_settled(), "{carries}");
        }
    }

    #[test]
    fn lost_probes_do_not_shorten_the_path() {
        for loses in [5, 7, 11, 20] {
            let mut world = World::new(1424);
            world.loses = loses;
            assert_eq!(world.run(10_000), 1424, "{loses}");
            for _ in 0..60 {
                assert_eq!(world.run(1_000), 1424, "{loses}");
            }
        }
    }

    #[test]
    fn changed_path_is_followed() {
        let mut world = World::new(1440);
        assert_eq!(world.run(1_000), 1440);
        world.carries = 1300;
        assert_eq!(world.run(14_000), 1296, "the path became shorter");
        assert_eq!(world.search.source(), Source::Probe);
        world.carries = 1440;
        assert_eq!(world.run(40_000), 1440, "the path has grown");
        world.carries = 600;
        assert_eq!(world.run(20_000), 592);
    }

    #[test]
    fn silent_peer_changes_nothing() {
        let mut world = World::new(1424);
        assert_eq!(world.run(10_000), 1424);
        world.answers = false;
        assert_eq!(world.run(60_000), 1424);
        world.answers = true;
        world.carries = 1440;
        assert_eq!(world.run(40_000), 1440);
    }

    #[test]
    fn idle_path_is_not_probed() {
        let mut world = World::new(1440);
        world.run(1_000);
        let sent = world.sent;
        for _ in 0..100 {
            world.now += 1_000 * MS;
            world.step();
        }
        assert!(world.sent <= sent + 2, "{} probes", world.sent - sent);
    }

    #[test]
    fn peer_without_answers_gets_the_blind_size() {
        let mut world = World::new(1440);
        world.answers = false;
        world.search = Discovery::new(Bounds { blind: 1216, ..BOUNDS }, 0);
        assert_eq!(world.run(10_000), 1216);
        world.search = Discovery::new(BOUNDS, world.now);
        assert_eq!(world.run(10_000), 1440);
        world.search.hint(world.now, Some(1399));
        assert_eq!((world.search.size(), world.search.source()), (1392, Source::Kernel));
        assert_eq!(world.run(10_000), 1392);
        world.search.hint(world.now, None);
        assert_eq!(world.run(10_000), 1440);
    }

    #[test]
    fn forged_hint_costs_a_round_trip() {
        let mut world = World::new(1440);
        world.run(1_000);
        world.search.hint(world.now, Some(500));
        assert_eq!((world.search.size(), world.search.source()), (496, Source::Kernel));
        assert_eq!(world.run(10), 1440);
        // A true one stays.
        world.carries = 1399;
        world.search.hint(world.now, Some(1399));
        assert_eq!(world.search.size(), 1392);
        assert_eq!(world.run(10_000), 1392);
        assert_eq!(world.search.source(), Source::Kernel);
    }

    #[test]
    fn stray_answers_are_ignored() {
        let mut search = Discovery::new(BOUNDS, 0);
        let probe = search.poll(0, 0).unwrap();
        for number in [0, u32::MAX, probe.number + 1, probe.number ^ 0x10] {
            assert!(!search.answered(0, number), "{number}");
        }
        assert_eq!(search.size(), 1216);
        assert!(search.answered(0, probe.number));
        assert_eq!(search.size(), 1440);
    }

    #[test]
    fn tiny_interface_has_no_search() {
        for most in [0, 15, 16, 60, 64, 100, 520] {
            let mut search = Discovery::new(Bounds { most, ..BOUNDS }, 0);
            for now in 0..10 {
                while let Some(probe) = search.poll(now * ANSWER, now) {
                    assert!(probe.size <= most);
                    search.answered(now * ANSWER, probe.number);
                }
            }
            assert_eq!(search.size(), most / STEP * STEP);
        }
    }
}
