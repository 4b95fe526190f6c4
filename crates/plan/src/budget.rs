//! Deadline budgets. Input: a device, a cipher, a bearer and messages. Output: margin, breakdown,
//! limit, and the cheapest change with which a late message meets its deadline.

use serde::Serialize;

use crate::bearer::{Bearer, Journey};
use crate::device::{self, Cipher, Device, Way};
use crate::energy::DAY_MS;
use crate::queue::{self, Class};
use crate::schedule::{self, Job, Outcome, Work};

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
    /// waiting for the device's other messages on the bearer
    pub queueing_ms: f64,
    /// bits on the first link
    pub transmission_ms: f64,
    /// bits in the medium
    pub propagation_ms: f64,
    /// switches, hops, brokers
    pub forwarding_ms: f64,
    /// opening
    pub receiving_ms: f64,
}

impl Breakdown {
    /// The time from the data to the receiver's application.
    #[must_use]
    pub fn latency(&self) -> f64 {
        self.blocking_ms
            + self.online_ms
            + self.queueing_ms
            + self.transmission_ms
            + self.propagation_ms
            + self.forwarding_ms
            + self.receiving_ms
    }

    fn limit(&self) -> &'static str {
        [
            (self.blocking_ms, "waiting for the device's other work"),
            (self.online_ms, "sealing at the deadline"),
            (self.queueing_ms, "waiting for the device's other messages on the bearer"),
            (self.transmission_ms, "transmission"),
            (self.propagation_ms, "propagation"),
            (self.forwarding_ms, "forwarding"),
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
    /// the latency, in ms
    pub latency_ms: f64,
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
    /// schedule of the preparation
    pub schedule: Outcome,
    /// joules a day for sealing and sending
    pub joules_a_day: f64,
    /// bytes of RAM for a prepared packet
    pub memory: usize,
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
    /// load of the slowest part of the bearer
    pub bearer_load: f64,
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

/// The most messages of a scenario.
const MOST: usize = 100_000;

fn check(scenario: &Scenario<'_>) -> Result<(), ScenarioError> {
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

/// The costs of a message with a cipher, without any waiting.
struct Sealing {
    cipher: Cipher,
    way: Way,
    before: f64,
    online: f64,
    fallback: f64,
    step: f64,
    receiving: f64,
    memory: usize,
}

fn sealing(
    scenario: &Scenario<'_>,
    device: &Device,
    message: &Message,
    cipher: Cipher,
    antedated: bool,
) -> Option<Sealing> {
    let costs = device.costs(cipher)?;
    let way = if antedated { Way::Template } else { Way::Unmodified };
    let Message { size, known, front, new_blocks, .. } = message;
    let counts = |device: &Device, way| {
        let costs = device.costs(cipher)?;
        let (before, online) = device::counts(costs, cipher, way, *size, *front, size - known, *new_blocks);
        Some((device.ms(before), device.ms(online)))
    };
    let (before, prepared) = counts(device, way)?;
    let (_, fallback) = counts(device, Way::Unmodified)?;
    // A preparation that is not quicker is left out.
    let (way, before, online) =
        if prepared < fallback { (way, before, prepared) } else { (Way::Unmodified, 0.0, fallback) };
    let receiving = match scenario.receiver {
        Some(receiver) => counts(receiver, way)?.1,
        None => 0.0,
    };
    let step = if before > 0.0 {
        let step = if costs.step > 0.0 { costs.step } else { costs.prepare.block };
        device.ms(step).min(before)
    } else {
        0.0
    };
    let memory = match way {
        Way::Unmodified => 0,
        // A slot's cipherstream, its state, and a power and a position for each new block.
        _ if cipher.is_sparse() => size.next_multiple_of(64) + 96 + 24 * new_blocks,
        _ => size + 92,
    };
    Some(Sealing { cipher, way, before, online, fallback, step, receiving, memory })
}

/// The quickest sealing at the deadline among the permitted ciphers.
fn best(
    scenario: &Scenario<'_>,
    device: &Device,
    message: &Message,
    cipher: Option<Cipher>,
    antedated: bool,
) -> Option<Sealing> {
    let ciphers = Cipher::ALL.into_iter().filter(|one| cipher.is_none_or(|only| only == *one));
    ciphers
        .filter_map(|cipher| sealing(scenario, device, message, cipher, antedated))
        .min_by(|a, b| (a.online + a.receiving).total_cmp(&(b.online + b.receiving)))
}

/// Answers a scenario.
///
/// # Errors
/// A scenario with impossible values, with the mistake and its remedy.
pub fn answer(scenario: &Scenario<'_>) -> Result<Answer, ScenarioError> {
    check(scenario)?;
    let missing = || fault("no cipher has costs on all devices", "name one that has");
    let sealings = scenario
        .messages
        .iter()
        .map(|message| {
            best(scenario, scenario.device, message, scenario.cipher, scenario.antedated).ok_or_else(missing)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let jobs: Vec<Job> =
        scenario.messages.iter().zip(&sealings).map(|(message, sealing)| job(message, sealing)).collect();
    let schedule = schedule::analyse(scenario.work, &jobs);
    let traffic = Traffic::new(scenario.bearer, scenario.messages, &sealings);
    let stay = traffic.longest_stay(scenario.messages, &schedule.messages);
    let mut messages: Vec<MessageAnswer> = scenario
        .messages
        .iter()
        .zip(&sealings)
        .zip(&schedule.messages)
        .enumerate()
        .map(|(at, ((message, sealing), outcome))| {
            one(scenario, message, sealing, *outcome, traffic.queueing_ms(at, stay))
        })
        .collect();
    if scenario.advise && messages.iter().any(|message| !message.meets) {
        let adviser = Adviser::new(scenario, &sealings, jobs, traffic.clone());
        for (at, message) in messages.iter_mut().enumerate().filter(|(_, message)| !message.meets) {
            message.advice = Some(adviser.advise(at));
        }
    }
    Ok(Answer {
        device: scenario.device.name.clone(),
        bearer: scenario.bearer.name(),
        meets: messages.iter().all(|message| message.meets),
        load: schedule.load,
        bearer_load: traffic.load(scenario.messages),
        joules_a_day: messages.iter().map(|message| message.joules_a_day).sum(),
        memory: messages.iter().map(|message| message.memory).sum(),
        messages,
    })
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

/// Bytes that protection adds to a payload.
const fn security(bearer: &Bearer, cipher: Cipher) -> usize {
    // MQTT has an envelope instead of a record.
    let record = if matches!(bearer, Bearer::Mqtt { .. }) { 0 } else { RECORD };
    record + cipher.tag()
}

/// The load of all messages on a bearer.
#[derive(Clone)]
struct Traffic<'a> {
    bearer: &'a Bearer,
    /// time for which each message occupies the slowest part, and the longest of these
    occupied_ms: Vec<f64>,
    longest_ms: f64,
}

impl<'a> Traffic<'a> {
    fn new(bearer: &'a Bearer, messages: &[Message], sealings: &[Sealing]) -> Self {
        let one = |(message, sealing)| Self::occupied_ms(bearer, message, sealing);
        let occupied_ms: Vec<f64> = messages.iter().zip(sealings).map(one).collect();
        let longest_ms = occupied_ms.iter().copied().fold(0.0, f64::max);
        Self { bearer, occupied_ms, longest_ms }
    }

    fn occupied_ms(bearer: &Bearer, message: &Message, sealing: &Sealing) -> f64 {
        bearer.occupied_ms(message.size, security(bearer, sealing.cipher))
    }

    /// The traffic with another sealing for one message.
    fn with(&self, at: usize, message: &Message, sealing: &Sealing) -> Self {
        let mut changed = self.clone();
        if let Some(occupied) = changed.occupied_ms.get_mut(at) {
            *occupied = Self::occupied_ms(self.bearer, message, sealing);
        }
        changed.longest_ms = changed.occupied_ms.iter().copied().fold(0.0, f64::max);
        changed
    }

    /// The load of the bearer. It carries no more than 1.
    fn load(&self, messages: &[Message]) -> f64 {
        self.occupied_ms.iter().zip(messages).map(|(occupied, message)| occupied / message.period_ms).sum()
    }

    /// The longest time that a message waits for the bearer and is carried, in ms.
    fn longest_stay(&self, messages: &[Message], outcomes: &[Outcome]) -> f64 {
        let class = |((occupied_ms, message), outcome): ((&f64, &Message), &Outcome)| Class {
            period_ms: message.period_ms,
            jitter_ms: outcome.response_ms,
            occupied_ms: *occupied_ms,
        };
        let classes: Vec<_> = self.occupied_ms.iter().zip(messages).zip(outcomes).map(class).collect();
        queue::longest_stay(&classes)
    }

    /// The wait of one message for the others, in ms.
    fn queueing_ms(&self, at: usize, stay: f64) -> f64 {
        let own = self.occupied_ms.get(at).copied().unwrap_or(0.0);
        queue::wait_ms(stay, self.longest_ms, own, self.bearer.links())
    }
}

fn breakdown(
    scenario: &Scenario<'_>,
    bearer: &Bearer,
    message: &Message,
    sealing: &Sealing,
    outcome: &Outcome,
    queueing_ms: f64,
) -> (Breakdown, Journey) {
    let journey = bearer.journey(message.size, security(bearer, sealing.cipher));
    // A message without a complete preparation is sealed the ordinary way.
    let online_ms = if outcome.in_time { sealing.online } else { sealing.fallback };
    // The scenarios of hiller2018 count security's own time: a device without other work waits only
    // for a step.
    let alone = matches!(scenario.bearer, Bearer::None) && scenario.work.is_empty();
    let breakdown = Breakdown {
        preparation_ms: sealing.before,
        blocking_ms: if alone && outcome.response_ms.is_finite() {
            0.0
        } else {
            outcome.response_ms - online_ms
        },
        online_ms,
        queueing_ms,
        transmission_ms: journey.transmission_ms,
        propagation_ms: journey.propagation_ms,
        forwarding_ms: journey.forwarding_ms,
        receiving_ms: sealing.receiving,
    };
    (breakdown, journey)
}

fn one(
    scenario: &Scenario<'_>,
    message: &Message,
    sealing: &Sealing,
    outcome: Outcome,
    queueing_ms: f64,
) -> MessageAnswer {
    let (breakdown, journey) = breakdown(scenario, scenario.bearer, message, sealing, &outcome, queueing_ms);
    let latency_ms = breakdown.latency();
    let meets = latency_ms <= message.deadline_ms;
    let limit = if outcome.response_ms.is_infinite() {
        "messages come faster than the device seals them".to_owned()
    } else if queueing_ms.is_infinite() {
        "messages come faster than the bearer carries them".to_owned()
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
        breakdown,
        cipher: sealing.cipher.name(),
        way: sealing.way,
        limit,
        advice: None,
        schedule: outcome,
        joules_a_day: joules,
        memory: sealing.memory,
    }
}

/// Evaluates changes for late messages.
struct Adviser<'a> {
    scenario: &'a Scenario<'a>,
    /// all messages on the scenario's device
    jobs: Vec<Job>,
    /// and on the other devices with costs for all of them
    elsewhere: Vec<(Device, Vec<Job>)>,
    traffic: Traffic<'a>,
    sealings: &'a [Sealing],
}

impl<'a> Adviser<'a> {
    fn new(
        scenario: &'a Scenario<'a>,
        sealings: &'a [Sealing],
        jobs: Vec<Job>,
        traffic: Traffic<'a>,
    ) -> Self {
        let on = |device: Device| {
            let jobs: Option<Vec<Job>> = scenario
                .messages
                .iter()
                .map(|message| Some(job(message, &best(scenario, &device, message, None, true)?)))
                .collect();
            Some((device, jobs?))
        };
        let others = device::all().into_iter().filter(|other| other.name != scenario.device.name);
        let elsewhere = others.filter_map(on).collect();
        Self { scenario, jobs, elsewhere, traffic, sealings }
    }

    /// The sealing with which a message meets its deadline beside the unchanged others, if any.
    fn meets(
        &self,
        (device, jobs): (&Device, &[Job]),
        traffic: &Traffic<'_>,
        at: usize,
        message: &Message,
        cipher: Option<Cipher>,
    ) -> Option<Sealing> {
        let sealing = best(self.scenario, device, message, cipher, true)?;
        let in_time = |outcome: &Outcome, queueing_ms| {
            let (breakdown, _) =
                breakdown(self.scenario, traffic.bearer, message, &sealing, outcome, queueing_ms);
            breakdown.latency() <= message.deadline_ms
        };
        // Excludes changes that are late even if each other message comes once and is prepared.
        let own = jobs.get(at)?.online_ms;
        let others = (jobs.iter().map(|job| job.online_ms).sum::<f64>() - own).max(0.0);
        let at_best = Outcome {
            ready_ms: None,
            in_time: true,
            spare_ms: 0.0,
            response_ms: sealing.online + others,
            early_response_ms: sealing.fallback,
        };
        if !in_time(&at_best, 0.0) {
            return None;
        }
        let mut jobs = jobs.to_vec();
        *jobs.get_mut(at)? = job(message, &sealing);
        let outcomes = schedule::analyse(self.scenario.work, &jobs).messages;
        let traffic = traffic.with(at, message, &sealing);
        let stay = traffic.longest_stay(self.scenario.messages, &outcomes);
        in_time(outcomes.get(at)?, traffic.queueing_ms(at, stay)).then_some(sealing)
    }

    /// The first change that meets the deadline, in this order: existing software, another cipher,
    /// another order of fields, another bearer, another device.
    fn advise(&self, at: usize) -> String {
        let Scenario { device, bearer, cipher, antedated, .. } = *self.scenario;
        let message = &self.scenario.messages[at];
        let here = (device, self.jobs.as_slice());
        let way = &self.traffic;
        if !antedated && self.meets(here, way, at, message, cipher).is_some() {
            return "prepare before: antedated = true".into();
        }
        if let Some(sealing) = self.meets(here, way, at, message, None)
            && Some(sealing.cipher) != cipher
        {
            return format!("take {} and prepare before", sealing.cipher.name());
        }
        let new = message.size - message.known;
        let touched = if new == 0 { 0 } else { message.size.div_ceil(16) - message.known / 16 };
        let sorted = Message { front: message.known, new_blocks: touched, ..message.clone() };
        if sorted.front > message.front && self.meets(here, way, at, &sorted, cipher).is_some() {
            return format!("sort the {} static bytes to the front", message.known);
        }
        if message.known < message.size {
            let most = message.size.saturating_sub(32);
            let mostly = Message {
                known: most,
                front: most,
                new_blocks: 3.min(message.size.div_ceil(16)),
                ..message.clone()
            };
            if most > message.known && self.meets(here, way, at, &mostly, None).is_some() {
                return format!("make all but 32 of its {} bytes static", message.size);
            }
        }
        if let Some(faster) = bearer.faster() {
            let traffic = Traffic::new(&faster, self.scenario.messages, self.sealings);
            if self.meets(here, &traffic, at, message, None).is_some() {
                return match faster {
                    Bearer::Tsch { cells, .. } => format!("take {cells} cells a hop"),
                    faster => format!("take {} in the place of {}", faster.name(), bearer.name()),
                };
            }
        }
        for (other, jobs) in &self.elsewhere {
            if self.meets((other, jobs), way, at, message, None).is_some() {
                return format!("take another device: {} ({})", other.name, other.about);
            }
        }
        "none of the devices, ciphers and bearers known here helps; a longer deadline or a shorter message would"
            .into()
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
