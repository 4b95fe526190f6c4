//! The same run for each class of CPUs, and what each shows.

use crate::class::{ALL, Class, VARIABLE};
use crate::{Plan, field};
use serde_json::{Value, json};
use std::fmt::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;

fn this() -> Result<Command, String> {
    Ok(Command::new(std::env::current_exe().map_err(|error| format!("this program: {error}"))?))
}

/// Goes on as a process that sees the CPU of a class.
pub fn again(class: &Class) -> Result<bool, String> {
    let error = this()?.args(std::env::args_os().skip(1)).env(VARIABLE, class.name).exec();
    Err(format!("this program again: {error}"))
}

/// Measures each class that this CPU can be, and prints a table over all.
pub fn run(plan: &Plan) -> Result<bool, String> {
    let (mut runs, mut text) = (Vec::new(), String::new());
    for class in &ALL {
        let file =
            std::env::temp_dir().join(format!("antedate-bench-{}-{}.json", std::process::id(), class.name));
        let mut command = this()?;
        command.args(plan.arguments()).args(["--class", class.name, "--json"]).arg(&file);
        let status = command.status().map_err(|error| format!("class {}: {error}", class.name))?;
        let result =
            std::fs::read(&file).ok().and_then(|octets| serde_json::from_slice::<Value>(&octets).ok());
        let _ = std::fs::remove_file(&file);
        match result {
            Some(result) if status.code().is_some_and(|code| code < 2) => {
                write!(text, "\n{}: {}\n\n{}", class.name, class.what, table(&result))
                    .map_err(|e| e.to_string())?;
                runs.push(result);
            }
            // It has said why, unless a signal ended it.
            _ => eprintln!("antedate-bench: no result of class {}: {status}", class.name),
        }
    }
    if runs.is_empty() {
        return Err("no class was measured".into());
    }
    println!("{text}");
    if let Some(file) = &plan.json {
        let result = json!({ "experiment": "bench aead classes", "classes": runs });
        std::fs::write(file, format!("{result:#}\n")).map_err(|error| format!("{file}: {error}"))?;
    }
    let missed = |run: &Value| run["goals"].as_array().is_some_and(|goals| goals.iter().any(is_missed));
    Ok(!runs.iter().any(missed))
}

fn is_missed(goal: &Value) -> bool {
    goal["value"].is_number() && goal["met"] == false
}

/// Lengths of the table.
const LENS: [u64; 2] = [64, 1500];

/// A class's table in Markdown: a line for each cipher and length.
fn table(result: &Value) -> String {
    let none = Vec::new();
    let rows = result["rows"].as_array().unwrap_or(&none);
    let mut text = String::from(
        "| cipher, payload | fastest peer seals | ours | opens | ours | all new | 1 new |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for discipline in field::ALL {
        for len in LENS {
            let of = |what: &str, ours: bool| {
                let rows = rows.iter().filter(|row| {
                    row["cipher"] == discipline.cipher
                        && row["payload"] == len
                        && row["what"] == what
                        && (row["who"] == crate::ours::WHO) == ours
                });
                let times = rows.filter_map(|row| Some((row["median_ns"].as_f64()?, row["who"].as_str()?)));
                times.min_by(|a, b| a.0.total_cmp(&b.0))
            };
            if of("seal", true).is_none() {
                continue;
            }
            let peer = |what| of(what, false).map_or("-".into(), |(time, who)| format!("{time:.0} ({who})"));
            let ours = |what| of(what, true).map_or("-".into(), |(time, _)| format!("{time:.0}"));
            let _ = writeln!(
                text,
                "| {}, {len} | {} | {} | {} | {} | {} | {} |",
                discipline.cipher,
                peer("seal"),
                ours("seal"),
                peer("open"),
                ours("open"),
                ours("seal, prepared, all new"),
                ours("seal, prepared, 1 new"),
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_the_fastest_peer_and_ours() {
        let row = |who: &str, what: &str, time: f64| json!({ "cipher": "aes-128-gcm", "payload": 64, "who": who, "what": what, "median_ns": time });
        let rows = [
            row("ring", "seal", 90.0),
            row("aws-lc-rs", "seal", 80.0),
            row("antedate", "seal", 31.0),
            row("antedate", "seal, prepared, all new", 16.0),
        ];
        let text = table(&json!({ "rows": rows }));
        assert!(text.ends_with("| aes-128-gcm, 64 | 80 (aws-lc-rs) | 31 | - | - | 16 | - |\n"), "{text}");
    }

    #[test]
    fn only_a_measured_goal_is_missed() {
        assert!(is_missed(&json!({ "value": 1.5, "met": false })));
        assert!(!is_missed(&json!({ "value": null, "met": false })));
        assert!(!is_missed(&json!({ "value": 0.9, "met": true })));
    }
}
