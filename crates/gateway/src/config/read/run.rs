//! Reads `[run]`.

use std::time::Duration;

use antedate_host::document::{Field, Section};

use super::{all, number};
use crate::config::keys::CHANNELS_MAX;
use crate::config::{Lines, PREPARE, PREPARE_MAX, Poll, Run, Threads};
use crate::sys::age::Bounds;

/// The default bound of all frames: the transit delay of a bridge (IEEE 802.1Q-2022, 6.5.6).
const AGE_MS: u64 = 1_000;
/// The default bound of cyclic frames.
const CYCLIC_AGE_MS: u64 = 100;
/// The largest bound.
const MAX_AGE_MS: u64 = 60_000;

pub(super) fn run(mut section: Section<'_, '_>, lines: &mut Lines) -> Option<Run> {
    lines.note("run", section.line());
    let threads = section.get("threads");
    let workers = section.get("workers");
    lines.note("run.workers", workers.as_ref().map(Field::line));
    if let (Some(threads), Some(_)) = (&threads, &workers) {
        threads.fault("stands beside workers, each of which forwards both ways", "remove one of the two");
    }
    let threads = threads.map(|field| number(&field, 1..=2));
    let workers = workers.map(|field| number(&field, 1..=CHANNELS_MAX.into()));
    let cpus = section.get("cpus").map(|field| {
        lines.note("run.cpus", Some(field.line()));
        cpus(&field, all(workers.or(threads)).flatten().unwrap_or(1))
    });
    let poll = poll(&mut section);
    let priority = section.get("priority");
    let priority_set = priority.as_ref().map(|field| {
        lines.note("run.priority", Some(field.line()));
        number(field, 1..=99)
    });
    if let (Some(priority), Some(Poll::Busy | Poll::Adaptive { cpu_percent: 91.. })) = (&priority, &poll) {
        priority.fault(
            "a real-time thread that never sleeps is stopped by the kernel for 50 ms in each second",
            "poll = \"adaptive\" with poll_cpu_percent of at most 90, or no priority",
        );
    }
    let prepare = section.get("prepare").map(|field| number(&field, 0..=PREPARE_MAX as u64));
    let qdisc_bypass = section.get("qdisc_bypass").map(|field| field.boolean());
    let preload = section.get("preload").map(|field| field.boolean());
    let age = |field: Option<Field<'_, '_>>| all(field.map(|field| number(&field, 0..=MAX_AGE_MS)));
    let max_age = age(section.get("max_age_ms"));
    let cyclic = age(section.get("max_age_cyclic_ms"));
    section.finish();
    let cpu = all(cpus)?.unwrap_or_default();
    let threads = match (all(threads)?, all(workers)?) {
        (_, Some(workers @ 2..)) => {
            Threads::Workers((0..usize::from(workers)).map(|worker| cpu.get(worker).copied()).collect())
        }
        (Some(2), _) => Threads::Two([cpu.first().copied(), cpu.get(1).copied()]),
        _ => Threads::One(cpu.first().copied()),
    };
    Some(Run {
        threads,
        poll: poll?,
        priority: all(priority_set)?,
        prepare: all(prepare)?.unwrap_or(PREPARE),
        qdisc_bypass: all(qdisc_bypass)?.unwrap_or(true),
        preload: all(preload)?.unwrap_or(true),
        max_age: Bounds::new(bound(max_age?.unwrap_or(AGE_MS)), bound(cyclic?.unwrap_or(CYCLIC_AGE_MS))),
    })
}

/// A bound in milliseconds. 0: none.
fn bound(milliseconds: u64) -> Option<Duration> {
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
}

fn cpus(field: &Field<'_, '_>, threads: u16) -> Option<Vec<usize>> {
    let cpus = field.array()?.iter().map(|cpu| number(cpu, 0..=1023)).collect::<Option<Vec<usize>>>()?;
    if cpus.len() != usize::from(threads) {
        field.fault(
            format!("names {} CPUs for {threads} forwarding thread(s)", cpus.len()),
            "name one CPU a thread",
        );
        return None;
    }
    Some(cpus)
}

fn poll(section: &mut Section<'_, '_>) -> Option<Poll> {
    #[derive(Clone, Copy)]
    enum Kind {
        Adaptive,
        Busy,
        Block,
    }
    let kinds = [("adaptive", Kind::Adaptive), ("busy", Kind::Busy), ("block", Kind::Block)];
    let kind = all(section.get("poll").map(|field| field.one_of("a way to poll", &kinds)));
    let share = section.get("poll_cpu_percent");
    let percent = all(share.as_ref().map(|field| number(field, 1..=100)));
    match kind?.unwrap_or(Kind::Adaptive) {
        Kind::Adaptive => Some(Poll::Adaptive { cpu_percent: percent?.unwrap_or(10) }),
        other => {
            if let Some(share) = share {
                share.fault("bounds adaptive polling only", "remove the line, or write poll = \"adaptive\"");
                return None;
            }
            Some(if matches!(other, Kind::Busy) { Poll::Busy } else { Poll::Block })
        }
    }
}
