//! The goals of the gateway, and the table of goals and results.

use serde_json::{Value, json};

/// The instruction sets of the machine for which the goals were set.
const INSTRUCTIONS: [&str; 4] = ["avx2", "avx512vl", "vaes", "vpclmulqdq"];

/// A goal and its measurement, or a ratio printed without a verdict.
pub(crate) struct Goal {
    name: String,
    wanted: String,
    measured: String,
    value: f64,
    /// Whether the goal was met; `None` without a verdict.
    met: Option<bool>,
}

impl Goal {
    /// `value` must not exceed `bound`; `detail` names its parts.
    pub(crate) fn at_most(name: String, bound: f64, value: f64, detail: &str) -> Goal {
        let measured = format!("{value:.3} ({detail})");
        Goal { name, wanted: format!("at most {bound}"), measured, value, met: Some(value <= bound) }
    }

    /// A ratio of at most `bound`, or at most `bound_us` microseconds more.
    pub(crate) fn at_most_or(
        name: String,
        (bound, bound_us): (f64, f64),
        (value, more_us): (f64, f64),
        detail: &str,
    ) -> Goal {
        let wanted = format!("at most {bound} or {bound_us} us more");
        let measured = format!("{value:.3}, {more_us:+.2} us ({detail})");
        Goal { name, wanted, measured, value, met: Some(value <= bound || more_us <= bound_us) }
    }

    /// A ratio without a verdict.
    pub(crate) fn printed(name: String, value: f64, detail: &str) -> Goal {
        Goal { name, wanted: "no goal".into(), measured: format!("{value:.3} ({detail})"), value, met: None }
    }

    /// Adds the instruction sets of the reference machine that this machine lacks.
    pub(crate) fn on_this_machine(mut self) -> Goal {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        if let Some(missing) = lacking(&cpuinfo) {
            self.measured.push_str(&format!("; this machine lacks {missing}"));
        }
        self
    }

    /// True if the goal was missed.
    pub(crate) fn missed(&self) -> bool {
        self.met == Some(false)
    }

    /// `value` must not be below `bound`.
    pub(crate) fn at_least(name: String, bound: f64, value: f64, detail: &str) -> Goal {
        let measured = format!("{value:.3} ({detail})");
        Goal { name, wanted: format!("at least {bound}"), measured, value, met: Some(value >= bound) }
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "name": self.name, "goal": self.wanted, "value": self.value, "measured": self.measured, "met": self.met })
    }
}

/// Prints each goal with its measurement and verdict.
pub(crate) fn print(goals: &[Goal]) {
    let width = |f: fn(&Goal) -> &str| goals.iter().map(|g| f(g).chars().count()).max().unwrap_or(0);
    let (name, wanted, measured) = (width(|g| &g.name), width(|g| &g.wanted), width(|g| &g.measured));
    println!("\n{:name$}  {:wanted$}  {:measured$}  met", "", "goal", "measured");
    for goal in goals {
        let met = match goal.met {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "-",
        };
        println!("{:name$}  {:wanted$}  {:measured$}  {met}", goal.name, goal.wanted, goal.measured);
    }
}

fn lacking(cpuinfo: &str) -> Option<String> {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    let has = |name: &&str| flags.split_whitespace().any(|flag| flag == *name);
    let missing: Vec<&str> = INSTRUCTIONS.into_iter().filter(|name| !has(name)).collect();
    (!missing.is_empty()).then(|| missing.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_bound_is_enough() {
        let goal = |ratio, more| Goal::at_most_or("a".into(), (1.05, 0.5), (ratio, more), "");
        assert!(!goal(1.2, 0.4).missed() && !goal(1.04, 2.0).missed());
        assert!(goal(1.06, 0.6).missed());
        assert!(!Goal::printed("a".into(), 9.0, "").missed());
    }

    #[test]
    fn missing_instructions_are_named() {
        assert_eq!(lacking("flags\t: sse avx2 vaes vpclmulqdq avx512vl\n"), None);
        assert_eq!(
            lacking("model name: A\nflags\t: sse avx2\n").as_deref(),
            Some("avx512vl, vaes, vpclmulqdq")
        );
    }
}
