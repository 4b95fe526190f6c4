//! `cargo xtask bench gateway`: the gateway beside bridges and other tunnels, in one run.
//!
//! All contenders take turns in many short rounds, so that the machine's load affects them alike.
//! Percentiles pool all rounds; rates and ratios are medians of the rounds, except for tails beyond
//! p99. Medians have goals, tails have none. No round is repeated.

use clap::builder::PossibleValuesParser;
use goals::Goal;
use record::Record;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use xtask::report::Report;
use xtask::sandbox;
use xtask::setup::{self, Purpose};
use xtask::shell::build_antedate;

mod aead;
mod builds;
mod counts;
mod cpu;
mod cycles;
mod dtls;
mod express;
mod figure;
mod goals;
mod hub;
mod meter;
mod openvpn;
mod page;
mod paths;
mod placement;
mod policy;
mod rates;
mod record;
mod roundtrips;
mod scale;
mod tcp;
mod vxlan;
mod watched;

/// The length of each part.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// The name of its result files.
    name: &'static str,
    /// Tries of each placement; the placements take turns.
    tries: usize,
    /// Rounds in which all contenders take turns.
    rounds: usize,
    /// Further rounds of round trips, in which our daemon runs with and without protection. The
    /// cost of protection is the smallest difference measured, and the tail of a hundredth varies
    /// by a tenth from round to round.
    rounds_of_two: usize,
    /// Round trips of a back-to-back series.
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
    /// Seconds of a trial of frames a second, and the lengths of these frames.
    rate_seconds: f64,
    rate_sizes: &'static [u32],
    /// Rounds in which numbers of workers take turns.
    scale_rounds: usize,
    /// Numbers of DTLS sessions, rounds in which they take turns, and the round trips of one.
    dtls_sessions: &'static [usize],
    dtls_rounds: usize,
    dtls_round_trips: usize,
}

impl Plan {
    fn json(&self) -> Value {
        json!({ "tries": self.tries, "rounds": self.rounds, "rounds_of_two": self.rounds_of_two, "round_trips_back_to_back": self.dense, "round_trips_paced": self.paced,
                "tcp_rounds": self.tcp_rounds, "tcp_seconds": self.tcp_seconds, "cycle_slices": self.cycle_slices,
                "cycle_seconds": self.cycle_seconds, "cpu_seconds": self.cpu_seconds,
                "rate_seconds": self.rate_seconds, "rate_sizes": self.rate_sizes, "scale_rounds": self.scale_rounds,
                "dtls_sessions": self.dtls_sessions, "dtls_rounds": self.dtls_rounds, "dtls_round_trips": self.dtls_round_trips })
    }
}

const FULL: Plan = Plan {
    name: "gateway",
    tries: 3,
    rounds: 24,
    rounds_of_two: 48,
    dense: 2_000,
    paced: 850,
    tcp_rounds: 12,
    tcp_seconds: 3,
    cycle_slices: 12,
    cycle_seconds: 5.0,
    cpu_seconds: 30.0,
    rate_seconds: 1.0,
    rate_sizes: &[64, 256, 1514],
    scale_rounds: 7,
    dtls_sessions: &[10, 100, 1000, 4000, 10_000],
    dtls_rounds: 30,
    dtls_round_trips: 1000,
};
const QUICK: Plan = Plan {
    name: "gateway-quick",
    tries: 1,
    rounds: 3,
    rounds_of_two: 0,
    dense: 3_000,
    paced: 500,
    tcp_rounds: 3,
    tcp_seconds: 2,
    cycle_slices: 1,
    cycle_seconds: 4.0,
    cpu_seconds: 5.0,
    rate_seconds: 0.2,
    rate_sizes: &[64],
    scale_rounds: 1,
    dtls_sessions: &[10, 400],
    dtls_rounds: 5,
    dtls_round_trips: 500,
};

/// Measures, adds its goals, and returns its rows.
type Part = fn(Plan, &mut Vec<Goal>) -> Result<Value, String>;

const PARTS: [(&str, Part); 10] = [
    ("roundtrips", roundtrips::run),
    ("tcp", tcp::run),
    ("pps", rates::run),
    ("scale", scale::run),
    ("hub", hub::run),
    ("cycles", cycles::run),
    ("express", express::run),
    ("cpu", cpu::run),
    ("watched", watched::run),
    ("dtls", dtls::run),
];

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// The gateway beside bridges and OpenVPN
    Gateway(Arguments),
    /// The engine beside other implementations
    Aead(aead::Arguments),
    /// Round trips through two builds of the gateway, in turns
    Builds(builds::Arguments),
    /// Instructions of the policy's decision on a frame, by number of rules
    Policy(policy::Arguments),
}

/// Arguments of `cargo xtask bench gateway`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Minutes instead of an hour
    #[arg(long)]
    quick: bool,
    /// Do not fail where a goal is missed
    #[arg(long)]
    no_verdict: bool,
    /// Measure this part alone; may be given several times
    #[arg(long, value_name = "PART", value_parser = PossibleValuesParser::new(PARTS.map(|(name, _)| name)))]
    only: Vec<String>,
    /// Write the figure of the round trips to this file too
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
}

/// Measures. False if a part failed or, with a verdict, a goal was missed.
pub(crate) fn main(command: &Command) -> Result<bool, String> {
    let arguments = match command {
        Command::Gateway(arguments) => arguments,
        Command::Aead(arguments) => return aead::main(arguments),
        Command::Builds(arguments) => return builds::main(arguments),
        Command::Policy(arguments) => return policy::main(arguments),
    };
    let Arguments { quick, no_verdict, only, figure } = arguments;
    figure::free(figure.as_deref())?;
    if !sandbox::inside() {
        setup::ensure(Purpose::Bench)?;
        build_antedate()?;
    }
    if let Some(verdict) = sandbox::enter()? {
        return Ok(verdict);
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err("this needs two cores: a side of the path on each".into());
    }
    let plan = if *quick { QUICK } else { FULL };
    let wanted = |part: &str| only.is_empty() || only.iter().any(|name| name == part);
    let met = gateway(plan, wanted, figure.as_deref())?;
    Ok(met.is_some_and(|met| met || *no_verdict))
}

/// True if all goals are met; `None` if a part failed.
fn gateway(plan: Plan, wanted: impl Fn(&str) -> bool, figure: Option<&Path>) -> Result<Option<bool>, String> {
    let mut report = Report::default();
    let mut all: Vec<Goal> = Vec::new();
    // Before the measurements: a file that cannot be read fails here and not after an hour.
    let mut record = Record::open(&plan)?;
    let mut files = Vec::new();
    for (name, part) in PARTS {
        if wanted(name) {
            report.step(name, || {
                let (begun, mut goals) = (record::circumstances(&plan), Vec::new());
                let rows = part(plan, &mut goals)?;
                record.keep(name, begun, rows, goals.iter().map(Goal::json).collect());
                all.append(&mut goals);
                // After each part: a later one may be interrupted.
                files = record.write()?;
                Ok(String::new())
            });
        }
    }
    goals::print(&all);
    println!();
    for (what, file) in ["all numbers", "their tables", "their figure"].into_iter().zip(files) {
        println!("{what}: {}", file.display());
    }
    if let Some(file) = figure {
        figure::write(file, &record.figure().ok_or("no round trips were measured, so there is no figure")?)?;
    }
    let done = report.finish();
    Ok(done.then(|| !all.iter().any(Goal::missed)))
}

/// The median; the lower of two middle values.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}
