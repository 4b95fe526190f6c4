//! Scheduling of preparations: response-time analysis of a cooperative runtime.
//!
//! A node serves messages first, then its periodic work, then steps of preparation, without
//! preemption. A preparation is background work that begins when the previous message was sent. The
//! analysis gives its latest end, the time left before the next message, and the cost of an early
//! message: the scheduling that Hiller et al. 2018 leave open (section VII). It is the usual
//! analysis for fixed priorities without preemption: a job is blocked once by a running job, and
//! delayed by every release of higher priority. `antedate lab scenarios` compares it with the
//! runtime on motes.

use serde::Serialize;

/// Periodic work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Work {
    /// period, in ms
    pub period_ms: f64,
    /// longest duration, in ms
    pub cost_ms: f64,
}

/// A message of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Job {
    /// the shortest time between two messages, in ms
    pub period_ms: f64,
    /// duration of its preparation, in ms
    pub preparation_ms: f64,
    /// the longest step of the preparation, in ms
    pub step_ms: f64,
    /// sealing when prepared, in ms
    pub online_ms: f64,
    /// sealing when unprepared, in ms
    pub fallback_ms: f64,
}

/// The analysis of a message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// the longest time from the previous message to the end of the preparation; none if it never
    /// ends
    pub ready_ms: Option<f64>,
    /// the preparation always ends in time
    pub in_time: bool,
    /// time from the end of the preparation to the message, in ms
    pub spare_ms: f64,
    /// the longest time from release to the end of sealing; infinite if messages come faster than
    /// the node seals them
    pub response_ms: f64,
    /// the same for an early message without preparation: late is never worse than the unmodified
    /// cipher
    pub early_response_ms: f64,
}

/// A node's schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Schedule {
    /// CPU load
    pub load: f64,
    /// one outcome per message
    pub messages: Vec<Outcome>,
    /// per piece of work: the longest time from release to end; none without a bound
    pub work_ms: Vec<Option<f64>>,
}

/// Rounds before the iteration is taken to diverge.
const ROUNDS: usize = 10_000;

/// The smallest `t`, at most `bound`, with `t = base + sum of releases * cost`. One release is due
/// at the beginning, and more are queued after `queued` without service.
fn fixed_point(base: f64, delays: &[(f64, f64)], queued: f64, bound: f64) -> Option<f64> {
    let mut t = base;
    for _ in 0..ROUNDS {
        let next = base
            + delays.iter().map(|(period, cost)| (((t + queued) / period).floor() + 1.0) * cost).sum::<f64>();
        if next > bound {
            return None;
        }
        if next <= t + 1e-9 {
            return Some(next);
        }
        t = next;
    }
    None
}

/// Analyses of a node with its late messages before all messages are taken to be late.
const PASSES: usize = 8;

/// Analyses a node. Periods are more than 0.
///
/// A message whose preparation may end late is sealed the ordinary way, which takes time from the
/// others. So the analysis repeats with that cost until no more messages are late.
#[must_use]
pub fn analyse(work: &[Work], jobs: &[Job]) -> Schedule {
    let mut sealed = jobs.to_vec();
    let mut pass = 0;
    loop {
        let node = Node::new(work, &sealed);
        let messages: Vec<Outcome> = sealed.iter().map(|job| node.outcome(job)).collect();
        pass += 1;
        let mut more = false;
        for (job, outcome) in sealed.iter_mut().zip(&messages) {
            if (!outcome.in_time || pass >= PASSES) && job.online_ms < job.fallback_ms {
                job.online_ms = job.fallback_ms;
                more = true;
            }
        }
        if !more {
            return Schedule { load: node.load, messages, work_ms: node.work_ms(work) };
        }
    }
}

/// The sums of a node. They keep the analysis of a thousand messages fast.
struct Node {
    /// period and cost of each work
    works: Vec<(f64, f64)>,
    /// the longest step
    step: f64,
    /// the load of messages with their preparations; the sum of their costs; the sum of their
    /// sealing costs
    share: f64,
    once: f64,
    seals: f64,
    /// the longest sealing of either kind
    longest_seal: f64,
    shortest_period: f64,
    /// the longest time from the start of a job until all messages that arrived meanwhile are
    /// sealed; none if they arrive faster
    busy: Option<f64>,
    load: f64,
}

impl Node {
    /// For a message that is not always ready, `online_ms` is its fallback cost.
    fn new(work: &[Work], jobs: &[Job]) -> Self {
        let longest = |costs: &mut dyn Iterator<Item = f64>| costs.fold(0.0, f64::max);
        let step = longest(&mut jobs.iter().map(|job| job.step_ms));
        let blocked = step.max(longest(&mut work.iter().map(|work| work.cost_ms)));
        let share = jobs.iter().map(|job| (job.online_ms + job.preparation_ms) / job.period_ms).sum::<f64>();
        let sealing: Vec<_> = jobs.iter().map(|job| (job.period_ms, job.online_ms)).collect();
        let sealing_share: f64 = sealing.iter().map(|(period, cost)| cost / period).sum();
        // Messages have the highest priority. At worst each that arrives while others wait is
        // served before the last one.
        let busy = if sealing_share < 1.0 { fixed_point(blocked, &sealing, 0.0, f64::MAX) } else { None };
        Self {
            works: work.iter().map(|work| (work.period_ms, work.cost_ms)).collect(),
            step,
            share,
            once: jobs.iter().map(|job| job.online_ms + job.preparation_ms).sum(),
            seals: jobs.iter().map(|job| job.online_ms).sum(),
            longest_seal: longest(&mut jobs.iter().map(|job| job.online_ms.max(job.fallback_ms))),
            shortest_period: jobs.iter().map(|job| job.period_ms).fold(f64::INFINITY, f64::min),
            busy,
            load: share + work.iter().map(|work| work.cost_ms / work.period_ms).sum::<f64>(),
        }
    }

    fn outcome(&self, job: &Job) -> Outcome {
        let response_ms = self.busy.unwrap_or(f64::INFINITY);
        let early_response_ms = response_ms + (job.fallback_ms - job.online_ms).max(0.0);
        // The others' preparations and messages take a share of the time, and all may be released
        // at once.
        let own = job.online_ms + job.preparation_ms;
        let share = (self.share - own / job.period_ms).max(0.0);
        let burst = (self.once - own).max(0.0);
        let ready_ms = if share >= 1.0 {
            None
        } else {
            // They also have that share of the time in which this message was sealed.
            let base = (job.preparation_ms + burst + share * job.online_ms) / (1.0 - share);
            let stretched: Vec<_> =
                self.works.iter().map(|(period, cost)| (*period, cost / (1.0 - share))).collect();
            fixed_point(base, &stretched, self.seals.max(self.longest_seal), 1000.0 * job.period_ms)
        };
        let in_time =
            job.preparation_ms <= 0.0 || ready_ms.is_some_and(|ready| ready + job.online_ms <= job.period_ms);
        let spare_ms = ready_ms.map_or(0.0, |ready| (job.period_ms - ready).max(0.0));
        Outcome { ready_ms, in_time, spare_ms, response_ms, early_response_ms }
    }

    fn work_ms(&self, work: &[Work]) -> Vec<Option<f64>> {
        let one = |(i, this): (usize, &Work)| {
            let mut delays: Vec<_> = self.works[..i].to_vec();
            if self.shortest_period.is_finite() {
                delays.push((self.shortest_period, self.longest_seal.max(self.seals)));
            }
            let after = work[i + 1..].iter().map(|work| work.cost_ms).fold(0.0, f64::max);
            fixed_point(self.step.max(after) + this.cost_ms, &delays, 0.0, 1000.0 * this.period_ms)
        };
        work.iter().enumerate().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: Job =
        Job { period_ms: 10.0, preparation_ms: 2.0, step_ms: 0.25, online_ms: 0.1, fallback_ms: 3.0 };

    #[test]
    fn lone_preparation_takes_its_cost() {
        let schedule = analyse(&[], &[JOB]);
        let Outcome { ready_ms, in_time, spare_ms, response_ms, early_response_ms } = schedule.messages[0];
        assert_eq!((ready_ms, in_time), (Some(2.0), true));
        assert!((spare_ms - 8.0).abs() < 1e-9 && (schedule.load - 0.21).abs() < 1e-9);
        // A step may be running.
        assert!((response_ms - 0.35).abs() < 1e-9 && (early_response_ms - 3.25).abs() < 1e-9);
    }

    #[test]
    fn each_release_delays_the_preparation() {
        let work = [Work { period_ms: 1.0, cost_ms: 0.5 }];
        let outcome = analyse(&work, &[Job { fallback_ms: 0.1, ..JOB }]).messages[0];
        // Work takes half of the time, and one release may come at once: 2 = t - 0.5 * (floor(t) +
        // 1).
        let ready = outcome.ready_ms.expect("ends");
        assert!((4.0..=5.0).contains(&ready), "{ready}");
        assert!(outcome.in_time);
        let slow = analyse(&[Work { period_ms: 1.0, cost_ms: 0.9 }], &[JOB]).messages[0];
        assert!(!slow.in_time);
        assert_eq!(analyse(&[Work { period_ms: 1.0, cost_ms: 1.0 }], &[JOB]).messages[0].ready_ms, None);
    }

    /// Simulates the runtime with several messages and works from given first releases. Returns for
    /// each message its longest response and whether it was always prepared.
    fn simulate_all(work: &[Work], jobs: &[Job], first: &[f64]) -> Vec<(f64, bool)> {
        let (works_due, due) = first.split_at(work.len());
        let (mut works_due, mut due, mut now) = (works_due.to_vec(), due.to_vec(), 0.0);
        let mut left: Vec<f64> = jobs.iter().map(|job| job.preparation_ms).collect();
        let mut seen = vec![(0.0f64, true); jobs.len()];
        while now < 400.0 {
            if let Some(i) = due.iter().position(|due| *due <= now) {
                let ready = left[i] <= 1e-9;
                now += if ready { jobs[i].online_ms } else { jobs[i].fallback_ms };
                seen[i] = (seen[i].0.max(now - due[i]), seen[i].1 && ready);
                due[i] += jobs[i].period_ms;
                left[i] = jobs[i].preparation_ms;
            } else if let Some(i) = works_due.iter().position(|due| *due <= now) {
                now += work[i].cost_ms;
                works_due[i] += work[i].period_ms;
            } else if let Some(i) = left.iter().position(|left| *left > 1e-9) {
                let step = jobs[i].step_ms.min(left[i]);
                now += step;
                left[i] -= step;
            } else {
                now = works_due.iter().chain(&due).fold(f64::INFINITY, |a, b| a.min(*b));
            }
        }
        seen
    }

    #[test]
    fn simulated_messages_keep_their_bounds() {
        let mut state = 7u64;
        let mut random = |from: f64, to: f64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            from + (to - from) * (state >> 33) as f64 / f64::from(1u32 << 31)
        };
        let (mut bounded, mut late) = (0, 0);
        for _ in 0..3000 {
            let work: Vec<Work> = (0..(random(0.0, 3.0) as usize))
                .map(|_| Work { period_ms: random(2.0, 30.0), cost_ms: random(0.1, 4.0) })
                .collect();
            let jobs: Vec<Job> = (0..(random(1.0, 4.0) as usize))
                .map(|_| {
                    let (online_ms, more) = (random(0.05, 1.0), random(0.0, 4.0));
                    let (preparation_ms, step_ms) = (random(0.2, 6.0), random(0.05, 0.5));
                    let fallback_ms = online_ms + more;
                    Job { period_ms: random(3.0, 40.0), preparation_ms, step_ms, online_ms, fallback_ms }
                })
                .collect();
            // The first preparation has a whole period.
            let mut first: Vec<f64> = work.iter().map(|work| random(0.0, work.period_ms)).collect();
            first.extend(jobs.iter().map(|job| job.period_ms + random(0.0, 5.0)));
            let outcomes = analyse(&work, &jobs).messages;
            for (outcome, (response, always)) in outcomes.iter().zip(simulate_all(&work, &jobs, &first)) {
                assert!(response <= outcome.response_ms + 1e-6, "{work:?} {jobs:?} {response} {outcome:?}");
                assert!(always || !outcome.in_time, "{work:?} {jobs:?} {outcome:?}");
                bounded += usize::from(outcome.in_time);
                late += usize::from(!always);
            }
        }
        assert!(bounded > 1000 && late > 1000, "{bounded} {late}");
    }

    #[test]
    fn repeated_messages_are_served_again() {
        let work = [Work { period_ms: 100.0, cost_ms: 5.0 }];
        let often = Job { period_ms: 1.0, preparation_ms: 0.0, online_ms: 0.1, fallback_ms: 0.1, ..JOB };
        let schedule = analyse(&work, &[often, Job { period_ms: 100.0, ..JOB }]);
        // The work has begun; six of the frequent messages arrive until it ends, and one with the
        // other message behind it.
        let bound = schedule.messages[1].response_ms;
        assert!((5.7 - 1e-9..6.0).contains(&bound), "{bound}");
    }

    #[test]
    fn late_message_costs_others_its_fallback() {
        let late = Job { period_ms: 10.0, preparation_ms: 50.0, fallback_ms: 8.0, ..JOB };
        let other = Job { period_ms: 1000.0, ..JOB };
        let schedule = analyse(&[], &[late, other]);
        assert!(!schedule.messages[0].in_time && schedule.load > 0.8, "{schedule:?}");
        assert!(schedule.messages[1].response_ms >= 8.1, "{schedule:?}");
        // The first one's fallback reduces the time for the second one's preparation.
        let beside =
            analyse(&[], &[Job { fallback_ms: 0.1, online_ms: 0.1, preparation_ms: 0.0, ..late }, other]);
        assert!(beside.messages[1].in_time && !schedule.messages[1].in_time, "{schedule:?}");
    }

    #[test]
    fn overloaded_sealing_has_no_bound() {
        let job = Job { period_ms: 1.0, preparation_ms: 3.0, online_ms: 0.1, fallback_ms: 2.0, step_ms: 0.1 };
        let schedule = analyse(&[], &[job]);
        assert!(schedule.messages[0].response_ms.is_infinite() && schedule.load > 1.0, "{schedule:?}");
        let many =
            vec![Job { period_ms: 10.0, preparation_ms: 0.0, online_ms: 3.0, fallback_ms: 3.0, ..job }; 4];
        assert!(analyse(&[], &many).messages.iter().all(|outcome| outcome.response_ms.is_infinite()));
    }

    /// Simulates the runtime with one work, from its given first release.
    fn simulate(work: Work, job: Job, first: f64) -> (f64, f64, bool) {
        let (mut now, mut work_due, mut due) = (0.0, first, 0.0);
        let (mut ready_at_most, mut response, mut always) = (0.0f64, 0.0f64, true);
        for _ in 0..50 {
            due += job.period_ms;
            let (begun, mut left) = (now, job.preparation_ms);
            while now < due {
                if now >= work_due {
                    now += work.cost_ms;
                    work_due += work.period_ms;
                } else if left > 1e-9 {
                    let step = job.step_ms.min(left);
                    now += step;
                    left -= step;
                    if left <= 1e-9 {
                        ready_at_most = ready_at_most.max(now - begun);
                    }
                } else {
                    now = work_due.min(due);
                }
            }
            let ready = left <= 1e-9;
            always &= ready;
            now += if ready { job.online_ms } else { job.fallback_ms };
            if ready {
                response = response.max(now - due);
            }
        }
        (ready_at_most, response, always)
    }

    #[test]
    fn runtime_keeps_the_analysed_bounds() {
        for (period, cost) in [(1.0, 0.1), (1.0, 0.5), (3.0, 1.0), (7.0, 2.5), (2.5, 1.9)] {
            for preparation in [0.5, 2.0, 6.0] {
                for first in [0.0, 0.3, 0.9, 2.0] {
                    let work = Work { period_ms: period, cost_ms: cost };
                    let job = Job { preparation_ms: preparation, fallback_ms: preparation, ..JOB };
                    let outcome = analyse(&[work], &[job]).messages[0];
                    let (ready, response, always) = simulate(work, job, first);
                    if outcome.in_time {
                        assert!(always, "{work:?} {job:?}");
                        assert!(
                            outcome.ready_ms.is_some_and(|bound| ready <= bound + 1e-6),
                            "{work:?} {job:?} {ready} {outcome:?}"
                        );
                    }
                    assert!(
                        response <= outcome.response_ms + 1e-6,
                        "{work:?} {job:?} {response} {outcome:?}"
                    );
                }
            }
        }
    }
}
