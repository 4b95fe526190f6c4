//! A bound on the age of events, for publishers and subscribers with synchronised clocks.
//!
//! The MAC and the window cannot tell that a message was held back on the way. `T` is the time of
//! the event (IEC 61850-8-1, 18.1.2.5), so a state that is new to the subscriber must have a `T`
//! close to now. Repetitions of a known state have its `T`, however old.

use antedate_wire::goose::Message;

/// Bits of the octet of quality in `T` (IEC 61850-8-1, 8.1.3.7): the clock failed, or is not
/// synchronised.
const UNRELIABLE: u8 = 0x60;

/// The reason to refuse a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untimely {
    /// its event is older than the bound
    Old,
    /// its event is further in the future than the bound
    Ahead,
}

/// Messages by their age.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ages {
    /// refused: held back on the way, or a clock is wrong
    pub old: u64,
    /// refused: a clock is wrong
    pub ahead: u64,
    /// new states that passed unjudged, because the publisher's clock is not synchronised
    pub unsynchronized: u64,
}

/// Judges the messages of one publisher, after the [`Subscriber`](super::Subscriber).
#[derive(Debug)]
pub struct AgeBound {
    /// The bound in fractions of 2^-24 s.
    max: u64,
    /// `stNum` and `T` of the state that passed last.
    known: Option<(u32, [u8; 8])>,
    /// Whether a message was judged before.
    begun: bool,
    ages: Ages,
}

impl AgeBound {
    /// A bound in milliseconds.
    #[must_use]
    pub const fn new(milliseconds: u32) -> Self {
        let max = ((milliseconds as u64) << 24).div_ceil(1000);
        Self { max, known: None, begun: false, ages: Ages { old: 0, ahead: 0, unsynchronized: 0 } }
    }

    /// Judges a message at `now`, in the form of `T`.
    ///
    /// The first message passes if it repeats an event, whose time is unknown then.
    ///
    /// # Errors
    /// When the state is new, and its event is not close to now.
    pub fn check(&mut self, message: &Message<'_>, now: [u8; 8]) -> Result<(), Untimely> {
        let state = (message.st_num, message.t);
        let first = !core::mem::replace(&mut self.begun, true);
        let repeats = self.known == Some(state) || (first && message.sq_num > 0);
        if !repeats && message.t[7] & UNRELIABLE != 0 {
            self.ages.unsynchronized += 1;
        } else if !repeats {
            let [event, now] = [message.t, now].map(fractions);
            if now.saturating_sub(event) > self.max {
                self.ages.old += 1;
                return Err(Untimely::Old);
            }
            if event.saturating_sub(now) > self.max {
                self.ages.ahead += 1;
                return Err(Untimely::Ahead);
            }
        }
        self.known = Some(state);
        Ok(())
    }

    /// Messages by their age.
    #[must_use]
    pub const fn ages(&self) -> &Ages {
        &self.ages
    }
}

/// A time in fractions of 2^-24 s.
const fn fractions(t: [u8; 8]) -> u64 {
    u64::from_be_bytes(t) >> 8
}
