//! The report: every number of the five papers beside ours, in one page.
//!
//! The printed numbers are data (`papers/*.toml` of this crate): each names the row of an experiment
//! that compares with it, or says why there is none. The experiments run as processes of this
//! program, one after another, and each result stays in the report's folder. So an interrupted
//! report goes on where it stopped.
//!
//! - `printed`: the papers' numbers and claims
//! - `results`: results of experiments, taken from the folder or set aside with a reason
//! - `run`: runs the experiments whose results are missing
//! - `verdict`: the one rule that compares two numbers
//! - `join`: a row for each printed number
//! - `figures`: the papers' figures with our numbers, and figures of our own
//! - `folder`: the files of figures, of which only our own are replaced
//! - `html`: the page

mod error;
mod figures;
mod folder;
mod html;
mod join;
mod printed;
mod results;
mod run;
mod verdict;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use error::ReportError;
pub use figures::Figure;
pub use folder::{Earlier, figure_files};
pub use html::BEGIN as PAGE_BEGIN;
pub use join::{Comparison, Label, ModelCheck};
pub use results::{Source, State};
pub use run::Step;
pub use verdict::{Better, Verdict};

use crate::Machine;
use printed::Paper;
use results::Results;

/// The folder of results inside the report's folder.
pub const RESULTS: &str = "results";

/// The short names of the papers.
pub const PAPERS: [&str; 5] =
    ["hiller2018", "lackorzynski2020", "sciancalepore2016", "katsikeas2017", "hohmann2020"];

/// Options of a report.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The report's folder.
    pub folder: PathBuf,
    /// Runs experiments in their short form.
    pub quick: bool,
    /// The only paper, if not all.
    pub only: Option<&'static str>,
    /// Runs what is missing. Otherwise the report shows what there is.
    pub run: bool,
    /// Takes results of other builds and machines too.
    pub old: bool,
    /// This program, whose verb `lab` runs an experiment.
    pub program: PathBuf,
}

/// A report.
#[derive(Debug, Serialize)]
pub struct Document {
    /// The time of the report in UTC (RFC 3339).
    pub made: String,
    /// The version of this program.
    pub antedate: &'static str,
    /// The beginning of the SHA-256 of this program, which tells builds apart.
    pub program: String,
    /// The machine of the report.
    pub machine: Machine,
    /// Whether results of short runs are among those shown.
    pub quick: bool,
    /// A row for each printed number.
    pub rows: Vec<Comparison>,
    /// Where the results come from, and which are missing, old or broken.
    pub results: Vec<Source>,
    /// Names of the figures' files, without their endings.
    pub figures: Vec<String>,
    /// The files of figures, with the beginnings of their SHA-256: a later report replaces these alone.
    pub files: BTreeMap<String, String>,
    /// Figures that could not be drawn, with reasons.
    pub not_drawn: Vec<String>,
}

/// A report as files.
#[derive(Debug)]
pub struct Written {
    /// The rows, as data.
    pub document: Document,
    /// The page.
    pub html: String,
    /// The drawings with their numbers.
    pub figures: Vec<Figure>,
}

impl Written {
    /// Names of experiments without a usable result.
    #[must_use]
    pub fn without_result(&self) -> Vec<&str> {
        let unused = self.document.results.iter().filter(|source| !source.state.is_taken());
        unused.map(|source| source.experiment.as_str()).collect()
    }
}

/// Runs the missing experiments and writes the report. `tell` hears what happens, for a progress
/// line.
///
/// # Errors
///
/// The folder cannot be used, the run was interrupted, or the report contradicts itself. An
/// experiment that fails is no error: the report names it.
pub fn report(settings: &Settings, tell: &mut dyn FnMut(&Step<'_>)) -> Result<Written, ReportError> {
    let papers = chosen(settings.only)?;
    let results = settings.folder.join(RESULTS);
    std::fs::create_dir_all(&results).map_err(|source| ReportError::Folder { path: results, source })?;
    let me = results::digest(&settings.program)?;
    let machine = Machine::here();
    if settings.run {
        run::missing(settings, &me, &machine, tell)?;
    }
    let results = Results::read(settings, &me, &machine);
    let mut written = document(&papers, &results, me, machine)?;
    // A report on one paper leaves the figures of the others.
    let mut files = Earlier::read(&settings.folder).files;
    files.append(&mut written.document.files);
    written.document.files = files;
    Ok(written)
}

/// The papers of a report.
fn chosen(only: Option<&str>) -> Result<Vec<Paper>, ReportError> {
    let papers = printed::all()?;
    Ok(papers.into_iter().filter(|paper| only.is_none_or(|name| name == paper.name)).collect())
}

/// Compares and draws.
fn document(
    papers: &[Paper],
    results: &Results,
    program: String,
    machine: Machine,
) -> Result<Written, ReportError> {
    let rows: Vec<Comparison> = papers.iter().flat_map(|paper| join::rows(paper, results)).collect();
    if let Some((row, why)) = rows.iter().find_map(|row| row.contradiction().map(|why| (row, why))) {
        return Err(ReportError::Contradiction { row: row.name(), why });
    }
    let (drawn, not_drawn) = figures::all(papers, results, &rows);
    let document = Document {
        made: results::now(),
        antedate: env!("CARGO_PKG_VERSION"),
        program,
        machine,
        quick: results.any_quick(),
        rows,
        results: results.sources.clone(),
        figures: drawn.iter().map(|figure| figure.name.clone()).collect(),
        files: folder::digests(&drawn),
        not_drawn,
    };
    let html = html::page(papers, &document, &drawn);
    Ok(Written { document, html, figures: drawn })
}

/// The path of an experiment's result.
fn result_file(folder: &Path, experiment: &str) -> PathBuf {
    folder.join(RESULTS).join(format!("{experiment}.json"))
}

#[cfg(test)]
mod tests;
