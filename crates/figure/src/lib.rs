//! Figures as SVG: lines, rectangles and texts. Coordinates are pixels from the upper left corner.

#![forbid(unsafe_code)]

use std::fmt::{Arguments, Write};

/// Colours that most readers can tell apart (Okabe and Ito), by the number of a series.
#[must_use]
pub const fn colour(series: usize) -> &'static str {
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"][series % 7]
}

/// Position of a text relative to its point.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// The text starts there.
    Start,
    /// The text is centred there.
    Middle,
    /// The text ends there.
    End,
}

/// A figure under construction.
#[derive(Debug)]
pub struct Drawing(String);

impl Drawing {
    /// An empty figure of this size on white.
    #[must_use]
    pub fn new(width: f64, height: f64) -> Self {
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        ))
    }

    fn element(&mut self, element: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{element}");
    }

    /// Writes a text with its baseline at `y`.
    pub fn text(&mut self, [x, y]: [f64; 2], anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.element(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"));
    }

    /// Fills a rectangle.
    pub fn rect(&mut self, [x, y]: [f64; 2], [width, height]: [f64; 2], colour: &str) {
        self.element(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        ));
    }

    /// Draws a curve through points.
    pub fn curve(&mut self, points: impl IntoIterator<Item = [f64; 2]>, colour: &str) {
        let points: Vec<String> = points.into_iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        let points = points.join(" ");
        self.element(format_args!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{points}\"/>"
        ));
    }

    /// Draws a horizontal dashed line: a bound.
    pub fn bound(&mut self, [left, right]: [f64; 2], y: f64, colour: &str) {
        self.element(format_args!(
            "<line x1=\"{left:.1}\" y1=\"{y:.1}\" x2=\"{right:.1}\" y2=\"{y:.1}\" \
             stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"6 3\"/>"
        ));
    }

    /// Draws a vertical line of the grid, with its value below.
    pub fn mark(&mut self, x: f64, [top, bottom]: [f64; 2], value: &str) {
        self.element(format_args!(
            "<line x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#ddd\"/>"
        ));
        self.text([x, bottom + 16.0], Anchor::Middle, value);
    }

    /// Draws a line of the grid, with its value to the left.
    pub fn grid(&mut self, [left, right]: [f64; 2], y: f64, value: &str) {
        self.element(format_args!(
            "<line x1=\"{left:.1}\" y1=\"{y:.1}\" x2=\"{right:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"
        ));
        self.text([left - 6.0, y + 4.0], Anchor::End, value);
    }

    /// Draws an entry of the legend with its upper left corner at a point.
    pub fn legend(&mut self, [x, y]: [f64; 2], colour: &str, name: &str) {
        self.rect([x, y], [12.0, 12.0], colour);
        self.text([x + 18.0, y + 11.0], Anchor::Start, name);
    }

    /// The figure as a document.
    #[must_use]
    pub fn finish(self) -> String {
        self.0 + "</svg>\n"
    }
}
