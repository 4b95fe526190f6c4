//! Figure 7 of hiller2018: the time of sealing each scenario's largest payload, on the modelled mote
//! of the paper.

use antedate_figure::axis::Kind;
use antedate_figure::chart::{self, Lane, Texts};

use super::super::results::Results;
use super::{Figure, csv};

/// Its name.
pub(super) const NAME: &str = "hiller2018-figure-7-times";

/// Ways as the experiment names them, with names and colours of their series.
const WAYS: [(&str, &str, usize); 3] = [
    ("CCM_8 unmodified", "unmodified", 0),
    ("CCM_8 antedated", "antedated", 2),
    ("CCM_8 antedated, template of 48 B", "antedated, template of 48 B", 1),
];
const MOTE: &str = "MSP430 with AES engine";

/// Draws it from the time that is left of each bound.
pub(super) fn figure(results: &Results) -> Option<Figure> {
    let stored = results.get("scenarios")?;
    let mut lanes: Vec<Lane> = Vec::new();
    for line in &stored.report.rows {
        let Some(bound) = line.metric.strip_prefix("time left of ").and_then(|rest| rest.strip_suffix(" ms"))
        else {
            continue;
        };
        let Some((place, way)) = line.case.split_once(": ") else { continue };
        let Some(packet) = place.strip_suffix(MOTE).and_then(|rest| rest.strip_suffix(", ")) else {
            continue;
        };
        let Some(at) = WAYS.iter().position(|(name, ..)| *name == way) else { continue };
        let (Ok(limit), Some(left)) = (bound.parse::<f64>(), line.any()) else { continue };
        let name = format!("{packet} (bound {bound} ms)");
        let lane = match lanes.iter().position(|(other, _)| *other == name) {
            Some(lane) => lane,
            None => {
                lanes.push((name, vec![None; WAYS.len()]));
                lanes.len() - 1
            }
        };
        lanes[lane].1[at] = Some(limit - left);
    }
    if lanes.is_empty() {
        return None;
    }
    let title = "Figure 7: time of sealing at the deadline, by scenario and payload, beside its bound.";
    let texts = Texts {
        title,
        axis: "time (ms), in decades",
        description: "Bars of the unmodified and the antedated cipher. The bound is in the name of each group.",
    };
    let series = WAYS.map(|(_, name, hue)| (name, hue));
    Some(Figure {
        name: NAME.into(),
        paper: "hiller2018".into(),
        title: title.into(),
        svg: chart::bars(&texts, Kind::Logarithmic, &series, &lanes),
        csv: csv(&["scenario"], &series, &lanes),
    })
}
