//! Deadline budgets. Input: a device, a cipher, a bearer and messages. Output: margin, breakdown,
//! limit, and the cheapest change with which a late message meets its deadline.

use serde::Serialize;

use self::check::check;
use self::sealing::{Sealing, best};
use self::traffic::{Traffic, Waits, security};
use crate::advice::{self, Advice, Changes};
use crate::bearer::Bearer;
use crate::device::{Cipher, Device, Way};
use crate::energy::DAY_MS;
use crate::schedule::{self, Job, Outcome, Work};

mod check;
mod sealing;
#[cfg(test)]
mod tests;
mod traffic;

/// A class of messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    /// name
    pub name: String,
    /// bytes of payload
    pub size: usize,
    /// the shortest time between two messages, in ms
    pub period_ms: f64,
    /// from the data to the receiver's application, in ms
    pub deadline_ms: f64,
    /// bytes known before, anywhere in the payload
    pub known: usize,
    /// bytes before the first new byte
    pub front: usize,
    /// blocks of 16 bytes with new bytes, counted once for each hole
    pub new_blocks: usize,
}

/// Bytes of a record around a payload: header and explicit nonce of DTLS 1.2.
const RECORD: usize = 13 + 8;

/// The question.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario<'a> {
    /// the sender
    pub device: &'a Device,
    /// the receiver; none if its work does not count
    pub receiver: Option<&'a Device>,
    /// the network
    pub bearer: &'a Bearer,
    /// the cipher; none selects the best
    pub cipher: Option<Cipher>,
    /// prepare before
    pub antedated: bool,
    /// the device's other periodic work
    pub work: &'a [Work],
    /// the messages
    pub messages: &'a [Message],
    /// other devices and ciphers may be advised
    pub advise: bool,
}

/// The parts of the latency, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Breakdown {
    /// background work before the data; not part of the latency
    pub preparation_ms: f64,
    /// waiting for running work and other messages on the device
    pub blocking_ms: f64,
    /// sealing
    pub online_ms: f64,
    /// the sender's operating system
    pub send_path_ms: f64,
    /// waiting for the device's other messages on the bearer, at relays and at a broker
    pub queueing_ms: f64,
    /// bits on the first link
    pub transmission_ms: f64,
    /// bits in the medium
    pub propagation_ms: f64,
    /// switches, hops, brokers
    pub forwarding_ms: f64,
    /// the receiver's operating system
    pub receive_path_ms: f64,
    /// opening, after waiting for the receiver
    pub receiving_ms: f64,
}

impl Breakdown {
    /// The time from the data to the receiver's application.
    #[must_use]
    pub fn latency(&self) -> f64 {
        self.blocking_ms
            + self.online_ms
            + self.send_path_ms
            + self.queueing_ms
            + self.transmission_ms
            + self.propagation_ms
            + self.forwarding_ms
            + self.receive_path_ms
            + self.receiving_ms
    }

    fn limit(&self) -> &'static str {
        [
            (self.blocking_ms, "waiting for the device's other work"),
            (self.online_ms, "sealing at the deadline"),
            (self.send_path_ms, "the sender's operating system"),
            (self.queueing_ms, "waiting for the device's other messages on the bearer"),
            (self.transmission_ms, "transmission"),
            (self.propagation_ms, "propagation"),
            (self.forwarding_ms, "forwarding"),
            (self.receive_path_ms, "the receiver's operating system"),
            (self.receiving_ms, "opening at the receiver"),
        ]
        .into_iter()
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or("", |(_, what)| what)
    }
}

/// The answer for a class of messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessageAnswer {
    /// name
    pub name: String,
    /// it meets its deadline
    pub meets: bool,
    /// the deadline less the latency, in ms; both are infinite where the queue grows without bound
    pub margin_ms: f64,
    /// the latency that `share` of the messages keep, in ms
    pub latency_ms: f64,
    /// the least share of messages that keep it; 1 if no part was measured
    pub share: f64,
    /// the latency with the longest known of each part, in ms; none if a part has no longest
    pub worst_ms: Option<f64>,
    /// the share of messages that meet the deadline, where losses are repeated
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// its parts
    pub breakdown: Breakdown,
    /// the selected cipher
    pub cipher: &'static str,
    /// the kind of sealing
    pub way: Way,
    /// the longest part, or the reason why the preparation is late
    pub limit: String,
    /// the cheapest change that meets the deadline, for a late message
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// the same as keys of the scenario file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// schedule of the preparation
    pub schedule: Outcome,
    /// joules a day for sealing and sending
    pub joules_a_day: f64,
    /// bytes of RAM for a prepared packet
    pub memory: usize,
}

/// The load of a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageLoad {
    /// name
    pub stage: &'static str,
    /// share of the time in which it is occupied
    pub load: f64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// name of the device
    pub device: String,
    /// name of the bearer
    pub bearer: String,
    /// all messages meet their deadlines
    pub meets: bool,
    /// CPU load of the device
    pub load: f64,
    /// load of the busiest stage of the bearer
    pub bearer_load: f64,
    /// load of each stage on the way: of links, relays, a broker, the receiver
    pub stages: Vec<StageLoad>,
    /// the cheapest change with which all messages meet their deadlines, if several are late
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<Advice>,
    /// joules a day
    pub joules_a_day: f64,
    /// bytes of RAM for all prepared packets
    pub memory: usize,
    /// the messages
    pub messages: Vec<MessageAnswer>,
}

/// The reason for a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// the mistake
    pub what: String,
    /// the remedy
    pub remedy: String,
}

impl core::fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.what)
    }
}

impl core::error::Error for ScenarioError {}

fn fault(what: impl Into<String>, remedy: impl Into<String>) -> ScenarioError {
    ScenarioError { what: what.into(), remedy: remedy.into() }
}

/// Answers a scenario.
///
/// # Errors
/// A scenario with impossible values, with the mistake and its remedy.
pub fn answer(scenario: &Scenario<'_>) -> Result<Answer, ScenarioError> {
    check(scenario)?;
    let mut answer = plan(scenario)?;
    if scenario.advise && !answer.meets {
        advice::give(scenario, &mut answer);
    }
    Ok(answer)
}

/// Plans a scenario whose values are possible.
pub(crate) fn plan(scenario: &Scenario<'_>) -> Result<Answer, ScenarioError> {
    let missing = || fault("no cipher has costs on all devices", "name one that has");
    let sealings = scenario
        .messages
        .iter()
        .map(|message| best(scenario, message).ok_or_else(missing))
        .collect::<Result<Vec<_>, _>>()?;
    let jobs: Vec<Job> =
        scenario.messages.iter().zip(&sealings).map(|(message, sealing)| job(message, sealing)).collect();
    let schedule = schedule::analyse(scenario.work, &jobs);
    let traffic = Traffic::new(scenario.bearer, scenario.messages, &sealings);
    let sent = stack_ms(scenario.bearer, Some(scenario.device), 1.0)[0];
    let waits = traffic.waits(schedule.messages.iter().map(|outcome| outcome.response_ms + sent));
    let worst = scenario.bearer.at_worst();
    let parts = scenario.messages.iter().zip(&sealings).zip(&schedule.messages).zip(&waits);
    let messages: Vec<MessageAnswer> = parts
        .map(|(((message, sealing), outcome), waits)| {
            one(scenario, worst.as_ref(), message, sealing, *outcome, waits)
        })
        .collect();
    let stages = traffic.loads();
    Ok(Answer {
        device: scenario.device.name.clone(),
        bearer: scenario.bearer.name(),
        meets: messages.iter().all(|message| message.meets),
        load: schedule.load,
        bearer_load: stages.iter().map(|stage| stage.load).fold(0.0, f64::max),
        stages,
        joules_a_day: messages.iter().map(|message| message.joules_a_day).sum(),
        memory: messages.iter().map(|message| message.memory).sum(),
        advice: None,
        messages,
    })
}

/// The share of messages that a measured operating system's delay is stated for.
const STACK_SHARE: f64 = 0.999;

/// Send path and receive path of a device's operating system at a share, in ms.
fn stack_ms(bearer: &Bearer, device: Option<&Device>, share: f64) -> [f64; 2] {
    match (bearer, device.and_then(|device| device.stack.as_ref())) {
        // The deadline is for security alone.
        (Bearer::None, _) | (_, None) => [0.0; 2],
        (_, Some(stack)) => stack.at(share).map(|us| us / 1000.0),
    }
}

/// The share of messages that may be later than stated: what is beyond the share of each measured
/// part.
fn beyond(scenario: &Scenario<'_>) -> f64 {
    let has = |device: Option<&Device>| device.is_some_and(|device| device.stack.is_some());
    let ends = usize::from(has(Some(scenario.device))) + usize::from(has(scenario.receiver));
    let ends = if matches!(scenario.bearer, Bearer::None) { 0 } else { ends };
    scenario.bearer.beyond() + ends as f64 * (1.0 - STACK_SHARE)
}

fn job(message: &Message, sealing: &Sealing) -> Job {
    Job {
        period_ms: message.period_ms,
        preparation_ms: sealing.before,
        step_ms: sealing.step,
        online_ms: sealing.online,
        fallback_ms: sealing.fallback,
    }
}

/// Milliwatts of a sending CC2420 (datasheet: 17.4 mA at 3 V).
const RADIO_MW: f64 = 52.2;

/// The parts of a message's latency over a bearer, with the operating systems' delays at a share.
fn breakdown(
    scenario: &Scenario<'_>,
    bearer: &Bearer,
    share: f64,
    (message, sealing): (&Message, &Sealing),
    outcome: &Outcome,
    waits: &Waits,
) -> Breakdown {
    let journey = bearer.journey(message.size, security(bearer, sealing));
    // A message without a complete preparation is sealed the ordinary way.
    let online_ms = if outcome.in_time { sealing.online } else { sealing.fallback };
    // The scenarios of hiller2018 count security's own time: a device without other work waits only
    // for a step.
    let alone = matches!(scenario.bearer, Bearer::None) && scenario.work.is_empty();
    Breakdown {
        preparation_ms: sealing.before,
        blocking_ms: if alone && outcome.response_ms.is_finite() {
            0.0
        } else {
            outcome.response_ms - online_ms
        },
        online_ms,
        send_path_ms: stack_ms(bearer, Some(scenario.device), share)[0],
        queueing_ms: waits.bearer_ms,
        transmission_ms: journey.transmission_ms,
        propagation_ms: journey.propagation_ms,
        forwarding_ms: journey.forwarding_ms,
        receive_path_ms: stack_ms(bearer, scenario.receiver, share)[1],
        receiving_ms: waits.receiver_ms + sealing.receiving,
    }
}

fn one(
    scenario: &Scenario<'_>,
    worst: Option<&Bearer>,
    message: &Message,
    sealing: &Sealing,
    outcome: Outcome,
    waits: &Waits,
) -> MessageAnswer {
    let parts = (message, sealing);
    let breakdown_at = |bearer, share| breakdown(scenario, bearer, share, parts, &outcome, waits);
    let breakdown = breakdown_at(scenario.bearer, STACK_SHARE);
    let latency_ms = breakdown.latency();
    let worst_ms =
        worst.map(|bearer| breakdown_at(bearer, 1.0).latency()).filter(|latency| latency.is_finite());
    let meets = latency_ms <= message.deadline_ms;
    let journey = scenario.bearer.journey(message.size, security(scenario.bearer, sealing));
    let left_ms = message.deadline_ms - latency_ms + journey.transmission_ms + journey.forwarding_ms;
    let probability = if latency_ms.is_finite() && left_ms >= 0.0 {
        scenario.bearer.arriving(message.size, left_ms)
    } else {
        None
    };
    let limit = if outcome.response_ms.is_infinite() {
        "messages come faster than the device seals them".to_owned()
    } else if let Some(stage) = waits.overloaded {
        let does = match stage {
            "bearer" => "the bearer carries",
            "broker" => "the broker serves",
            "relay" => "the relay forwards",
            _ => "the receiver opens",
        };
        format!("messages come faster than {does} them")
    } else if outcome.in_time || meets {
        breakdown.limit().to_owned()
    } else {
        match outcome.ready_ms {
            Some(ready) => format!("the preparation needs {ready:.2} ms and has {:.2}", message.period_ms),
            None => "the device has no time left to prepare".to_owned(),
        }
    };
    let packets = DAY_MS / message.period_ms;
    let work_ms = sealing.before + if outcome.in_time { sealing.online } else { sealing.fallback };
    let joules = packets * 1e-6 * (scenario.device.cpu_mw * work_ms + RADIO_MW * journey.air_ms);
    MessageAnswer {
        name: message.name.clone(),
        meets,
        margin_ms: message.deadline_ms - latency_ms,
        latency_ms,
        share: (1.0 - beyond(scenario)).max(0.0),
        worst_ms,
        probability,
        breakdown,
        cipher: sealing.cipher.map_or("none", Cipher::name),
        way: sealing.way,
        limit,
        advice: None,
        changes: None,
        schedule: outcome,
        joules_a_day: joules,
        memory: sealing.memory,
    }
}
