//! The goals of the gateway, and the table that says which are met.

use serde_json::{Value, json};

/// A number that was aimed at, and what was measured.
pub(crate) struct Goal {
    name: String,
    wanted: String,
    measured: String,
    value: f64,
    /// Whether it was reached.
    pub(crate) met: bool,
}

impl Goal {
    /// `value` must not be above `bound`; `detail` says what it is made of.
    pub(crate) fn at_most(name: String, bound: f64, value: f64, detail: &str) -> Goal {
        let measured = format!("{value:.3} ({detail})");
        Goal { name, wanted: format!("at most {bound}"), measured, value, met: value <= bound }
    }

    /// `value` must not be below `bound`.
    pub(crate) fn at_least(name: String, bound: f64, value: f64, detail: &str) -> Goal {
        let measured = format!("{value:.3} ({detail})");
        Goal { name, wanted: format!("at least {bound}"), measured, value, met: value >= bound }
    }

    /// For the JSON result.
    pub(crate) fn json(&self) -> Value {
        json!({ "name": self.name, "goal": self.wanted, "value": self.value, "measured": self.measured, "met": self.met })
    }
}

/// Prints goal, measured, met.
pub(crate) fn print(goals: &[Goal]) {
    let width = |f: fn(&Goal) -> &str| goals.iter().map(|g| f(g).chars().count()).max().unwrap_or(0);
    let (name, wanted, measured) = (width(|g| &g.name), width(|g| &g.wanted), width(|g| &g.measured));
    println!("\n{:name$}  {:wanted$}  {:measured$}  met", "", "goal", "measured");
    for goal in goals {
        let met = if goal.met { "yes" } else { "NO" };
        println!("{:name$}  {:wanted$}  {:measured$}  {met}", goal.name, goal.wanted, goal.measured);
    }
}
