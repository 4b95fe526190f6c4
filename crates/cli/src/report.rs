//! `antedate report`.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::PathBuf;

use antedate_experiments::papers::{self, ReportError, Settings, Step, Verdict, Written};
use antedate_host::fault::Fault;
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::failure::{Done, Failure};
use crate::output::{self, Kind};

/// Options of `antedate report`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  antedate report --out report --quick\n  antedate report --out report --only sciancalepore2016\n  antedate report --out report --no-run     draws what report/results has\n\nA stopped report goes on where it was: each result is kept in DIR/results when its experiment ends.\nThe exit status is 1 if an experiment has no result. A number that was not reached is no failure."
)]
pub(crate) struct Report {
    /// The folder of the report: index.html, report.json, and an SVG and a CSV file for each figure
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Runs the experiments in their short form: minutes, and times that are no measurement
    #[arg(long)]
    quick: bool,
    /// The only paper
    #[arg(long, value_name = "PAPER", value_parser = PossibleValuesParser::new(papers::PAPERS))]
    only: Option<String>,
    /// Runs nothing: shows the results that are there
    #[arg(long)]
    no_run: bool,
    /// Takes results of other builds, machines and lengths too, and names them
    #[arg(long)]
    old: bool,
}

impl Report {
    pub(crate) fn run(self) -> Done {
        let program = std::env::current_exe().map_err(|error| {
            Failure::usage(format!("report: this program cannot be found: {error}"), "start it by its path")
        })?;
        let settings = Settings {
            only: papers::PAPERS.into_iter().find(|name| self.only.as_deref() == Some(*name)),
            quick: self.quick,
            run: !self.no_run,
            old: self.old,
            program,
            folder: self.out,
        };
        // Experiments take long, so that other content of the files is found first.
        for (name, kind) in [("index.html", PAGE), ("report.json", Kind::Json("rows"))] {
            let file = settings.folder.join(name);
            if file.exists() {
                output::writable("--out", kind, &file)?;
            }
        }
        let names = papers::figure_files(settings.only)
            .map_err(|error| Failure::usage(format!("report: {error}"), "report this as a fault"))?;
        own(&settings, names.iter().map(String::as_str))?;
        let mut has_begun = false;
        let mut tell = |step: &Step<'_>| {
            if !has_begun {
                begin(step);
                has_begun = true;
            }
            progress(step);
        };
        let written = papers::report(&settings, &mut tell).map_err(|error| match error {
            ReportError::Interrupted { .. } => Failure::Verdict(format!("report: {error}")),
            ReportError::Folder { ref source, .. } if source.kind() == ErrorKind::StorageFull => {
                Failure::usage(
                    format!("report: {error}"),
                    "free some space and give the same command again: results that are there are kept",
                )
            }
            _ => Failure::usage(format!("report: {error}"), "give --out a folder that you can write to"),
        })?;
        save(&settings, &written)?;
        output::print(&summary(&settings, &written))?;
        match written.without_result()[..] {
            [] => Ok(()),
            ref names => Err(Failure::Verdict(format!("report: no result of {}", names.join(", ")))),
        }
    }
}

const PAGE: Kind<'_> = Kind::Text(papers::PAGE_BEGIN);

/// Refuses files of figures that no earlier report of this folder wrote.
fn own<'a>(settings: &Settings, names: impl Iterator<Item = &'a str>) -> Done {
    let Some(path) = papers::Earlier::read(&settings.folder).foreign(&settings.folder, names) else {
        return Ok(());
    };
    let remedy = "move it away, or give --out another folder";
    Err(Fault::of_file(&path, "is there, and no earlier report wrote it as it is", remedy).into())
}

/// Writes the page, the rows and the figures.
fn save(settings: &Settings, written: &Written) -> Done {
    let file = |name: &str| settings.folder.join(name);
    let names =
        written.document.figures.iter().flat_map(|name| [format!("{name}.svg"), format!("{name}.csv")]);
    let names: Vec<String> = names.collect();
    own(settings, names.iter().map(String::as_str))?;
    for figure in &written.figures {
        output::replace_whole("--out", output::SVG, &file(&format!("{}.svg", figure.name)), &figure.svg)?;
        output::replace_whole("--out", Kind::Text(""), &file(&format!("{}.csv", figure.name)), &figure.csv)?;
    }
    let mut json = serde_json::to_string(&written.document)
        .map_err(|error| Failure::usage(format!("report: {error}"), "report this as a fault"))?;
    json.push('\n');
    output::replace_whole("--out", Kind::Json("rows"), &file("report.json"), &json)?;
    output::replace_whole("--out", PAGE, &file("index.html"), &written.html)
}

/// What a reader of the terminal needs: verdicts, what is not shown, and the page.
fn summary(settings: &Settings, written: &Written) -> String {
    let rows = &written.document.rows;
    let mut text = String::new();
    for verdict in Verdict::ALL {
        let count = rows.iter().filter(|row| row.verdict == verdict).count();
        text.push_str(&format!("{count:5}  {}\n", verdict.text()));
    }
    for source in written.document.results.iter().filter(|source| !source.state.is_taken()) {
        text.push_str(&format!("{}: {}\n", source.experiment, source.state.text()));
    }
    text.push_str(&format!("{}\n", settings.folder.join("index.html").display()));
    text
}

/// What a run takes from an earlier one, and what it runs.
fn begin(step: &Step<'_>) {
    let Step { at: [_, of], kept, left, .. } = step;
    let minutes = left.div_ceil(60);
    output::tell(format_args!(
        "antedate: results kept: {kept}; experiments to run: {of}, about {minutes} min"
    ));
}

/// The progress on a terminal, in one line that the next one replaces. A failed experiment is told in
/// a pipe too.
fn progress(step: &Step<'_>) {
    let mut out = std::io::stderr();
    let Step { experiment, at: [at, of], seconds, left, ended, .. } = step;
    let terminal = out.is_terminal();
    let clear = if terminal { "\r\x1b[K" } else { "" };
    // Nobody is there to hear of a failure to write.
    let _ = match ended {
        Some(Err(why)) => writeln!(out, "{clear}antedate: {experiment}: {why}"),
        _ if !terminal => Ok(()),
        Some(Ok(())) if at == of => write!(out, "{clear}"),
        _ => {
            let left = left.div_ceil(60);
            write!(out, "{clear}{at}/{of} {experiment}, {seconds} s; about {left} min left")
        }
    };
    let _ = out.flush();
}
