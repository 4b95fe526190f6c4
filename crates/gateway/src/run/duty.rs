//! What any forwarding thread does over and over: take frames, forward them, prepare the next ones when there are none, rest.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::run::governor::{Breath, Due, Governor, Mode, Rest};
use crate::run::warm::{JUST_SEEN, LULL, PARTS, REHEARSAL, Warm};
use crate::sys::thread;

/// Nanoseconds that a sleeping thread may take to wake.
pub(crate) const WAKE_UP: u64 = 100_000;
/// Nanoseconds before a frame must leave in which the thread does not give its CPU away: whoever had it would have to be waited for.
const HOLDS: u64 = 50_000;
/// Looks at the ports before a thread that polls offers its CPU to others again: some two microseconds. The offer takes half of one, for
/// which a frame that comes meanwhile waits, and the kernel's part of it takes room in the caches.
pub(crate) const LOOKS: u32 = 64;
/// Nanoseconds that an offer takes when nobody else wants the CPU; one that is taken lasts longer than that. A gateway that shares its
/// core with another one that polls lets that look as often as itself.
const ALONE: u64 = 1_000;
/// How long no frame comes before a thread that shares its CPU prepares.
const CALM: Duration = Duration::from_micros(300);
/// Turns with frames, one after the other, before the thread looks whether it must rest.
const TURNS: u32 = 64;

/// What a forwarding thread does: its turns, and what it does between them.
pub(crate) trait Duty: Warm {
    /// Whether a frame that waits must leave at the very moment when it is due; if not, a little later does no harm.
    const PUNCTUAL: bool;
    /// Whether a look at the ports costs no system call, so that it can [linger](Self::linger).
    const LINGERS: bool = false;
    /// Does what the next letter asks, if there is one. Returns whether there was one, or that it is the end.
    fn letter(&mut self, governor: &Governor) -> ControlFlow<(), bool>;
    /// Handles what stands ready, a bounded number of frames. `heard` is told the flow of each. Returns how many.
    fn turn(&mut self, heard: impl FnMut(u32)) -> usize;
    /// Shows the others how far it is.
    fn show(&self) {}
    /// When a frame that waits is to be sent: the wire is free for it then, or the release clock gives it out.
    fn due(&self) -> Option<u64>;
    /// Looks at the ports [`LOOKS`] times. Returns whether a frame stands ready.
    fn linger(&self) -> bool {
        false
    }
    /// Sleeps until a frame or a letter comes, at most so long.
    fn sleep(&mut self, pause: Duration);
}

/// Forwards until a letter ends it: take, forward, prepare, rest.
pub(crate) fn forward<D: Duty>(duty: &mut D, mode: Mode) {
    let mut governor = Governor::new(mode, thread::now(), thread::cpu_time());
    let bound = thread::real_time_bound();
    let mut breath = bound.map(|(runtime, period)| Breath::new(runtime, period, thread::now()));
    let listens = governor.listens();
    let mut rested = true;
    let (steps, haste) = (duty.steps(), duty.haste());
    // Turns without a frame since the last one or sleep, and turns with frames since the last look.
    let (mut looks, mut turns) = (0u32, 0u32);
    // Who sleeps until a frame comes may share its CPU with the very machine that waits for the frame just sent, and lets it go first
    // before it prepares. `calm`: it did. `frames`: those since all was prepared; as many as make haste when nobody looked yet.
    let (lets_others_go_first, mut calm, mut frames) = (mode == Mode::Block, true, haste);
    // Whether nobody else wanted the CPU when it was offered last, and the parts of a preparation.
    let (mut alone, mut parts) = (false, 0u32);
    loop {
        // One at a time: between the keys of many members, frames have their turn.
        match duty.letter(&governor) {
            ControlFlow::Break(()) => return,
            // There may be other keys now, or more packet numbers.
            ControlFlow::Continue(true) => frames = frames.max(haste),
            ControlFlow::Continue(false) => {}
        }
        let done = duty.turn(|flow| {
            if listens {
                governor.frame(flow, thread::now());
            }
        });
        if done > 0 {
            (rested, looks, turns) = (false, JUST_SEEN, turns + 1);
            (calm, frames) = (false, frames + done);
            duty.show();
            if turns >= TURNS {
                turns = 0;
                breathe(duty, breath.as_mut(), &governor, false);
            }
            continue;
        }
        turns = 0;
        if !rested {
            // Whoever waits for the frame that was just sent may wait for this CPU, and answer at once.
            rested = true;
            thread::yield_now();
            continue;
        }
        if breathe(duty, breath.as_mut(), &governor, true) || await_due(duty, breath.as_mut(), steps) {
            continue;
        }
        if lets_others_go_first && !calm && frames < haste {
            calm = true;
            duty.sleep(CALM);
            if let Some(breath) = &mut breath {
                breath.rested(thread::now());
            }
            continue;
        }
        if lets_others_go_first || frames >= haste || looks % REHEARSAL == LULL {
            if duty.prepare(steps) > 0 {
                parts = parts.wrapping_add(1);
                if lets_others_go_first || !D::LINGERS || parts.is_multiple_of(PARTS) {
                    thread::yield_now();
                }
                continue;
            }
            frames = 0;
        }
        // The clock is read only where it decides something.
        let now = if listens { thread::now() } else { 0 };
        if frames > 0 && governor.would_sleep(now) {
            // Whatever wakes it finds all prepared.
            looks = LULL;
            continue;
        }
        match governor.rest(now, thread::cpu_time) {
            Rest::Poll => {
                duty.rehearse(looks);
                looks = looks.wrapping_add(1);
                if !D::LINGERS {
                    thread::yield_now();
                } else if !(alone && duty.linger()) {
                    let offered = thread::now();
                    thread::yield_now();
                    alone = thread::now() - offered < ALONE;
                }
            }
            Rest::Sleep(pause) => {
                governor.sleep();
                duty.sleep(pause);
                looks = 0;
                if let Some(breath) = &mut breath {
                    breath.rested(thread::now());
                }
                if listens {
                    governor.awake(thread::now());
                }
            }
        }
    }
}

/// Rests if that is due, and not past the moment at which a frame must leave. `idle`: no frame stands ready. Returns
/// whether it did.
#[inline]
fn breathe<D: Duty>(duty: &mut D, breath: Option<&mut Breath>, governor: &Governor, idle: bool) -> bool {
    breath.is_some_and(|breath| take_breath(duty, breath, governor, idle))
}

/// As [`breathe`], apart from what every turn goes through.
#[inline(never)]
fn take_breath<D: Duty>(duty: &mut D, breath: &mut Breath, governor: &Governor, idle: bool) -> bool {
    let now = thread::now();
    match breath.due(now, idle, governor) {
        Due::None => return false,
        Due::Doze(time) => {
            let punctual = duty.due().filter(|_| D::PUNCTUAL);
            match punctual.map_or(time, |due| time.min(due.saturating_sub(now + WAKE_UP))) {
                0 => return false,
                time => duty.sleep(Duration::from_nanos(time)),
            }
        }
        Due::Pause(time) => thread::pause(time),
    }
    breath.rested(thread::now());
    true
}

/// Waits until a frame that stands ready is to be sent, or one comes: too short a time to sleep, most often. Returns whether
/// one stands ready.
#[inline]
fn await_due<D: Duty>(duty: &mut D, breath: Option<&mut Breath>, steps: u32) -> bool {
    let Some(due) = duty.due() else { return false };
    wait_until(duty, due, breath, steps);
    true
}

#[inline(never)]
fn wait_until<D: Duty>(duty: &mut D, due: u64, breath: Option<&mut Breath>, steps: u32) {
    let left = due.saturating_sub(thread::now());
    if left > WAKE_UP {
        duty.sleep(Duration::from_nanos(left - WAKE_UP));
        if let Some(breath) = breath {
            breath.rested(thread::now());
        }
    } else if duty.prepare(steps) == 0 && !(D::PUNCTUAL && left < HOLDS) {
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::warm::HASTE;

    /// Has nothing to do but a frame to give out, and notes how long it sleeps.
    struct Waits<const PUNCTUAL: bool> {
        due: u64,
        slept: Vec<Duration>,
    }

    impl<const PUNCTUAL: bool> Duty for Waits<PUNCTUAL> {
        const PUNCTUAL: bool = PUNCTUAL;

        fn letter(&mut self, _: &Governor) -> ControlFlow<(), bool> {
            ControlFlow::Continue(false)
        }

        fn turn(&mut self, _: impl FnMut(u32)) -> usize {
            0
        }

        fn due(&self) -> Option<u64> {
            Some(self.due)
        }

        fn sleep(&mut self, pause: Duration) {
            self.slept.push(pause);
        }
    }

    impl<const PUNCTUAL: bool> Warm for Waits<PUNCTUAL> {
        fn steps(&mut self) -> u32 {
            1
        }

        fn prepare(&mut self, _: u32) -> u32 {
            0
        }
    }

    /// Sleeps that rest makes when much is due, with a frame due so much later.
    fn rests<const PUNCTUAL: bool>(later: u64) -> Vec<Duration> {
        let now = thread::now();
        let mut duty = Waits::<PUNCTUAL> { due: now + later, slept: Vec::new() };
        // Since 3 ms before now: some 190 us of rest are due.
        let mut breath = Breath::new(950, 1000, now - 3_000_000);
        let governor = Governor::new(Mode::Busy, now, 0);
        assert_eq!(breathe(&mut duty, Some(&mut breath), &governor, true), !duty.slept.is_empty());
        duty.slept
    }

    #[test]
    fn a_rest_ends_before_a_frame_must_leave() {
        assert_eq!(rests::<true>(WAKE_UP), [], "no time for one");
        let whole = Duration::from_micros(100);
        assert_eq!(rests::<true>(1_000_000_000), [whole]);
        let short = rests::<true>(WAKE_UP + 90_000);
        assert!(short.iter().all(|rest| *rest < whole), "{short:?}");
        assert_eq!(rests::<false>(0), [whole], "bulk waits");
    }

    /// Has so many frames in each turn and a letter in one, and notes in which turns it prepares and sleeps.
    #[derive(Default)]
    struct Scripted {
        frames: Vec<usize>,
        letter: Option<usize>,
        haste: usize,
        turn: usize,
        prepared: Vec<usize>,
        slept: Vec<usize>,
    }

    impl Duty for Scripted {
        const PUNCTUAL: bool = false;

        fn letter(&mut self, _: &Governor) -> ControlFlow<(), bool> {
            if self.turn == self.frames.len() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(self.letter == Some(self.turn))
        }

        fn turn(&mut self, mut heard: impl FnMut(u32)) -> usize {
            let frames = self.frames[self.turn];
            self.turn += 1;
            (0..frames).for_each(|_| heard(0));
            frames
        }

        fn due(&self) -> Option<u64> {
            None
        }

        fn sleep(&mut self, _: Duration) {
            self.slept.push(self.turn - 1);
        }
    }

    impl Warm for Scripted {
        fn haste(&self) -> usize {
            self.haste
        }

        fn steps(&mut self) -> u32 {
            1
        }

        fn prepare(&mut self, _: u32) -> u32 {
            self.prepared.push(self.turn - 1);
            0
        }
    }

    /// Forwards so many frames in turn 3, and then none. What was noted after that.
    fn after_frames(frames: usize, haste: usize, mode: Mode) -> Scripted {
        let script = (0..40).map(|turn| if turn == 3 { frames } else { 0 });
        let mut duty = Scripted { frames: script.collect(), haste, ..Scripted::default() };
        forward(&mut duty, mode);
        assert_eq!(duty.prepared[0], 0, "before the first frame");
        duty.prepared.retain(|turn| *turn > 3);
        duty.slept.retain(|turn| *turn > 3);
        duty
    }

    #[test]
    fn who_polls_prepares_after_many_frames_or_in_a_lull() {
        let first = |frames, haste| after_frames(frames, haste, Mode::Busy).prepared.first().copied();
        for haste in [2, HASTE] {
            // One turn lets others go first.
            assert_eq!(first(haste, haste), Some(5));
            assert_eq!(first(haste - 1, haste), Some(5 + (LULL - JUST_SEEN) as usize));
        }
    }

    #[test]
    fn who_polls_looks_now_and_then_whether_there_is_something_to_prepare_and_after_each_letter() {
        let turns = (LULL + 2 * REHEARSAL) as usize;
        let prepared = |letter| {
            let mut duty =
                Scripted { frames: vec![0; turns + 1], letter, haste: HASTE, ..Scripted::default() };
            forward(&mut duty, Mode::Busy);
            duty.prepared
        };
        let (first, second) = (LULL as usize, (LULL + REHEARSAL) as usize);
        assert_eq!(prepared(None), [0, first, second, turns]);
        assert_eq!(prepared(Some(second + 5)), [0, first, second, second + 5, turns]);
    }

    #[test]
    fn who_sleeps_has_prepared_before() {
        let duty = after_frames(1, HASTE, Mode::Adaptive { percent: 1 });
        assert!(duty.prepared.first().is_some_and(|turn| *turn <= duty.slept[0]), "{:?}", duty.prepared);
        assert_eq!(duty.slept[0], 6, "{:?}", duty.slept);
    }

    #[test]
    fn who_waits_for_a_frame_sleeps_until_shortly_before_and_that_is_rest() {
        let mut duty = Waits::<true> { due: thread::now() + 10_000_000, slept: Vec::new() };
        assert!(await_due(&mut duty, None, 1));
        assert!(
            matches!(duty.slept[..], [slept] if slept < Duration::from_micros(9_901)),
            "{:?}",
            duty.slept
        );
    }
}
