//! Refusal of scenarios with impossible values.

use super::{Message, RECORD, Scenario, ScenarioError, fault};
use crate::device::Cipher;

/// The most messages of a scenario.
const MOST: usize = 100_000;

pub(super) fn check(scenario: &Scenario<'_>) -> Result<(), ScenarioError> {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    if scenario.messages.is_empty() || scenario.messages.len() > MOST {
        return Err(fault("no messages, or more than 100000", "give each class of messages a [[message]]"));
    }
    for device in [Some(scenario.device), scenario.receiver].into_iter().flatten() {
        if let Some(why) = device.fault() {
            return Err(fault(format!("device {}: {why}", device.name), "see the chapter on the planner"));
        }
    }
    if let Some(why) = scenario.bearer.fault() {
        return Err(fault(format!("bearer: {why}"), "see the chapter on the planner"));
    }
    if scenario.bearer.protects() && scenario.cipher.is_some() {
        return Err(fault("cipher: the relays of this bearer protect, not the device", "leave cipher out"));
    }
    if let Some(cipher) = scenario.cipher
        && scenario.device.costs(cipher).is_none()
    {
        let known = Cipher::ALL.into_iter().filter(|cipher| scenario.device.costs(*cipher).is_some());
        let known: Vec<_> = known.map(Cipher::name).collect();
        return Err(fault(
            format!("cipher: {} has no costs on {}", cipher.name(), scenario.device.name),
            format!("{} or any", known.join(", ")),
        ));
    }
    for work in scenario.work {
        if !positive(work.period_ms) || !work.cost_ms.is_finite() || work.cost_ms < 0.0 {
            return Err(fault(
                "work: period_ms must be more than 0 and cost_ms 0 or more",
                "give both in ms",
            ));
        }
    }
    for message in scenario.messages {
        let Message { name, size, period_ms, deadline_ms, known, front, new_blocks } = message;
        let wrong = |what: &str, remedy: &str| Err(fault(format!("message {name}: {what}"), remedy));
        if *size == 0 || *size > 65_536 {
            return wrong("a payload has 1 to 65536 bytes", "give size in bytes");
        }
        if scenario.bearer.longest().is_some_and(|longest| size + RECORD + 16 > longest) && *size > 1536 {
            return wrong(
                "it is longer than a frame of this bearer",
                "split it, or take a bearer without frames",
            );
        }
        if !positive(*period_ms) || !positive(*deadline_ms) {
            return wrong("period_ms and deadline_ms must be more than 0", "give both in ms");
        }
        if known > size || front > known {
            return wrong(
                "static bytes are at most all, and the front is part of them",
                "static <= size, front <= static",
            );
        }
        let new = size - known;
        if *new_blocks < new.div_ceil(16) || *new_blocks > new {
            return wrong(
                "new_blocks contradicts the static bytes",
                "leave new_blocks out, or count the blocks of 16 bytes",
            );
        }
    }
    Ok(())
}
