//! Delay protection across a stall (IEEE 802.1X-2020, 9.10).
//!
//! The key-agreement thread hears the lowest acceptable packet numbers and sends them to the
//! forwarding thread. After a stall of the process, frames that an attacker held back would be
//! opened before the latest numbers arrive. So the key-agreement thread vouches for a short time
//! that the forwarding thread has them, and without that no frame is opened. After a stall it
//! vouches again when an MKPDU arrived that had not waited.
//!
//! Times are nanoseconds of the monotonic clock.

/// How long it vouches. With the interval of MKPDUs, half a second, a frame is delayed by less than
/// MKA's bound of two seconds.
const VALID: u64 = 1_000_000_000;

/// The key-agreement thread's side.
#[derive(Debug, Default)]
pub struct Voucher {
    turned: u64,
    /// After a stall, until an MKPDU arrives.
    unsure: bool,
}

impl Voucher {
    /// Handles a turn at `now`, in which `heard` MKPDUs arrived and all that waited were read if
    /// `drained`. Returns until when frames may be opened. `None`: as before. 0: delay is not
    /// `bounded`.
    pub fn turn(&mut self, now: u64, bounded: bool, drained: bool, heard: usize) -> Option<u64> {
        let before = std::mem::replace(&mut self.turned, now);
        if !bounded {
            self.unsure = false;
            return Some(0);
        }
        if now.saturating_sub(before) >= VALID && before != 0 {
            // Those of this turn have waited.
            self.unsure = true;
        } else if heard > 0 {
            self.unsure = false;
        }
        (drained && !self.unsure).then_some(now + VALID)
    }
}

/// The forwarding thread's side.
#[derive(Debug, Default)]
pub struct Vouched {
    behind: bool,
}

impl Vouched {
    /// Whether frames may be opened at `now`, if vouched for until `until`. `up_to_date`: no
    /// message waits.
    pub fn opens(&mut self, now: u64, until: u64, up_to_date: bool) -> bool {
        if now >= until {
            self.behind = true;
        } else if up_to_date {
            self.behind = false;
        }
        !self.behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn stall_needs_a_new_mkpdu() {
        let mut voucher = Voucher::default();
        assert_eq!(voucher.turn(5 * MS, false, true, 0), Some(0));
        assert_eq!(voucher.turn(100 * MS, true, true, 0), Some(100 * MS + VALID));
        assert_eq!(voucher.turn(200 * MS, true, false, 64), None, "more wait");
        assert_eq!(voucher.turn(210 * MS, true, true, 3), Some(210 * MS + VALID));
        // Those that waited through the stall may lack the latest.
        assert_eq!(voucher.turn(30_000 * MS, true, true, 60), None);
        assert_eq!(voucher.turn(30_100 * MS, true, true, 0), None);
        assert_eq!(voucher.turn(30_400 * MS, true, true, 1), Some(30_400 * MS + VALID));
        assert_eq!(voucher.turn(90_000 * MS, false, true, 0), Some(0));
    }

    #[test]
    fn frames_wait_for_the_latest_numbers() {
        let mut vouched = Vouched::default();
        assert!(vouched.opens(100, 200, false));
        assert!(!vouched.opens(200, 200, true));
        assert!(!vouched.opens(250, 300, false), "the numbers are still in the mailbox");
        assert!(vouched.opens(260, 300, true));
        assert!(vouched.opens(270, 300, false));
    }
}
