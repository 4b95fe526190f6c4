//! The clock of ages and lifetimes: `CLOCK_BOOTTIME`, which goes on while the machine is suspended.
//!
//! [`std::time::Instant`] stands still then. A key or a peer of before would count as young.

use std::ops::{Add, Sub};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time since the machine's start.
#[must_use]
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    // Neither is negative.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A moment of this clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// This moment.
    #[must_use]
    pub fn now() -> Self {
        Self(now())
    }

    /// The time since this moment, suspension included.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        now().saturating_sub(self.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time))
    }
}

#[cfg(test)]
#[path = "../../wire/tests/skip/mod.rs"]
mod skip;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Prints both clocks in a child of [`suspension_counts`].
    #[test]
    fn clocks_of_this_process() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        assert!((now().as_secs_f64() - uptime).abs() < 1.0, "uptime counts suspension");
        println!("boottime {}", now().as_secs());
    }

    /// A time namespace shifts `CLOCK_BOOTTIME` alone, as a suspension does.
    #[test]
    fn suspension_counts() {
        let own = std::env::current_exe().unwrap();
        let shifted = |seconds: &str| {
            let namespace = ["--user", "--map-root-user", "--time", "--fork", "--boottime", seconds];
            let test = ["--exact", "clock::tests::clocks_of_this_process", "--nocapture"];
            let output = Command::new("unshare").args(namespace).arg(&own).args(test).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let at = said.split("boottime ").nth(1)?.split_whitespace().next()?.parse::<u64>().ok();
            at.filter(|_| output.status.success())
        };
        let Some(own) = shifted("0") else {
            skip::skipped("no time namespaces (unshare --user --time)");
            return;
        };
        let later = shifted("100000").unwrap();
        assert!((100_000..101_000).contains(&(later - own)), "{own} {later}");
    }

    #[test]
    fn moments_are_ordered() {
        let first = Moment::now();
        let later = first + Duration::from_secs(60);
        assert!(first < later && first.elapsed() < Duration::from_secs(60) && later.elapsed().is_zero());
        assert_eq!(first + Duration::MAX + Duration::MAX, Moment(Duration::MAX));
        assert_eq!(later - Duration::from_secs(60), first);
    }
}
