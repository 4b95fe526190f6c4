//! The round trips as a picture: for each load what share of them took how long at most, up to the last thousandths.

use serde_json::Value;
use std::fmt::Write;

/// A panel, and where its axes lie in it.
const PANEL: [f64; 2] = [430.0, 300.0];
const LEFT: f64 = 50.0;
const RIGHT: f64 = 415.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 265.0;
/// The axis of shares ends where one round trip in 2,000 is left.
const LAST: f64 = 99.95;
/// What is written at it.
const SHARES: [f64; 4] = [0.0, 90.0, 99.0, 99.9];
/// The axis of times, in microseconds, by logarithm.
const TIMES: [f64; 2] = [3.0, 300.0];
const WRITTEN: [f64; 6] = [3.0, 10.0, 20.0, 50.0, 100.0, 300.0];
/// Contenders in the order of their rows (colours of Okabe and Ito).
const COLOURS: [&str; 4] = ["#000000", "#0072b2", "#d55e00", "#009e73"];

/// The percentiles that a curve is drawn through.
pub(crate) const PERCENTILES: [f64; 17] =
    [0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.3, 99.5, 99.7, 99.8, 99.85, 99.9, 99.93, LAST];

/// By the nines of a share: each one more is as wide.
fn x(percent: f64) -> f64 {
    let depth = |percent: f64| -(1.0 - percent / 100.0).log10();
    LEFT + (RIGHT - LEFT) * depth(percent.min(LAST)) / depth(LAST)
}

fn y(us: f64) -> f64 {
    let part = (us.clamp(TIMES[0], TIMES[1]) / TIMES[0]).ln() / (TIMES[1] / TIMES[0]).ln();
    BOTTOM - part * (BOTTOM - TOP)
}

/// The picture, a panel for each load in two columns; nothing without rows.
pub(crate) fn svg(rows: &Value) -> Option<String> {
    let rows = rows.as_array()?;
    let mut loads: Vec<&str> = Vec::new();
    let mut contenders: Vec<&str> = Vec::new();
    for row in rows {
        let (load, who) = (row["load"].as_str()?, row["contender"].as_str()?);
        if !loads.contains(&load) {
            loads.push(load);
        }
        if !contenders.contains(&who) {
            contenders.push(who);
        }
    }
    if loads.is_empty() {
        return None;
    }
    // The ends that poll are an aside, and the last.
    loads.truncate(4);
    let (wide, tall) = (PANEL[0] * 2.0, PANEL[1] * loads.len().div_ceil(2) as f64 + 50.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {tall}\" font-family=\"sans-serif\" font-size=\"12\">\n\
        <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    // Writing to a string cannot fail.
    for (panel, load) in loads.iter().enumerate() {
        let (column, row) = ((panel % 2) as f64, (panel / 2) as f64);
        let _ = writeln!(out, "<g transform=\"translate({} {})\">", PANEL[0] * column, PANEL[1] * row);
        let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"18\" font-weight=\"bold\">{load}</text>");
        axes(&mut out);
        for row in rows.iter().filter(|row| row["load"] == **load) {
            let at = contenders.iter().position(|who| row["contender"] == **who)?;
            let points = row["percentiles"].as_array()?.iter().filter_map(|point| {
                let (percent, us) = (point[0].as_f64()?, point[1].as_f64()?);
                Some(format!("{:.1},{:.1}", x(percent), y(us)))
            });
            let points: Vec<String> = points.collect();
            let _ = writeln!(
                out,
                "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"{}\"/>",
                COLOURS[at % COLOURS.len()],
                points.join(" ")
            );
        }
        out.push_str("</g>\n");
    }
    for (at, who) in contenders.iter().enumerate() {
        let (left, top) = (LEFT + 200.0 * at as f64, tall - 44.0);
        let _ = writeln!(
            out,
            "<rect x=\"{left}\" y=\"{top}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{who}</text>",
            COLOURS[at % COLOURS.len()],
            left + 18.0,
            top + 11.0
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{}\">how long a round trip took, and what share of them took no longer</text>",
        tall - 10.0
    );
    out.push_str("</svg>\n");
    Some(out)
}

fn axes(out: &mut String) {
    for us in WRITTEN {
        let level = y(us);
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{level:.1}\" x2=\"{RIGHT}\" y2=\"{level:.1}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{us} µs</text>",
            LEFT - 4.0,
            level + 4.0
        );
    }
    for percent in SHARES {
        let at = x(percent);
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{BOTTOM}\" stroke=\"#ddd\"/><text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{percent} %</text>",
            BOTTOM + 16.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_load_has_a_panel_and_each_contender_a_curve_in_it() {
        let row = |load: &str, who: &str| json!({ "load": load, "contender": who, "percentiles": [[0.0, 3.0], [90.0, 30.0], [99.9, null], [99.95, 900.0]] });
        let rows = json!([row("A", "p"), row("A", "q"), row("B", "p"), row("B", "q")]);
        let svg = svg(&rows).expect("drawn");
        assert_eq!((svg.matches("<g ").count(), svg.matches("<polyline").count()), (2, 4), "{svg}");
        // From corner to corner: the least and most there is; what was lost is no point of it.
        let (middle, half) = (x(90.0), y(30.0));
        assert!(svg.contains(&format!("points=\"50.0,265.0 {middle:.1},{half:.1} 415.0,30.0\"")), "{svg}");
        assert_eq!(svg.matches(COLOURS[1]).count(), 3, "{svg}");
        assert!(super::svg(&json!([])).is_none() && super::svg(&json!(null)).is_none());
    }

    #[test]
    fn each_nine_more_is_as_wide() {
        assert!((x(0.0) - LEFT).abs() < 1e-9 && (x(LAST) - RIGHT).abs() < 1e-9);
        assert!((x(99.9) - x(99.0) - (x(99.0) - x(90.0))).abs() < 1e-9);
        assert_eq!((y(1.0), y(1e6)), (BOTTOM, TOP), "nothing leaves the panel");
    }
}
