//! Decides when a forwarding thread polls and when it sleeps.
//!
//! A polling thread forwards a frame microseconds sooner than one that must be woken, but polling
//! costs CPU. Cyclic traffic is predictable: the [`Governor`] learns the period of each flow,
//! sleeps between frames, and polls from shortly before the next one is due. The thread's total CPU
//! time, forwarding included, stays within the configured share, unless forwarding alone needs
//! more.
//!
//! The kernel stops a thread with a fixed priority that never rests, by default for 50 ms in each
//! second. [`Breath`] takes the same share of rest in short pauses between frames.

use std::time::Duration;

use crate::run::rhythm::Rhythm;
use crate::sys::warm::hot;

/// How a forwarding thread waits for frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Sleeps until the kernel wakes it. Least CPU, and a wake-up for each frame.
    Block,
    /// Polls around the times when frames are due, within a share of one CPU.
    Adaptive {
        /// Percent of one CPU that the thread may use, forwarding included.
        percent: u8,
    },
    /// Polls always, and yields the CPU to other ready threads between polls.
    Busy,
}

/// The next step without a frame or anything to prepare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Poll again at once.
    Poll,
    /// Sleep until a frame arrives, at most this long.
    Sleep(Duration),
}

/// Longest sleep in nanoseconds, so that periodic work gets its turn.
const LONGEST_SLEEP: u64 = 100_000_000;
/// Longest saving of the budget, in nanoseconds.
const SAVINGS: u64 = 50_000_000;
/// Limits of the lead: how long before the due time a sleep ends. The lead adapts to the budget.
const LEAD: std::ops::Range<u64> = 5_000..120_000;
/// How long a thread with budget left polls after the last frame.
const TAIL: u64 = 20_000;

/// Decides between polling and sleeping. Times are nanoseconds.
#[derive(Debug)]
pub struct Governor {
    mode: Mode,
    rhythm: Rhythm,
    /// CPU time left. Negative when overdrawn.
    budget: i64,
    /// Monotonic time and thread CPU time at the last update of the budget.
    settled: (u64, u64),
    /// Time of the last wake-up. All time since then is CPU time.
    awake_since: u64,
    lead: u64,
    last_frame: u64,
    /// Number of sleeps, for the status.
    pub sleeps: u64,
    /// Frames that found the thread polling.
    pub caught: u64,
    /// Frames that woke the thread.
    pub woken: u64,
    asleep: bool,
}

impl Governor {
    /// A governor without known flows.
    #[must_use]
    #[cold]
    #[inline(never)]
    pub fn new(mode: Mode, now: u64, cpu: u64) -> Self {
        Self {
            mode,
            rhythm: Rhythm::default(),
            budget: 0,
            settled: (now, cpu),
            awake_since: now,
            lead: 40_000,
            last_frame: 0,
            sleeps: 0,
            caught: 0,
            woken: 0,
            asleep: false,
        }
    }

    /// Waits in another way from now on. What is known of the flows stays.
    pub fn set_mode(&mut self, mode: Mode, now: u64, cpu: u64) {
        (self.mode, self.budget, self.settled, self.awake_since) = (mode, 0, (now, cpu), now);
        self.asleep = false;
    }

    /// Whether [`Self::frame`] must be called for each frame.
    #[must_use]
    pub fn listens(&self) -> bool {
        matches!(self.mode, Mode::Adaptive { .. })
    }

    /// Records a frame of a flow.
    #[inline]
    pub fn frame(&mut self, flow: u32, now: u64) {
        hot(|| self.rhythm.beat(flow, now));
        self.last_frame = now;
        if self.asleep {
            self.woken += 1;
        } else {
            self.caught += 1;
        }
        self.asleep = false;
    }

    /// Records that the thread goes to sleep, as [`Self::rest`] decided.
    pub fn sleep(&mut self) {
        self.sleeps += 1;
        self.asleep = matches!(self.mode, Mode::Adaptive { .. });
    }

    /// Decides the next step of an idle thread. `cpu` returns the thread's CPU time; called only
    /// before a sleep.
    pub fn rest(&mut self, now: u64, cpu: impl FnOnce() -> u64) -> Rest {
        let percent = match self.mode {
            Mode::Busy => return Rest::Poll,
            Mode::Block => return Rest::Sleep(Duration::from_nanos(LONGEST_SLEEP)),
            Mode::Adaptive { percent } => i64::from(percent),
        };
        let due = self.rhythm.next_due(now);
        if self.may_poll(now, due) {
            self.asleep = false;
            return Rest::Poll;
        }
        self.settle(now, cpu(), percent);
        let until = match due {
            Some(due) if due > now + self.lead => due - self.lead,
            _ => now + LONGEST_SLEEP,
        };
        Rest::Sleep(Duration::from_nanos((until - now).min(LONGEST_SLEEP)))
    }

    /// Whether [`rest`](Self::rest) would return a sleep. Changes nothing.
    #[must_use]
    pub fn would_sleep(&self, now: u64) -> bool {
        match self.mode {
            Mode::Busy => false,
            Mode::Block => true,
            Mode::Adaptive { .. } => !self.may_poll(now, self.rhythm.next_due(now)),
        }
    }

    fn may_poll(&self, now: u64, due: Option<u64>) -> bool {
        // An estimate. The exact sum comes with the next sleep.
        let in_hand = self.budget - now.saturating_sub(self.awake_since) as i64;
        let near = due.is_some_and(|due| now + self.lead >= due);
        let in_tail = due.is_none() && now < self.last_frame + TAIL;
        (near || in_tail) && in_hand > 0
    }

    /// Records the end of a sleep.
    pub fn awake(&mut self, now: u64) {
        self.awake_since = now;
        if self.rhythm.next_due(now).is_some_and(|due| now + self.lead + LEAD.start >= due) {
            self.asleep = false;
        }
    }

    fn settle(&mut self, now: u64, cpu: u64, percent: i64) {
        let earned = now.saturating_sub(self.settled.0) as i64 * percent / 100;
        let spent = cpu.saturating_sub(self.settled.1) as i64;
        let most = SAVINGS as i64 * percent / 100;
        self.budget = (self.budget + earned - spent).clamp(-most, most);
        self.settled = (now, cpu);
        // The lead is as long as the budget allows.
        self.lead = if self.budget > most / 2 {
            (self.lead + 500).min(LEAD.end)
        } else if self.budget < most / 8 {
            (self.lead - self.lead / 16).max(LEAD.start)
        } else {
            self.lead
        };
    }

    /// Whether a frame of a steady flow is due within this many nanoseconds.
    #[must_use]
    pub fn expects(&self, now: u64, within: u64) -> bool {
        self.rhythm.next_due(now).is_some_and(|due| due <= now + within)
    }

    /// Number of steady flows.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.rhythm.steady()
    }
}

/// The length of a breath in nanoseconds. A frame ends it.
const BREATH: u64 = 100_000;
/// With this many breaths due, one is taken although a frame is expected.
const URGENT: u64 = 4;
/// With this many breaths due, one is taken although frames are ready: the kernel would soon stop
/// the thread.
const OVERDUE: u64 = 150;
/// Extra rest beyond the kernel's demand, in thousandths of the time.
const MARGIN: u64 = 15;

/// The rest that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    None,
    /// Sleep this many nanoseconds, or until a frame arrives.
    Doze(u64),
    /// Sleep this many nanoseconds, regardless of frames.
    Pause(u64),
}

/// The rest of a thread with a fixed priority.
///
/// Linux grants such threads `sched_rt_runtime_us` of each `sched_rt_period_us` (sched(7)), by
/// default 950 of 1000 ms. Then all of them on the core stop for the rest of the period, or (since
/// 6.12) other threads get all the time they want of it. A thread that polls without pause, or
/// waits for the wire during bulk, would be stopped each second. So it sleeps slightly more than
/// that share itself, a tenth of a millisecond at a time, when no frame is due. Times are
/// nanoseconds.
#[derive(Debug, Clone)]
pub struct Breath {
    /// Share of the time to rest, in thousandths.
    share: u64,
    seen: u64,
    owed: u64,
}

impl Breath {
    /// For a thread that may use `runtime` of each `period`, in the same unit.
    #[must_use]
    pub fn new(runtime: u64, period: u64, now: u64) -> Self {
        let rest = period.saturating_sub(runtime).saturating_mul(1000).div_ceil(period.max(1));
        Self { share: (rest + MARGIN).min(500), seen: now, owed: 0 }
    }

    /// The rest that is due now, after the busy time since the last call or rest. `idle`: no frame
    /// is ready.
    pub fn due(&mut self, now: u64, idle: bool, governor: &Governor) -> Due {
        self.owed += now.saturating_sub(self.seen) * self.share / 1000;
        self.seen = now;
        let breaths = self.owed / BREATH;
        match breaths {
            0 => Due::None,
            OVERDUE.. => Due::Pause(BREATH),
            _ if !idle => Due::None,
            ..URGENT if governor.expects(now, 2 * BREATH) => Due::None,
            _ => Due::Doze(BREATH),
        }
    }

    /// Records a rest until `now`, from the last call or rest on, whichever was later.
    pub fn rested(&mut self, now: u64) {
        self.owed = self.owed.saturating_sub(now.saturating_sub(self.seen));
        self.seen = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn governor(percent: u8) -> Governor {
        Governor::new(Mode::Adaptive { percent }, 0, 0)
    }

    #[test]
    fn polling_starts_before_a_due_frame() {
        let mut g = governor(10);
        for beat in 1..=10 {
            g.frame(7, beat * MS);
        }
        assert_eq!(g.flows(), 1);
        assert!(g.would_sleep(10 * MS + 30_000));
        let Rest::Sleep(pause) = g.rest(10 * MS + 30_000, || 100_000) else { panic!("polls a whole cycle") };
        let wake = 10 * MS + 30_000 + pause.as_nanos() as u64;
        g.awake(wake);
        assert!((10 * MS + 850_000..11 * MS).contains(&wake), "wakes at {wake}");
        assert!(!g.would_sleep(wake + 1_000));
        assert_eq!(g.rest(wake + 1_000, || 110_000), Rest::Poll);
    }

    #[test]
    fn late_frame_is_awaited_ended_flow_not() {
        let mut g = governor(50);
        for beat in 1..=10 {
            g.frame(7, beat * MS);
        }
        g.settle(10 * MS, 0, 50);
        g.awake(11 * MS - 20_000);
        assert_eq!(g.rest(11 * MS + 5_000, || 0), Rest::Poll);
        let Rest::Sleep(pause) = g.rest(15 * MS + 5_000, || 0) else {
            panic!("polls for a flow that has ended")
        };
        assert_eq!(pause.as_nanos() as u64, LONGEST_SLEEP);
    }

    #[test]
    fn cpu_time_stays_within_the_share() {
        let mut g = governor(10);
        let (mut now, mut cpu, mut next) = (0, 0, MS);
        while now < 2_000 * MS {
            match g.rest(now, || cpu) {
                // A poll takes 500 ns.
                Rest::Poll => (now, cpu) = (now + 500, cpu + 500),
                // A wake-up costs 10 µs of CPU.
                Rest::Sleep(pause) => {
                    g.sleep();
                    (now, cpu) = (next.min(now + pause.as_nanos() as u64), cpu + 10_000);
                    g.awake(now);
                }
            }
            if now >= next {
                g.frame(7, now);
                (now, cpu) = (now + 5_000, cpu + 5_000);
                next += MS;
            }
        }
        assert!(cpu * 100 / now <= 11, "{} % of the CPU", cpu * 100 / now);
        assert!(g.caught > 9 * g.woken, "{} caught, {} woken", g.caught, g.woken);
    }

    #[test]
    fn thread_without_budget_sleeps() {
        let mut g = governor(1);
        for beat in 1..=10 {
            g.frame(7, beat * MS);
        }
        g.settle(10 * MS, 5 * MS, 1);
        assert!(matches!(g.rest(11 * MS - 10_000, || 5 * MS), Rest::Sleep(_)));
    }

    /// The kernel's default limits: 950 of 1000 ms.
    fn breath() -> Breath {
        Breath::new(950_000, 1_000_000, 0)
    }

    #[test]
    fn polling_thread_rests_more_than_required() {
        let (g, mut breath) = (governor(100), breath());
        let (mut now, mut rested) = (0, 0);
        while now < 1_000 * MS {
            now += 500;
            match breath.due(now, true, &g) {
                Due::None => {}
                Due::Doze(time) => {
                    assert!(time <= BREATH);
                    (now, rested) = (now + time, rested + time);
                    breath.rested(now);
                }
                Due::Pause(_) => panic!("nothing keeps it from dozing"),
            }
        }
        assert!((55 * MS..75 * MS).contains(&rested), "{rested} ns of a second");
    }

    #[test]
    fn breath_waits_for_due_frames() {
        let (mut g, mut breath) = (governor(100), breath());
        for beat in 1..=10 {
            g.frame(7, beat * MS);
        }
        // 2 ms of work owe 130 µs.
        assert_eq!(breath.due(2 * MS, false, &g), Due::None, "frames stand ready");
        breath.seen = 11 * MS - 50_000;
        assert_eq!(breath.due(11 * MS - 50_000, true, &g), Due::None, "a frame is due");
        assert_eq!(breath.due(11 * MS + 100_000, true, &g), Due::Doze(BREATH));
        breath.rested(11 * MS + 200_000);
        assert_eq!(breath.due(11 * MS + 201_000, true, &g), Due::None);
        let mut pauses = 0;
        for now in (12 * MS..1_012 * MS).step_by(100_000) {
            if matches!(breath.due(now, false, &g), Due::Pause(_)) {
                pauses += 1;
                breath.rested(now + BREATH);
            }
        }
        assert!(pauses > 200, "{pauses} pauses in a second without end");
    }

    #[test]
    fn unrequested_sleep_counts() {
        let (g, mut breath) = (governor(100), breath());
        assert_ne!(breath.due(4 * MS, true, &g), Due::None);
        breath.rested(6 * MS);
        assert_eq!(breath.due(7 * MS, true, &g), Due::None);
    }

    #[test]
    fn fixed_modes_poll_or_sleep() {
        assert_eq!(Governor::new(Mode::Busy, 0, 0).rest(0, || 0), Rest::Poll);
        assert!(matches!(Governor::new(Mode::Block, 0, 0).rest(0, || 0), Rest::Sleep(_)));
    }
}
