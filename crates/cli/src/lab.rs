//! `antedate lab`.

use std::path::{Path, PathBuf};

use antedate_experiments::{self as experiments, Experiment, Options};
use antedate_host::fault::Fault;
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::failure::{Done, Failure};
use crate::output::{self, Kind};

/// Options of `antedate lab`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  antedate lab list\n  antedate lab aead --quick\n  antedate lab attack --only mkpdu-replay --json attack.json\n  antedate lab timeslot --figure timeslot.svg\n  antedate lab aead --from report/results/aead.json --figure aead.svg"
)]
pub(crate) struct Lab {
    /// The experiment, or `list` for all names
    #[arg(value_name = "NAME", value_parser = names())]
    name: String,
    /// Shorter series and fewer cases: a smoke test, not a measurement
    #[arg(long)]
    quick: bool,
    /// `nonces`: SIGKILLs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(5..=1_000_000))]
    kills: Option<u32>,
    /// `attack`: the only one to run
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(experiments::attack_names()))]
    only: Option<String>,
    /// `soak`: minutes
    #[arg(long, value_name = "N", conflicts_with = "quick", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    minutes: Option<u32>,
    /// Writes the result as JSON to FILE, or to standard output without one
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Draws the result as SVG: the paper's figure, or a chart for each quantity
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    /// Runs nothing: draws the result that --json wrote, or one of a report's folder
    #[arg(long, value_name = "FILE", requires = "figure", conflicts_with_all = ["json", "quick", "kills", "only", "minutes"])]
    from: Option<PathBuf>,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(["list"].into_iter().chain(experiments::ALL.iter().map(|e| e.name)))
}

impl Lab {
    pub(crate) fn run(self) -> Done {
        match experiments::find(&self.name) {
            None => output::print(&list()),
            Some(experiment) => self.experiment(experiment),
        }
    }

    fn experiment(self, experiment: &Experiment) -> Done {
        // An experiment may take half an hour, so the files are checked first.
        let files =
            [("--json", Kind::Json("experiment"), &self.json), ("--figure", output::SVG, &self.figure)];
        for (option, kind, file) in files {
            if let Some(file) = file.as_ref().filter(|file| option != "--json" || file.as_os_str() != "-") {
                output::writable(option, kind, file)?;
            }
        }
        if let (Some(from), Some(figure)) = (&self.from, &self.figure) {
            return draw(experiment.name, from, figure);
        }
        if self.kills.is_some() && self.name != "nonces" {
            return Err(other_option(&self.name, "--kills", "nonces"));
        }
        if self.only.is_some() && self.name != "attack" {
            return Err(other_option(&self.name, "--only", "attack"));
        }
        if self.minutes.is_some() && self.name != "soak" {
            return Err(other_option(&self.name, "--minutes", "soak"));
        }
        let only = self.only.as_deref().and_then(experiments::attack_named);
        let options = Options { quick: self.quick, kills: self.kills, only, minutes: self.minutes };
        let mut report = (experiment.run)(&options)
            // The message has its own remedy.
            .map_err(|what| Failure::usage(format!("lab {}: {what}", self.name), ""))?;
        report.quick = self.quick;
        if self.json.as_ref().is_none_or(|file| file.as_os_str() != "-") {
            output::print(&report.text())?;
        }
        if let Some(file) = self.json {
            output::json(&file, &report)?;
        }
        if let Some(file) = self.figure {
            let drawn = experiments::figure::of(&report).map_err(|what| {
                Failure::usage(format!("lab {}: {what}", self.name), "leave --figure away")
            })?;
            output::replace("--figure", output::SVG, &file, &drawn)?;
        }
        if report.passed() {
            Ok(())
        } else {
            Err(Failure::Verdict(format!("lab {}: not all held that had to", self.name)))
        }
    }
}

fn other_option(name: &str, option: &str, of: &str) -> Failure {
    Failure::usage(format!("lab {name}: {option} belongs to lab {of}"), format!("leave {option} away"))
}

/// Draws an earlier result.
fn draw(name: &str, from: &Path, figure: &Path) -> Done {
    let fault = |what: String, remedy: &str| Failure::from(Fault::of_file(from, what, remedy));
    let text = std::fs::read_to_string(from)
        .map_err(|error| fault(format!("cannot be read: {error}"), "give a file that is there"))?;
    let drawn = experiments::figure::of_result(name, &text).map_err(|what| {
        fault(what.to_string(), "give the file that `antedate lab NAME --json FILE` wrote, and its NAME")
    })?;
    output::replace("--figure", output::SVG, figure, &drawn)
}

/// Lists the experiments, and the demonstration, which has its own verb.
fn list() -> String {
    let wide = experiments::ALL.iter().map(|experiment| experiment.name.len()).max().unwrap_or(0);
    let mut text = format!("{:<wide$}  {:<17}  what it shows\n", "experiment", "paper");
    for Experiment { name, paper, shows, .. } in experiments::ALL {
        text.push_str(&format!("{name:<wide$}  {paper:<17}  {shows}\n"));
    }
    text.push_str(&format!(
        "{:<wide$}  {:<17}  machines keep their cycle through two gateways (antedate demo --help)\n",
        "demo", "hohmann2020"
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_names_every_experiment() {
        let list = list();
        assert!(experiments::ALL.iter().all(|e| list.contains(e.name) && list.contains(e.shows)));
        assert!(list.contains("antedate demo"));
    }
}
