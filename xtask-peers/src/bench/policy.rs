//! `cargo xtask bench policy`: instructions of the policy's decision on a frame, by number of rules,
//! and of the watch of its flow, by number of flows.
//!
//! Instructions repeat from run to run, so that a single run decides (Valgrind's callgrind).

use super::figure;
use antedate_figure::axis::Kind;
use antedate_figure::chart::{self, Curve, Texts};
use std::path::PathBuf;
use xtask::setup;
use xtask::shell::{Run, cache, cargo, program, target};

const VALGRIND: (&str, &str) = ("valgrind", "counts instructions");
/// The numbers of rules: the goal compares the last but one with the first.
const RULES: [u64; 4] = [1, 10, 100, 900];
const FRAMES: [(&str, &str); 3] =
    [("profinet", "cyclic Profinet"), ("tagged", "cyclic Profinet, tagged"), ("rpc", "UDP on 34964")];
const ROUNDS: u64 = 20_000;
/// Numbers of watched flows, each a divisor of the rounds.
const FLOWS: [u64; 3] = [1, 10, 100];
/// The most instructions that 100 rules may cost beyond one rule: 20 ns of a core at 3 GHz with two
/// instructions a cycle.
const GOAL: u64 = 120;

const TITLE: &str = "Instructions of the policy's decision on a frame";

/// Arguments of `cargo xtask bench policy`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Draw the instructions to this file (SVG)
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
}

/// Counts; false if the goal was missed.
pub(crate) fn main(arguments: &Arguments) -> Result<bool, String> {
    figure::free(arguments.figure.as_deref())?;
    let mut curves: Vec<Curve<'_>> = Vec::new();
    if !std::path::Path::new("/usr/bin/valgrind").exists() {
        setup::packages(&[VALGRIND])?;
    }
    let mut build = cargo();
    build.args(["build", "--quiet", "--locked", "--release", "--package", "antedate-gateway"]);
    build.args(["--example", "policy_cost", "--example", "flow_cost"]).bounded(900)?;
    println!("instructions a frame{}", RULES.map(|rules| format!("{rules:>7} rules")).concat());
    let mut reached = true;
    for (frame, text) in FRAMES {
        let mut counts = [0; RULES.len()];
        for (rules, count) in RULES.iter().zip(&mut counts) {
            // The start of the program and the compilation of the rules are in both.
            let arguments = |rounds: u64| [rules.to_string(), frame.to_owned(), rounds.to_string()];
            let [once, twice] =
                [ROUNDS, 2 * ROUNDS].map(|rounds| collected("policy_cost", &arguments(rounds)));
            *count = twice?.saturating_sub(once?) / ROUNDS;
        }
        println!("{text:20}{}", counts.map(|count| format!("{count:>13}")).concat());
        curves.push((text, curves.len(), points(&RULES, &counts)));
        let more = counts[2].saturating_sub(counts[0]);
        if more > GOAL {
            println!("   MISSED: 100 rules cost {more} instructions more than one, at most {GOAL} wanted");
            reached = false;
        }
    }
    let rules = drawn("policy, by number of rules", "rules", &curves);
    curves.clear();
    println!("instructions a cyclic frame{}", FLOWS.map(|flows| format!("{flows:>6} flows")).concat());
    for (watch, name) in [("off", "not watched"), ("on", "watched")] {
        let mut counts = [0; FLOWS.len()];
        for (flows, count) in FLOWS.iter().zip(&mut counts) {
            let arguments = |rounds: u64| [flows.to_string(), rounds.to_string(), watch.to_owned()];
            let [once, twice] =
                [ROUNDS, 2 * ROUNDS].map(|rounds| collected("flow_cost", &arguments(rounds / flows)));
            *count = twice?.saturating_sub(once?) / ROUNDS;
        }
        println!("policy, watch {watch:13}{}", counts.map(|count| format!("{count:>12}")).concat());
        curves.push((name, curves.len(), points(&FLOWS, &counts)));
    }
    if let Some(file) = &arguments.figure {
        let flows = drawn("policy and watch, by number of flows", "flows", &curves);
        let texts =
            Texts { title: TITLE, axis: "", description: "Two charts of curves over a logarithmic axis." };
        figure::write(file, &chart::column(&texts, &[rules, flows]))?;
    }
    Ok(reached)
}

fn points(numbers: &[u64], counts: &[u64]) -> Vec<[f64; 2]> {
    numbers.iter().zip(counts).map(|(number, count)| [*number as f64, *count as f64]).collect()
}

/// A chart with its heading.
fn drawn(heading: &str, across: &str, curves: &[Curve<'_>]) -> (String, String) {
    let texts = Texts { title: heading, axis: "instructions of a frame", description: TITLE };
    (heading.to_owned(), chart::curves(&texts, across, [Kind::Logarithmic, Kind::Linear], curves))
}

/// Instructions of a whole run of an example.
fn collected(example: &str, arguments: &[String]) -> Result<u64, String> {
    let file = cache("bench")?.join("callgrind.policy");
    let mut run = program("valgrind");
    run.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", file.display()));
    run.arg(target().join("release/examples").join(example));
    run.args(arguments).read(300)?;
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
    total.ok_or_else(|| format!("{}: no totals", file.display()))
}
