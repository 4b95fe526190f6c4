//! The result of an experiment: rows with the paper's number, the unmodified processing and the
//! antedated one.
//!
//! The field names are those of the JSON and are stable.

use serde::{Deserialize, Serialize};

/// A paper's value, if printed.
pub(crate) type Printed = Option<f64>;

/// Result of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name, as in `antedate lab NAME`.
    pub experiment: &'static str,
    /// Short name of the reproduced paper.
    pub paper: &'static str,
    /// The machine of the run.
    pub machine: Machine,
    /// The version of this program.
    pub antedate: &'static str,
    /// A short run: a smoke test, not a measurement.
    pub quick: bool,
    /// Measured, modelled or counted values.
    pub rows: Vec<Row>,
    /// Goals with their results. Empty where an experiment only reports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// The paper's figure with these numbers as SVG, for an experiment that draws one.
    #[serde(skip)]
    pub figure: Option<String>,
}

/// One metric of one case.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// Platform, cipher, size, strategy.
    pub case: String,
    /// Name of the metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The paper's value, if it printed one.
    pub paper: Option<f64>,
    /// The unmodified processing on our platform, if any.
    pub baseline: Option<f64>,
    /// Antedate. `None` where a row describes the unmodified processing alone.
    pub antedated: Option<f64>,
    /// Emulated, modelled or datasheet parts, and other conditions of the comparison.
    pub note: String,
}

/// A goal and its result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Check {
    /// The goal, with the numbers.
    pub what: String,
    /// Whether it was reached.
    pub met: bool,
}

/// The machine of an experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the CPU.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// Load average at the start: other load disturbs timings.
    pub load: String,
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            cpu: model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease"),
            load: read("/proc/loadavg"),
        }
    }
}

impl Row {
    /// A row without numbers; the methods below add them.
    pub fn new(case: impl Into<String>, metric: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { case: case.into(), metric: metric.into(), unit: unit.into(), ..Self::default() }
    }

    /// Sets the paper's value.
    #[must_use]
    pub fn paper(self, value: impl Into<Option<f64>>) -> Self {
        Self { paper: value.into(), ..self }
    }

    /// Sets the value of the unmodified processing.
    #[must_use]
    pub fn baseline(self, value: impl Into<Option<f64>>) -> Self {
        Self { baseline: value.into(), ..self }
    }

    /// Sets Antedate's value.
    #[must_use]
    pub fn antedated(self, value: impl Into<Option<f64>>) -> Self {
        Self { antedated: value.into(), ..self }
    }

    /// Sets the note.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }
}

impl Report {
    /// A report of this machine without rows.
    #[must_use]
    pub fn new(experiment: &'static str, paper: &'static str) -> Self {
        let antedate = env!("CARGO_PKG_VERSION");
        Self {
            experiment,
            paper,
            machine: Machine::here(),
            antedate,
            quick: false,
            rows: Vec::new(),
            checks: Vec::new(),
            figure: None,
        }
    }

    /// Adds a row.
    pub fn row(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Adds a goal and its result.
    pub fn check(&mut self, what: impl Into<String>, met: bool) {
        self.checks.push(Check { what: what.into(), met });
    }

    /// Whether all goals were reached.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.met)
    }

    /// Formats the report as a table for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), figures);
        let head = ["case", "metric", "unit", "paper", "baseline", "antedated"].map(str::to_owned);
        let mut lines = vec![head];
        lines.extend(self.rows.iter().map(|row| {
            let numbers = [row.paper, row.baseline, row.antedated].map(number);
            let [paper, baseline, antedated] = numbers;
            [row.case.clone(), row.metric.clone(), row.unit.clone(), paper, baseline, antedated]
        }));
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        let Machine { cpu, cores, kernel, .. } = &self.machine;
        let mut text = format!(
            "{}: {} ({cpu}, {cores} cores, Linux {kernel})\n\n",
            self.experiment,
            if self.paper.is_empty() { "no paper" } else { self.paper },
        );
        for (line, note) in
            lines.iter().zip(std::iter::once("note").chain(self.rows.iter().map(|row| row.note.as_str())))
        {
            for (column, (field, width)) in line.iter().zip(widths).enumerate() {
                // Text is aligned left, numbers right.
                let field = if column < 3 { format!("{field:width$}") } else { format!("{field:>width$}") };
                text.push_str(&field);
                text.push_str("  ");
            }
            text.push_str(note);
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        if !self.checks.is_empty() {
            text.push('\n');
        }
        for check in &self.checks {
            text.push_str(&format!("{:3}  {}\n", if check.met { "yes" } else { "NO" }, check.what));
        }
        text
    }
}

/// Formats a number: two decimals below 100, none above 1000.
fn figures(value: f64) -> String {
    match value.abs() {
        size if size < 100.0 => format!("{value:.2}"),
        size if size < 1000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("timeslot", "sciancalepore2016");
        report.row(Row::new("cc2538 software", "TsSlotDuration", "ms").paper(32.35).antedated(9.3));
        report.row(Row::new("cc2538", "energy", "uJ").baseline(1234.5).note("modelled"));
        report
    }

    #[test]
    fn json_has_documented_fields() {
        let value = serde_json::to_value(report()).expect("is JSON");
        let row = &value["rows"][0];
        assert_eq!(
            row,
            &serde_json::json!({ "case": "cc2538 software", "metric": "TsSlotDuration", "unit": "ms",
                "paper": 32.35, "baseline": null, "antedated": 9.3, "note": "" })
        );
        assert_eq!(
            (&value["experiment"], &value["paper"]),
            (&"timeslot".into(), &"sciancalepore2016".into())
        );
        assert!(value["machine"]["cores"].as_u64() >= Some(1) && value["antedate"].is_string());
    }

    #[test]
    fn table_columns_are_aligned() {
        let text = report().text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        let column = lines[2].find("antedated").map(|at| at + "antedated".len());
        assert_eq!(lines[3].find("9.30").map(|at| at + 4), column);
        assert!(lines[4].ends_with("modelled") && lines[4].contains("1234"), "{text}");
    }

    #[test]
    fn failed_check_fails_the_report() {
        let mut report = report();
        report.check("80 % saved: 81 %", true);
        assert!(report.passed());
        report.check("98 % saved: 97 %", false);
        assert!(!report.passed() && report.text().contains("NO   98 % saved"));
    }
}
