//! The planner's answer to a scenario with messages.

use std::fmt::Write;
use std::path::Path;

use antedate_plan::advice::Changes;
use antedate_plan::budget::{Answer, Breakdown};

use super::document::Document;
use super::labels::Labelled;
use super::page;
use crate::failure::{Done, Failure};
use crate::output::{self, Kind};

pub(super) fn run(
    document: &Document,
    json: Option<&Path>,
    html: Option<&Path>,
    figure: Option<&Path>,
) -> Done {
    let answer = document.answer(true)?;
    if json.is_none_or(|file| file.as_os_str() != "-") {
        output::print(&(say(&answer) + &document.say_origins()))?;
    }
    if let Some(file) = json {
        output::json(file, &Labelled { answer: &answer, origins: document.origins() })?;
    }
    if let Some(file) = html {
        let page = page::html(&document.file.display().to_string(), &answer);
        output::replace("--html", Kind::Text(page::HEAD), file, &page)?;
    }
    if let Some(file) = figure {
        output::replace("--figure", output::SVG, file, &page::figure(&answer.messages))?;
    }
    let late: Vec<&str> = answer
        .messages
        .iter()
        .filter(|message| !message.meets)
        .map(|message| message.name.as_str())
        .collect();
    if late.is_empty() {
        return Ok(());
    }
    let more = if late.len() > 5 { format!(" and {} more", late.len() - 5) } else { String::new() };
    Err(Failure::Verdict(format!("misses its deadline: {}{more}", late[..late.len().min(5)].join(", "))))
}

fn say(answer: &Answer) -> String {
    let mut text = String::new();
    let width = answer.messages.iter().map(|message| message.name.chars().count()).max().unwrap_or(0).max(7);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} over {}: {:.1} % of the CPU, {:.1} % of the bearer, {:.2} J a day, {} bytes of prepared packets\n",
        answer.device,
        answer.bearer,
        100.0 * answer.load,
        100.0 * answer.bearer_load,
        answer.joules_a_day,
        answer.memory
    );
    if answer.load > 1.0 {
        let _ = writeln!(
            text,
            "more than the CPU can do: what it serves last, its other work and preparations, is not always done\n"
        );
    }
    let _ = writeln!(
        text,
        "{:width$}  meets  margin ms  latency ms  before  waiting  sealing  system  queued  sending  travel  relays  opening  cipher",
        "message"
    );
    for message in &answer.messages {
        let Breakdown {
            preparation_ms,
            blocking_ms,
            online_ms,
            send_path_ms,
            queueing_ms,
            transmission_ms,
            propagation_ms,
            forwarding_ms,
            receive_path_ms,
            receiving_ms,
        } = message.breakdown;
        let _ = writeln!(
            text,
            "{:width$}  {:5}  {:9.3}  {:10.3}  {:6.3}  {:7.3}  {:7.3}  {:6.3}  {:6.3}  {:7.3}  {:6.3}  {:6.3}  {:7.3}  {}",
            message.name,
            if message.meets { "yes" } else { "NO" },
            message.margin_ms,
            message.latency_ms,
            preparation_ms,
            blocking_ms,
            online_ms,
            send_path_ms + receive_path_ms,
            queueing_ms,
            transmission_ms,
            propagation_ms,
            forwarding_ms,
            receiving_ms,
            message.cipher
        );
    }
    let _ = writeln!(text);
    for message in &answer.messages {
        let _ = writeln!(text, "{:width$}  limited by {}", message.name, message.limit);
        if let Some(ready) = message.schedule.ready_ms.filter(|_| message.breakdown.preparation_ms > 0.0) {
            let spare = message.schedule.spare_ms;
            let _ = writeln!(
                text,
                "{:width$}  prepared {ready:.3} ms after the one before, {spare:.3} ms to spare; an early one takes {:.3} ms",
                "", message.schedule.early_response_ms
            );
        }
        if message.share < 1.0 {
            let worst = message.worst_ms.map_or("not known".to_owned(), |worst| format!("{worst:.3} ms"));
            let share = 100.0 * message.share;
            let _ = writeln!(
                text,
                "{:width$}  the latency holds for {share:.2} % of the messages; the longest is {worst}",
                ""
            );
        }
        if let Some(probability) = message.probability {
            let _ = writeln!(
                text,
                "{:width$}  with the losses {:.3} % of the messages meet the deadline",
                "",
                100.0 * probability
            );
        }
        if let Some(advice) = &message.advice {
            let _ = writeln!(text, "{:width$}  would meet: {advice}", "");
            if let Some(changes) = &message.changes {
                let _ = writeln!(text, "{:width$}  in the file: {}", "", keys(changes));
            }
        }
    }
    if let Some(advice) = &answer.advice {
        let _ = writeln!(text, "\nall would meet: {}", advice.text);
        let _ = writeln!(text, "in the file: {}", keys(&advice.changes));
    }
    text
}

/// Changes as keys of the scenario file, on one line.
pub(super) fn keys(changes: &Changes) -> String {
    let Ok(value) = toml::Value::try_from(changes) else { return String::new() };
    let table = value.as_table().cloned().unwrap_or_default();
    let entries = table.into_iter().map(|(key, value)| format!("{key} = {value}"));
    entries.collect::<Vec<_>>().join(", ")
}
