//! The release clock on a real path: cyclic frames arrive late by random times and leave the far
//! gateway on their period.
//!
//! The sender delays each frame in place of a network. The kernel's time stamp at the device's port
//! tells when a frame left, so no measuring thread competes for a core. As the limit of the
//! machine's punctuality, a thread in the gateway's place waits for the same beats beside each run.

use std::thread;
use std::time::Duration;

use super::paths::{Contender, PRIORITY, Path};
use crate::link::stalls::{Stalls, Witnesses};
use crate::link::{CYCLIC as HEAD, ENDS, Gateway};
use crate::{ExperimentError, Options, Report, Row, failed};
use antedate_lab::histogram::Times;
use antedate_lab::sys::clock::{monotonic_ns, pace_until, realtime_ns, sleep_until};
use antedate_lab::sys::packet::{self, PacketSocket};
use antedate_lab::sys::sched;

const NUMBER: std::ops::Range<usize> = 16..24;
const LEN: usize = 64;
/// Frames before the measurement, in which the clock learns and settles.
const BEFORE: u64 = 1_200;
/// Largest delay of a frame.
const LATE_NS: u64 = 300_000;
/// Time before a beat at which the waiting thread wakes, like the gateway.
const AWAKE_NS: u64 = 100_000;
/// Bound of the jitter in microseconds.
const GOAL_US: f64 = 30.0;

/// Departure of each frame: number and monotonic time.
type Left = Vec<(u64, u64)>;

pub(super) fn run(report: &mut Report, options: &Options) -> Result<(), ExperimentError> {
    let periods: &[u64] = if options.quick { &[4_000] } else { &[4_000, 2_000, 1_000] };
    for (at, period_us) in periods.iter().enumerate() {
        options.progress(at, periods.len(), &format!("release clock, period {period_us} us"));
        let count = if options.quick { 1_000 } else { 10_000 };
        one(report, *period_us, count)?;
    }
    options.progress(1, 1, "");
    Ok(())
}

fn one(report: &mut Report, period_us: u64, count: u64) -> Result<(), ExperimentError> {
    let path = Path::with(Contender::Ours, "release_clock_us = 2000")?;
    let witnesses = Witnesses::watch();
    // One half before and one behind, since the machine's load changes.
    let before = wait_for_beats(path.cpus[1], period_us, count / 2);
    let left = stream(&path, period_us, BEFORE + count);
    let behind = wait_for_beats(path.cpus[1], period_us, count / 2);
    let stalls = witnesses.end();
    let (left, machine) = (left?, [before?, behind?].concat());
    let case = format!("period {period_us} us, frames up to {} us late", LATE_NS / 1_000);
    let told = path.gateways.get(1).and_then(Gateway::status);
    let clock = told.and_then(|status| status.overlay).and_then(|overlay| overlay.release_clock);
    let clock = clock.ok_or("the far gateway tells of no release clock")?;
    for (metric, value) in [
        ("jitter that came, p99.9", clock.jitter_in_p999_us as f64),
        ("delay from a frame's beat, as the status shows it", clock.delay_us),
        ("time held, mean, as the status shows it", clock.added_mean_us),
        ("jitter left, p99.9, as the status shows it", clock.jitter_out_p999_us as f64),
    ] {
        report.row(Row::new(&case, metric, "µs").antedated(value));
    }
    let (all, _) = jitter(&left, period_us, &Stalls::default());
    let (quiet, struck) = jitter(&left, period_us, &stalls);
    let (machine_all, _) = jitter(&machine, period_us, &Stalls::default());
    let (machine_quiet, machine_struck) = jitter(&machine, period_us, &stalls);
    for (metric, times, least) in [
        ("jitter left", &quiet, &machine_quiet),
        ("jitter left, stalls of the machine too", &all, &machine_all),
    ] {
        for (name, percent) in [("median", 50.0), ("p99", 99.0), ("p99.9", 99.9)] {
            let row = Row::new(&case, format!("{metric}, {name}"), "µs")
                .baseline(least.percentile_us(percent))
                .antedated(times.percentile_us(percent));
            report.row(row.note(format!(
                "baseline: a thread that only waits for the beat; {} intervals, {struck} (baseline {machine_struck}) while the \
                 machine withheld a core, {} frames too late for the clock",
                all.count(),
                clock.late
            )));
        }
    }
    let came = left.iter().filter(|(number, _)| *number >= BEFORE).count() as u64;
    report.check(format!("{case}: all frames came out ({came} of {count})"), came == count);
    let (p999, least) = (quiet.percentile_us(99.9), machine_quiet.percentile_us(99.9));
    let text = format!(
        "{case}: jitter left, p99.9: {p999:.1} us, goal {GOAL_US}, or what the machine leaves a thread that only waits: {least:.1}"
    );
    report.check(text, p999 <= GOAL_US.max(least));
    Ok(())
}

/// Measures the machine's punctuality: a thread on the gateway's core and priority only waits for
/// beats. Returns when it saw each.
fn wait_for_beats(cpu: usize, period_us: u64, count: u64) -> Result<Left, ExperimentError> {
    let wait = move || {
        let _ = sched::pin(&[cpu]);
        let _ = sched::fifo(PRIORITY);
        sched::tighten_timers();
        let begin = monotonic_ns() + 10_000_000;
        let beat = |number| (number + BEFORE, pace_until(begin + number * period_us * 1_000, AWAKE_NS));
        (0..count).map(beat).collect()
    };
    thread::spawn(wait).join().map_err(|_| "the thread that waits for beats stopped".into())
}

/// Deviation of the intervals between consecutive frames from the period, without stalled ones, and
/// the number of stalled ones.
fn jitter(left: &Left, period_us: u64, stalls: &Stalls) -> (Times, u64) {
    let (mut times, mut struck) = (Times::default(), 0);
    for pair in left.windows(2) {
        let [(before, from), (number, to)] = pair else { continue };
        if *number != before + 1 || *before < BEFORE {
            continue;
        }
        // A delay before the interval counts as well: its first frame waited for it.
        if stalls.struck(from.saturating_sub(period_us * 1_000), *to) {
            struck += 1;
        } else {
            times.record(to.saturating_sub(*from).abs_diff(period_us * 1_000));
        }
    }
    (times, struck)
}

/// Sends cyclic frames with random delays. Returns when they left the far gateway.
fn stream(path: &Path, period_us: u64, count: u64) -> Result<Left, ExperimentError> {
    let options = packet::Options {
        protocol: 0x8892,
        promiscuous: true,
        metadata: true,
        receive_buffer: 64 << 20,
        ..Default::default()
    };
    let open = |space: &antedate_lab::ns::Namespace, options| {
        space.run(|| PacketSocket::open("eth0", options)).and_then(|socket| socket).map_err(failed)
    };
    let device = open(&path.chain.device, options)?;
    let plc = open(&path.chain.plc, packet::Options { protocol: 0, ..Default::default() })?;
    let cpu = path.cpus[0];
    let send = move || {
        let _ = sched::pin(&[cpu]);
        let _ = sched::fifo(ENDS);
        sched::tighten_timers();
        let mut frame = [0u8; LEN];
        frame[..HEAD.len()].copy_from_slice(&HEAD);
        let mut random = 0x2545_f491_4f6c_dd1du64;
        let begin = monotonic_ns() + 100_000_000;
        for number in 0..count {
            // Xorshift; any uniform distribution suffices.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            sleep_until(begin + number * period_us * 1_000 + random % LATE_NS);
            frame[NUMBER].copy_from_slice(&number.to_be_bytes());
            plc.send(&frame)?;
        }
        Ok::<_, std::io::Error>(())
    };
    thread::spawn(send).join().map_err(|_| "the sender stopped")??;
    thread::sleep(Duration::from_millis(100));
    let since_1970 = realtime_ns().wrapping_sub(monotonic_ns());
    let (mut buffer, mut left) = ([0; 2048], Vec::new());
    while let Some(received) = device.receive_with_metadata(&mut buffer).map_err(failed)? {
        let number = buffer.get(NUMBER).and_then(|octets| octets.first_chunk().copied());
        if let (true, Some(number)) = (buffer[..HEAD.len()] == HEAD, number) {
            left.push((u64::from_be_bytes(number), received.realtime_ns.wrapping_sub(since_1970)));
        }
    }
    match device.take_drops() {
        0 => Ok(left),
        drops => Err(format!("{drops} frames were not seen").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_counts_consecutive_frames() {
        let left = vec![
            (BEFORE - 1, 0),
            (BEFORE, 5_000_000),
            (BEFORE + 1, 6_010_000),
            (BEFORE + 3, 8_000_000),
            (BEFORE + 4, 8_980_000),
        ];
        let (times, struck) = jitter(&left, 1_000, &Stalls::default());
        assert_eq!((times.count(), struck), (2, 0));
        assert!((times.max_us() - 20.0).abs() < 0.1, "{}", times.max_us());
    }
}
