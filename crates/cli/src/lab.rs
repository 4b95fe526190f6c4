//! `antedate lab`.

use std::path::PathBuf;

use antedate_experiments::{self as experiments, Experiment, Options};
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::failure::{Done, Failure};
use crate::output::{self, Kind};

/// Options of `antedate lab`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  antedate lab list\n  antedate lab aead --quick\n  antedate lab attack --only mkpdu-replay --json attack.json"
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
    /// Draws the paper's figure with these numbers as SVG, if the experiment has one
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
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
        if self.figure.is_some() && !experiments::DRAWING.contains(&experiment.name) {
            return Err(no_figure(&self.name));
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
            let figure = report.figure.as_ref().ok_or_else(|| no_figure(&self.name))?;
            output::replace("--figure", output::SVG, &file, figure)?;
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

fn no_figure(name: &str) -> Failure {
    Failure::usage(
        format!("lab {name}: has no figure of its own"),
        "leave --figure away; the numbers are in the table and in --json",
    )
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
