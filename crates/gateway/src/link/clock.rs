//! The transparent clock: the time that a PTP message spends in this gateway is added to its
//! correction (IEEE 1588-2019, clause 10.2).
//!
//! The residence begins with the kernel's stamp of the arrival, and ends when the driver hands the
//! frame on. Both are times of one machine, so no clock is shared with the other gateway, and the wire
//! between the gateways stays a part of the path's delay.
//!
//! A `Sync` with two steps leaves unchanged, and its `Follow_Up` gets the residence, measured to its
//! end. All other event messages have only one step: the end is predicted before the frame is
//! protected, from the time that earlier messages took until the driver's stamp.

use std::io;

use antedate_wire::ptp::{MessageType, Origin, Place};
use antedate_wire::vlan::Tag;

use crate::frames::port::not_sent;
use crate::run::counters::PathCounters;
use crate::sys::departure::{send_stamped, stamp_departures};
use crate::sys::sender::Sender;
use crate::sys::thread;

/// `Sync` messages whose `Follow_Up` may be on the way.
const PENDING: usize = 32;
/// A longer residence, in nanoseconds, is none: the clock was set meanwhile.
const IMPLAUSIBLE: u64 = 1_000_000_000;
/// A longer way from the protection to the driver, in nanoseconds, was interrupted, and predicts
/// nothing.
const INTERRUPTED: u64 = 200_000;
/// The weight of the way of one message in the prediction: one in so many.
const WEIGHT: i64 = 8;

/// The time of messages in one direction.
#[derive(Debug)]
pub struct Clock {
    /// The predicted nanoseconds from the reading of the clock to the departure.
    ahead: u64,
    /// Residences of Sync messages; none where it cannot be.
    pending: [Option<(Origin, Option<u32>)>; PENDING],
    next: usize,
}

/// The outcome of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handled {
    /// Its correction has the residence, or that of its `FollowUp` will.
    Corrected,
    /// It is signed, or not whole, and unchanged.
    Signed,
    /// Its residence cannot be. It must not leave.
    Implausible,
}

/// A message between its arrival and its departure.
#[derive(Debug)]
pub struct Passing {
    /// Its arrival, in nanoseconds of the real-time clock.
    arrived: u64,
    /// The reading of the clock before its protection.
    read: u64,
    /// Of a `Sync` with two steps.
    two_steps: Option<Origin>,
}

impl Clock {
    /// A clock that knows no departure yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { ahead: 0, pending: [None; PENDING], next: 0 }
    }

    /// Has the kernel stamp arrivals, and the departures of this sender.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn follow(sender: &Sender) -> io::Result<()> {
        stamp_departures(sender)
    }

    /// Corrects a message that is about to be protected, and counts it. `None` if it must not leave.
    #[cold]
    pub fn corrected(
        &mut self,
        counters: &PathCounters,
        place: Place,
        frame: &mut [u8],
        arrived: u64,
    ) -> Option<Passing> {
        let (handled, passing) = self.correct_at(thread::real_now(), place, frame, arrived);
        match handled {
            Handled::Corrected => &counters.ptp_corrected,
            Handled::Signed => &counters.ptp_signed,
            Handled::Implausible => &counters.ptp_implausible,
        }
        .count();
        (handled != Handled::Implausible).then_some(passing)
    }

    fn correct_at(&mut self, read: u64, place: Place, frame: &mut [u8], arrived: u64) -> (Handled, Passing) {
        let mut passing = Passing { arrived, read, two_steps: None };
        let Ok(message) = place.message(frame) else { return (Handled::Signed, passing) };
        let origin = message.origin();
        let residence = match place.message_type {
            MessageType::FollowUp => match self.pending.iter().flatten().find(|(of, _)| *of == origin) {
                Some((_, residence)) => *residence,
                // Nor did the receiver see its Sync.
                None => return (Handled::Corrected, passing),
            },
            MessageType::Sync if message.is_two_step() => {
                passing.two_steps = Some(origin);
                return (Handled::Corrected, passing);
            }
            _ => residence(arrived, read + self.ahead),
        };
        let handled = match residence.map(|residence| place.add_residence(frame, residence)) {
            None => Handled::Implausible,
            Some(Ok(())) => Handled::Corrected,
            Some(Err(_)) => Handled::Signed,
        };
        (handled, passing)
    }

    /// Sends the message in its form on the wire, and counts it.
    #[cold]
    pub fn put(
        &mut self,
        passing: &Passing,
        counters: &PathCounters,
        to: &Sender,
        tag: Option<Tag>,
        frame: &[u8],
    ) {
        match send_stamped(to, tag.map(|tag| tag.octets()), frame) {
            Ok(departed) => {
                counters.sent.count();
                counters.octets_sent.add(frame.len() as u64);
                self.departed(passing, departed);
            }
            Err(error) => not_sent(counters, &error),
        }
    }

    fn departed(&mut self, passing: &Passing, departed: Option<u64>) {
        if let Some(way) = departed.and_then(|departed| departed.checked_sub(passing.read))
            && way < INTERRUPTED
        {
            // The first one counts whole.
            let weight = if self.ahead == 0 { 1 } else { WEIGHT };
            self.ahead = self.ahead.saturating_add_signed((way as i64 - self.ahead as i64) / weight);
        }
        let Some(origin) = passing.two_steps else { return };
        let departed = departed.unwrap_or(passing.read + self.ahead);
        self.pending[self.next] = Some((origin, residence(passing.arrived, departed)));
        self.next = (self.next + 1) % PENDING;
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// The time between, in nanoseconds, if it can be.
fn residence(arrived: u64, departed: u64) -> Option<u32> {
    departed.checked_sub(arrived).filter(|residence| *residence < IMPLAUSIBLE)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: u8 = 0x0;
    const DELAY_REQ: u8 = 0x1;
    const FOLLOW_UP: u8 = 0x8;
    const ARRIVED: u64 = 1_800_000_000_000_000_000;

    /// A message of a kind, with this number and flags.
    fn frame(kind: u8, number: u8, flags: [u8; 2]) -> Vec<u8> {
        let mut message = [0; 44];
        message[..4].copy_from_slice(&[0x10 | kind, 2, 0, 44]);
        message[6..8].copy_from_slice(&flags);
        message[31] = number;
        [&[1, 0x1b, 0x19, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0x88, 0xf7][..], &message].concat()
    }

    /// Handles a message that is read so long after its arrival, and departs so long after that.
    /// Returns the nanoseconds added to its correction.
    fn pass(clock: &mut Clock, frame: &mut [u8], read: i64, departs: Option<u64>) -> Result<i64, Handled> {
        let place = Place::find(frame).expect("it is a message");
        let read = ARRIVED.saturating_add_signed(read);
        let (handled, passing) = clock.correct_at(read, place, frame, ARRIVED);
        if handled != Handled::Corrected {
            return Err(handled);
        }
        clock.departed(&passing, departs.map(|after| read + after));
        Ok(place.message(frame).expect("it is whole").correction() >> 16)
    }

    #[test]
    fn one_step_is_predicted() {
        let mut clock = Clock::new();
        let mut request = |read, departs| pass(&mut clock, &mut frame(DELAY_REQ, 0, [0, 0]), read, departs);
        assert_eq!(request(5_000, Some(2_000)), Ok(5_000));
        assert_eq!(request(5_000, Some(2_000)), Ok(7_000), "the way of the first one");
        // One that was interrupted, or has no stamp, teaches nothing.
        assert_eq!(request(5_000, Some(INTERRUPTED)), Ok(7_000));
        assert_eq!(request(5_000, None), Ok(7_000));
        assert_eq!(request(5_000, Some(10_000)), Ok(7_000));
        assert_eq!(request(5_000, Some(3_000)), Ok(8_000));
    }

    #[test]
    fn two_steps_are_measured() {
        let mut clock = Clock::new();
        assert_eq!(pass(&mut clock, &mut frame(SYNC, 1, [2, 0]), 5_000, Some(1_000)), Ok(0));
        assert_eq!(pass(&mut clock, &mut frame(SYNC, 2, [2, 0]), 6_000, Some(300_000)), Ok(0));
        for (number, added) in [(2, 306_000), (1, 6_000), (1, 6_000), (3, 0)] {
            assert_eq!(pass(&mut clock, &mut frame(FOLLOW_UP, number, [0, 0]), 9, None), Ok(added));
        }
        // With one step, it is in the Sync.
        assert_eq!(pass(&mut clock, &mut frame(SYNC, 3, [0, 0]), 5_000, None), Ok(6_000));
        // Without a stamp, it is predicted.
        assert_eq!(pass(&mut clock, &mut frame(SYNC, 4, [2, 0]), 5_000, None), Ok(0));
        assert_eq!(pass(&mut clock, &mut frame(FOLLOW_UP, 4, [0, 0]), 9, None), Ok(6_000));
    }

    #[test]
    fn set_clock_stops_the_message() {
        for read in [-1, IMPLAUSIBLE as i64] {
            let mut clock = Clock::new();
            let implausible = Err(Handled::Implausible);
            assert_eq!(pass(&mut clock, &mut frame(DELAY_REQ, 0, [0, 0]), read, None), implausible);
            // The receiver waits for the FollowUp in vain.
            assert_eq!(pass(&mut clock, &mut frame(SYNC, 7, [2, 0]), read, None), Ok(0));
            assert_eq!(pass(&mut clock, &mut frame(FOLLOW_UP, 7, [0, 0]), 5, None), implausible);
        }
    }

    #[test]
    fn signed_messages_stay() {
        let mut signed = frame(DELAY_REQ, 0, [0x80, 0]);
        let before = signed.clone();
        assert_eq!(pass(&mut Clock::new(), &mut signed, 5_000, None), Err(Handled::Signed));
        assert_eq!(signed, before);
    }

    #[test]
    fn oldest_sync_is_forgotten() {
        let mut clock = Clock::new();
        for number in 0..=PENDING as u8 {
            assert_eq!(pass(&mut clock, &mut frame(SYNC, number, [2, 0]), 5_000, Some(1)), Ok(0));
        }
        for (number, added) in [(0, 0), (1, 5_001), (PENDING as u8, 5_001)] {
            assert_eq!(pass(&mut clock, &mut frame(FOLLOW_UP, number, [0, 0]), 9, None), Ok(added));
        }
    }
}
