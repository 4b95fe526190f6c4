//! Preparation and rehearsal of the MACsec data path.

use std::ops::Range;

use antedate_channel::macsec::{ProtectError, Receive, Rehearsal, Transmit};

use super::path::{Inbound, Outbound, Protector, Validator};
use super::worker::Worker;
use crate::run::warm::{HASTE, REHEARSAL, Warm, haste_of};
use crate::sys::thread;
use crate::sys::warm::hot;

/// Nanoseconds of preparation between two polls of the ports: the longest wait of a frame for it.
const LONGEST_PREPARATION: u64 = 200;
/// Steps of preparation that are taken at once where a step is cheapest.
const MOST_STEPS: u32 = 64;

impl Warm for Worker {
    fn haste(&self) -> usize {
        match self.outbound.as_ref().map(|outbound| &outbound.protector) {
            Some(Protector::Macsec(transmit)) => haste_of(transmit.config().prepare),
            _ => HASTE,
        }
    }

    /// From some 50 steps with VAES to a single one without AES instructions.
    #[cold]
    #[inline(never)]
    fn steps(&mut self) -> u32 {
        let (start, mut done) = (thread::now(), 0);
        loop {
            match self.prepare(MOST_STEPS) {
                0 => break,
                steps => done += u64::from(steps),
            }
        }
        let fit = (LONGEST_PREPARATION * done) / (thread::now() - start).max(1);
        (fit as u32).clamp(1, MOST_STEPS)
    }

    /// The directions alternate in coming first: a busy one would leave nothing for the other.
    #[inline(never)]
    fn prepare(&mut self, steps: u32) -> u32 {
        let Self { outbound, inbound, inbound_first, .. } = self;
        let out = |steps| outbound.as_mut().map_or(0, |outbound| outbound.idle(steps));
        let into = |steps| inbound.as_mut().map_or(0, |inbound| inbound.idle(steps));
        in_turns(inbound_first, steps, out, into)
    }

    #[inline]
    fn rehearse(&mut self, looks: u32) {
        let turn = looks % REHEARSAL;
        if let Some(rehearsal) = self.rehearsal.as_mut().filter(|_| turn < 2) {
            if looks == 0 {
                rehearsal.prepare();
            }
            match (turn, &self.outbound, &self.inbound) {
                (0, Some(outbound), _) => rehearse_outbound(outbound, rehearsal),
                (1, _, Some(inbound)) => rehearse_inbound(inbound, rehearsal),
                _ => {}
            }
        }
        // After those of the cipher, which would evict these.
        match (turn, &mut self.outbound, &mut self.inbound) {
            (2, Some(outbound), _) => outbound.ports.to.rehearse(),
            (3, _, Some(inbound)) => inbound.ports.to.rehearse(),
            _ => {}
        }
    }
}

#[inline(never)]
fn rehearse_outbound(outbound: &Outbound, rehearsal: &mut Rehearsal) {
    if let Protector::Macsec(transmit) = &outbound.protector {
        let next = outbound.express.as_ref().map_or(&**transmit, |express| &express.transmit);
        rehearsal.protect(next, protect_in_place);
    }
}

#[inline(never)]
fn rehearse_inbound(inbound: &Inbound, rehearsal: &mut Rehearsal) {
    if let Validator::Macsec(receive) = &inbound.validator {
        rehearsal.validate(receive, accept);
    }
}

/// [`Transmit::protect_in_place`] in the hot section, for frames and rehearsals.
#[inline]
pub(super) fn protect_in_place<'a>(
    transmit: &mut Transmit,
    space: &'a mut [u8],
    place: Range<usize>,
) -> Result<&'a mut [u8], ProtectError> {
    hot(|| transmit.protect_in_place(space, place))
}

/// [`Receive::accept`] in the hot section, for frames and rehearsals. Returns in registers.
#[inline]
pub(super) fn accept<'a>(
    receive: &mut Receive,
    frame: &'a mut [u8],
    whole: &'a mut [u8],
) -> Option<&'a mut [u8]> {
    hot(|| receive.accept(thread::now, frame, whole).ok().flatten())
}

/// Does at most `steps` steps; the other one comes first than in the last call.
#[inline]
fn in_turns(
    second_first: &mut bool,
    steps: u32,
    first: impl FnOnce(u32) -> u32,
    second: impl FnOnce(u32) -> u32,
) -> u32 {
    *second_first = !*second_first;
    if *second_first {
        one_then_the_other(steps, second, first)
    } else {
        one_then_the_other(steps, first, second)
    }
}

/// Does at most `steps` steps, and of the second what the first leaves. Returns the steps done.
#[inline]
fn one_then_the_other(steps: u32, one: impl FnOnce(u32) -> u32, other: impl FnOnce(u32) -> u32) -> u32 {
    let done = one(steps);
    if done < steps { done + other(steps - done) } else { done }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_get_steps() {
        let (mut turn, mut done) = (false, [0; 2]);
        let [first, second] = &mut done;
        for _ in 0..6 {
            // Both have more work than time.
            let [mut of_first, mut of_second] = [0; 2];
            let all = |done: &mut u32, steps| {
                *done = steps;
                steps
            };
            assert_eq!(in_turns(&mut turn, 3, |s| all(&mut of_first, s), |s| all(&mut of_second, s)), 3);
            (*first, *second) = (*first + of_first, *second + of_second);
        }
        assert_eq!(done, [9, 9]);
    }

    #[test]
    fn second_direction_gets_the_rest() {
        let does = |left: u32| move |steps: u32| steps.min(left);
        let done = [(0, 0), (3, 0), (0, 3), (3, 4), (9, 9)].map(|(one, other)| {
            let mut asked = None;
            let done = one_then_the_other(5, does(one), |steps| {
                asked = Some(steps);
                does(other)(steps)
            });
            (done, asked)
        });
        assert_eq!(done, [(0, Some(5)), (3, Some(2)), (3, Some(5)), (5, Some(2)), (5, None)]);
    }
}
