//! The path MTU between Antedate gateways: a search with padded echoes, after RFC 8899
//! (packetization layer path MTU discovery).
//!
//! Each gateway probes its own direction. A probe takes a packet number like any frame and is never
//! fragmented. A length counts as lost only while a short echo is answered: a member that is away,
//! or that has no echo, shortens nothing.
//!
//! With key agreement the members with an echo are known. With static keys a short echo finds out,
//! up to three times a minute until it is answered.

use std::time::Duration;

use antedate_wire::{EthernetAddress, Sci};

/// The shortest path MTU to find: that of the configuration.
const SHORTEST: usize = 128;
/// A search ends when it is this near, in octets: exact.
const NEAR: usize = 1;
/// The wait for an answer, and the most tries of a length.
const PATIENCE: Duration = Duration::from_millis(400);
const TRIES: u32 = 3;
/// From the arrival of a member to its first probe.
const SETTLES: Duration = Duration::from_secs(3);
/// Interval of short echoes to a member with an echo that does not answer, and to one that may
/// have none.
const AGAIN: Duration = Duration::from_secs(5);
const STRANGER: Duration = Duration::from_secs(60);
/// Interval of confirmations of the path MTU.
const CONFIRM: Duration = Duration::from_secs(20);
/// Interval of searches for a longer path MTU.
const RAISE: Duration = Duration::from_secs(60);

/// A member to probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Its channel.
    pub sci: Sci,
    /// Its address on the uplink.
    pub address: EthernetAddress,
    /// Whether it is known to have an echo.
    pub has_echo: bool,
}

/// A probe to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The member.
    pub target: Target,
    /// The MTU that it tests. `None`: a short echo.
    pub mtu: Option<usize>,
}

/// The state of the search towards one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has not answered an echo.
    Unknown,
    /// The path carries `low`, unless it is the shortest, and not `high` + 1.
    Search { low: usize, high: usize },
    /// The path carries this MTU.
    Found(usize),
}

#[derive(Debug)]
struct Path {
    target: Target,
    state: State,
    /// The result of the last search.
    mtu: Option<usize>,
    /// The tested MTU, or `None` for a short echo, the tries of it, and the time of the last one.
    asked: Option<(Option<usize>, u32, Duration)>,
    /// The next probe without a search.
    next: Duration,
    raise_at: Duration,
}

/// The searches of all members.
#[derive(Debug, Default)]
pub struct Prober {
    paths: Vec<Path>,
    /// The uplink's MTU.
    longest: usize,
}

impl Prober {
    /// The probes that are due, at most one for each member. `longest` is the uplink's MTU.
    pub fn due(&mut self, now: Duration, targets: &[Target], longest: usize) -> Vec<Probe> {
        if self.longest != longest {
            // Another interface: begin again.
            (self.longest, self.paths) = (longest, Vec::new());
        }
        self.paths.retain(|path| targets.contains(&path.target));
        for target in targets {
            if !self.paths.iter().any(|path| path.target == *target) {
                self.paths.push(Path {
                    target: *target,
                    state: State::Unknown,
                    mtu: None,
                    asked: None,
                    next: now + SETTLES,
                    raise_at: now,
                });
            }
        }
        self.paths.iter_mut().filter_map(|path| path.due(now, longest)).collect()
    }

    /// Notes an answer to a probe.
    pub fn answered(&mut self, now: Duration, probe: Probe) {
        let longest = self.longest;
        if let Some(path) = self.paths.iter_mut().find(|path| path.target == probe.target) {
            path.answered(now, probe.mtu, longest);
        }
    }

    /// The MTU that all paths carry. `None` while none is known.
    #[must_use]
    pub fn mtu(&self) -> Option<usize> {
        self.paths.iter().filter_map(|path| path.mtu).min()
    }
}

impl Path {
    fn due(&mut self, now: Duration, longest: usize) -> Option<Probe> {
        match self.asked {
            Some((_, _, at)) if now < at + PATIENCE => return None,
            Some((mtu, tries, _)) if tries < TRIES => return Some(self.ask(now, mtu, tries + 1)),
            Some((mtu, ..)) => self.lost(now, mtu),
            None => {}
        }
        match self.state {
            State::Unknown if now >= self.next => Some(self.ask(now, None, 1)),
            State::Search { low, high } => {
                // The longest first: most paths carry it.
                let mtu = if high == longest { high } else { low + (high - low).div_ceil(2) };
                Some(self.ask(now, Some(mtu), 1))
            }
            State::Found(mtu) if now >= self.raise_at && mtu < longest => {
                self.raise_at = now + RAISE;
                self.state = State::Search { low: mtu, high: longest };
                Some(self.ask(now, Some(longest), 1))
            }
            State::Found(mtu) if now >= self.next => Some(self.ask(now, Some(mtu), 1)),
            _ => None,
        }
    }

    fn ask(&mut self, now: Duration, mtu: Option<usize>, tries: u32) -> Probe {
        self.asked = Some((mtu, tries, now));
        Probe { target: self.target, mtu }
    }

    /// All tries of a length are lost.
    fn lost(&mut self, now: Duration, mtu: Option<usize>) {
        self.asked = None;
        match (self.state, mtu) {
            (State::Search { low, .. }, Some(mtu)) if mtu > low => {
                let high = mtu - 1;
                // The last step confirms the result: the member may have gone away meanwhile.
                let high = if high < low + NEAR { low } else { high };
                self.state = State::Search { low, high };
            }
            // What was carried is not any more, or the member is away. Short echoes tell.
            (State::Found(_), Some(_)) => (self.state, self.next) = (State::Unknown, now),
            _ => {
                let has_echo = self.target.has_echo || self.mtu.is_some();
                let again = if has_echo { AGAIN } else { STRANGER };
                (self.state, self.next) = (State::Unknown, now + again);
            }
        }
    }

    fn answered(&mut self, now: Duration, mtu: Option<usize>, longest: usize) {
        match (self.state, mtu) {
            (State::Unknown, None) => {
                self.asked = None;
                self.state = State::Search { low: SHORTEST.min(longest), high: longest };
            }
            (State::Search { high, .. }, Some(mtu)) if mtu <= high => {
                self.asked = None;
                if high >= mtu + NEAR {
                    self.state = State::Search { low: mtu, high };
                } else {
                    (self.state, self.mtu) = (State::Found(mtu), Some(mtu));
                    (self.next, self.raise_at) = (now + CONFIRM, now + RAISE);
                }
            }
            (State::Found(known), Some(mtu)) if mtu == known => {
                self.asked = None;
                self.next = now + CONFIRM;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Target = Target {
        sci: Sci([2, 0, 0, 0, 0, 1, 0, 1]),
        address: EthernetAddress([2, 0, 0, 0, 0, 1]),
        has_echo: true,
    };
    const B: Target = Target {
        sci: Sci([2, 0, 0, 0, 0, 2, 0, 1]),
        address: EthernetAddress([2, 0, 0, 0, 0, 2]),
        has_echo: true,
    };

    struct World {
        prober: Prober,
        now: Duration,
        targets: Vec<Target>,
        longest: usize,
        sent: usize,
    }

    impl World {
        fn new(targets: &[Target]) -> Self {
            let (prober, targets) = (Prober::default(), targets.to_vec());
            Self { prober, now: Duration::ZERO, targets, longest: 1600, sent: 0 }
        }

        /// Runs in rounds of 100 ms. `carried` is the path MTU to a member; 0 if it does not answer.
        fn run(&mut self, seconds: u64, mut carried: impl FnMut(Target) -> usize) {
            for _ in 0..10 * seconds {
                for probe in self.prober.due(self.now, &self.targets, self.longest) {
                    self.sent += 1;
                    if probe.mtu.unwrap_or(60) <= carried(probe.target) {
                        self.prober.answered(self.now, probe);
                    }
                }
                self.now += Duration::from_millis(100);
            }
        }
    }

    #[test]
    fn whole_uplink_is_found_at_once() {
        let mut world = World::new(&[A, B]);
        world.run(4, |_| 1600);
        assert_eq!((world.prober.mtu(), world.sent), (Some(1600), 4));
        world.run(600, |_| 1600);
        assert!(world.sent < 100, "{} probes in ten minutes", world.sent);
    }

    #[test]
    fn any_path_mtu_is_found() {
        for mtu in (128..1600).step_by(7) {
            let mut world = World::new(&[A]);
            world.run(25, |_| mtu);
            let found = world.prober.mtu().expect("a path MTU");
            assert!((mtu - NEAR..=mtu).contains(&found), "{found} of {mtu}");
        }
    }

    #[test]
    fn path_mtu_follows_the_path() {
        let mut world = World::new(&[A]);
        world.run(5, |_| 1600);
        world.run(60, |_| 1492);
        assert!(world.prober.mtu().is_some_and(|mtu| (1488..=1492).contains(&mtu)));
        world.run(60, |_| 1400);
        assert!(world.prober.mtu().is_some_and(|mtu| (1396..=1400).contains(&mtu)));
        world.run(90, |_| 1600);
        assert_eq!(world.prober.mtu(), Some(1600));
        world.run(200, |_| 1500);
        world.run(90, |_| 1550);
        assert!(world.prober.mtu().is_some_and(|mtu| (1546..=1550).contains(&mtu)), "{:?}", world.prober);
    }

    #[test]
    fn silent_member_shortens_nothing() {
        let mut world = World::new(&[A, B]);
        world.run(60, |target| if target == A { 1600 } else { 0 });
        assert_eq!(world.prober.mtu(), Some(1600));
        world.run(300, |_| 0);
        assert_eq!(world.prober.mtu(), Some(1600), "it is away");
        // It goes away within a search.
        world.run(40, |_| 1500);
        world.run(22, |_| 1400);
        world.run(60, |_| 0);
        assert!(world.prober.mtu().is_some_and(|mtu| mtu >= 1396), "{:?}", world.prober);
        world.targets.clear();
        world.run(1, |_| 0);
        assert_eq!(world.prober.mtu(), None);
    }

    #[test]
    fn stranger_is_rarely_asked() {
        let stranger = Target { has_echo: false, ..A };
        let mut world = World::new(&[stranger]);
        world.run(600, |_| 0);
        assert!((20..=33).contains(&world.sent), "{} echoes in ten minutes", world.sent);
        assert_eq!(world.prober.mtu(), None);
        world.run(62, |_| 1600);
        assert_eq!(world.prober.mtu(), Some(1600), "it is an Antedate, and has come");
        // From then on it is no stranger.
        let sent = world.sent;
        world.run(120, |_| 0);
        assert!(world.sent > sent + 30, "{}", world.sent - sent);
    }

    #[test]
    fn lost_probes_are_repeated() {
        let (mut world, mut number) = (World::new(&[A]), 0);
        world.run(60, |_| {
            number += 1;
            if number % 3 == 0 { 1600 } else { 0 }
        });
        assert_eq!(world.prober.mtu(), Some(1600));
    }

    #[test]
    fn other_uplink_begins_a_search() {
        let mut world = World::new(&[A]);
        world.run(5, |_| 1600);
        world.longest = 1500;
        world.run(5, |_| 1600);
        assert_eq!(world.prober.mtu(), Some(1500));
    }

    #[test]
    fn shortest_member_counts() {
        let mut world = World::new(&[A, B]);
        world.run(30, |target| if target == A { 1600 } else { 1500 });
        assert!(world.prober.mtu().is_some_and(|mtu| (1496..=1500).contains(&mtu)));
    }
}
