//! A planned TSCH network: its shortest slot, the rate and latency of its flows, and the limiting
//! parts.

use serde::Serialize;

use crate::bearer::Tsch;
use crate::energy::{self, DAY_MS};
use crate::platform::Platform;
use crate::strategy::{Costs, Strategy, before, operations};
use crate::timeslot::{
    APPLICATION_BITS, Operations, STANDARD_MS, Slot, TS_MAX_ACK, TS_MAX_TX, largest_rate, shortest,
};

/// A flow over the network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// name
    pub name: String,
    /// cells of the slotframe on each hop
    pub cells: u32,
    /// hops from its source to its sink
    pub hops: u32,
    /// slot offsets of each hop's cells, if known; `cells` is then the fewest of a hop
    pub schedule: Vec<Vec<u32>>,
}

impl Flow {
    /// A flow whose cells may lie anywhere in the slotframe.
    #[must_use]
    pub const fn new(name: String, cells: u32, hops: u32) -> Self {
        Self { name, cells, hops, schedule: Vec::new() }
    }

    /// A flow with a schedule.
    #[must_use]
    pub fn scheduled(name: String, schedule: Vec<Vec<u32>>) -> Self {
        let cells = schedule.iter().map(Vec::len).min().unwrap_or_default() as u32;
        Self { name, cells, hops: schedule.len() as u32, schedule }
    }

    /// The bearer of the flow's messages.
    fn bearer(&self, slots: u32) -> Tsch {
        Tsch { schedule: self.schedule.clone(), ..Tsch::new(slots, self.cells, self.hops) }
    }
}

/// The question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// security level, 0 to 7
    pub level: usize,
    /// implementation of the ciphers
    pub strategy: Strategy,
    /// prepare before the slot
    pub antedated: bool,
    /// slots of the slotframe
    pub slots: u32,
    /// the flows
    pub flows: Vec<Flow>,
}

/// The answer for a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowAnswer {
    /// name
    pub name: String,
    /// the largest rate, in bit/s
    pub rate: f64,
    /// the longest time from source to sink without losses, in ms: with the schedule's cells, or with
    /// cells that may lie anywhere
    pub latency_ms: f64,
    /// joules a day and hop, both ends together, if every cell carries a full frame
    pub joules_a_day: f64,
    /// joules a day and hop if every cell stays empty: the receiver still listens
    pub idle_joules_a_day: f64,
}

/// A part of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Part {
    /// name of the part
    pub what: &'static str,
    /// its duration
    pub milliseconds: f64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// the shortest slot
    pub slot: Slot,
    /// time of the security operations
    pub operations: Operations,
    /// whether the standard's slot of 10 ms is long enough
    pub standard: bool,
    /// the parts of the slot, the longest first
    pub parts: Vec<Part>,
    /// joules a day of all flows on all hops, if every cell carries a full frame
    pub joules_a_day: f64,
    /// joules a day of a node that only sleeps
    pub sleep_joules_a_day: f64,
    /// the flows
    pub flows: Vec<FlowAnswer>,
}

/// The reason for a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScenarioError {
    /// an unknown level
    Level,
    /// a slotframe without slots
    Slots,
    /// a flow without cells or hops, or with more cells than there are slots
    Flow(String),
    /// a schedule whose slot offsets do not rise, or are not in the slotframe
    Schedule(String),
}

impl core::fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Level => f.write_str("level: there are 0 to 7"),
            Self::Slots => f.write_str("slots: a slotframe has one at least"),
            Self::Flow(name) => {
                write!(f, "flow {name}: needs a hop and a cell, and all hops' cells must fit the slotframe")
            }
            Self::Schedule(name) => {
                write!(
                    f,
                    "flow {name}: schedule lists for each hop its cells' slot offsets, rising, below the slotframe's"
                )
            }
        }
    }
}

impl core::error::Error for ScenarioError {}

/// Answers a scenario for a platform with counted costs.
///
/// # Errors
/// A level, slotframe or flow that cannot exist.
pub fn answer(platform: &Platform, costs: &Costs, scenario: &Scenario) -> Result<Answer, ScenarioError> {
    let Scenario { level, strategy, antedated, slots, flows } = scenario;
    let bits = *APPLICATION_BITS.get(*level).ok_or(ScenarioError::Level)?;
    if *slots == 0 {
        return Err(ScenarioError::Slots);
    }
    for flow in flows {
        let Flow { name, cells, hops, .. } = flow;
        if *cells == 0 || *hops == 0 || u64::from(*cells) * u64::from(*hops) > u64::from(*slots) {
            return Err(ScenarioError::Flow(name.clone()));
        }
        if flow.bearer(*slots).fault().is_some() {
            return Err(ScenarioError::Schedule(name.clone()));
        }
    }
    let operations = operations(platform, costs, *level, *strategy, *antedated);
    let slot = shortest(platform.tx_offset, platform.tx_ack_delay, &operations);
    let ahead = if *antedated { before(platform, costs, *level, *strategy) } else { [0.0; 2] };
    let full = energy::slot(platform, slot.duration, ahead).sum();
    let idle = energy::idle_listening(platform);
    let slotframe_ms = f64::from(*slots) * slot.duration;
    let answers: Vec<FlowAnswer> = flows
        .iter()
        .map(|flow| {
            let cells = f64::from(flow.cells);
            FlowAnswer {
                name: flow.name.clone(),
                rate: largest_rate(flow.cells, *slots, bits, slot.duration),
                latency_ms: flow.bearer(*slots).slots_of(1) * slot.duration,
                joules_a_day: full * 1e-6 * cells * DAY_MS / slotframe_ms,
                idle_joules_a_day: idle * 1e-6 * cells * DAY_MS / slotframe_ms,
            }
        })
        .collect();
    let joules_a_day =
        answers.iter().zip(flows).map(|(of, flow)| of.joules_a_day * f64::from(flow.hops)).sum();
    Ok(Answer {
        slot,
        operations,
        standard: slot.duration <= STANDARD_MS,
        parts: parts(platform, &operations),
        joules_a_day,
        sleep_joules_a_day: energy::asleep(platform, DAY_MS) * 1e-6,
        flows: answers,
    })
}

/// The parts of the slot, the longest first.
fn parts(platform: &Platform, operations: &Operations) -> Vec<Part> {
    let mut parts: Vec<Part> = [
        (TS_MAX_TX, "TsMaxTx: the frame on the air"),
        (TS_MAX_ACK, "TsMaxAck: the acknowledgment on the air"),
        (platform.tx_offset, "TsTxOffset without security: handing the frame to the radio"),
        (platform.tx_ack_delay, "TsTxAckDelay without security: turning the radio round"),
        (operations.sec1, "sec1: securing the frame"),
        (operations.sec2, "sec2: unsecuring the frame"),
        (operations.sec3, "sec3: securing the acknowledgment"),
        (operations.sec4, "sec4: unsecuring the acknowledgment"),
    ]
    .map(|(milliseconds, what)| Part { what, milliseconds })
    .to_vec();
    parts.sort_by(|a, b| b.milliseconds.total_cmp(&a.milliseconds));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{CC2538, TELOSB};
    use crate::strategy::Counted;

    fn costs() -> Costs {
        let secured = Counted { plain: [30_000.0; 4], antedated: [3_000.0; 4], before: [28_000.0; 4] };
        let mut levels = [secured; 8];
        levels[0] = Counted { plain: [1_000.0; 4], antedated: [1_000.0; 4], before: [0.0; 4] };
        Costs { levels, block: 1_900.0, ack: 31 }
    }

    fn scenario(antedated: bool) -> Scenario {
        let flows = vec![Flow::new("valve".into(), 2, 3)];
        Scenario { level: 5, strategy: Strategy::Software, antedated, slots: 101, flows }
    }

    #[test]
    fn antedating_improves_slot_rate_and_latency() {
        for platform in [CC2538, TELOSB] {
            let [plain, ahead] = [false, true]
                .map(|antedated| answer(&platform, &costs(), &scenario(antedated)).expect("an answer"));
            assert!(ahead.slot.duration < plain.slot.duration);
            assert!(ahead.flows[0].rate > plain.flows[0].rate);
            assert!(ahead.flows[0].latency_ms < plain.flows[0].latency_ms);
            // The parts add up to the slot.
            let parts: f64 = ahead.parts.iter().map(|part| part.milliseconds).sum();
            assert!((parts - ahead.slot.duration).abs() < 1e-9);
            assert!(ahead.parts.is_sorted_by(|a, b| a.milliseconds >= b.milliseconds));
            let flow = &ahead.flows[0];
            assert!((ahead.joules_a_day - 3.0 * flow.joules_a_day).abs() < 1e-9);
            assert!(flow.idle_joules_a_day < flow.joules_a_day && ahead.sleep_joules_a_day > 0.0);
            let none = shortest(platform.tx_offset, platform.tx_ack_delay, &Operations::default());
            assert!(ahead.slot.duration > none.duration);
        }
    }

    #[test]
    fn flow_waits_for_its_own_cells() {
        let latency = |flow| {
            let scenario = Scenario { flows: vec![flow], ..scenario(true) };
            let answer = answer(&CC2538, &costs(), &scenario).expect("an answer");
            answer.flows[0].latency_ms / answer.slot.duration
        };
        // Two adjacent cells: 100 slots to the next, and its own. On further hops it may follow at
        // once.
        assert!((latency(Flow::new("valve".into(), 2, 3)) - 301.0).abs() < 1e-6);
        let ordered = Flow::scheduled("valve".into(), vec![vec![0, 50], vec![1, 51], vec![2, 52]]);
        assert!((latency(ordered) - 54.0).abs() < 1e-6);
    }

    #[test]
    fn antedating_never_lengthens_a_strategy() {
        for platform in [CC2538, TELOSB] {
            for level in 0..8 {
                for strategy in Strategy::ALL {
                    let [plain, ahead] =
                        [false, true].map(|a| operations(&platform, &costs(), level, strategy, a).sum());
                    assert!(ahead <= plain, "{} {level} {}", platform.name, strategy.name());
                }
            }
        }
    }

    #[test]
    fn impossible_scenarios_are_refused() {
        let ask = |change: fn(&mut Scenario)| {
            let mut scenario = scenario(true);
            change(&mut scenario);
            answer(&CC2538, &costs(), &scenario)
        };
        assert_eq!(ask(|s| s.level = 8), Err(ScenarioError::Level));
        assert_eq!(ask(|s| s.slots = 0), Err(ScenarioError::Slots));
        assert_eq!(ask(|s| s.flows[0].cells = 34), Err(ScenarioError::Flow("valve".into())));
        assert_eq!(ask(|s| s.flows[0].hops = 0), Err(ScenarioError::Flow("valve".into())));
        let beyond = ask(|s| s.flows[0] = Flow::scheduled("valve".into(), vec![vec![101]]));
        assert_eq!(beyond, Err(ScenarioError::Schedule("valve".into())));
    }
}
