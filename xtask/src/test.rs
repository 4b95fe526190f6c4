//! `cargo xtask test`: runs the steps of [`crate::steps`], all or named ones.

use crate::lanes;
use crate::steps::{Lane, PACKAGE, PRODUCT, Step, steps};
use xtask::report::Report;
use xtask::sandbox;
use xtask::setup::{self, Purpose};

/// The names of all steps.
pub(crate) fn names() -> Vec<String> {
    steps().into_iter().map(|step| step.name).collect()
}

/// Prints the names of the steps.
pub(crate) fn list() -> bool {
    names().iter().for_each(|name| println!("{name}"));
    true
}

/// Runs the named steps, or all. A name may be the first word of several: `house`, `demo`, `peer`.
pub(crate) fn run(only: &[String]) -> Result<Report, String> {
    let steps = steps();
    if let Some(wrong) = only.iter().find(|o| !steps.iter().any(|s| is_named(&s.name, o))) {
        return Err(format!("no step `{wrong}`; `cargo xtask test --list` names them"));
    }
    let mut report = Report::default();
    let wanted = |step: &&Step| is_wanted(&step.name, only);
    let purpose = if steps.iter().filter(wanted).all(is_light) { Purpose::Demo } else { Purpose::Test };
    report.step("set-up", || {
        setup::ensure(purpose)?;
        Ok(String::new())
    });
    let networks = sandbox::possible();
    let mut is_built = true;
    let mut together = Vec::new();
    for step in steps.into_iter().filter(|s| is_wanted(&s.name, only)) {
        if step.lane == Lane::Alone {
            lanes::run(&mut report, std::mem::take(&mut together));
        }
        match &networks {
            Err(reason) if on_networks(&step.name) => report.skip(&step.name, reason),
            _ if starts_product(&step.name) && !is_built => {
                report.step(&step.name, || Err("the product's build failed".into()));
            }
            _ if step.lane != Lane::Alone => together.push(step),
            _ => {
                let passed = report.step(&step.name, step.run);
                is_built &= passed || step.name != PRODUCT;
            }
        }
    }
    lanes::run(&mut report, together);
    Ok(report)
}

/// True if the step needs only the packages of a build.
fn is_light(step: &Step) -> bool {
    ["format", "clippy", "docs", "book"].contains(&step.name.as_str()) || step.name.starts_with("house ")
}

/// True if a name of `--only` covers a step.
fn is_named(step: &str, only: &str) -> bool {
    step.strip_prefix(only).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// True if a step is selected, or if none is named. Steps that start the product select its build
/// too.
fn is_wanted(name: &str, only: &[String]) -> bool {
    let named = || only.iter().map(String::as_str);
    only.is_empty()
        || named().any(|only| is_named(name, only))
        || (name == PRODUCT && named().any(|only| starts_product(&format!("{only} "))))
}

fn starts_product(name: &str) -> bool {
    name.trim_end() == "firmware" || on_networks(name)
}

/// True if a step starts the product's program on its own networks, which some machines forbid.
fn on_networks(name: &str) -> bool {
    ["demo ", "peer ", "bench "].iter().any(|kind| name.starts_with(kind)) || name.trim_end() == PACKAGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::house;

    #[test]
    fn steps_that_start_it_build_it() {
        let chosen = |only: &[&str]| -> Vec<String> {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            names().into_iter().filter(|name| is_wanted(name, &only)).collect()
        };
        assert_eq!(chosen(&["demo faults"]), ["product", "demo faults"]);
        assert_eq!(chosen(&["peer scapy", "firmware"]), ["product", "firmware", "peer scapy"]);
        assert_eq!(chosen(&["bench gateway"]), ["product", "bench gateway"]);
        assert_eq!(chosen(&["format"]), ["format"]);
        assert_eq!(chosen(&["house"]).len(), house::CHECKS.len());
        assert_eq!(chosen(&["peer"])[..2], ["product", "peer scapy"]);
        assert_eq!(chosen(&[]), names());
    }
}
