//! A figure with lines, as SVG.

use std::fmt::Write;

use antedate_lab::svg::{COLOURS, escaped};

/// A line of a figure.
pub(super) struct Line {
    name: String,
    /// What is infinite is not drawn.
    pub(super) points: Vec<(f64, f64)>,
    /// A level that it must stay below.
    pub(super) bound: Option<f64>,
}

impl Line {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), points: Vec::new(), bound: None }
    }
}

const WIDTH: u32 = 900;
const HEIGHT: u32 = 520;

/// Draws lines; a dashed one in the same colour is the bound of each.
pub(super) fn svg(x: &str, y: &str, lines: &[Line]) -> String {
    let xs = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
    let ys = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.1).chain(line.bound));
    let (left, right) = (xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max));
    let top = ys().filter(|y| y.is_finite()).fold(0.0, f64::max).max(f64::MIN_POSITIVE) * 1.05;
    let span = if right > left { right - left } else { 1.0 };
    let at = |px: f64, py: f64| (70.0 + (px - left) / span * 600.0, 470.0 - py / top * 440.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        WIDTH, HEIGHT
    );
    // Writing to a string cannot fail.
    for i in 0..=5 {
        let (part_x, part_y) = (left + span * f64::from(i) / 5.0, top * f64::from(i) / 5.0);
        let ((tick_x, _), (_, tick_y)) = (at(part_x, 0.0), at(left, part_y));
        let _ = writeln!(
            out,
            "<line x1=\"70\" y1=\"{tick_y:.1}\" x2=\"670\" y2=\"{tick_y:.1}\" stroke=\"#ddd\"/>\
            <text x=\"62\" y=\"{:.1}\" text-anchor=\"end\">{}</text><text x=\"{tick_x:.1}\" y=\"488\" text-anchor=\"middle\">{}</text>",
            tick_y + 4.0,
            short(part_y),
            short(part_x)
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"370\" y=\"510\" text-anchor=\"middle\">{}</text><text x=\"20\" y=\"20\">{}</text>",
        escaped(x),
        escaped(y)
    );
    for (i, line) in lines.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let points: Vec<String> = line
            .points
            .iter()
            .filter(|(_, py)| py.is_finite())
            .map(|(px, py)| {
                let (px, py) = at(*px, *py);
                format!("{px:.1},{py:.1}")
            })
            .collect();
        let _ = writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>",
            points.join(" ")
        );
        if let Some(bound) = line.bound {
            let (_, level) = at(left, bound);
            let _ = writeln!(
                out,
                "<line x1=\"70\" y1=\"{level:.1}\" x2=\"670\" y2=\"{level:.1}\" stroke=\"{colour}\" stroke-dasharray=\"6 4\"/>"
            );
        }
        if i < 24 {
            let row = 40 + 18 * i;
            let _ = writeln!(
                out,
                "<rect x=\"690\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"708\" y=\"{row}\">{}</text>",
                row - 11,
                escaped(&line.name)
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

fn short(value: f64) -> String {
    if value >= 100.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_bounds_are_drawn_inside() {
        let line = Line { name: "a<b".into(), points: vec![(16.0, 0.5), (1500.0, 2.0)], bound: Some(1.0) };
        let svg = svg("size", "ms", &[line]);
        assert!(
            svg.contains("70.0,365.2 670.0,51.0") && svg.contains("a&lt;b") && svg.contains("dasharray"),
            "{svg}"
        );
    }

    #[test]
    fn what_is_infinite_is_left_out_and_spoils_nothing() {
        let points = vec![(1.0, f64::INFINITY), (2.0, f64::INFINITY), (3.0, 0.5)];
        let svg = svg("period_ms", "ms", &[Line { name: "a".into(), points, bound: Some(1.0) }]);
        assert!(
            svg.contains("points=\"670.0,260.5\"") && !svg.contains("NaN") && !svg.contains("inf"),
            "{svg}"
        );
    }
}
