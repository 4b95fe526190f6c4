//! Figure 7 as a picture: for each scenario what sealing takes, from its smallest to its largest payload, beside its bound.

use std::fmt::Write;

use super::Mote;
use super::table::{SCENARIOS, Scenario, Way, size_of_ccm};
use crate::svg::{COLOURS, escaped};

const WIDTH: f64 = 1180.0;
/// A panel: its height, and where its axes lie in it.
const PANEL: f64 = 330.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 270.0;
/// What a scenario has of the axis, and a bar of that.
const GROUP: f64 = 120.0;
const BAR: f64 = 13.0;
/// Decades of the axis, in milliseconds: 0.01 to 1000.
const DECADES: [i32; 2] = [-2, 3];
/// The last series, whose 32 new bytes may lie anywhere.
const SPARSE: &str = "ChaCha20-Poly1305, 32 new bytes anywhere";

fn height(ms: f64) -> f64 {
    let [low, high] = DECADES.map(f64::from);
    let part = (ms.max(1e-9).log10() - low) / (high - low);
    BOTTOM - part.clamp(0.0, 1.0) * (BOTTOM - TOP)
}

/// The milliseconds of a way at a scenario's sizes, as far as it has any.
fn bar(mote: &Mote, scenario: &Scenario, way: Option<Way>) -> Result<Option<[f64; 2]>, String> {
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

/// The picture, a panel for each mote.
pub(super) fn svg(motes: &[Mote]) -> Result<String, String> {
    let tall = PANEL * motes.len() as f64 + 60.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {tall}\" font-family=\"sans-serif\" font-size=\"12\">\n\
        <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let ways: Vec<Option<Way>> = Way::ALL.into_iter().map(Some).chain([None]).collect();
    // Writing to a string cannot fail.
    for (panel, mote) in motes.iter().enumerate() {
        let _ = writeln!(out, "<g transform=\"translate(0 {})\">", PANEL * panel as f64);
        let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"20\">{}: {}</text>", mote.name, escaped(mote.note));
        for decade in DECADES[0]..=DECADES[1] {
            let (ms, y) = (10f64.powi(decade), height(10f64.powi(decade)));
            let _ = writeln!(
                out,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{ms} ms</text>",
                LEFT + GROUP * 9.0,
                LEFT - 4.0,
                y + 4.0
            );
        }
        for (group, scenario) in SCENARIOS.iter().enumerate() {
            let x = LEFT + GROUP * group as f64;
            for (i, way) in ways.iter().enumerate() {
                let Some([low, high]) = bar(mote, scenario, *way)? else { continue };
                // A scenario with one size is a line.
                let (y, tall) = (height(high), (height(low) - height(high)).max(2.0));
                let _ = writeln!(
                    out,
                    "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{BAR}\" height=\"{tall:.1}\" fill=\"{}\"/>",
                    x + 16.0 + (BAR + 2.0) * i as f64,
                    COLOURS[i % COLOURS.len()]
                );
            }
            let y = height(scenario.bound);
            let _ = writeln!(
                out,
                "<line x1=\"{:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"black\" stroke-width=\"2\" stroke-dasharray=\"6 3\"/>",
                x + 8.0,
                x + GROUP - 8.0
            );
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\" font-size=\"11\">{}</text>",
                x + GROUP / 2.0,
                BOTTOM + 16.0,
                escaped(scenario.name)
            );
        }
        out.push_str("</g>\n");
    }
    for (i, way) in ways.iter().enumerate() {
        let (x, y) =
            (LEFT + 370.0 * (i % 3) as f64, PANEL * motes.len() as f64 + 6.0 + 18.0 * (i / 3) as f64);
        let name = way.map_or_else(|| SPARSE.to_owned(), Way::name);
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>",
            COLOURS[i % COLOURS.len()],
            x + 18.0,
            y + 11.0,
            escaped(&name)
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{}\">dashed: the bound of the scenario (table I); a bar reaches from its smallest payload to its largest</text>",
        tall - 6.0
    );
    out.push_str("</svg>\n");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::motes::ScenarioCounts;

    #[test]
    fn every_scenario_has_its_bars_and_its_bound() {
        let count = |ms: f64| Box::new(move |_: &str| Ok(ms)) as super::super::motes::Count;
        let counts =
            ScenarioCounts { ccm: count(100.0), gcm: None, chacha: Some(count(1.0)), schedule: None };
        let mote = Mote { name: "M", device: "", counts_per_ms: 10.0, note: "a < b", counts };
        let svg = svg(&[mote]).expect("drawn");
        // Nine scenarios of six bars, but that three templates are too long for packaging and two for printing.
        assert_eq!(svg.matches("width=\"13\"").count(), 9 * 6 - 5, "{svg}");
        assert_eq!(svg.matches("dasharray").count(), 9);
        assert!(svg.contains("a &lt; b") && svg.contains(&format!("y=\"{:.1}\"", height(10.0))));
    }
}
