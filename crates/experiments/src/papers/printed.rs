//! The papers' numbers and claims, from the files `papers/*.toml` of this crate.
//!
//! A group of numbers shares all but case and value. `{}` in the names of an experiment's rows stands
//! for the number's case, or for the second text of a number that has one.

use serde::Deserialize;

use super::ReportError;
use super::figures::Wanted;
use super::join::Label;
use super::results::is_in_guest;
use super::verdict::Better;

const FILES: [(&str, &str); 5] = [
    ("hiller2018", include_str!("../../papers/hiller2018.toml")),
    ("lackorzynski2020", include_str!("../../papers/lackorzynski2020.toml")),
    ("sciancalepore2016", include_str!("../../papers/sciancalepore2016.toml")),
    ("katsikeas2017", include_str!("../../papers/katsikeas2017.toml")),
    ("hohmann2020", include_str!("../../papers/hohmann2020.toml")),
];

/// A paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paper {
    /// Its short name.
    pub(super) name: String,
    pub(super) authors: String,
    pub(super) title: String,
    /// The paper's machine, and how ours differs.
    pub(super) machine: String,
    pub(super) claims: Vec<Claim>,
    pub(super) numbers: Vec<Group>,
    #[serde(default)]
    pub(super) figures: Vec<Wanted>,
}

/// A claim of a paper in a sentence of ours.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    pub(super) says: String,
    /// Beginnings of the items whose rows decide about it.
    pub(super) items: Vec<String>,
    /// Only rows whose case contains this text.
    #[serde(default)]
    pub(super) case: String,
}

/// Numbers with one source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    /// Figure, table or section.
    pub(super) item: String,
    pub(super) metric: String,
    pub(super) unit: String,
    /// Mean, median, quantile: what the paper printed.
    pub(super) statistic: String,
    pub(super) label: Label,
    pub(super) better: Better,
    pub(super) values: Vec<Value>,
    /// The experiment that measures the same.
    pub(super) experiment: Option<String>,
    /// Case and metric of its row with our number.
    pub(super) case: Option<String>,
    pub(super) row: Option<String>,
    /// The case whose number is the baseline, if not that of the same row.
    pub(super) baseline_case: Option<String>,
    /// The case by whose number ours are divided.
    pub(super) against: Option<String>,
    /// The reason for having no experiment.
    pub(super) missing: Option<String>,
    /// The reason for comparing nothing.
    pub(super) incomparable: Option<String>,
    /// Conditions of the comparison.
    #[serde(default)]
    pub(super) remark: String,
    /// Of a model: the experiment, case and metric of the row with its deviation in percent.
    pub(super) check: Option<[String; 3]>,
    /// Of a model without such a row: the reason.
    pub(super) unchecked: Option<String>,
}

/// A number with its case, and with another text for the experiment's rows if that has another
/// name. Without a number the paper has the quantity in a drawing alone.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Value {
    Number(String, f64),
    Named(String, f64, String),
    Drawn((String,)),
    DrawnNamed(String, String),
}

impl Value {
    pub(super) fn case(&self) -> &str {
        match self {
            Self::Number(case, _)
            | Self::Named(case, ..)
            | Self::Drawn((case,))
            | Self::DrawnNamed(case, _) => case,
        }
    }

    pub(super) fn printed(&self) -> Option<f64> {
        match self {
            Self::Number(_, value) | Self::Named(_, value, _) => Some(*value),
            Self::Drawn(_) | Self::DrawnNamed(..) => None,
        }
    }

    /// The text for the experiment's rows.
    pub(super) fn named(&self) -> &str {
        match self {
            Self::Named(_, _, name) | Self::DrawnNamed(_, name) => name,
            Self::Number(case, _) | Self::Drawn((case,)) => case,
        }
    }
}

/// All papers.
pub(super) fn all() -> Result<Vec<Paper>, ReportError> {
    FILES.iter().map(|(name, text)| read(name, text)).collect()
}

/// Reads a paper's file.
pub(super) fn read(name: &str, text: &str) -> Result<Paper, ReportError> {
    let fault = |why: String| ReportError::Data { paper: name.into(), why };
    let paper: Paper = toml::from_str(text).map_err(|error| fault(error.to_string()))?;
    if paper.name != name {
        return Err(fault(format!("it names itself {}", paper.name)));
    }
    for group in &paper.numbers {
        let place = |why: &str| fault(format!("{}, {}: {why}", group.item, group.metric));
        if group.values.is_empty() {
            return Err(place("no values"));
        }
        let measured = group.experiment.is_some();
        if measured && group.case.is_none() && group.baseline_case.is_none() {
            return Err(place("an experiment without the case of its row"));
        }
        if !measured && group.missing.is_none() && group.incomparable.is_none() {
            return Err(place("neither an experiment nor a reason"));
        }
        let exists = |name: &String| crate::find(name).is_some() || is_in_guest(name);
        if group.experiment.as_ref().is_some_and(|name| !exists(name)) {
            return Err(place("an experiment that does not exist"));
        }
        let modelled = group.label == Label::Modelled && measured;
        if modelled && group.check.is_none() == group.unchecked.is_none() {
            return Err(place("a model needs either its check or the reason for having none"));
        }
    }
    for figure in &paper.figures {
        if !paper.numbers.iter().any(|group| group.item.starts_with(&figure.item)) {
            return Err(fault(format!("no numbers for the figure {}", figure.name)));
        }
    }
    for claim in &paper.claims {
        let decided = |group: &Group| claim.items.iter().any(|item| group.item.starts_with(item.as_str()));
        if !paper.numbers.iter().any(decided) {
            return Err(fault(format!("no number decides about: {}", claim.says)));
        }
    }
    Ok(paper)
}
