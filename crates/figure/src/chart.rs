//! Charts: bars, boxes and parts lie, with their names at the left and their values beside them, so
//! that no colour alone tells what is what. Curves stand on two axes.

use crate::axis::{Kind, Scale, number};
use crate::{Anchor, Drawing, colour};

/// Width of a chart in pixels.
const WIDTH: f64 = 680.0;
/// Pixels for the value behind the longest bar.
const VALUE: f64 = 56.0;
/// Pixels of a letter, on average.
const LETTER: f64 = 6.9;
/// Height of a bar, and of the space between groups.
const BAR: f64 = 15.0;
const GAP: f64 = 9.0;
/// Height of the legend's lines.
const LEGEND: f64 = 20.0;

/// The texts of a chart.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    /// The name of the figure.
    pub title: &'a str,
    /// The quantity of the axis, with its unit.
    pub axis: &'a str,
    /// What it shows, for a reader who does not see it.
    pub description: &'a str,
}

/// A lane of a chart: a name, and a value for each series, if there is one.
pub type Lane = (String, Vec<Option<f64>>);

/// Where the names of lanes stand.
#[derive(Clone, Copy)]
struct Names {
    /// Pixels left of the axis.
    left: f64,
    /// Pixels above each lane, for names that are too long for its left side.
    above: f64,
}

impl Names {
    fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
        let wide = longest as f64 * LETTER + 16.0;
        if wide <= 0.55 * WIDTH {
            Self { left: wide.max(60.0), above: 0.0 }
        } else {
            Self { left: 24.0, above: 16.0 }
        }
    }

    /// Writes the name of a lane whose bars begin at `y` and are `tall`.
    fn write(self, drawing: &mut Drawing, y: f64, tall: f64, name: &str) {
        if self.above > 0.0 {
            drawing.text([8.0, y - 4.0], Anchor::Start, name);
        } else {
            drawing.text([self.left - 8.0, y + tall / 2.0 + 4.0], Anchor::End, name);
        }
    }
}

/// The lines that the legend takes, and draws it if there is a drawing.
fn legend(drawing: Option<&mut Drawing>, series: &[(&str, usize)], top: f64) -> f64 {
    let (mut x, mut y) = (8.0, top);
    let mut places = Vec::new();
    for (name, hue) in series {
        let width = name.chars().count() as f64 * LETTER + 34.0;
        if x + width > WIDTH && x > 8.0 {
            (x, y) = (8.0, y + LEGEND);
        }
        places.push(([x, y], *name, *hue));
        x += width;
    }
    if let Some(drawing) = drawing {
        for (place, name, hue) in places {
            drawing.legend(place, colour(hue), name);
        }
    }
    if series.is_empty() { 0.0 } else { y - top + LEGEND }
}

/// The frame of a chart whose values lie along the horizontal axis.
struct Lying {
    drawing: Drawing,
    scale: Scale,
    /// Below the legend.
    top: f64,
}

fn lying(
    texts: &Texts<'_>,
    series: &[(&str, usize)],
    kind: Kind,
    values: impl Iterator<Item = f64>,
    [left, tall]: [f64; 2],
) -> Lying {
    let top = 8.0 + legend(None, series, 8.0);
    let bottom = top + tall;
    let mut drawing = Drawing::described(WIDTH, bottom + 44.0, texts.title, texts.description);
    legend(Some(&mut drawing), series, 8.0);
    let scale = Scale::over(kind, values, [left, WIDTH - VALUE]);
    for tick in scale.ticks() {
        drawing.mark(scale.at(tick), [top, bottom], &number(tick));
    }
    drawing.text([(left + WIDTH - VALUE) / 2.0, bottom + 36.0], Anchor::Middle, texts.axis);
    Lying { drawing, scale, top }
}

/// Draws groups of bars: a group for each lane, a bar for each series. `series` has names and
/// colours.
#[must_use]
pub fn bars(texts: &Texts<'_>, kind: Kind, series: &[(&str, usize)], lanes: &[Lane]) -> String {
    let names = Names::of(lanes.iter().map(|(name, _)| name.as_str()));
    let tall = BAR * series.len().max(1) as f64;
    let group = tall + GAP + names.above;
    let values = lanes.iter().flat_map(|(_, values)| values.iter().flatten().copied());
    let Lying { mut drawing, scale, top } =
        lying(texts, series, kind, values, [names.left, group * lanes.len() as f64]);
    for (at, (name, values)) in lanes.iter().enumerate() {
        let y = top + group * at as f64 + GAP / 2.0 + names.above;
        names.write(&mut drawing, y, tall, name);
        for (bar, (value, (_, hue))) in values.iter().zip(series).enumerate() {
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            let y = y + BAR * bar as f64;
            let [from, to] = [scale.base(), scale.at(value)];
            drawing.rect([from.min(to), y], [(to - from).abs().max(1.0), BAR - 2.0], colour(*hue));
            drawing.text([from.max(to) + 4.0, y + 11.0], Anchor::Start, &number(value));
        }
    }
    drawing.finish()
}

/// A box: minimum, lower quartile, median, upper quartile and maximum, and the colour.
pub type Quartiles = (String, [f64; 5], usize);

/// Draws boxes with whiskers from the minimum to the maximum and a line at the median.
#[must_use]
pub fn boxes(texts: &Texts<'_>, kind: Kind, series: &[(&str, usize)], lanes: &[Quartiles]) -> String {
    let names = Names::of(lanes.iter().map(|(name, ..)| name.as_str()));
    let lane = BAR + GAP + names.above;
    let values = lanes.iter().flat_map(|(_, five, _)| five.iter().copied());
    let Lying { mut drawing, scale, top } =
        lying(texts, series, kind, values, [names.left, lane * lanes.len() as f64]);
    for (at, (name, five, hue)) in lanes.iter().enumerate() {
        let y = top + lane * at as f64 + GAP / 2.0 + names.above;
        let middle = y + BAR / 2.0;
        names.write(&mut drawing, y, BAR, name);
        let [min, low, median, high, max] = five.map(|value| scale.at(value));
        drawing.line([min, middle], [max, middle]);
        drawing.rect([low, y], [(high - low).max(1.0), BAR], colour(*hue));
        for x in [min, max] {
            drawing.line([x, y + 3.0], [x, y + BAR - 3.0]);
        }
        drawing.line([median, y - 2.0], [median, y + BAR + 2.0]);
        drawing.text([max + 4.0, y + 12.0], Anchor::Start, &number(five[2]));
    }
    drawing.finish()
}

/// Draws each lane as parts that follow one another, to scale: the parts of a time. `parts` has the
/// names of parts and their colours. The sum stands behind each lane.
#[must_use]
pub fn parts(texts: &Texts<'_>, parts: &[(&str, usize)], lanes: &[(String, Vec<f64>)]) -> String {
    let names = Names::of(lanes.iter().map(|(name, _)| name.as_str()));
    let lane = BAR + GAP + names.above;
    let sum = |of: &[f64]| of.iter().filter(|part| part.is_finite()).sum::<f64>();
    let sums = lanes.iter().map(|(_, of)| sum(of));
    let Lying { mut drawing, scale, top } =
        lying(texts, parts, Kind::Linear, sums, [names.left, lane * lanes.len() as f64]);
    for (at, (name, of)) in lanes.iter().enumerate() {
        let y = top + lane * at as f64 + GAP / 2.0 + names.above;
        names.write(&mut drawing, y, BAR, name);
        let mut from = 0.0;
        for (part, (_, hue)) in of.iter().zip(parts).filter(|(part, _)| part.is_finite()) {
            let [begin, end] = [from, from + part].map(|value| scale.at(value));
            drawing.rect([begin, y], [(end - begin).max(0.0), BAR], colour(*hue));
            from += part;
        }
        drawing.text([scale.at(from) + 4.0, y + 12.0], Anchor::Start, &number(sum(of)));
    }
    drawing.finish()
}

/// A curve: its name, its colour and its points, from left to right.
pub type Curve<'a> = (&'a str, usize, Vec<[f64; 2]>);

/// Draws curves over a horizontal axis of the quantity `across`.
#[must_use]
pub fn curves(texts: &Texts<'_>, across: &str, kinds: [Kind; 2], curves: &[Curve<'_>]) -> String {
    curves_within(texts, across, kinds, curves, &[])
}

/// The most points of a curve that are marked one by one.
const MARKED: usize = 60;

/// Draws curves, and bounds as dashed lines: each with its value and the colour of its curve.
/// Points that are not finite are left out.
#[must_use]
pub fn curves_within(
    texts: &Texts<'_>,
    across: &str,
    kinds: [Kind; 2],
    curves: &[Curve<'_>],
    bounds: &[(f64, usize)],
) -> String {
    let series: Vec<(&str, usize)> = curves.iter().map(|(name, hue, _)| (*name, *hue)).collect();
    let top = 34.0 + legend(None, &series, 8.0);
    let (left, right, bottom) = (70.0, WIDTH - 24.0, top + 260.0);
    let mut drawing = Drawing::described(WIDTH, bottom + 44.0, texts.title, texts.description);
    legend(Some(&mut drawing), &series, 8.0);
    let finite = |point: &&[f64; 2]| point.iter().all(|value| value.is_finite());
    let all = || curves.iter().flat_map(|(.., points)| points.iter()).filter(finite);
    let x = Scale::over(kinds[0], all().map(|point| point[0]), [left, right]);
    let high = all().map(|point| point[1]).chain(bounds.iter().map(|(bound, _)| *bound));
    let y = Scale::over(kinds[1], high, [bottom, top]);
    for tick in x.ticks() {
        drawing.mark(x.at(tick), [top, bottom], &number(tick));
    }
    for tick in y.ticks() {
        drawing.grid([left, right], y.at(tick), &number(tick));
    }
    drawing.text([8.0, top - 14.0], Anchor::Start, texts.axis);
    drawing.text([(left + right) / 2.0, bottom + 36.0], Anchor::Middle, across);
    for (_, hue, points) in curves {
        let finite = points.iter().filter(finite);
        let places: Vec<[f64; 2]> = finite.map(|[px, py]| [x.at(*px), y.at(*py)]).collect();
        drawing.curve(places.iter().copied(), colour(*hue));
        if places.len() <= MARKED {
            places.into_iter().for_each(|place| drawing.point(place, colour(*hue)));
        }
    }
    for (bound, hue) in bounds.iter().filter(|(bound, _)| bound.is_finite()) {
        drawing.bound([left, right], y.at(*bound), colour(*hue));
    }
    drawing.finish()
}

/// Joins charts of this module into one figure, each below its heading.
#[must_use]
pub fn column(texts: &Texts<'_>, charts: &[(String, String)]) -> String {
    const HEAD: f64 = 30.0;
    let mut y = HEAD;
    let mut inside = Drawing::part();
    inside.text([8.0, 20.0], Anchor::Start, texts.title);
    for (heading, chart) in charts {
        inside.text([8.0, y + 20.0], Anchor::Start, heading);
        y += HEAD;
        y += inside.chart(y, chart);
    }
    Drawing::group(WIDTH, y, texts.title, texts.description, inside)
}
