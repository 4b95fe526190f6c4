//! `cargo xtask timing`: the engine's time does not depend on secrets. The program is the workspace
//! `timing/`.

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use xtask::setup::{self, Purpose};
use xtask::shell::{Run, cache, cargo, program};

/// |t| below which two classes of times count as equal (Goodwill and others, 2011).
const GREATEST_T: f64 = 4.5;
/// Samples of a case, and those of the quick form, which judges the control alone.
const SAMPLES: [u64; 2] = [10_000_000, 100_000];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// valgrind's part, and statistics that are too short for a verdict
    #[arg(long)]
    quick: bool,
    /// Write the results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs both parts; true if no secret was seen and all controls were.
pub(crate) fn main(arguments: &Arguments) -> Result<bool, String> {
    setup::ensure(Purpose::Timing)?;
    let judged = run(arguments.quick)?;
    println!("\n{:10} {:20} {:24} {:10} {:>28}", "way", "case", "part", "backend", "seen");
    for row in &judged {
        let [way, case, part, backend] = ["way", "case", "part", "backend"].map(|name| text(row, name));
        println!("{way:10} {case:20} {part:24} {backend:10} {:>28}", seen(row));
    }
    if let Some(file) = &arguments.json {
        write(file, &judged)?;
    }
    let wrong = failures(&judged);
    wrong.iter().for_each(|what| println!("MISSED: {what}"));
    println!("xtask: {} cases, {} missed", judged.len(), wrong.len());
    Ok(wrong.is_empty())
}

/// The quick form, as a step of `cargo xtask test`.
pub(crate) fn check() -> xtask::report::StepResult {
    let judged = run(true)?;
    let wrong = failures(&judged);
    if wrong.is_empty() {
        return Ok(format!("{} cases", judged.len()));
    }
    Err(wrong.join("; ").into())
}

/// The rows of both parts with their verdicts.
fn run(quick: bool) -> Result<Vec<Value>, String> {
    let out = cache("timing")?;
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--manifest-path", "timing/Cargo.toml"]);
    build.env("CARGO_TARGET_DIR", &out).echoed(600)?;
    let antedate = out.join("release/antedate-timing");
    let mut valgrind = program("valgrind");
    // Each error counts, not the first ten million alone.
    valgrind.args(["--quiet", "--error-limit=no"]).arg(&antedate).arg("memcheck");
    let mut rows = judged(&valgrind.read(600)?, "memcheck", true)?;
    let samples = SAMPLES[usize::from(quick)];
    println!("xtask: statistics of {samples} samples a case");
    let said = program(&antedate).args(["statistics", &samples.to_string()]).read(7200)?;
    rows.extend(judged(&said, "statistics", !quick)?);
    Ok(rows)
}

/// Rows of the program's lines. Without `is_long` a statistic is judged for controls alone.
fn judged(said: &str, way: &str, is_long: bool) -> Result<Vec<Value>, String> {
    let rows: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).map_err(|error| format!("{way}: {line}: {error}")))
        .collect::<Result<_, _>>()?;
    if !rows.iter().any(|row| row["case"] == "control") {
        return Err(format!("{way}: it ended before its controls"));
    }
    let judge = |mut row: Value| {
        let leaks = match row["t"].as_f64() {
            Some(t) => t >= GREATEST_T,
            None => row["errors"].as_u64() > row["verdicts"].as_u64(),
        };
        let is_control = row["case"] == "control";
        row["way"] = json!(way);
        row["judged"] = json!(is_long || is_control);
        row["met"] = json!(leaks == is_control);
        row
    };
    Ok(rows.into_iter().map(judge).collect())
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_default()
}

/// The figure of a row.
fn seen(row: &Value) -> String {
    match row["t"].as_f64() {
        Some(t) => format!("|t| {t:.2} of {} samples", row["samples"]),
        None => format!("{} errors, {} verdicts", row["errors"], row["verdicts"]),
    }
}

/// The judged cases that missed.
fn failures(rows: &[Value]) -> Vec<String> {
    let missed = rows.iter().filter(|row| row["judged"] == true && row["met"] != true);
    let name = |row: &Value| {
        let words = ["way", "case", "part", "backend"].map(|name| text(row, name)).join(" ");
        format!("{words}: {}", seen(row))
    };
    missed.map(name).collect()
}

fn write(file: &Path, rows: &[Value]) -> Result<(), String> {
    let result = json!({ "greatest_t": GREATEST_T, "cases": rows });
    fs::write(file, format!("{result:#}\n")).map_err(|e| format!("{}: {e}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leak_fails_and_a_blind_control_too() {
        let line =
            |case: &str, figures: &str| format!(r#"{{"case":"{case}","part":"p","backend":"b",{figures}}}"#);
        let of = |lines: [String; 2], is_long| {
            failures(&judged(&lines.join("\n"), "way", is_long).expect("lines")).len()
        };
        let control = line("control", r#""verdicts":0,"errors":1"#);
        assert_eq!(of([line("a", r#""verdicts":2,"errors":2"#), control.clone()], true), 0);
        assert_eq!(of([line("a", r#""verdicts":2,"errors":3"#), control.clone()], true), 1);
        assert_eq!(of([line("a", r#""samples":9,"t":4.6"#), control.clone()], true), 1);
        assert_eq!(of([line("a", r#""samples":9,"t":4.6"#), control], false), 0, "too short for a verdict");
        let blind = line("control", r#""verdicts":0,"errors":0"#);
        assert_eq!(of([line("a", r#""verdicts":0,"errors":0"#), blind], false), 1);
        assert!(judged(&line("a", r#""verdicts":0,"errors":0"#), "way", true).is_err(), "it ended early");
    }
}
