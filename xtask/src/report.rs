//! Steps with a name, a time and an outcome, and the table at the end of a run.

use std::time::Instant;

/// The reason why a step did not pass.
pub enum Stop {
    /// A check failed.
    Failed(String),
    /// This machine cannot run the step, for this reason.
    Skipped(String),
}

impl From<String> for Stop {
    fn from(reason: String) -> Stop {
        Stop::Failed(reason)
    }
}

impl From<&str> for Stop {
    fn from(reason: &str) -> Stop {
        Stop::Failed(reason.to_string())
    }
}

/// The result of a step; a passed step has a note.
pub type StepResult = Result<String, Stop>;

struct Row {
    name: String,
    seconds: f64,
    outcome: StepResult,
}

/// The steps of one run.
pub struct Report {
    rows: Vec<Row>,
    began: Instant,
}

impl Default for Report {
    fn default() -> Self {
        Self { rows: Vec::new(), began: Instant::now() }
    }
}

impl Report {
    /// Runs a step: prints its name, times it, keeps and prints the outcome.
    pub fn step(&mut self, name: &str, run: impl FnOnce() -> StepResult) -> bool {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = run();
        self.keep(name, start.elapsed().as_secs_f64(), outcome)
    }

    /// Records a step that ran in another process, and prints its output.
    pub fn add(&mut self, name: &str, seconds: f64, output: &str, outcome: StepResult) {
        print!("\n== {name}\n{output}");
        self.keep(name, seconds, outcome);
    }

    /// Records a step that this machine cannot run.
    pub fn skip(&mut self, name: &str, reason: &str) {
        println!("\n== {name}");
        self.keep(name, 0.0, Err(Stop::Skipped(reason.to_string())));
    }

    fn keep(&mut self, name: &str, seconds: f64, outcome: StepResult) -> bool {
        let (word, text) = words(&outcome);
        println!("-- {name}: {word} in {seconds:.1} s{}{text}", if text.is_empty() { "" } else { ": " });
        let passed = !matches!(outcome, Err(Stop::Failed(_)));
        self.rows.push(Row { name: name.to_string(), seconds, outcome });
        passed
    }

    /// Counts of passed, failed and skipped steps.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |word| self.rows.iter().filter(|r| words(&r.outcome).0 == word).count();
        (count(PASSED), count(FAILED), count(SKIPPED))
    }

    /// The names of the skipped steps.
    pub fn skipped(&self) -> Vec<String> {
        let skipped = self.rows.iter().filter(|row| matches!(row.outcome, Err(Stop::Skipped(_))));
        skipped.map(|row| row.name.clone()).collect()
    }

    /// Prints the table and the closing line; true if no step failed.
    pub fn finish(&self) -> bool {
        let width = self.rows.iter().map(|r| r.name.chars().count()).max().unwrap_or(0);
        println!("\n{:width$}  {:>8}  outcome", "step", "seconds");
        for row in &self.rows {
            let (word, text) = words(&row.outcome);
            // One line a step: the whole reason was printed when the step ran.
            let first = text.lines().next().unwrap_or_default();
            let colon = if first.is_empty() { "" } else { ": " };
            println!("{:width$}  {:>8.1}  {word}{colon}{first}", row.name, row.seconds);
        }
        // Less than the sum where steps ran together.
        let total = self.began.elapsed().as_secs_f64();
        println!("{:width$}  {total:>8.1}", "in all");
        // Reasons are printed at the end too: logs often keep only the end of a long output.
        for row in self.rows.iter().filter(|row| row.outcome.is_err()) {
            let (word, reason) = words(&row.outcome);
            println!("\n{} {word}: {}", row.name, reason.trim_end());
        }
        let (passed, failed, skipped) = self.counts();
        if failed > 0 {
            let failed = self.rows.iter().filter(|row| matches!(row.outcome, Err(Stop::Failed(_))));
            let names: Vec<&str> = failed.map(|row| row.name.as_str()).collect();
            println!("\nFAILED: {}", names.join(", "));
        }
        println!("xtask: {passed} passed, {failed} failed, {skipped} skipped");
        failed == 0
    }
}

const PASSED: &str = "passed";
const FAILED: &str = "FAILED";
const SKIPPED: &str = "skipped";

fn words(outcome: &StepResult) -> (&'static str, &str) {
    match outcome {
        Ok(note) => (PASSED, note),
        Err(Stop::Failed(reason)) => (FAILED, reason),
        Err(Stop::Skipped(reason)) => (SKIPPED, reason),
    }
}

/// A step's outcome as text, for another process.
pub fn write(outcome: &StepResult) -> String {
    let (word, text) = words(outcome);
    format!("{word}\n{text}")
}

/// The outcome that `write` produced in another process.
pub fn read(text: &str) -> StepResult {
    match text.split_once('\n') {
        Some((PASSED, note)) => Ok(note.to_string()),
        Some((SKIPPED, reason)) => Err(Stop::Skipped(reason.to_string())),
        Some((FAILED, reason)) => Err(Stop::Failed(reason.to_string())),
        _ => Err(Stop::Failed(format!("not an outcome: {text}"))),
    }
}
