//! `antedate plan`.

use std::fs;
use std::path::{Path, PathBuf};

use antedate_host::fault::Fault;
use clap::Args;

use crate::failure::{Done, Failure};
use crate::output::{self, Kind};

mod budget;
mod calibrate;
mod document;
mod figure;
mod labels;
mod page;
mod sweep;
mod tsch;
#[cfg(feature = "lab")]
mod verify;

/// Check whether a scenario meets its deadlines, and find what would help.
///
/// For a file with `[[message]]` the answer has margin, breakdown, limit, the cheapest change that
/// helps, energy and memory. For one with a slotframe it has the shortest TSCH slot and each flow's
/// rate, latency and energy. Exit status 1 if a deadline is missed.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  antedate plan docs/examples/plan/table-1.toml\n  antedate plan cell.toml --sweep size=16..1500 --csv cell.csv --figure cell.svg\n  antedate plan cell.toml --html cell.html --figure cell.svg\n  antedate plan --calibrate --out here.toml\n  antedate plan --verify --json verified.json"
)]
pub(crate) struct Plan {
    /// The scenario, in TOML
    #[cfg_attr(feature = "lab", arg(value_name = "FILE", required_unless_present_any = ["calibrate", "verify"]))]
    #[cfg_attr(not(feature = "lab"), arg(value_name = "FILE", required_unless_present = "calibrate"))]
    file: Option<PathBuf>,
    /// Writes the answer as JSON to FILE, or to standard output without one
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Writes the answer as one HTML page with a figure
    #[arg(long, value_name = "FILE", conflicts_with = "sweep")]
    html: Option<PathBuf>,
    /// Answers for each value of payload (or size), static, period or deadline in the range, and prints CSV
    #[arg(long, value_name = "WHAT=FROM..TO[,STEP]", conflicts_with = "json")]
    sweep: Option<sweep::Sweep>,
    /// Writes the CSV of a sweep to FILE instead of standard output
    #[arg(long, value_name = "FILE", requires = "sweep")]
    csv: Option<PathBuf>,
    /// Draws the answer as SVG: each message's latency by its parts, or the curves of a sweep
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    /// Measures this machine and writes a platform file, which a scenario names by its path
    #[arg(long, conflicts_with_all = ["file", "json", "html", "sweep", "figure"])]
    calibrate: bool,
    /// Measures other packets as well and compares each with its prediction; exit status 1 if one
    /// is off by more than 10 %
    #[arg(long, requires = "calibrate", conflicts_with = "file")]
    check: bool,
    /// Writes the platform file to FILE instead of standard output
    #[arg(long, value_name = "FILE", requires = "calibrate", conflicts_with = "file")]
    out: Option<PathBuf>,
    /// Plans 30 points of the laboratory (motes, applications of this machine, DTLS proxies), and
    /// measures them; exit status 1 if a median is off by more than 10 % or a 99.9th percentile is above
    /// the planner's bound. Takes two minutes
    #[cfg(feature = "lab")]
    #[arg(long, conflicts_with_all = ["file", "html", "sweep", "figure", "calibrate"])]
    verify: bool,
    /// Shorter series, judged together: a smoke test, not a measurement
    #[cfg(feature = "lab")]
    #[arg(long, requires = "verify")]
    quick: bool,
}

impl Plan {
    pub(crate) fn run(self) -> Done {
        #[cfg(feature = "lab")]
        if self.verify {
            // It takes a while, so the file is checked first.
            if let Some(json) = self.json.as_deref().filter(|json| *json != Path::new("-")) {
                output::writable("--json", Kind::Json("verified"), json)?;
            }
            return verify::run(self.quick, self.json.as_deref());
        }
        let Some(file) = &self.file else { return calibrate::run(self.out.as_deref(), self.check) };
        let fault = |what: String, remedy: &str| Failure::from(Fault::of_file(file, what, remedy));
        // Of several files, as of `--json *.toml`, the first would be the output.
        if let Some(json) = self.json.as_deref().filter(|json| *json != Path::new("-")) {
            output::writable("--json", Kind::Json(""), json)?;
        }
        if let Some(html) = &self.html {
            output::writable("--html", Kind::Text(page::HEAD), html)?;
        }
        if let Some(figure) = &self.figure {
            output::writable("--figure", output::SVG, figure)?;
        }
        let text = fs::read_to_string(file)
            .map_err(|error| fault(format!("cannot be read: {error}"), "give a file that is there"))?;
        let table: toml::Table = text
            .parse()
            .map_err(|error| at_its_line(file, &text, &error, error.message(), "write it as TOML"))?;
        if table.contains_key("slotframe") && !table.contains_key("message") {
            if self.sweep.is_some() {
                return Err(fault("a slotframe cannot be swept".into(), "give a file with [[message]]"));
            }
            if self.html.is_some() {
                return Err(fault("a slotframe has no page".into(), "give a file with [[message]]"));
            }
            if self.figure.is_some() {
                return Err(fault("a slotframe has no figure".into(), "give a file with [[message]]"));
            }
            return tsch::run(file, &text, self.json.as_deref());
        }
        let document = document::read(file, &text)?;
        match &self.sweep {
            Some(sweep) => sweep::run(&document, sweep, self.csv.as_deref(), self.figure.as_deref()),
            None => {
                budget::run(&document, self.json.as_deref(), self.html.as_deref(), self.figure.as_deref())
            }
        }
    }
}

/// A fault of a file with its line.
fn at_its_line(file: &Path, text: &str, error: &toml::de::Error, what: &str, remedy: &str) -> Failure {
    let newlines = |end: usize| text.bytes().take(end).filter(|octet| *octet == b'\n').count();
    let line = error.span().map(|span| 1 + newlines(span.start));
    Fault { line, ..Fault::of_file(file, what, remedy) }.into()
}
