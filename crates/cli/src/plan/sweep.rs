//! `antedate plan FILE --sweep`: the answer over a range, as CSV and as a figure.

use std::fmt::Write;
use std::path::Path;
use std::str::FromStr;

use antedate_plan::budget::Message;

use super::document::Document;
use super::figure::{self, Line};
use crate::failure::{Done, ValueError};
use crate::output::{self, Kind};

/// The columns behind that of the swept value.
const COLUMNS: &str = ",message,meets,margin_ms,latency_ms,preparation_ms,blocking_ms,online_ms,send_path_ms,queueing_ms,transmission_ms,propagation_ms,forwarding_ms,receive_path_ms,receiving_ms,cipher";
/// A table of them.
const CSV: Kind<'_> = Kind::Table(COLUMNS);

/// The swept value and its range.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sweep {
    what: What,
    from: f64,
    to: f64,
    step: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Size,
    Static,
    Period,
    Deadline,
}

/// Most values of a sweep.
const MOST: f64 = 100_000.0;

impl FromStr for Sweep {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let form = || ValueError::new(format!("`{text}`: WHAT=FROM..TO or WHAT=FROM..TO,STEP"));
        let (what, range) = text.split_once('=').ok_or_else(form)?;
        let what = match what {
            "payload" | "size" => What::Size,
            "static" => What::Static,
            "period" => What::Period,
            "deadline" => What::Deadline,
            other => {
                return Err(ValueError::new(format!(
                    "no `{other}` to sweep: payload (or size), static, period or deadline"
                )));
            }
        };
        let (range, step) = range.split_once(',').map_or((range, None), |(range, step)| (range, Some(step)));
        let (from, to) = range.split_once("..").ok_or_else(form)?;
        let number = |text: &str| {
            text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0).ok_or_else(form)
        };
        let (from, to) = (number(from)?, number(to)?);
        let whole = matches!(what, What::Size | What::Static);
        let step = match step {
            Some(step) => number(step)?,
            None if whole => 1.0,
            None => (to - from) / 100.0,
        };
        if to < from || step <= 0.0 && to > from || (whole && (from.fract() != 0.0 || step.fract() != 0.0)) {
            return Err(ValueError::new(format!("`{text}`: rises by a step above 0, in whole bytes")));
        }
        if (to - from) / step.max(f64::MIN_POSITIVE) > MOST {
            return Err(ValueError::new(format!("`{text}`: more than {MOST} values; take a longer step")));
        }
        Ok(Self { what, from, to, step })
    }
}

impl Sweep {
    fn values(&self) -> impl Iterator<Item = f64> {
        let Self { from, to, step, .. } = *self;
        let steps = if step > 0.0 { ((to - from) / step + 1e-9).floor() as u64 } else { 0 };
        (0..=steps).map(move |i| from + i as f64 * step)
    }

    fn name(&self) -> &'static str {
        match self.what {
            What::Size => "size",
            What::Static => "static",
            What::Period => "period_ms",
            What::Deadline => "deadline_ms",
        }
    }

    /// A message with another value. With another size it keeps as many new bytes as possible.
    fn apply(&self, message: &Message, value: f64) -> Message {
        let mut message = message.clone();
        let new = message.size - message.known.min(message.size);
        match self.what {
            What::Size => {
                let size = value as usize;
                let known = size.saturating_sub(new);
                // Without known bytes all holes are one.
                if known == 0 {
                    message.new_blocks = message.new_blocks.min(size.div_ceil(16));
                }
                message.front = if message.front == message.known { known } else { message.front.min(known) };
                (message.size, message.known) = (size, known);
            }
            What::Static => {
                let known = (value as usize).min(message.size);
                let new = message.size - known;
                message.front = if message.front == message.known { known } else { message.front.min(known) };
                message.new_blocks =
                    if new == 0 { 0 } else { ((new + 14) / 16 + 1).min(message.size.div_ceil(16)) };
                message.known = known;
            }
            What::Period => message.period_ms = value,
            What::Deadline => message.deadline_ms = value,
        }
        message
    }
}

pub(super) fn run(document: &Document, sweep: &Sweep, csv: Option<&Path>, svg: Option<&Path>) -> Done {
    // A long sweep takes a while, and half of its results are useless, so the files are checked
    // first.
    for (option, kind, file) in [("--csv", CSV, csv), ("--figure", output::SVG, svg)] {
        file.map_or(Ok(()), |file| output::writable(option, kind, file))?;
    }
    let mut text = format!("{}{COLUMNS}\n", sweep.name());
    let mut lines: Vec<Line> = document.messages.iter().map(|message| Line::new(&message.name)).collect();
    for value in sweep.values() {
        let mut changed = document.clone();
        changed.messages = document.messages.iter().map(|message| sweep.apply(message, value)).collect();
        let answer = changed.answer(false)?;
        for ((message, line), asked) in answer.messages.iter().zip(&mut lines).zip(&changed.messages) {
            let b = message.breakdown;
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{value},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                quoted(&message.name),
                message.meets,
                message.margin_ms,
                message.latency_ms,
                b.preparation_ms,
                b.blocking_ms,
                b.online_ms,
                b.send_path_ms,
                b.queueing_ms,
                b.transmission_ms,
                b.propagation_ms,
                b.forwarding_ms,
                b.receive_path_ms,
                b.receiving_ms,
                message.cipher
            );
            line.points.push((value, message.latency_ms));
            line.bound = Some(asked.deadline_ms);
        }
    }
    match csv {
        Some(file) => output::replace("--csv", CSV, file, &text)?,
        None => output::print(&text)?,
    }
    match svg {
        Some(file) => {
            let figure = figure::svg(sweep.name(), "latency, ms", &lines);
            output::replace("--figure", output::SVG, file, &figure)
        }
        None => Ok(()),
    }
}

/// A field of CSV (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_wrong_ones_refused() {
        let sweep: Sweep = "payload=16..1500".parse().expect("a sweep");
        assert_eq!(sweep.values().count(), 1485);
        let steps: Sweep = "size=16..64,16".parse().expect("a sweep");
        assert_eq!(steps.values().collect::<Vec<_>>(), [16.0, 32.0, 48.0, 64.0]);
        for wrong in [
            "payload",
            "payload=9",
            "colour=1..2",
            "size=9..1",
            "size=1..9,0",
            "size=1..2,0.5",
            "period=0..1,0.0000001",
        ] {
            assert!(wrong.parse::<Sweep>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_longer_message_has_as_many_new_bytes() {
        let message = Message {
            name: "m".into(),
            size: 112,
            period_ms: 1.0,
            deadline_ms: 1.0,
            known: 96,
            front: 96,
            new_blocks: 2,
        };
        let sweep: Sweep = "size=1..1500".parse().expect("a sweep");
        let longer = sweep.apply(&message, 1000.0);
        assert_eq!((longer.known, longer.front, longer.new_blocks), (984, 984, 2));
        let shorter = sweep.apply(&message, 9.0);
        assert_eq!((shorter.known, shorter.front, shorter.new_blocks), (0, 0, 1));
        // Several holes in a block count each.
        let holes = Message { size: 15, known: 7, front: 0, new_blocks: 4, ..message };
        assert_eq!(sweep.apply(&holes, 16.0).new_blocks, 4);
    }
}
