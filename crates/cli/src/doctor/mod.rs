//! `antedate doctor [FILE]`: what this machine lacks, and what will make frames late.

mod examine;
mod facts;

use std::fmt::Write;
use std::path::PathBuf;

use antedate_gateway::config::{Checked, Poll, check, machine::ThisMachine};
use antedate_host::fault::Fault;
use clap::Args;
use serde::Serialize;

use self::examine::{Wanted, examine};
use self::facts::Facts;
use crate::failure::{Done, Failure};
use crate::output;

#[derive(Args)]
#[command(after_help = "\
Exit status: 0 nothing found, 1 something will hurt, 2 something is missing.
Examples:
  antedate doctor                                        the machine
  sudo -u antedate antedate doctor /etc/antedate/gateway.toml   the machine for this gateway, and its files
  antedate doctor --json | jq '.[] | select(.level == \"hurts\")'")]
pub(crate) struct Doctor {
    /// The configuration of a gateway: its CPUs, ports, files and rights are examined too.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Write the findings as JSON to FILE, or to standard output without one.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// How bad a finding is, better ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    /// Examined, and as it should be.
    Good,
    /// Good to know.
    Note,
    /// Frames will be late or lost, or keys less safe.
    Hurts,
    /// Something does not work without it.
    Missing,
}

/// The result of an examination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    /// The subject.
    name: &'static str,
    level: Level,
    what: String,
    /// Empty where none is needed.
    remedy: String,
}

impl Doctor {
    pub(crate) fn run(self) -> Done {
        let (wanted, mut findings) = match &self.file {
            Some(file) => match check(file, &ThisMachine) {
                Ok(checked) => (wanted(&checked), warnings(&checked)),
                Err(faults) => {
                    let missing = faults.iter().map(|fault| of_file(fault, Level::Missing));
                    (Wanted::default(), missing.collect())
                }
            },
            None => (Wanted::default(), Vec::new()),
        };
        findings.extend(examine(&Facts::of_this_machine(&wanted.ports), &wanted));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        match &self.json {
            Some(file) => output::json(file, &findings)?,
            None => output::print(&page(&findings))?,
        }
        match findings.first().map(|worst| worst.level) {
            Some(Level::Missing) => Err(Failure::State(2)),
            Some(Level::Hurts) => Err(Failure::State(1)),
            _ => Ok(()),
        }
    }
}

/// What a configuration asks of the machine.
fn wanted(checked: &Checked) -> Wanted {
    let run = &checked.config.run;
    Wanted {
        cpus: run.threads.cpus().into_iter().flatten().collect(),
        is_polling: run.poll != Poll::Block,
        priority: run.priority,
        ports: vec![checked.field.name.clone(), checked.uplink.name.clone()],
    }
}

/// A fault or warning of the files.
fn of_file(fault: &Fault, level: Level) -> Finding {
    let what = Fault { remedy: String::new(), ..fault.clone() }.to_string();
    Finding { name: "files", level, what, remedy: fault.remedy.clone() }
}

fn warnings(checked: &Checked) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        checked.warnings.iter().map(|warning| of_file(warning, Level::Hurts)).collect();
    let what = format!("{}: ready to run", checked.config.file.display());
    found.push(Finding { name: "files", level: Level::Good, what, remedy: String::new() });
    found
}

fn page(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { name, level, what, remedy } in findings {
        let level = match level {
            Level::Missing => "MISSING",
            Level::Hurts => "hurts",
            Level::Note => "note",
            Level::Good => "good",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{level:<8} {name:<12} {what}");
        if !remedy.is_empty() {
            let _ = writeln!(text, "{:<21} remedy: {remedy}", "");
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let _ = writeln!(text, "{} missing, {} will hurt", count(Level::Missing), count(Level::Hurts));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_the_remedy_of_each_finding() {
        let finding = |level, what: &str, remedy: &str| Finding {
            name: "clock",
            level,
            what: what.to_owned(),
            remedy: remedy.to_owned(),
        };
        let text = page(&[
            finding(Level::Hurts, "nothing sets it", "apt install chrony"),
            finding(Level::Good, "x", ""),
        ]);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "hurts    clock        nothing sets it",
                "remedy: apt install chrony",
                "good     clock        x",
                "0 missing, 1 will hurt"
            ]
        );
    }
}
