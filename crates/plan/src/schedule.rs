//! When preparations are done: response-time analysis of a cooperative runtime.
//!
//! A node serves messages first, then its periodic work, then steps of preparation; nothing interrupts what has begun. A preparation is
//! background work that begins when the message before it was sent, so with the node's speed and periods it is known whether it always
//! ends before the next message is due, how much time is left, and what an early message costs: this is the scheduling that Hiller et
//! al. 2018 leave open (section VII). The analysis is the usual one for fixed priorities without preemption (a job is blocked once by what
//! has begun, and delayed by every release of what comes before it), and `antedate lab scenarios` compares it with the runtime on motes.

use serde::Serialize;

/// Something periodic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Work {
    /// how often, in ms
    pub period_ms: f64,
    /// how long at most, in ms
    pub cost_ms: f64,
}

/// A message of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Job {
    /// the shortest time between two, in ms
    pub period_ms: f64,
    /// preparing it, in ms
    pub preparation_ms: f64,
    /// the longest step of that, in ms
    pub step_ms: f64,
    /// sealing it when it is prepared, in ms
    pub online_ms: f64,
    /// sealing it when it is not, in ms
    pub fallback_ms: f64,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// from the message before it to the end of its preparation, at most; none if it never ends
    pub ready_ms: Option<f64>,
    /// the preparation always ends in time
    pub in_time: bool,
    /// what is left between the end of the preparation and the message, in ms
    pub spare_ms: f64,
    /// from its release to the end of its sealing, at most, if it is prepared
    pub response_ms: f64,
    /// as much if it comes early and finds nothing prepared: late is never worse than the unmodified cipher
    pub early_response_ms: f64,
}

/// A node's schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Schedule {
    /// the share of time that the CPU has work
    pub load: f64,
    /// per message
    pub messages: Vec<Outcome>,
    /// per piece of work: from its release to its end, at most; none if there is no bound
    pub work_ms: Vec<Option<f64>>,
}

/// Rounds after which there is no bound.
const ROUNDS: usize = 10_000;

/// The smallest `t`, at most `bound`, with `t = base + sum of releases * cost`; a release is due at the beginning, and more have queued if
/// nothing was served for `queued` before.
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

/// Analyses a node. Periods are more than 0.
#[must_use]
pub fn analyse(work: &[Work], jobs: &[Job]) -> Schedule {
    let load = work.iter().map(|work| work.cost_ms / work.period_ms).sum::<f64>()
        + jobs.iter().map(|job| (job.online_ms + job.preparation_ms) / job.period_ms).sum::<f64>();
    let longest = |costs: &mut dyn Iterator<Item = f64>| costs.fold(0.0, f64::max);
    let longest_work = longest(&mut work.iter().map(|work| work.cost_ms));
    let longest_step = longest(&mut jobs.iter().map(|job| job.step_ms));
    let longest_seal = longest(&mut jobs.iter().map(|job| job.online_ms.max(job.fallback_ms)));

    // Messages come before all else, in the order in which they stand; the sums of those before are carried along, which keeps a
    // thousand of them fast.
    let works: Vec<_> = work.iter().map(|work| (work.period_ms, work.cost_ms)).collect();
    let all_online: f64 = jobs.iter().map(|job| job.online_ms).sum();
    let shortest = jobs.iter().map(|job| job.period_ms).fold(f64::INFINITY, f64::min);
    let others_load: f64 = jobs.iter().map(|job| (job.online_ms + job.preparation_ms) / job.period_ms).sum();
    let messages = jobs
        .iter()
        .map(|job| {
            let many = jobs.len() > 1;
            // Blocked by what has begun; the other messages once each, if none comes twice meanwhile.
            let blocked = longest_work.max(longest_step);
            let other = if many { all_online - job.online_ms } else { 0.0 };
            let response_ms = blocked + other + job.online_ms;
            let early_response_ms = blocked + other + job.fallback_ms;
            // The others' preparations and messages take a share of the time; as many releases as fall into it, at most.
            let share = others_load - (job.online_ms + job.preparation_ms) / job.period_ms;
            let burst = if many { jobs_burst(jobs, job) } else { 0.0 };
            let ready_ms = if share >= 1.0 {
                None
            } else {
                let base = (job.preparation_ms + burst) / (1.0 - share);
                let stretched: Vec<_> =
                    works.iter().map(|(period, cost)| (*period, cost / (1.0 - share))).collect();
                fixed_point(base, &stretched, all_online.max(longest_seal), 1000.0 * job.period_ms)
            };
            let in_time = ready_ms.is_some_and(|ready| ready + job.online_ms <= job.period_ms);
            let spare_ms = ready_ms.map_or(0.0, |ready| (job.period_ms - ready).max(0.0));
            Outcome { ready_ms, in_time, spare_ms, response_ms, early_response_ms }
        })
        .collect();

    let work_ms = work
        .iter()
        .enumerate()
        .map(|(i, this)| {
            let mut delays: Vec<_> = works[..i].to_vec();
            if !jobs.is_empty() {
                delays.push((shortest, longest_seal.max(all_online)));
            }
            let after = longest(&mut work[i + 1..].iter().map(|work| work.cost_ms));
            fixed_point(longest_step.max(after) + this.cost_ms, &delays, 0.0, 1000.0 * this.period_ms)
        })
        .collect();
    Schedule { load, messages, work_ms }
}

/// What the other messages have ready to run when this one's preparation begins: each a preparation and a sealing.
fn jobs_burst(jobs: &[Job], this: &Job) -> f64 {
    let sum: f64 = jobs.iter().map(|job| job.preparation_ms + job.online_ms).sum();
    sum - this.preparation_ms - this.online_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: Job =
        Job { period_ms: 10.0, preparation_ms: 2.0, step_ms: 0.25, online_ms: 0.1, fallback_ms: 3.0 };

    #[test]
    fn alone_a_preparation_takes_what_it_takes() {
        let schedule = analyse(&[], &[JOB]);
        let Outcome { ready_ms, in_time, spare_ms, response_ms, early_response_ms } = schedule.messages[0];
        assert_eq!((ready_ms, in_time), (Some(2.0), true));
        assert!((spare_ms - 8.0).abs() < 1e-9 && (schedule.load - 0.21).abs() < 1e-9);
        // A step may have begun.
        assert!((response_ms - 0.35).abs() < 1e-9 && (early_response_ms - 3.25).abs() < 1e-9);
    }

    #[test]
    fn work_delays_it_by_each_of_its_releases() {
        let work = [Work { period_ms: 1.0, cost_ms: 0.5 }];
        let outcome = analyse(&work, &[Job { fallback_ms: 0.1, ..JOB }]).messages[0];
        // Half of the time is work's, and one release may come at once: 2 = t - 0.5 * (floor(t) + 1).
        let ready = outcome.ready_ms.expect("ends");
        assert!((4.0..=5.0).contains(&ready), "{ready}");
        assert!(outcome.in_time);
        let slow = analyse(&[Work { period_ms: 1.0, cost_ms: 0.9 }], &[JOB]).messages[0];
        assert!(!slow.in_time);
        assert_eq!(analyse(&[Work { period_ms: 1.0, cost_ms: 1.0 }], &[JOB]).messages[0].ready_ms, None);
    }

    /// The runtime itself, on whole microseconds, with the given first release of the work.
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
    fn the_runtime_is_never_worse_than_the_analysis() {
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
