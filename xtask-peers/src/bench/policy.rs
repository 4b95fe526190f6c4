//! `cargo xtask bench policy`: instructions of the policy's decision on a frame, by number of rules,
//! and of the watch of its flow, by number of flows.
//!
//! Instructions repeat from run to run, so that a single run decides (Valgrind's callgrind).

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

/// Counts; false if the goal was missed.
pub(crate) fn main() -> Result<bool, String> {
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
        let more = counts[2].saturating_sub(counts[0]);
        if more > GOAL {
            println!("   MISSED: 100 rules cost {more} instructions more than one, at most {GOAL} wanted");
            reached = false;
        }
    }
    println!("instructions a cyclic frame{}", FLOWS.map(|flows| format!("{flows:>6} flows")).concat());
    for watch in ["off", "on"] {
        let mut counts = [0; FLOWS.len()];
        for (flows, count) in FLOWS.iter().zip(&mut counts) {
            let arguments = |rounds: u64| [flows.to_string(), rounds.to_string(), watch.to_owned()];
            let [once, twice] =
                [ROUNDS, 2 * ROUNDS].map(|rounds| collected("flow_cost", &arguments(rounds / flows)));
            *count = twice?.saturating_sub(once?) / ROUNDS;
        }
        println!("policy, watch {watch:13}{}", counts.map(|count| format!("{count:>12}")).concat());
    }
    Ok(reached)
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
