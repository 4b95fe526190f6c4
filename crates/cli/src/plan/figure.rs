//! The figure of a sweep.

use antedate_figure::axis::Kind;
use antedate_figure::chart::{self, Curve, Texts};

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

/// Draws curves of the quantity `y` over `x`. A dashed line in the same colour is the bound of each.
pub(super) fn svg(x: &str, y: &str, lines: &[Line]) -> String {
    let points = |line: &Line| line.points.iter().map(|(px, py)| [*px, *py]).collect();
    let curves: Vec<Curve<'_>> =
        lines.iter().enumerate().map(|(hue, line)| (line.name.as_str(), hue, points(line))).collect();
    let bounds: Vec<(f64, usize)> =
        lines.iter().enumerate().filter_map(|(hue, line)| Some((line.bound?, hue))).collect();
    let title = format!("{y} over {x}");
    let texts = Texts {
        title: &title,
        axis: y,
        description: "A curve for each message. A dashed line is its deadline.",
    };
    chart::curves_within(&texts, x, [Kind::Linear, Kind::Linear], &curves, &bounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_bounds_are_drawn() {
        let line = Line { name: "a<b".into(), points: vec![(16.0, 0.5), (1500.0, 2.0)], bound: Some(1.0) };
        let svg = svg("size", "ms", &[line]);
        assert!(svg.contains("a&lt;b") && svg.matches("stroke-dasharray").count() == 1, "{svg}");
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (1, 2));
    }

    #[test]
    fn infinite_values_are_not_drawn() {
        let points = vec![(1.0, f64::INFINITY), (2.0, f64::INFINITY), (3.0, 0.5)];
        let svg = svg("period_ms", "ms", &[Line { name: "a".into(), points, bound: Some(1.0) }]);
        assert_eq!(svg.matches("<circle").count(), 1, "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
