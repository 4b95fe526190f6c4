//! A figure with curves as SVG.

use antedate_figure::{Anchor, Drawing, colour};

/// A curve of a figure.
pub(super) struct Line {
    name: String,
    /// Infinite values are not drawn.
    pub(super) points: Vec<(f64, f64)>,
    /// Level that the curve must stay below.
    pub(super) bound: Option<f64>,
}

impl Line {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), points: Vec::new(), bound: None }
    }
}

/// Left and right, top and bottom of the axes.
const ACROSS: [f64; 2] = [70.0, 670.0];
const DOWN: [f64; 2] = [30.0, 470.0];
/// Names that the legend has space for.
const NAMES: usize = 24;

/// Draws curves. A dashed line in the same colour is the bound of each.
pub(super) fn svg(x: &str, y: &str, lines: &[Line]) -> String {
    let xs = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
    let ys = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.1).chain(line.bound));
    let (left, right) = (xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max));
    let top = ys().filter(|y| y.is_finite()).fold(0.0, f64::max).max(f64::MIN_POSITIVE) * 1.05;
    let span = if right > left { right - left } else { 1.0 };
    let across = |px: f64| ACROSS[0] + (px - left) / span * (ACROSS[1] - ACROSS[0]);
    let down = |py: f64| DOWN[1] - py / top * (DOWN[1] - DOWN[0]);
    let mut drawing = Drawing::new(900.0, 520.0);
    for i in 0..=5 {
        let (part_x, part_y) = (left + span * f64::from(i) / 5.0, top * f64::from(i) / 5.0);
        drawing.grid(ACROSS, down(part_y), &short(part_y));
        drawing.text([across(part_x), DOWN[1] + 18.0], Anchor::Middle, &short(part_x));
    }
    drawing.text([(ACROSS[0] + ACROSS[1]) / 2.0, DOWN[1] + 40.0], Anchor::Middle, x);
    drawing.text([20.0, 16.0], Anchor::Start, y);
    for (i, line) in lines.iter().enumerate() {
        let finite = line.points.iter().filter(|(_, py)| py.is_finite());
        drawing.curve(finite.map(|(px, py)| [across(*px), down(*py)]), colour(i));
        if let Some(bound) = line.bound {
            drawing.bound(ACROSS, down(bound), colour(i));
        }
        if i < NAMES {
            drawing.legend([ACROSS[1] + 20.0, 29.0 + 18.0 * i as f64], colour(i), &line.name);
        }
    }
    drawing.finish()
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
    fn infinite_values_are_not_drawn() {
        let points = vec![(1.0, f64::INFINITY), (2.0, f64::INFINITY), (3.0, 0.5)];
        let svg = svg("period_ms", "ms", &[Line { name: "a".into(), points, bound: Some(1.0) }]);
        assert!(
            svg.contains("points=\"670.0,260.5\"") && !svg.contains("NaN") && !svg.contains("inf"),
            "{svg}"
        );
    }
}
