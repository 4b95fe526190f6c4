//! `antedate plan FILE` for the slots of TSCH: equations 1 and 2 of sciancalepore2016.

use std::fmt::Write;
use std::path::Path;

use antedate_host::fault::Fault;
use antedate_plan::counts;
use antedate_plan::platform;
use antedate_plan::strategy::{LEVELS, Strategy};
use antedate_plan::tsch::{Answer, Flow, Scenario, answer};
use serde::Deserialize;

use super::labels::{self, Labelled};
use crate::failure::{Done, Failure};
use crate::output;

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    platform: String,
    level: String,
    #[serde(default = "software")]
    strategy: String,
    #[serde(default = "yes")]
    antedated: bool,
    slotframe: u32,
    #[serde(default)]
    flow: Vec<FlowDocument>,
    /// Bound for every flow in ms.
    deadline_ms: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowDocument {
    name: String,
    #[serde(default = "one")]
    cells: u32,
    #[serde(default = "one")]
    hops: u32,
    /// Slot offsets of each hop's cells, instead of `cells` and `hops`.
    #[serde(default)]
    schedule: Vec<Vec<u32>>,
}

impl FlowDocument {
    fn flow(self) -> Flow {
        match self.schedule.is_empty() {
            true => Flow::new(self.name, self.cells, self.hops),
            false => Flow::scheduled(self.name, self.schedule),
        }
    }
}

fn software() -> String {
    "software".into()
}

const fn yes() -> bool {
    true
}

const fn one() -> u32 {
    1
}

/// Answers the schedule in `text`, the content of `file`.
pub(super) fn run(file: &Path, text: &str, json: Option<&Path>) -> Done {
    let fault = |what: String, remedy: &str| Failure::from(Fault::of_file(file, what, remedy));
    let chapter = "see the chapter on IEEE 802.15.4 in the book";
    let document: Document = toml::from_str(text)
        .map_err(|error| super::at_its_line(file, text, &error, error.message(), chapter))?;
    if document.deadline_ms.is_some_and(|ms| !ms.is_finite() || ms <= 0.0) {
        return Err(fault("deadline_ms: must be more than 0".into(), "give it in ms, or leave it out"));
    }
    let platform = platform::find(&document.platform)
        .ok_or_else(|| fault(format!("platform: no `{}`", document.platform), "cc2538 or telosb"))?;
    let level = LEVELS
        .iter()
        .position(|name| *name == document.level)
        .ok_or_else(|| fault(format!("level: no `{}`", document.level), &LEVELS.join(", ")))?;
    let strategy = Strategy::find(&document.strategy).ok_or_else(|| {
        fault(format!("strategy: no `{}`", document.strategy), "software, hybrid or hardware")
    })?;
    let flows = document.flow.into_iter().map(FlowDocument::flow).collect();
    let scenario =
        Scenario { level, strategy, antedated: document.antedated, slots: document.slotframe, flows };
    let costs = counts::of(platform);
    let answer = answer(platform, &costs, &scenario).map_err(|why| fault(why.to_string(), chapter))?;
    if json.is_none_or(|file| file.as_os_str() != "-") {
        output::print(&(say(platform.about, &answer) + &labels::say_slots(strategy)))?;
    }
    if let Some(file) = json {
        output::json(file, &Labelled { answer: &answer, origins: labels::of_slots(strategy) })?;
    }
    let late = |deadline: f64| answer.flows.iter().find(|flow| flow.latency_ms > deadline);
    match document.deadline_ms.and_then(late) {
        Some(flow) => Err(Failure::Verdict(format!(
            "flow {} takes up to {:.0} ms; what limits the slot is {}",
            flow.name,
            flow.latency_ms,
            answer.parts.first().map_or("nothing", |part| part.what)
        ))),
        None => Ok(()),
    }
}

fn say(platform: &str, answer: &Answer) -> String {
    let mut text = String::new();
    let slot = &answer.slot;
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{platform}");
    let _ = writeln!(
        text,
        "shortest slot  {:.2} ms (TsTxOffset {:.2}, TsTxAckDelay {:.2}; security takes {:.2})",
        slot.duration,
        slot.tx_offset,
        slot.tx_ack_delay,
        answer.operations.sum()
    );
    let enough = if answer.standard { "is long enough" } else { "is too short" };
    let _ = writeln!(text, "standard slot  of 10 ms {enough}");
    for (i, part) in answer.parts.iter().take(4).enumerate() {
        let head = if i == 0 { "limited by" } else { "" };
        let _ = writeln!(text, "{head:<14} {:.2} ms {}", part.milliseconds, part.what);
    }
    for flow in &answer.flows {
        let _ = writeln!(
            text,
            "flow {:<9} at most {:.0} bit/s, at most {:.0} ms, {:.1} J a day and hop ({:.1} J while its cells stay empty)",
            flow.name, flow.rate, flow.latency_ms, flow.joules_a_day, flow.idle_joules_a_day
        );
    }
    let _ = writeln!(
        text,
        "energy         {:.1} J a day for all flows on all hops, and {:.2} J for each node's sleep",
        answer.joules_a_day, answer.sleep_joules_a_day
    );
    text
}
