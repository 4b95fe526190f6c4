//! Steps with a name, a time and an outcome, and the table that ends a run.

use std::time::Instant;

/// How a step ended.
pub(crate) enum Outcome {
    /// Everything it asks held; the note says what that was.
    Passed(String),
    /// Something did not hold.
    Failed(String),
    /// It could not run on this machine, for the reason given.
    Skipped(String),
}

/// What a step gives: a note where it passed, a reason where it failed.
pub(crate) type StepResult = Result<String, String>;

struct Row {
    name: String,
    seconds: f64,
    outcome: Outcome,
}

/// The steps of one run.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

impl Report {
    /// Runs a step: prints its name, times it, keeps and prints the outcome.
    pub(crate) fn step(&mut self, name: &str, run: impl FnOnce() -> StepResult) -> bool {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = match run() {
            Ok(note) => Outcome::Passed(note),
            Err(reason) => Outcome::Failed(reason),
        };
        self.keep(name, start.elapsed().as_secs_f64(), outcome)
    }

    /// Records a step that this machine cannot run.
    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        println!("\n== {name}");
        self.keep(name, 0.0, Outcome::Skipped(reason.to_string()));
    }

    fn keep(&mut self, name: &str, seconds: f64, outcome: Outcome) -> bool {
        let (word, text) = words(&outcome);
        println!("-- {name}: {word} in {seconds:.1} s{}{text}", if text.is_empty() { "" } else { ": " });
        let passed = !matches!(outcome, Outcome::Failed(_));
        self.rows.push(Row { name: name.to_string(), seconds, outcome });
        passed
    }

    /// Counts of passed, failed and skipped.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let count = |f: fn(&Outcome) -> bool| self.rows.iter().filter(|r| f(&r.outcome)).count();
        (
            count(|o| matches!(o, Outcome::Passed(_))),
            count(|o| matches!(o, Outcome::Failed(_))),
            count(|o| matches!(o, Outcome::Skipped(_))),
        )
    }

    /// Prints the table and the closing line; true if nothing failed.
    pub(crate) fn finish(&self) -> bool {
        let width = self.rows.iter().map(|r| r.name.chars().count()).max().unwrap_or(0);
        println!("\n{:width$}  {:>8}  outcome", "step", "seconds");
        for row in &self.rows {
            let (word, text) = words(&row.outcome);
            // One line a step: the whole reason stands where the step ran.
            let first = text.lines().next().unwrap_or_default();
            let colon = if first.is_empty() { "" } else { ": " };
            println!("{:width$}  {:>8.1}  {word}{colon}{first}", row.name, row.seconds);
        }
        let total: f64 = self.rows.iter().map(|r| r.seconds).sum();
        println!("{:width$}  {total:>8.1}", "in all");
        let (passed, failed, skipped) = self.counts();
        println!("xtask: {passed} passed, {failed} failed, {skipped} skipped");
        failed == 0
    }
}

fn words(outcome: &Outcome) -> (&'static str, &str) {
    match outcome {
        Outcome::Passed(note) => ("passed", note),
        Outcome::Failed(reason) => ("FAILED", reason),
        Outcome::Skipped(reason) => ("skipped", reason),
    }
}
