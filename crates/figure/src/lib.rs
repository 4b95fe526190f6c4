//! Figures as SVG: lines, rectangles and texts. Coordinates are pixels from the upper left corner.
//!
//! - [`axis`]: scales, ticks at round numbers, and numbers as people write them
//! - [`chart`]: bars, boxes, parts and curves with axes
//! - [`race`]: the engine beside other implementations

#![forbid(unsafe_code)]

use std::fmt::{Arguments, Write};

pub mod axis;
pub mod chart;
pub mod race;

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

    /// An empty figure of this size that takes the reader's light or dark colours. Screen readers say
    /// `title`, then `description`.
    #[must_use]
    pub fn described(width: f64, height: f64, title: &str, description: &str) -> Self {
        let (title, description) = (escaped(title), escaped(description));
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" class=\"chart\" role=\"img\" \
             fill=\"currentColor\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <title>{title}</title>\n<desc>{description}</desc>\n\
             <style>.chart{{color:#1a1a1a;background:#fff}}\
             @media screen and (prefers-color-scheme:dark){{.chart{{color:#e6e6e6;background:#1b1b1b}}}}</style>\n"
        ))
    }

    /// The inside of a figure, without its frame.
    fn part() -> Self {
        Self(String::new())
    }

    /// A figure of several charts in the reader's colours.
    fn group(width: f64, height: f64, title: &str, description: &str, inside: Self) -> String {
        let whole = Self::described(width, height, title, description).0;
        // The charts inside are images of their own.
        whole.replacen("role=\"img\"", "role=\"group\"", 1) + &inside.0 + "</svg>\n"
    }

    /// Puts a finished figure at this height, and returns its own height.
    fn chart(&mut self, y: f64, figure: &str) -> f64 {
        const BEGIN: &str = "<svg ";
        let size = figure.split("viewBox=\"0 0 ").nth(1).and_then(|rest| rest.split('"').next());
        let size = size.and_then(|size| size.split_once(' '));
        let (Some((width, height)), Some(rest)) = (size, figure.strip_prefix(BEGIN)) else { return 0.0 };
        self.element(format_args!(
            "{BEGIN}x=\"0\" y=\"{y:.1}\" width=\"{width}\" height=\"{height}\" {}",
            rest.trim_end()
        ));
        height.parse().unwrap_or(0.0)
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
        let text = escaped(text);
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
            "<line x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"currentColor\" stroke-opacity=\"0.15\"/>"
        ));
        self.text([x, bottom + 16.0], Anchor::Middle, value);
    }

    /// Draws a line of the grid, with its value to the left.
    pub fn grid(&mut self, [left, right]: [f64; 2], y: f64, value: &str) {
        self.element(format_args!(
            "<line x1=\"{left:.1}\" y1=\"{y:.1}\" x2=\"{right:.1}\" y2=\"{y:.1}\" stroke=\"currentColor\" stroke-opacity=\"0.15\"/>"
        ));
        self.text([left - 6.0, y + 4.0], Anchor::End, value);
    }

    /// Draws an entry of the legend with its upper left corner at a point.
    pub fn legend(&mut self, [x, y]: [f64; 2], colour: &str, name: &str) {
        self.rect([x, y], [12.0, 12.0], colour);
        self.text([x + 18.0, y + 11.0], Anchor::Start, name);
    }

    /// Draws a thin line: a whisker or a median.
    pub fn line(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        self.element(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"currentColor\"/>"
        ));
    }

    /// Draws a point of a curve.
    pub fn point(&mut self, [x, y]: [f64; 2], colour: &str) {
        self.element(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"));
    }

    /// The figure as a document.
    #[must_use]
    pub fn finish(self) -> String {
        self.0 + "</svg>\n"
    }
}

/// A text for XML: markup is escaped, and control characters, which XML forbids, are left out.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' => out.push(letter),
            _ if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {}
            _ => out.push(letter),
        }
    }
    out
}
