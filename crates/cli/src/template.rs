//! `antedate template`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use antedate_host::fault::Fault;
use antedate_wire::template::{Hole, front, known, moved, touched};
use antedate_wire::{goose, modbus, ppmp, sparkplug};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::failure::{Done, Failure};
use crate::output::{self, Kind};

/// Verbs for templates.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Learn from example messages which bytes are static and which change.
    ///
    /// Messages of different lengths are learnt apart. The result for each length is the length of
    /// the template of a cipher with a serial MAC (CCM), and the number of multiplications that a
    /// cipher with holes anywhere (GCM, ChaCha20-Poly1305) has left at the deadline: one for each
    /// block that a hole touches.
    #[command(
        after_help = "Examples:\n  antedate template learn message-*.bin\n  antedate template learn --lines ppmp.jsonl --gap 2"
    )]
    Learn(Learn),
    /// Show a message of a format with a fixed layout, and its holes.
    #[command(
        after_help = "Examples:\n  antedate template example goose\n  antedate template example sparkplug --raw"
    )]
    Example(Example),
}

impl Verb {
    pub(crate) fn run(self) -> Done {
        match self {
            Self::Learn(verb) => verb.run(),
            Self::Example(verb) => verb.run(),
        }
    }
}

#[derive(Args)]
pub(crate) struct Example {
    /// The format
    #[arg(value_name = "FORMAT", value_parser = ["goose", "ppmp-measurement", "ppmp-machine", "sparkplug", "modbus"])]
    format: String,
    /// The message alone: text as it is, other formats in hexadecimal digits
    #[arg(long)]
    raw: bool,
}

impl Example {
    fn run(self) -> Done {
        let mut holes = Vec::new();
        let message = example(&self.format, &mut |hole| holes.push(hole.range))
            .map_err(|error| Failure::usage(error.to_string(), "this is a fault of the program"))?;
        if self.raw {
            let line = match std::str::from_utf8(&message) {
                Ok(text) if self.format.starts_with("ppmp") => text.to_owned(),
                _ => message.iter().map(|octet| format!("{octet:02x}")).collect(),
            };
            return output::print(&format!("{line}\n"));
        }
        let length = message.len();
        let learnt = Learnt {
            length,
            messages: 2,
            r#static: known(length, holes.iter().cloned()),
            front: front(length, holes.iter().cloned()),
            blocks: touched(holes.iter().cloned()),
            holes: holes.iter().map(|hole| Place { start: hole.start, end: hole.end, variants: 0 }).collect(),
            first: message,
        };
        output::print(&say(&[learnt]))
    }
}

/// A message of this format.
fn example(format: &str, mark: &mut dyn FnMut(Hole)) -> antedate_wire::Result<Vec<u8>> {
    let mut out = vec![0; 1024];
    let fixed = |value| ppmp::Fixed { value, digits: 2, width: 8 };
    let offset = |value| ppmp::Fixed { value, digits: 0, width: 3 };
    let len = match format {
        "goose" => goose::Message {
            appid: 0x1000,
            publisher: goose::Publisher {
                gocb_ref: b"antedateLD0/LLN0$GO$gcbTrip",
                time_allowed_to_live: 500,
                dat_set: b"antedateLD0/LLN0$dsTrip",
                go_id: Some(b"antedate"),
            },
            t: [0; 8],
            st_num: 1,
            sq_num: 0,
            simulation: false,
            conf_rev: 3,
            nds_com: false,
            all_data: goose::Values::Given(&[goose::Value::Boolean(true), goose::Value::int32(-7)]),
        }
        .emit(&mut out, mark)?,
        "ppmp-measurement" => {
            let values = [fixed(4542), fixed(4640), fixed(4424)];
            let series = [ppmp::Series { name: "temperature", unit: Some("Cel"), values: &values }];
            let time = [offset(0), offset(23), offset(24)];
            let list =
                [ppmp::Measurement { ts: ppmp::Time(1_790_000_000_123), time: &time, series: &series }];
            let device = "a4927dad-58d4-4580-b460-79cefd56775b";
            ppmp::Repr { device, body: ppmp::Body::Measurements(&list) }.emit(&mut out, mark)?
        }
        "ppmp-machine" => {
            let list = [ppmp::Notice {
                ts: ppmp::Time(1_790_000_000_123),
                code: "190ABT",
                severity: Some("HIGH"),
                title: Some("control board damaged"),
                origin: Some("sensor-7"),
            }];
            ppmp::Repr { device: "press-7", body: ppmp::Body::Notices(&list) }.emit(&mut out, mark)?
        }
        "sparkplug" => {
            let value = sparkplug::Value::Double(45.42);
            let metrics = [sparkplug::Metric { name: None, alias: 7, timestamp: None, value }];
            sparkplug::Repr { timestamp: 1_790_000_000_123, metrics: &metrics, seq: 0 }
                .emit(&mut out, mark)?
        }
        _ => {
            let function = modbus::Function::ReadHoldingRegisters;
            let data = &[0x02, 0x2b, 0, 0, 0, 0x64];
            modbus::Response { transaction: 1, unit: 1, function, data }.emit(&mut out, mark)?
        }
    };
    out.truncate(len);
    Ok(out)
}

#[derive(Args)]
pub(crate) struct Learn {
    /// Messages: a file each, or many in a file with --lines or --hex
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Each line of the files is a message
    #[arg(long)]
    lines: bool,
    /// Each line of the files is a message in hexadecimal digits; a # begins a comment
    #[arg(long, conflicts_with = "lines")]
    hex: bool,
    /// Joins ranges with at most so many equal bytes between them
    #[arg(long, value_name = "BYTES", default_value_t = 1)]
    gap: usize,
    /// Writes the result as JSON to FILE, or to standard output without one
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// Findings for the messages of one length.
#[derive(Debug, Serialize)]
struct Learnt {
    length: usize,
    messages: usize,
    /// bytes that never changed
    r#static: usize,
    /// bytes before the first that changed
    front: usize,
    /// blocks of 16 bytes that the holes touch, for each hole
    blocks: usize,
    holes: Vec<Place>,
    #[serde(skip)]
    first: Vec<u8>,
}

/// A range of bytes that changed.
#[derive(Debug, Serialize)]
struct Place {
    start: usize,
    end: usize,
    /// messages with different values here
    variants: usize,
}

impl Learn {
    fn run(self) -> Done {
        // A message must not be replaced, which `--json` takes for its file if it follows.
        if let Some(file) = self.json.as_deref().filter(|file| *file != Path::new("-")) {
            output::writable("--json", Kind::Json("holes"), file)?;
        }
        let mut messages = Vec::new();
        for file in &self.files {
            let bytes = fs::read(file).map_err(|error| {
                Fault::of_file(file, format!("cannot be read: {error}"), "give a file with a message")
            })?;
            self.split(file, bytes, &mut messages)?;
        }
        let learnt = learn(messages, self.gap);
        if learnt.iter().all(|learnt| learnt.messages < 2) {
            return Err(Failure::usage(
                "no two messages have the same length, so nothing can have moved",
                "give more messages of one kind; --lines or --hex if a file has many",
            ));
        }
        if self.json.as_ref().is_none_or(|file| file.as_os_str() != "-") {
            output::print(&say(&learnt))?;
        }
        self.json.map_or(Ok(()), |file| output::json(&file, &learnt))
    }

    fn split(&self, file: &Path, bytes: Vec<u8>, messages: &mut Vec<Vec<u8>>) -> Result<(), Failure> {
        if !self.lines && !self.hex {
            messages.push(bytes);
            return Ok(());
        }
        for (number, line) in bytes.split(|octet| *octet == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let message = if self.hex {
                hex(line).ok_or_else(|| Fault {
                    line: Some(number + 1),
                    ..Fault::of_file(
                        file,
                        "not an even number of hexadecimal digits",
                        "--lines if the messages are text",
                    )
                })?
            } else {
                line.to_vec()
            };
            if !message.is_empty() {
                messages.push(message);
            }
        }
        Ok(())
    }
}

fn hex(line: &[u8]) -> Option<Vec<u8>> {
    let line = line.split(|octet| *octet == b'#').next()?;
    let digits = line.iter().filter(|octet| !octet.is_ascii_whitespace());
    let digits: Option<Vec<u8>> =
        digits.map(|octet| char::from(*octet).to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn learn(messages: Vec<Vec<u8>>, gap: usize) -> Vec<Learnt> {
    let mut lengths: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
    for message in messages {
        lengths.entry(message.len()).or_default().push(message);
    }
    let one = |(length, messages): (usize, Vec<Vec<u8>>)| {
        let holes: Vec<Range<usize>> = moved(&messages, gap).into_iter().flatten().collect();
        let variants = |hole: &Range<usize>| {
            let mut seen: Vec<&[u8]> =
                messages.iter().filter_map(|message| message.get(hole.clone())).collect();
            seen.sort_unstable();
            seen.dedup();
            Place { start: hole.start, end: hole.end, variants: seen.len() }
        };
        Learnt {
            length,
            messages: messages.len(),
            r#static: known(length, holes.iter().cloned()),
            front: front(length, holes.iter().cloned()),
            blocks: touched(holes.iter().cloned()),
            holes: holes.iter().map(variants).collect(),
            first: messages.into_iter().next().unwrap_or_default(),
        }
    };
    lengths.into_iter().map(one).collect()
}

fn say(learnt: &[Learnt]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for Learnt { length, messages, r#static, front, blocks, holes, first } in learnt {
        let _ = writeln!(
            text,
            "{length} bytes{}",
            if *messages == 2 && holes.iter().all(|hole| hole.variants == 0) {
                String::new()
            } else {
                format!(", {messages} messages")
            }
        );
        if *messages < 2 {
            let _ = writeln!(text, "  one alone says nothing\n");
            continue;
        }
        let _ = writeln!(
            text,
            "  static       {} bytes ({:.0} %)",
            r#static,
            100.0 * *r#static as f64 / (*length).max(1) as f64
        );
        let _ =
            writeln!(text, "  front        {front} bytes: the template of a cipher with a serial MAC (CCM)");
        let _ = writeln!(
            text,
            "  to do late   {blocks} multiplications with GCM or ChaCha20-Poly1305, {} of {} blocks with CCM",
            length.div_ceil(16) - front / 16,
            length.div_ceil(16)
        );
        for Place { start, end, variants } in holes {
            let _ = writeln!(
                text,
                "  hole         {start}..{end}{}",
                if *variants > 0 { format!(", {variants} variants") } else { String::new() }
            );
        }
        let _ = writeln!(text);
        for (at, row) in first.chunks(16).enumerate() {
            let moves = |place: usize| holes.iter().any(|hole| (hole.start..hole.end).contains(&place));
            let mut digits = String::new();
            let mut letters = String::new();
            for (i, octet) in row.iter().enumerate() {
                let place = 16 * at + i;
                let _ = if moves(place) { write!(digits, " ..") } else { write!(digits, " {octet:02x}") };
                letters.push(if moves(place) {
                    '_'
                } else if octet.is_ascii_graphic() || *octet == b' ' {
                    char::from(*octet)
                } else {
                    '.'
                });
            }
            let _ = writeln!(text, "  {:04x} {digits:48}  {letters}", 16 * at);
        }
        let _ = writeln!(text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_learnt_apart() {
        let messages = ["t=20.5", "t=21.7", "t=9"].map(|text| text.as_bytes().to_vec()).to_vec();
        let learnt = learn(messages, 1);
        assert_eq!(
            learnt.iter().map(|l| (l.length, l.messages, l.front)).collect::<Vec<_>>(),
            [(3, 1, 3), (6, 2, 3)]
        );
        assert_eq!((learnt[1].holes[0].start, learnt[1].holes[0].end, learnt[1].r#static), (3, 6, 3));
        assert!(say(&learnt).contains("one alone says nothing"));
        assert!(say(&learnt).contains("t=2___"), "{}", say(&learnt));
    }

    #[test]
    fn hex_takes_spaces_and_comments() {
        assert_eq!(hex(b"01 aB # a message"), Some(vec![1, 0xab]));
        assert_eq!((hex(b"1"), hex(b"0x12")), (None, None));
    }
}
