//! Link loss forwarding: the link of the field port follows that of the uplink and of the far field
//! port, so that machines and rings behind a gateway notice a loss that they cannot see.
//!
//! A field port that this gateway took down says nothing about its cable. So only a loss that is
//! seen on a port that is up is told to the far end; otherwise two gateways would hold each other
//! down.

pub mod hellos;
pub mod port;

use self::hellos::Far;
use crate::config::link_loss::LinkLoss;

/// Nanoseconds after the start in which key agreement may find the others.
const START: u64 = 5_000_000_000;
/// Nanoseconds in which a port that was set up may negotiate its link.
const NEGOTIATES: u64 = 5_000_000_000;

/// The reason for a field port without link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The uplink has no link.
    Uplink,
    /// No other gateway is there.
    Peer,
    /// The field port of the others has no link.
    FarField,
}

impl Cause {
    /// The cause in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Uplink => "the uplink has no link",
            Self::Peer => "no other gateway answers",
            Self::FarField => "the field port of the other gateway has no link",
        }
    }
}

/// The state of ports and far ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Whether the uplink has a link.
    pub uplink: bool,
    /// Whether the field port has a link.
    pub field: bool,
    /// The far ends.
    pub far: Far,
}

/// A change of the field port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Take it down.
    Lower(Cause),
    /// Set it up.
    Raise,
}

/// The state of link loss forwarding. Times are in nanoseconds.
#[derive(Debug)]
pub struct Loss {
    hold: u64,
    recovery: u64,
    start: u64,
    /// The time since which there is a loss, or none.
    since: Option<(bool, u64)>,
    /// The cause for which the field port was taken down.
    lowered: Option<Cause>,
    /// The time until which a port that was set up may have no link.
    negotiates: u64,
}

impl Loss {
    /// Begins with a field port that is up.
    #[must_use]
    pub fn new(settings: &LinkLoss, now: u64) -> Self {
        let [hold, recovery] = [settings.hold, settings.recovery].map(|time| time.as_nanos() as u64);
        Self { hold, recovery, start: now, since: None, lowered: None, negotiates: 0 }
    }

    /// The cause for which the field port is down.
    #[must_use]
    pub const fn lowered(&self) -> Option<Cause> {
        self.lowered
    }

    /// The change that is due.
    pub fn step(&mut self, seen: Seen, now: u64) -> Option<Step> {
        if seen.field {
            self.negotiates = 0;
        }
        let cause = self.cause(seen, now);
        let since = match self.since {
            Some((lost, since)) if lost == cause.is_some() => since,
            _ => now,
        };
        self.since = Some((cause.is_some(), since));
        match (cause, self.lowered) {
            // A port without link needs no help.
            (Some(cause), None) if seen.field && now >= since + self.hold => {
                self.lowered = Some(cause);
                Some(Step::Lower(cause))
            }
            (None, Some(_)) if now >= since + self.recovery => {
                self.lowered = None;
                self.negotiates = now + NEGOTIATES;
                Some(Step::Raise)
            }
            _ => None,
        }
    }

    /// Whether to tell the others that the field port has no link.
    #[must_use]
    pub const fn tells_field_down(&self, seen: Seen, now: u64) -> bool {
        !seen.field && self.lowered.is_none() && now >= self.negotiates
    }

    fn cause(&self, seen: Seen, now: u64) -> Option<Cause> {
        match seen.far {
            _ if !seen.uplink => Some(Cause::Uplink),
            Far::Lost => Some(Cause::Peer),
            Far::Unknown if now >= self.start + START => Some(Cause::Peer),
            Far::There { field_down: true } => Some(Cause::FarField),
            Far::Unknown | Far::There { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: u64 = 1_000_000;
    const WELL: Seen = Seen { uplink: true, field: true, far: Far::There { field_down: false } };

    fn loss(hold: u64, recovery: u64) -> Loss {
        let [hold, recovery] = [hold, recovery].map(Duration::from_millis);
        Loss::new(&LinkLoss { hello: None, hold, recovery }, 0)
    }

    #[test]
    fn each_cause_takes_the_port_down() {
        for (seen, cause) in [
            (Seen { uplink: false, ..WELL }, Cause::Uplink),
            (Seen { far: Far::Lost, ..WELL }, Cause::Peer),
            (Seen { far: Far::There { field_down: true }, ..WELL }, Cause::FarField),
        ] {
            let mut loss = loss(0, 0);
            assert_eq!(loss.step(WELL, 0), None);
            assert_eq!(loss.step(seen, MS), Some(Step::Lower(cause)));
            assert_eq!(loss.step(Seen { field: false, ..seen }, 2 * MS), None);
            assert_eq!(loss.lowered(), Some(cause));
            assert_eq!(loss.step(Seen { field: false, ..WELL }, 3 * MS), Some(Step::Raise));
            assert_eq!((loss.lowered(), loss.step(WELL, 4 * MS)), (None, None));
        }
    }

    #[test]
    fn times_are_kept() {
        let mut loss = loss(20, 50);
        let lost = Seen { uplink: false, ..WELL };
        // A short loss is none, and begins anew.
        for (seen, at) in [(lost, 0), (lost, 19), (WELL, 20), (lost, 21), (lost, 40)] {
            assert_eq!(loss.step(seen, at * MS), None, "{at}");
        }
        assert_eq!(loss.step(lost, 41 * MS), Some(Step::Lower(Cause::Uplink)));
        for (seen, at) in [(WELL, 50), (WELL, 99), (lost, 100), (WELL, 101), (WELL, 150)] {
            assert_eq!(loss.step(Seen { field: false, ..seen }, at * MS), None, "{at}");
        }
        assert_eq!(loss.step(Seen { field: false, ..WELL }, 151 * MS), Some(Step::Raise));
    }

    #[test]
    fn start_waits_for_the_others() {
        let alone = Seen { far: Far::Unknown, ..WELL };
        let mut loss = loss(0, 0);
        assert_eq!(loss.step(alone, START - 1), None);
        assert_eq!(loss.step(alone, START), Some(Step::Lower(Cause::Peer)));
    }

    /// Two gateways with cables that are pulled and plugged in again. Each step shows the links of
    /// both field ports after all hellos arrived.
    #[test]
    fn two_gateways_do_not_hold_each_other_down() {
        let mut ends = [loss(0, 0), loss(0, 0)];
        let (mut up, mut tells, mut now) = ([true; 2], [false; 2], 0);
        let mut settle = |cables: [bool; 2]| {
            let mut changes = 0;
            for _ in 0..2000 {
                now += 10 * MS;
                for (end, far) in [(0, 1), (1, 0)] {
                    let far = Far::There { field_down: tells[far] };
                    let seen = Seen { uplink: true, field: up[end] && cables[end], far };
                    match ends[end].step(seen, now) {
                        Some(Step::Lower(_)) => up[end] = false,
                        Some(Step::Raise) => up[end] = true,
                        None => {}
                    }
                    let seen = Seen { field: up[end] && cables[end], ..seen };
                    changes += u32::from(tells[end] != ends[end].tells_field_down(seen, now));
                    tells[end] = ends[end].tells_field_down(seen, now);
                }
            }
            assert!(changes <= 2, "{cables:?}: {changes} changes");
            [up[0] && cables[0], up[1] && cables[1]]
        };
        let (both, none) = ([true; 2], [false; 2]);
        for (cables, links) in [
            (both, both),
            ([true, false], none),
            (both, both),
            ([false, true], none),
            (none, none),
            ([true, false], none),
            (both, both),
            (none, none),
            (both, both),
        ] {
            assert_eq!(settle(cables), links, "{cables:?}");
        }
    }

    #[test]
    fn port_that_negotiates_is_not_told() {
        let mut loss = loss(0, 0);
        let _ = loss.step(Seen { uplink: false, ..WELL }, 0);
        let down = Seen { field: false, ..WELL };
        assert_eq!(loss.step(down, MS), Some(Step::Raise));
        assert!(!loss.tells_field_down(down, MS + NEGOTIATES - 1));
        assert!(loss.tells_field_down(down, MS + NEGOTIATES));
        // Its link came and went.
        assert_eq!(loss.step(WELL, 2 * MS), None);
        assert!(loss.tells_field_down(down, 3 * MS));
    }
}
