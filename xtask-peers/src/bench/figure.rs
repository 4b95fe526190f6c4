//! The round trips as a figure: for each load, the share of round trips (up to the last
//! thousandths) over the longest time in that share. And the file of a figure, for all benches.

use antedate_figure::{Anchor, Drawing};
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// A panel, and the position of its axes.
const PANEL: [f64; 2] = [430.0, 300.0];
const LEFT: f64 = 50.0;
const RIGHT: f64 = 415.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 265.0;
/// The axis of shares ends where one round trip in 2,000 is left.
const LAST: f64 = 99.95;
/// The labels of the axis of shares.
const SHARES: [f64; 4] = [0.0, 90.0, 99.0, 99.9];
/// The logarithmic axis of times, in microseconds.
const TIMES: [f64; 2] = [3.0, 300.0];
const WRITTEN: [f64; 6] = [3.0, 10.0, 20.0, 50.0, 100.0, 300.0];
/// The contenders' colours in the order of their rows (by Okabe and Ito).
const COLOURS: [&str; 4] = ["#000000", "#0072b2", "#d55e00", "#009e73"];

/// The percentiles of a curve's points.
pub(crate) const PERCENTILES: [f64; 17] =
    [0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.3, 99.5, 99.7, 99.8, 99.85, 99.9, 99.93, LAST];

/// The position of a share, on a scale that gives each further nine the same width.
fn x(percent: f64) -> f64 {
    let depth = |percent: f64| -(1.0 - percent / 100.0).log10();
    LEFT + (RIGHT - LEFT) * depth(percent.min(LAST)) / depth(LAST)
}

fn y(us: f64) -> f64 {
    let part = (us.clamp(TIMES[0], TIMES[1]) / TIMES[0]).ln() / (TIMES[1] / TIMES[0]).ln();
    BOTTOM - part * (BOTTOM - TOP)
}

/// Finds before a long run that a figure cannot be written to this file: its folder is missing, or
/// the file is there and is no figure.
pub(crate) fn free(file: Option<&Path>) -> Result<(), String> {
    let Some(file) = file else { return Ok(()) };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(format!("--figure {}: there is no folder {}", file.display(), folder.display()));
    }
    match fs::read(file) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Ok(octets) if octets.is_empty() || octets.starts_with(b"<svg ") => Ok(()),
        Ok(_) => Err(format!("--figure {}: it is there, and is no figure: name another", file.display())),
        Err(e) => Err(format!("--figure {}: {e}", file.display())),
    }
}

/// Writes a figure.
pub(crate) fn write(file: &Path, svg: &str) -> Result<(), String> {
    fs::write(file, svg).map_err(|e| format!("--figure {}: {e}", file.display()))?;
    println!("figure: {}", file.display());
    Ok(())
}

/// The picture, a panel for each load in two columns; `None` without rows.
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
    // The load with polling ends is the last one and has no panel.
    loads.truncate(4);
    let (width, height) = (PANEL[0] * 2.0, PANEL[1] * loads.len().div_ceil(2) as f64 + 50.0);
    let mut drawing = Drawing::new(width, height);
    for (panel, load) in loads.iter().enumerate() {
        let at = [PANEL[0] * (panel % 2) as f64, PANEL[1] * (panel / 2) as f64];
        drawing.text([at[0] + LEFT, at[1] + 18.0], Anchor::Start, load);
        axes(&mut drawing, at);
        for row in rows.iter().filter(|row| row["load"] == **load) {
            let contender = contenders.iter().position(|who| row["contender"] == **who)?;
            let points = row["percentiles"].as_array()?.iter().filter_map(|point| {
                let (percent, us) = (point[0].as_f64()?, point[1].as_f64()?);
                Some([at[0] + x(percent), at[1] + y(us)])
            });
            drawing.curve(points, COLOURS[contender % COLOURS.len()]);
        }
    }
    for (at, who) in contenders.iter().enumerate() {
        drawing.legend([LEFT + 200.0 * at as f64, height - 44.0], COLOURS[at % COLOURS.len()], who);
    }
    let caption = "round-trip time, and the share of round trips that took no longer";
    drawing.text([LEFT, height - 10.0], Anchor::Start, caption);
    Some(drawing.finish())
}

fn axes(drawing: &mut Drawing, [left, top]: [f64; 2]) {
    for us in WRITTEN {
        drawing.grid([left + LEFT, left + RIGHT], top + y(us), &format!("{us} µs"));
    }
    for percent in SHARES {
        drawing.mark(left + x(percent), [top + TOP, top + BOTTOM], &format!("{percent} %"));
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
        let titles = ["A", "B"].map(|load| svg.matches(&format!(">{load}</text>")).count());
        assert_eq!((titles, svg.matches("<polyline").count()), ([1, 1], 4), "{svg}");
        // The curve runs from the lowest to the highest value; lost round trips have no point.
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

    #[test]
    fn only_a_figure_is_replaced() {
        let dir = std::env::temp_dir().join(format!("antedate-figure-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a place");
        let file = dir.join("a.svg");
        assert_eq!((free(None), free(Some(&file))), (Ok(()), Ok(())));
        write(&file, "<svg />\n").expect("written");
        assert_eq!(free(Some(&file)), Ok(()), "an earlier figure");
        fs::write(&file, "notes").expect("written");
        assert!(free(Some(&file)).is_err_and(|why| why.contains("no figure")));
        assert!(free(Some(&dir.join("no/a.svg"))).is_err_and(|why| why.contains("no folder")));
        assert!(free(Some(&dir)).is_err() && write(&dir, "").is_err(), "a folder");
        fs::remove_dir_all(dir).expect("removed");
    }
}
