//! The loop of a forwarding thread: take frames, forward them, prepare the next ones when there are
//! none, rest.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::run::governor::{Breath, Due, Governor, Mode, Rest};
use crate::run::setup;
use crate::run::warm::{JUST_SEEN, LULL, PARTS, REHEARSAL, Warm};
use crate::sys::thread;

/// Longest wake-up of a sleeping thread, in nanoseconds.
pub(crate) const WAKE_UP: u64 = 100_000;
/// Nanoseconds before a due frame in which the thread does not yield: another thread might keep the
/// CPU past that time.
const HOLDS: u64 = 50_000;
/// Polls of the ports before a polling thread yields: some two microseconds. A yield takes half a
/// microsecond, delays a frame by that, and uses cache.
pub(crate) const LOOKS: u32 = 64;
/// Longest yield without another ready thread, in nanoseconds. A thread that shares its core with
/// another polling gateway lets that poll as often as itself.
const ALONE: u64 = 1_000;
/// The time without a frame after which a thread that shares its CPU prepares.
const CALM: Duration = Duration::from_micros(300);
/// Consecutive turns with frames before the thread checks whether it must rest.
const TURNS: u32 = 64;

/// Why the loop is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// To end.
    Stop,
    /// To begin again with another way to wait.
    Mode(Mode),
}

/// The duties of a forwarding thread in the loop.
pub(crate) trait Duty: Warm {
    /// Whether a waiting frame must leave exactly when it is due. Otherwise slightly later is fine.
    const PUNCTUAL: bool;
    /// Whether a poll of the ports needs no system call, so that the thread can
    /// [linger](Self::linger).
    const LINGERS: bool = false;
    /// Executes the next message, if any. Returns whether there was one, or `Break` to end or to
    /// wait in another way.
    fn message(&mut self, governor: &Governor) -> ControlFlow<Break, bool>;
    /// Handles a bounded number of ready frames. Calls `heard` with the flow of each, which returns
    /// the time, or 0 if it did not read the clock. Returns their number.
    fn turn(&mut self, heard: impl FnMut(u32) -> u64) -> usize;
    /// Publishes the thread's progress to other threads.
    fn show(&self) {}
    /// The time at which a waiting frame is to be sent: when the wire is idle, or the release clock
    /// releases it.
    fn due(&self) -> Option<u64>;
    /// Polls the ports [`LOOKS`] times. Returns whether a frame is ready.
    fn linger(&self) -> bool {
        false
    }
    /// Sleeps until a frame or a message arrives, at most `pause`.
    fn sleep(&mut self, pause: Duration);
}

/// Runs the loop until a message ends it, with the rights that frames need.
pub(crate) fn forward<D: Duty>(duty: &mut D, mut mode: Mode) {
    let mut governor = Governor::new(mode, thread::now(), thread::cpu_time());
    let bound = thread::real_time_bound();
    setup::frames_only();
    let mut breath = bound.map(|(runtime, period)| Breath::new(runtime, period, thread::now()));
    while let Break::Mode(other) = rounds(duty, mode, &mut governor, &mut breath) {
        mode = other;
        governor.set_mode(mode, thread::now(), thread::cpu_time());
    }
}

/// The loop with one way to wait.
fn rounds<D: Duty>(duty: &mut D, mode: Mode, governor: &mut Governor, breath: &mut Option<Breath>) -> Break {
    let listens = governor.listens();
    let mut rested = true;
    let (steps, haste) = (duty.steps(), duty.haste());
    // Polls without a frame since the last one or sleep, and turns with frames since the last check
    // for rest.
    let (mut looks, mut turns) = (0u32, 0u32);
    // A thread that sleeps until a frame arrives may share its CPU with the receiver of the frame
    // just sent, and lets it run before it prepares. `calm`: it has. `frames`: frames since all was
    // prepared; starts at `haste`, as nothing is prepared yet.
    let (lets_others_go_first, mut calm, mut frames) = (mode == Mode::Block, true, haste);
    // Whether no other thread took the CPU at the last yield, and the parts of a preparation.
    let (mut alone, mut parts) = (false, 0u32);
    loop {
        // One at a time, so that frames pass between the keys of many members.
        match duty.message(governor) {
            ControlFlow::Break(why) => return why,
            // There may be other keys, or more packet numbers.
            ControlFlow::Continue(true) => frames = frames.max(haste),
            ControlFlow::Continue(false) => {}
        }
        let done = duty.turn(|flow| {
            if !listens {
                return 0;
            }
            let now = thread::now();
            governor.frame(flow, now);
            now
        });
        if done > 0 {
            (rested, looks, turns) = (false, JUST_SEEN, turns + 1);
            (calm, frames) = (false, frames + done);
            duty.show();
            if turns >= TURNS {
                turns = 0;
                breathe(duty, breath.as_mut(), governor, false);
            }
            continue;
        }
        turns = 0;
        if !rested {
            // The receiver of the frame just sent may wait for this CPU, and answer at once.
            rested = true;
            thread::yield_now();
            continue;
        }
        if breathe(duty, breath.as_mut(), governor, true) || await_due(duty, breath.as_mut(), steps) {
            continue;
        }
        if lets_others_go_first && !calm && frames < haste {
            calm = true;
            duty.sleep(CALM);
            if let Some(breath) = breath {
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
        // The clock is read only where it matters.
        let now = if listens { thread::now() } else { 0 };
        if frames > 0 && governor.would_sleep(now) {
            // All is prepared when it wakes.
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
                if let Some(breath) = breath {
                    breath.rested(thread::now());
                }
                if listens {
                    governor.awake(thread::now());
                }
            }
        }
    }
}

/// Rests if rest is due, but not past the time of a due frame. `idle`: no frame is ready. Returns
/// whether it rested.
#[inline]
fn breathe<D: Duty>(duty: &mut D, breath: Option<&mut Breath>, governor: &Governor, idle: bool) -> bool {
    breath.is_some_and(|breath| take_breath(duty, breath, governor, idle))
}

/// [`breathe`] without its check, out of line.
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

/// Waits until a waiting frame is due or another arrives, usually too short a time to sleep.
/// Returns whether a frame waits.
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

    /// Has only one frame to send, and records its sleeps.
    struct Waits<const PUNCTUAL: bool> {
        due: u64,
        slept: Vec<Duration>,
    }

    impl<const PUNCTUAL: bool> Duty for Waits<PUNCTUAL> {
        const PUNCTUAL: bool = PUNCTUAL;

        fn message(&mut self, _: &Governor) -> ControlFlow<Break, bool> {
            ControlFlow::Continue(false)
        }

        fn turn(&mut self, _: impl FnMut(u32) -> u64) -> usize {
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

    /// The sleeps of a rest that is long overdue, with a frame due `later`.
    fn rests<const PUNCTUAL: bool>(later: u64) -> Vec<Duration> {
        let now = thread::now();
        let mut duty = Waits::<PUNCTUAL> { due: now + later, slept: Vec::new() };
        // From 3 ms ago: some 190 us of rest are due.
        let mut breath = Breath::new(950, 1000, now - 3_000_000);
        let governor = Governor::new(Mode::Busy, now, 0);
        assert_eq!(breathe(&mut duty, Some(&mut breath), &governor, true), !duty.slept.is_empty());
        duty.slept
    }

    #[test]
    fn rest_ends_before_a_due_frame() {
        assert_eq!(rests::<true>(WAKE_UP), [], "no time for one");
        let whole = Duration::from_micros(100);
        assert_eq!(rests::<true>(1_000_000_000), [whole]);
        let short = rests::<true>(WAKE_UP + 90_000);
        assert!(short.iter().all(|rest| *rest < whole), "{short:?}");
        assert_eq!(rests::<false>(0), [whole], "bulk waits");
    }

    /// Has a number of frames per turn and a message in one, and records the turns in which it
    /// prepares and sleeps.
    #[derive(Default)]
    struct Scripted {
        frames: Vec<usize>,
        message: Option<usize>,
        /// Another way to wait, from this turn on.
        change: Option<(usize, Mode)>,
        /// Frames that the governor has counted.
        caught: u64,
        haste: usize,
        turn: usize,
        prepared: Vec<usize>,
        slept: Vec<usize>,
    }

    impl Duty for Scripted {
        const PUNCTUAL: bool = false;

        fn message(&mut self, governor: &Governor) -> ControlFlow<Break, bool> {
            if self.turn == self.frames.len() {
                return ControlFlow::Break(Break::Stop);
            }
            if let Some((_, mode)) = self.change.take_if(|(turn, _)| *turn == self.turn) {
                return ControlFlow::Break(Break::Mode(mode));
            }
            self.caught = governor.caught + governor.woken;
            ControlFlow::Continue(self.message == Some(self.turn))
        }

        fn turn(&mut self, mut heard: impl FnMut(u32) -> u64) -> usize {
            let frames = self.frames[self.turn];
            self.turn += 1;
            (0..frames).for_each(|_| _ = heard(0));
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

    /// Forwards `frames` in turn 3 and none later. Returns the record after that.
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
    fn polling_prepares_in_haste_or_lull() {
        let first = |frames, haste| after_frames(frames, haste, Mode::Busy).prepared.first().copied();
        for haste in [2, HASTE] {
            // One turn yields to other threads.
            assert_eq!(first(haste, haste), Some(5));
            assert_eq!(first(haste - 1, haste), Some(5 + (LULL - JUST_SEEN) as usize));
        }
    }

    #[test]
    fn polling_checks_preparation_periodically() {
        let turns = (LULL + 2 * REHEARSAL) as usize;
        let prepared = |message| {
            let mut duty =
                Scripted { frames: vec![0; turns + 1], message, haste: HASTE, ..Scripted::default() };
            forward(&mut duty, Mode::Busy);
            duty.prepared
        };
        let (first, second) = (LULL as usize, (LULL + REHEARSAL) as usize);
        assert_eq!(prepared(None), [0, first, second, turns]);
        assert_eq!(prepared(Some(second + 5)), [0, first, second, second + 5, turns]);
    }

    #[test]
    fn sleeping_thread_prepares_first() {
        let duty = after_frames(1, HASTE, Mode::Adaptive { percent: 1 });
        assert!(duty.prepared.first().is_some_and(|turn| *turn <= duty.slept[0]), "{:?}", duty.prepared);
        assert_eq!(duty.slept[0], 6, "{:?}", duty.slept);
    }

    #[test]
    fn way_to_wait_changes_between_turns() {
        let adaptive = Mode::Adaptive { percent: 1 };
        for (from, to, sleeps) in [(Mode::Busy, Mode::Block, true), (Mode::Block, Mode::Busy, false)] {
            let mut duty = Scripted { frames: vec![0; 40], change: Some((20, to)), ..Scripted::default() };
            forward(&mut duty, from);
            assert_eq!(duty.slept.iter().any(|turn| *turn >= 20), sleeps, "{:?}", duty.slept);
            assert_eq!(duty.slept.iter().any(|turn| *turn < 20), !sleeps, "{:?}", duty.slept);
        }
        // What it knows of the flows, and its counters, stay.
        let frames = (0..40).map(|turn| usize::from(turn == 3)).collect();
        let mut duty = Scripted { frames, change: Some((9, adaptive)), ..Scripted::default() };
        forward(&mut duty, Mode::Adaptive { percent: 2 });
        assert_eq!(duty.caught, 1);
    }

    #[test]
    fn waiting_for_a_frame_counts_as_rest() {
        let mut duty = Waits::<true> { due: thread::now() + 10_000_000, slept: Vec::new() };
        assert!(await_due(&mut duty, None, 1));
        assert!(
            matches!(duty.slept[..], [slept] if slept < Duration::from_micros(9_901)),
            "{:?}",
            duty.slept
        );
    }
}
