//! Each result of the paper beside ours, row by row.

use super::table::{LAST, SCENARIOS, Scenario, Way, within};
use super::{Mote, Report};
use crate::ExperimentError;

/// Lists the results that the paper prints better: larger payloads, more time left.
///
/// The paper's mote is a Zolertia Z1: an MSP430 at 16 MHz with the AES engine of its radio. All of the
/// motes are judged by its figures.
pub(super) fn printed(report: &mut Report, motes: &[Mote; 3]) -> Result<(), ExperimentError> {
    for mote in motes {
        let (mut rows, mut worse) = (0, Vec::new());
        let mut compare = |what: String, unit: &str, ours: f64, printed: f64, rounding: f64| {
            rows += 1;
            if ours < printed - rounding {
                worse.push(format!("{what} {ours:.2} {unit} for {printed}"));
            }
        };
        for Scenario { name, sizes, bound, largest, left } in &SCENARIOS {
            let ways = [Way::Unmodified, Way::Antedated, Way::Template(48)];
            for (way, printed) in ways.iter().zip(largest) {
                let Some(printed) = printed else { continue };
                let ours = within(mote, *way, *bound, LAST)?.unwrap_or(0) as f64;
                compare(format!("{name}, {}:", way.name()), "B", ours, *printed, 0.0);
            }
            let size = super::table::size_of_ccm(sizes[0]);
            for (way, printed) in ways.iter().zip(left) {
                if let (Some(printed), Some(count)) = (printed, way.count(size)) {
                    compare(
                        format!("{name}, {}:", way.name()),
                        "ms left",
                        bound - mote.ms(&count)?,
                        *printed,
                        0.005,
                    );
                }
            }
        }
        let list = if worse.is_empty() { "none".to_owned() } else { worse.join("; ") };
        report.check(
            format!(
                "{}: results that the paper prints better: {} of {rows}, at most 0: {list}",
                mote.name,
                worse.len()
            ),
            worse.is_empty(),
        );
    }
    Ok(())
}
