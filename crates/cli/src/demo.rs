//! `antedate demo`.

mod figure;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;

use antedate_lab::demo::scenario::Scenario;
use antedate_lab::demo::{self, Options, Ports, Secure, redundant};
use clap::{Args, ValueEnum, value_parser};

use serde::Serialize;

use crate::failure::{Done, Failure, ValueError};
use crate::output::{self, Kind};

/// The longest demonstration in seconds: a week.
const LONGEST: f64 = 7.0 * 86_400.0;

/// The plant of a demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Topology {
    /// one gateway a side
    Pair,
    /// two gateways a side that stand by for one another, and two uplinks
    Redundant,
}

#[derive(Args)]
pub(crate) struct Demo {
    /// The plant: pair, or redundant with faults of its own
    #[arg(long, value_name = "PLANT", default_value = "pair", hide_possible_values = true)]
    topology: Topology,
    /// With --topology redundant: how often each fault strikes
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = value_parser!(u16).range(1..=1_000))]
    rounds: u16,
    /// Protection of the wire: macsec; overlay, in VXLAN through WireGuard; none, by the same
    /// gateways without protection; or bridge, by plain Linux bridges
    #[arg(long, value_name = "HOW", default_value = "macsec")]
    secure: Secure,
    /// The update time in microseconds, 250 to 512000
    #[arg(long, value_name = "MICROSECONDS", default_value_t = Options::default().cycle_us)]
    cycle_us: u32,
    /// Seconds of undisturbed operation
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = milliseconds)]
    seconds: u64,
    /// Octets of a cyclic frame, without its frame check sequence
    #[arg(long, value_name = "OCTETS", default_value_t = Options::default().frame_bytes)]
    frame_bytes: usize,
    /// The MTU of the wire, 128 and more; longer frames cross it in fragments
    #[arg(long, value_name = "OCTETS")]
    mtu: Option<u16>,
    /// Gives cyclic frames an express channel, which passes between the fragments of other frames
    #[arg(long)]
    express: bool,
    /// Faults afterwards: none, all, or names separated by commas; see below
    #[arg(long, value_name = "LIST", default_value = "none", num_args = 0..=1, default_missing_value = "all")]
    faults: String,
    /// Seed that decides which frames the faults strike
    #[arg(long, value_name = "NUMBER", default_value_t = Options::default().seed)]
    seed: u64,
    /// Records all frames that the gateways put on the wire
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// One gateway on real interfaces instead of the virtual plant: field=eth1,uplink=eth0,keys=FILE
    #[arg(long, value_name = "PORTS")]
    ports: Option<Ports>,
    /// With --ports: no gateway has used these keys, so their packet numbers begin at 1
    #[arg(long, requires = "ports")]
    first: bool,
    /// Shows the pages of the gateways on this address of loopback and the next port, as `[page]` does
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:9465")]
    page: Option<SocketAddr>,
    /// Writes the verdict as JSON to FILE, or to standard output without one
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Draws the delays as SVG: round trips, ways and intervals, or the gaps of each fault
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
}

impl Demo {
    pub(crate) fn run(self) -> Done {
        let faults = Scenario::parse_list(&self.faults)
            .map_err(|what| Failure::usage(format!("--faults: {what}"), "see antedate demo --help"))?;
        let json_only = self.json.as_ref().is_some_and(|file| file.as_os_str() == "-");
        if let Some(file) = self.json.as_ref().filter(|_| !json_only) {
            output::writable("--json", Kind::Json("passed"), file)?;
        }
        if let Some(file) = &self.figure {
            output::writable("--figure", output::SVG, file)?;
        }
        if let Some(file) = &self.pcap {
            output::writable("--pcap", Kind::Capture, file)?;
        }
        let options = Options {
            secure: self.secure,
            cycle_us: self.cycle_us,
            milliseconds: self.seconds,
            frame_bytes: self.frame_bytes,
            mtu: self.mtu,
            express: self.express,
            faults,
            seed: self.seed,
            pcap: self.pcap,
            ports: self.ports,
            first: self.first,
            live: std::io::stdout().is_terminal() && !json_only,
            page: self.page,
        };
        if self.topology == Topology::Redundant {
            let outcome = redundant::run(&options, self.rounds.into()).map_err(failure)?;
            let redundant::Report { passed, interrupted, .. } = outcome.report;
            draw(self.figure, || figure::of_gaps(&outcome.report))?;
            return tell(&outcome.text, &outcome.report, (passed, interrupted), self.json);
        }
        let outcome = demo::run(&options).map_err(failure)?;
        draw(self.figure, || figure::of_delays(&outcome.report))?;
        tell(&outcome.text, &outcome.report, (outcome.passed, outcome.report.interrupted), self.json)
    }
}

/// Writes the figure, if it is wanted.
fn draw(file: Option<PathBuf>, figure: impl FnOnce() -> String) -> Done {
    file.map_or(Ok(()), |file| output::replace("--figure", output::SVG, &file, &figure()))
}

/// Prints a verdict, or writes it.
fn tell(
    text: &str,
    report: &impl Serialize,
    (passed, interrupted): (bool, bool),
    json: Option<PathBuf>,
) -> Done {
    if json.as_ref().is_none_or(|file| file.as_os_str() != "-") {
        output::print(&format!("{}\n", text.trim_end()))?;
    }
    if let Some(file) = json {
        output::json(&file, report)?;
    }
    if passed {
        return Ok(());
    }
    let how = if interrupted { "interrupted, which is no verdict" } else { "failed" };
    Err(Failure::Verdict(format!("the demonstration's verdict is: {how}")))
}

fn failure(error: demo::DemoError) -> Failure {
    let remedy = match &error {
        demo::DemoError::Usage(_) => "see antedate demo --help",
        // The message has its own remedy.
        demo::DemoError::Namespaces(_) => "",
        demo::DemoError::Start(_) | demo::DemoError::Process { .. } => {
            "run it again with RUST_LOG=debug, or see `ulimit -a`"
        }
    };
    Failure::usage(error.to_string(), remedy)
}

fn milliseconds(text: &str) -> Result<u64, ValueError> {
    let seconds: f64 =
        text.parse().map_err(|_| ValueError::new("give seconds as a number, e.g. 20 or 0.5"))?;
    if !(0.1..=LONGEST).contains(&seconds) {
        return Err(ValueError::new(format!("give 0.1 to {LONGEST} seconds")));
    }
    Ok((seconds * 1_000.0).round() as u64)
}

/// The faults of `--faults`, for the end of the help text.
pub(crate) fn faults_help() -> String {
    let mut help = "Faults:\n".to_owned();
    for scenario in Scenario::all() {
        help.push_str(&format!("  {:<16} {}\n", scenario.name(), scenario.describe()));
    }
    help.push_str("  kill             kill-a and kill-b\n\n");
    help.push_str("Exit status: 0 the verdict is good, 1 it is not, 2 there is none.\n\n");
    help.push_str(
        "Examples:\n  antedate demo\n  antedate demo --secure overlay --faults all --json demo.json --figure demo.svg\n  \
         antedate demo --topology redundant --cycle-us 1000 --rounds 5\n  antedate demo --seconds 600 --page",
    );
    help
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_seconds_are_bounded() {
        assert_eq!(milliseconds("0.25"), Ok(250));
        assert_eq!(milliseconds("20"), Ok(20_000));
        for text in ["0", "-1", "NaN", "inf", "1e9", "x", ""] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_help_names_every_fault() {
        let help = faults_help();
        assert!(Scenario::all().all(|scenario| help.contains(scenario.name())));
    }
}
