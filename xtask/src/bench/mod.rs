//! `cargo xtask bench gateway`: what the gateway costs, beside plain bridges and OpenVPN, measured in one run.
//!
//! All contenders take turns in every one of many short rounds, so that what else happens on the machine meets them alike.
//! Percentiles are those of all rounds pooled, rates and ratios the median of the rounds (of tails beyond p99 the ratio
//! of the pooled ones). Nothing is repeated until it looks right.

use crate::report::Report;
use crate::sandbox;
use crate::setup::{self, Purpose};
use crate::shell::{build_release, cache};
use goals::Goal;
use serde_json::{Value, json};

mod aead;
mod cpu;
mod cycles;
mod goals;
mod meter;
pub(crate) use meter::report as station_report;
mod openvpn;
mod paths;
mod roundtrips;
mod tcp;

/// How long each part takes.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Rounds in which all contenders take turns.
    rounds: usize,
    /// Further rounds of round trips in which our daemon with protection and without take turns alone: what protection costs is the
    /// smallest difference that is asked for, and a tail of a hundredth differs by a tenth from round to round.
    rounds_of_two: usize,
    /// Round trips of a series back to back.
    dense: u64,
    /// Round trips of a paced series.
    paced: u64,
    /// Rounds of TCP transfers, and the seconds of one.
    tcp_rounds: usize,
    tcp_seconds: u32,
    /// Slices of a cyclic exchange, in which the contenders take turns, and the seconds of one.
    cycle_slices: usize,
    cycle_seconds: f64,
    /// Seconds over which CPU time is counted.
    cpu_seconds: f64,
}

const FULL: Plan = Plan {
    rounds: 24,
    rounds_of_two: 48,
    dense: 2_000,
    paced: 850,
    tcp_rounds: 12,
    tcp_seconds: 3,
    cycle_slices: 12,
    cycle_seconds: 5.0,
    cpu_seconds: 30.0,
};
const QUICK: Plan = Plan {
    rounds: 3,
    rounds_of_two: 0,
    dense: 3_000,
    paced: 500,
    tcp_rounds: 3,
    tcp_seconds: 2,
    cycle_slices: 1,
    cycle_seconds: 4.0,
    cpu_seconds: 5.0,
};

const PARTS: [&str; 4] = ["roundtrips", "tcp", "cycles", "cpu"];

/// Parses `gateway [--quick] [--only PART]...` and measures; `aead` has a file of its own.
pub(crate) fn main(args: &[String]) -> Result<bool, String> {
    let usage = || format!("bench gateway [--quick] [--only {}]..., or bench aead", PARTS.join("|"));
    let (what, rest) = args.split_first().ok_or_else(usage)?;
    match what.as_str() {
        "gateway" => {}
        "aead" => return aead::main(rest),
        _ => return Err(usage()),
    }
    let (mut plan, mut only) = (FULL, Vec::new());
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => plan = QUICK,
            "--only" => {
                only.push(words.next().filter(|p| PARTS.contains(&p.as_str())).ok_or_else(usage)?.as_str())
            }
            _ => return Err(usage()),
        }
    }
    if !sandbox::inside() {
        setup::ensure(Purpose::Bench)?;
        build_release()?;
    }
    if let Some(verdict) = sandbox::enter()? {
        return Ok(verdict);
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err("this needs two cores: a side of the path on each".into());
    }
    gateway(plan, |part| only.is_empty() || only.contains(&part))
}

fn gateway(plan: Plan, wanted: impl Fn(&str) -> bool) -> Result<bool, String> {
    let mut report = Report::default();
    let mut goals: Vec<Goal> = Vec::new();
    let mut result = json!({
        "experiment": "gateway", "antedate": env!("CARGO_PKG_VERSION"), "machine": machine(),
        "method": "contenders take turns in every round; percentiles over all rounds pooled, a lost round trip taken for longer than all others; rates, and ratios up to p99, as median of the rounds",
        "rounds": plan.rounds,
        "rounds_of_two": plan.rounds_of_two,
    });
    type Part = fn(Plan, &mut Vec<Goal>) -> Result<Value, String>;
    let parts: [(&str, Part); 4] =
        [("roundtrips", roundtrips::run), ("tcp", tcp::run), ("cycles", cycles::run), ("cpu", cpu::run)];
    for (name, part) in parts {
        if wanted(name) {
            report.step(name, || {
                result[name] = part(plan, &mut goals)?;
                Ok(String::new())
            });
        }
    }
    result["goals"] = goals.iter().map(Goal::json).collect();
    let file = cache("bench")?.join("gateway.json");
    std::fs::write(&file, format!("{result:#}\n")).map_err(|e| format!("{}: {e}", file.display()))?;
    goals::print(&goals);
    println!("\nall numbers: {}", file.display());
    let done = report.finish();
    Ok(done && goals.iter().all(|g| g.met))
}

fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .map(|m| m.trim_start_matches([' ', '\t', ':']));
    json!({
        "cpu": model, "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": read("/proc/sys/kernel/osrelease").trim(), "openvpn": openvpn::version(),
        "load_before": read("/proc/loadavg").trim(),
    })
}

/// The middle one; of two middle ones the lower.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}
