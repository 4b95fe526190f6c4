//! `antedate plan FILE --html`: the answer as one page with a figure.

use std::fmt::Write;

use antedate_figure::{Anchor, Drawing, colour};
use antedate_plan::budget::{Answer, Breakdown, MessageAnswer};

use super::budget::keys;

/// The begin of a page.
pub(super) const HEAD: &str =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>antedate plan";

const STYLE: &str = "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}\
    table{border-collapse:collapse}td,th{padding:.2em .6em;text-align:right;border-bottom:1px solid #ddd}\
    td:first-child,th:first-child{text-align:left}.no{color:#b00;font-weight:bold}svg{width:100%}code{background:#eee}";

/// Bars of the figure. More messages are in the table only.
const BARS: usize = 40;

/// The parts of a latency with their names.
fn parts(of: &Breakdown) -> [(&'static str, f64); 9] {
    [
        ("waiting", of.blocking_ms),
        ("sealing", of.online_ms),
        ("sender's system", of.send_path_ms),
        ("queued", of.queueing_ms),
        ("sending", of.transmission_ms),
        ("travel", of.propagation_ms),
        ("relays", of.forwarding_ms),
        ("receiver's system", of.receive_path_ms),
        ("opening", of.receiving_ms),
    ]
}

/// The page of an answer to a file.
pub(super) fn html(file: &str, answer: &Answer) -> String {
    let (file, device, bearer) = (escaped(file), escaped(&answer.device), escaped(&answer.bearer));
    let verdict = if answer.meets { "all messages meet their deadlines" } else { "deadlines are missed" };
    let mut page =
        format!("{HEAD} {file}</title><style>{STYLE}</style></head><body>\n<h1>{file}: {verdict}</h1>\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        page,
        "<p>{device} over {bearer}: {:.1} % of the CPU, {:.2} J a day, {} bytes of prepared packets.</p>",
        100.0 * answer.load,
        answer.joules_a_day,
        answer.memory
    );
    if let Some(advice) = &answer.advice {
        let _ = writeln!(
            page,
            "<p>All would meet: {}. <code>{}</code></p>",
            escaped(&advice.text),
            escaped(&keys(&advice.changes))
        );
    }
    page.push_str(&figure(&answer.messages));
    page.push_str(
        "<table><tr><th>message</th><th>meets</th><th>latency ms</th><th>margin ms</th><th>longest ms</th>",
    );
    page.push_str("<th>share</th><th>cipher</th></tr>\n");
    for message in &answer.messages {
        let meets = if message.meets { "<td>yes</td>" } else { "<td class=\"no\">no</td>" };
        let longest = message.worst_ms.map_or("not known".to_owned(), |ms| format!("{ms:.3}"));
        let _ = writeln!(
            page,
            "<tr><td>{}</td>{meets}<td>{:.3}</td><td>{:.3}</td><td>{longest}</td><td>{:.2} %</td><td>{}</td></tr>",
            escaped(&message.name),
            message.latency_ms,
            message.margin_ms,
            100.0 * message.share,
            message.cipher
        );
    }
    page.push_str("</table>\n<ul>\n");
    for message in &answer.messages {
        let _ = write!(page, "<li>{}: limited by {}", escaped(&message.name), escaped(&message.limit));
        if let Some(advice) = &message.advice {
            let _ = write!(page, "; would meet: {}", escaped(advice));
        }
        if let Some(changes) = &message.changes {
            let _ = write!(page, " <code>{}</code>", escaped(&keys(changes)));
        }
        page.push_str("</li>\n");
    }
    page.push_str("</ul>\n<table><tr><th>stage</th><th>load</th></tr>\n");
    for stage in &answer.stages {
        let _ = writeln!(page, "<tr><td>{}</td><td>{:.1} %</td></tr>", stage.stage, 100.0 * stage.load);
    }
    page.push_str("</table>\n</body></html>\n");
    page
}

/// Each message's latency by its parts, as shares of its deadline.
pub(super) fn figure(messages: &[MessageAnswer]) -> String {
    let shown = &messages[..messages.len().min(BARS)];
    let longest = shown
        .iter()
        .filter(|one| one.latency_ms.is_finite())
        .map(|one| one.latency_ms / (one.latency_ms + one.margin_ms));
    // The deadline is at one; beyond three times of it a bar is cut.
    let most = longest.fold(1.0, f64::max).min(3.0);
    let (left, right) = (180.0, 880.0);
    let height = 22.0 * shown.len() as f64;
    let across = |share: f64| share.min(most) / most * (right - left);
    let mut drawing = Drawing::new(900.0, height + 70.0);
    for (row, message) in shown.iter().enumerate() {
        let y = 20.0 + 22.0 * row as f64;
        let name: String = message.name.chars().take(26).collect();
        drawing.text([left - 8.0, y + 12.0], Anchor::End, &name);
        let deadline = message.latency_ms + message.margin_ms;
        if !message.latency_ms.is_finite() {
            drawing.text([left + 4.0, y + 12.0], Anchor::Start, "without bound");
            continue;
        }
        let mut x = 0.0;
        for (at, (_, ms)) in parts(&message.breakdown).into_iter().enumerate() {
            let next = across((x / (right - left)) * most + ms / deadline);
            drawing.rect([left + x, y], [(next - x).max(0.0), 16.0], colour(at));
            x = next;
        }
    }
    drawing.mark(left + across(1.0), [14.0, height + 24.0], "deadline");
    for (at, (name, _)) in parts(&Breakdown::default()).into_iter().enumerate() {
        drawing.legend([20.0 + 97.0 * at as f64, height + 50.0], colour(at), name);
    }
    drawing.finish()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
