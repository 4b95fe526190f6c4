//! A row for each printed number: the paper's value, the baseline, ours, and the verdict.

use serde::{Deserialize, Serialize};

use super::printed::{Group, Paper, Value};
use super::results::{Line, Results, command};
use super::verdict::{self, Better, Verdict};

/// The nature of our number. The first says most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Label {
    /// Measured or counted on this machine.
    Executed,
    /// Counted on an emulated CPU.
    Emulated,
    /// Computed from other numbers.
    Modelled,
    /// Computed with a manufacturer's figures.
    Datasheet,
}

impl Label {
    /// As people read it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Emulated => "emulated",
            Self::Modelled => "modelled",
            Self::Datasheet => "datasheet",
        }
    }

    /// The label that an experiment's note asks for.
    fn told(note: &str) -> Self {
        let has = |word: &str| note.contains(word);
        if has("datasheet") {
            Self::Datasheet
        } else if has("modelled") {
            Self::Modelled
        } else if has("simulated") || has("QEMU") || has("emulated") {
            Self::Emulated
        } else {
            Self::Executed
        }
    }
}

/// The check of a model against something executed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelCheck {
    /// The check, or the reason for having none.
    pub what: String,
    /// The model's deviation, if it was checked.
    pub deviation_percent: Option<f64>,
}

impl ModelCheck {
    /// The largest deviation of a model that counts as checked.
    const WITHIN: f64 = 10.0;

    /// Whether the model was checked and is near enough.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.deviation_percent.is_some_and(|percent| percent.abs() <= Self::WITHIN)
    }

    /// As people read it.
    #[must_use]
    pub fn text(&self) -> String {
        match self.deviation_percent {
            Some(percent) if self.holds() => format!("model checked, off by {percent:.1} %: {}", self.what),
            Some(percent) => format!("MODEL OFF by {percent:.1} %: {}", self.what),
            None => format!("MODEL NOT CHECKED: {}", self.what),
        }
    }
}

/// A printed number beside ours.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Short name of the paper.
    pub paper: String,
    /// Figure, table or section.
    pub item: String,
    /// What was measured: platform, size, cipher.
    pub case: String,
    /// The quantity.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Mean, median, quantile.
    pub statistic: String,
    /// The nature of our number.
    pub label: Label,
    /// The direction in which the number is better.
    pub better: Better,
    /// The paper's value, if it printed one.
    pub paper_value: Option<f64>,
    /// The unmodified processing on our platform.
    pub baseline: Option<f64>,
    /// Antedate.
    pub ours: Option<f64>,
    /// The comparison's result.
    pub verdict: Verdict,
    /// Its reason.
    pub reason: String,
    /// Conditions that the experiment told.
    pub note: String,
    /// Of a modelled number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<ModelCheck>,
    /// The command that repeats it.
    pub repeat: String,
}

impl Comparison {
    /// Our number: Antedate's, or else that of the unmodified processing here.
    #[must_use]
    pub fn found(&self) -> Option<f64> {
        self.ours.or(self.baseline)
    }

    /// Paper, item, case and metric.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}, {}: {}, {}", self.paper, self.item, self.case, self.metric)
    }

    /// Why the verdict does not follow from the row, if so.
    #[must_use]
    pub fn contradiction(&self) -> Option<String> {
        let comparable = self.verdict != Verdict::NotComparable || self.paper_value.is_none();
        let rule = verdict::of(self.paper_value, self.found(), self.better, comparable);
        if rule != self.verdict && self.verdict != Verdict::NotComparable {
            return Some(format!("it says {}, the numbers say {}", self.verdict.text(), rule.text()));
        }
        if self.reason.is_empty() {
            return Some(format!("{} without a reason", self.verdict.text()));
        }
        if self.label == Label::Modelled && self.found().is_some() && self.check.is_none() {
            return Some("a modelled number without a check".into());
        }
        if self.verdict != Verdict::NotMeasured && self.found().is_some() && self.repeat.is_empty() {
            return Some("a number that nobody can repeat".into());
        }
        None
    }
}

/// The rows of a paper.
pub(super) fn rows(paper: &Paper, results: &Results) -> Vec<Comparison> {
    let mut rows = Vec::new();
    for group in &paper.numbers {
        rows.extend(group.values.iter().map(|value| row(paper, group, value, results)));
    }
    rows
}

/// Our numbers for a printed one.
#[derive(Default)]
struct Ours {
    baseline: Option<f64>,
    ours: Option<f64>,
    note: String,
    /// Why there is none.
    why: String,
}

fn row(paper: &Paper, group: &Group, value: &Value, results: &Results) -> Comparison {
    let Ours { baseline, ours, note, why } = group
        .experiment
        .as_ref()
        .map(|experiment| ours(experiment, group, value, results))
        .unwrap_or_default();
    let printed = value.printed();
    let found = ours.or(baseline);
    let verdict = verdict::of(printed, found, group.better, group.incomparable.is_none());
    let label = if found.is_some() { group.label.max(Label::told(&note)) } else { group.label };
    let check = (label == Label::Modelled && found.is_some()).then(|| check(group, results));
    let repeat = group.experiment.as_deref().map(repeat);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let reason = match verdict {
        Verdict::NotMeasured if group.missing.is_some() => text(&group.missing),
        Verdict::NotMeasured => why,
        Verdict::NotComparable if group.incomparable.is_some() => text(&group.incomparable),
        Verdict::NotComparable => "the paper prints no number here, only a drawing or a word".into(),
        _ if group.unit == "yes = 1" => answers(printed, found),
        _ => difference(printed, found),
    };
    let remark = group.remark.replace("{}", value.named());
    let reason = if remark.is_empty() { reason } else { format!("{reason}; {remark}") };
    Comparison {
        paper: paper.name.clone(),
        item: group.item.clone(),
        case: value.case().into(),
        metric: group.metric.clone(),
        unit: group.unit.clone(),
        statistic: group.statistic.clone(),
        label,
        better: group.better,
        paper_value: printed,
        baseline,
        ours,
        verdict,
        reason,
        note,
        check,
        repeat: repeat.unwrap_or_default(),
    }
}

/// The command that repeats an experiment's rows.
fn repeat(experiment: &str) -> String {
    let command = command(experiment);
    if command.starts_with("antedate ") { format!("{command} --json {experiment}.json") } else { command }
}

/// Two answers in words.
fn answers(printed: Option<f64>, found: Option<f64>) -> String {
    let word = |answer: Option<f64>| if answer.is_some_and(|yes| yes < 0.5) { "no" } else { "yes" };
    format!("the paper says {}, ours is {}", word(printed), word(found))
}

/// The difference of two numbers in words.
fn difference(printed: Option<f64>, found: Option<f64>) -> String {
    match printed.zip(found) {
        Some((printed, found)) if printed != 0.0 => {
            let percent = 100.0 * (found / printed - 1.0);
            if percent.abs() < 0.05 {
                "the paper's number".into()
            } else if printed > 0.0 && found >= 10.0 * printed {
                format!("{:.0} times the paper's", found / printed)
            } else {
                let side = if percent > 0.0 { "above" } else { "below" };
                format!("{:.1} % {side} the paper's", percent.abs())
            }
        }
        Some((_, found)) => format!("{found} where the paper has 0"),
        None => String::new(),
    }
}

/// A row of an experiment, or the reason for having none.
enum Found<'a> {
    Row(&'a Line),
    Nothing(String),
}

/// Looks up the rows of the experiment.
fn ours(experiment: &str, group: &Group, value: &Value, results: &Results) -> Ours {
    let named = |pattern: &str| pattern.replace("{}", value.named());
    let metric = named(group.row.as_deref().unwrap_or(&group.metric));
    let line = |pattern: &Option<String>| -> Option<Found<'_>> {
        let case = named(pattern.as_ref()?);
        let is_unit = |line: &&Line| line.unit == group.unit || group.against.is_some();
        let found = results.lines(experiment, &case, &metric).find(is_unit);
        Some(match (found, results.line(experiment, &case, &metric)) {
            (Some(line), _) => Found::Row(line),
            (None, Some(line)) => {
                Found::Nothing(format!("{experiment} has \"{case}\" in {}, not in {}", line.unit, group.unit))
            }
            (None, None) => Found::Nothing(results.why(experiment, &case, &metric)),
        })
    };
    let divisor = match line(&group.against) {
        None => 1.0,
        Some(Found::Row(line)) => line.any().filter(|value| *value > 0.0).unwrap_or(f64::NAN),
        Some(Found::Nothing(why)) => return Ours { why, ..Ours::default() },
    };
    let (main, base) = (line(&group.case), line(&group.baseline_case));
    let mut all = Ours::default();
    for (line, is_base) in [(main, false), (base, true)] {
        let line = match line {
            Some(Found::Row(line)) => line,
            Some(Found::Nothing(why)) => {
                all.why = why;
                continue;
            }
            None => continue,
        };
        if is_base {
            // Like with like: the unmodified processing, where the row has both.
            all.baseline = line.baseline.or(line.antedated);
        } else {
            (all.baseline, all.ours) = (line.baseline, line.antedated);
        }
        if !all.note.contains(&line.note) {
            let between = if all.note.is_empty() { "" } else { "; " };
            all.note = format!("{}{between}{}", all.note, line.note);
        }
    }
    let scaled = |value: Option<f64>| value.map(|value| value / divisor).filter(|value| value.is_finite());
    (all.baseline, all.ours) = (scaled(all.baseline), scaled(all.ours));
    if all.why.is_empty() && all.ours.or(all.baseline).is_none() {
        all.why = format!("{experiment} has the row without a number");
    }
    all
}

/// The check of a group's model.
fn check(group: &Group, results: &Results) -> ModelCheck {
    match &group.check {
        Some([experiment, case, metric]) => {
            match results.line(experiment, case, metric).and_then(Line::any) {
                Some(percent) => ModelCheck {
                    what: format!("{case} (antedate lab {experiment})"),
                    deviation_percent: Some(percent),
                },
                None => ModelCheck { what: results.why(experiment, case, metric), deviation_percent: None },
            }
        }
        None => ModelCheck {
            what: group.unchecked.clone().unwrap_or_else(|| "nothing executed is like it".into()),
            deviation_percent: None,
        },
    }
}
