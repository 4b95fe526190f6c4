//! Figure 7: for each scenario the time of sealing, from its smallest to its largest payload, and
//! its bound.

use super::Mote;
use super::table::{SCENARIOS, Scenario, Way, size_of_ccm};
use crate::ExperimentError;
use antedate_figure::{Anchor, Drawing, colour};

const WIDTH: f64 = 1180.0;
/// A panel: its height, and where its axes lie in it.
const PANEL: f64 = 330.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 270.0;
/// Width of a scenario's group, and of a bar.
const GROUP: f64 = 120.0;
const BAR: f64 = 13.0;
/// Decades of the axis, in milliseconds: 0.01 to 1000.
const DECADES: [i32; 2] = [-2, 3];
/// The last series; its 32 new bytes are anywhere.
const SPARSE: &str = "ChaCha20-Poly1305, 32 new bytes anywhere";

fn height(ms: f64) -> f64 {
    let [low, high] = DECADES.map(f64::from);
    let part = (ms.max(1e-9).log10() - low) / (high - low);
    BOTTOM - part.clamp(0.0, 1.0) * (BOTTOM - TOP)
}

/// Least and greatest milliseconds of a way over a scenario's sizes, if it has any.
fn bar(mote: &Mote, scenario: &Scenario, way: Option<Way>) -> Result<Option<[f64; 2]>, ExperimentError> {
    let mut found = Vec::new();
    for size in scenario.sizes {
        let ms = match way {
            Some(way) => match way.count(size_of_ccm(size)) {
                Some(count) => mote.ms(&count)?,
                None => continue,
            },
            None => match &mote.counts.chacha {
                Some(counts) => counts(&format!("chacha-{size}-32-template-online"))? / mote.counts_per_ms,
                None => continue,
            },
        };
        found.push(ms);
    }
    let low = found.iter().copied().reduce(f64::min);
    let high = found.iter().copied().reduce(f64::max);
    Ok(low.zip(high).map(|(low, high)| [low, high]))
}

/// Draws a panel for each mote.
pub(super) fn svg(motes: &[Mote]) -> Result<String, ExperimentError> {
    let below = PANEL * motes.len() as f64;
    let mut drawing = Drawing::new(WIDTH, below + 60.0);
    let ways: Vec<Option<Way>> = Way::ALL.into_iter().map(Some).chain([None]).collect();
    for (panel, mote) in motes.iter().enumerate() {
        let top = PANEL * panel as f64;
        drawing.text([LEFT, top + 20.0], Anchor::Start, &format!("{}: {}", mote.name, mote.note));
        for decade in DECADES[0]..=DECADES[1] {
            let ms = 10f64.powi(decade);
            drawing.grid([LEFT, LEFT + GROUP * 9.0], top + height(ms), &format!("{ms} ms"));
        }
        for (group, scenario) in SCENARIOS.iter().enumerate() {
            let x = LEFT + GROUP * group as f64;
            for (i, way) in ways.iter().enumerate() {
                let Some([low, high]) = bar(mote, scenario, *way)? else { continue };
                // A scenario with one size is drawn as a line.
                let tall = (height(low) - height(high)).max(2.0);
                let at = [x + 16.0 + (BAR + 2.0) * i as f64, top + height(high)];
                drawing.rect(at, [BAR, tall], colour(i));
            }
            drawing.bound([x + 8.0, x + GROUP - 8.0], top + height(scenario.bound), "black");
            drawing.text([x + GROUP / 2.0, top + BOTTOM + 16.0], Anchor::Middle, scenario.name);
        }
    }
    for (i, way) in ways.iter().enumerate() {
        let at = [LEFT + 370.0 * (i % 3) as f64, below + 6.0 + 18.0 * (i / 3) as f64];
        drawing.legend(at, colour(i), &way.map_or_else(|| SPARSE.to_owned(), Way::name));
    }
    let explained =
        "dashed: the bound of the scenario (table I); a bar reaches from its smallest payload to its largest";
    drawing.text([LEFT, below + 54.0], Anchor::Start, explained);
    Ok(drawing.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::motes::ScenarioCounts;

    #[test]
    fn scenarios_have_bars_and_bounds() {
        let count = |ms: f64| Box::new(move |_: &str| Ok(ms)) as crate::motes::Count;
        let counts =
            ScenarioCounts { ccm: count(100.0), gcm: None, chacha: Some(count(1.0)), schedule: None };
        let mote = Mote { name: "M", device: "", counts_per_ms: 10.0, note: "a < b", counts };
        let svg = svg(&[mote]).expect("drawn");
        // Nine scenarios of six bars. Three templates are too long for packaging and two for
        // printing.
        assert_eq!(svg.matches("width=\"13.0\"").count(), 9 * 6 - 5, "{svg}");
        assert_eq!(svg.matches("dasharray").count(), 9);
        assert!(svg.contains("a &lt; b") && svg.contains(&format!("y=\"{:.1}\"", height(10.0))));
    }
}
