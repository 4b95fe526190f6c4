//! Scales of axes: from values to pixels, with ticks at round numbers.

/// The kind of a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From zero, in equal steps.
    Linear,
    /// In decades. For values that differ by more than a factor of about thirty.
    Logarithmic,
}

/// A scale: values from `low` to `high` on pixels from `from` to `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    /// Between two ticks of a linear scale. Both ends are multiples of it.
    step: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// A scale that shows all `values`: from zero, or whole decades. Values that are not finite, and
    /// on a logarithmic scale those that are not positive, are left out.
    #[must_use]
    pub fn over(kind: Kind, values: impl IntoIterator<Item = f64>, [from, to]: [f64; 2]) -> Self {
        let shown =
            values.into_iter().filter(|value| value.is_finite() && (kind == Kind::Linear || *value > 0.0));
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in shown {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 1.0);
        }
        let mut step = 0.0;
        match kind {
            Kind::Linear => {
                (low, high) = (low.min(0.0), high.max(0.0));
                if low == high {
                    high = 1.0;
                }
                step = round_step(high - low);
                (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
            }
            Kind::Logarithmic => {
                (low, high) = (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil()));
                if low == high {
                    high *= 10.0;
                }
            }
        }
        Self { kind, low, high, step, from, to }
    }

    /// The pixel of a value. One beyond the scale is put at its end.
    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        let part = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Logarithmic => {
                (value.max(self.low).log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
            }
        };
        let part = if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) };
        self.from + part * (self.to - self.from)
    }

    /// The pixel at which bars begin: that of zero, or of the first decade.
    #[must_use]
    pub fn base(&self) -> f64 {
        match self.kind {
            Kind::Linear => self.at(0.0),
            Kind::Logarithmic => self.from,
        }
    }

    /// Round values over the whole scale: steps of 1, 2 or 5, or decades.
    #[must_use]
    pub fn ticks(&self) -> Vec<f64> {
        match self.kind {
            Kind::Linear => {
                let [first, last] = [self.low, self.high].map(|end| (end / self.step).round() as i64);
                (first..=last).map(|n| n as f64 * self.step).collect()
            }
            Kind::Logarithmic => {
                let (first, last) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
                let every = usize::try_from((last - first) / 8 + 1).unwrap_or(1);
                (first..=last).step_by(every).map(|n| 10f64.powi(n)).collect()
            }
        }
    }
}

/// The round step that divides a range into three to eight parts.
fn round_step(range: f64) -> f64 {
    let decade = 10f64.powf((range / 3.0).log10().floor());
    let [one, two, five] = [1.0, 2.0, 5.0].map(|times| times * decade);
    // The factor allows for rounding of the logarithm.
    match range / 3.0 * 1.000_000_1 {
        part if part >= five => five,
        part if part >= two => two,
        _ => one,
    }
}

/// A number as people write it: three digits that count, no zeros behind them, powers of ten for
/// the very large and the very small.
#[must_use]
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if !value.is_finite() {
        return "-".into();
    }
    let size = value.abs();
    if !(1e-4..1e9).contains(&size) {
        return format!("{value:.2e}");
    }
    let decimals = (2 - size.log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_span_the_values() {
        for (most, last, count) in
            [(94.0, 100.0, 6), (7.0, 8.0, 5), (0.31, 0.4, 5), (1.0, 1.0, 6), (26.0, 30.0, 7)]
        {
            let scale = Scale::over(Kind::Linear, [1e-3, most], [0.0, 100.0]);
            let ticks = scale.ticks();
            assert!((ticks[ticks.len() - 1] - last).abs() < 1e-9, "{most}: {ticks:?}");
            assert_eq!(ticks.len(), count, "{most}: {ticks:?}");
            assert!(scale.at(0.0).abs() < 1e-9 && (scale.at(last) - 100.0).abs() < 1e-9);
        }
        let scale = Scale::over(Kind::Logarithmic, [0.02, 32.0], [0.0, 40.0]);
        assert_eq!(scale.ticks(), [0.01, 0.1, 1.0, 10.0, 100.0]);
        assert!((scale.at(1.0) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn negative_values_have_their_place() {
        let scale = Scale::over(Kind::Linear, [-3.0, 9.0], [0.0, 100.0]);
        assert!(scale.base() > 0.0 && scale.at(-3.0) < scale.base());
        let places: Vec<f64> = scale.ticks().into_iter().map(|tick| scale.at(tick)).collect();
        let widths: Vec<f64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(widths.iter().all(|width| (width - widths[0]).abs() < 1e-9), "{places:?}");
    }

    #[test]
    fn values_without_a_place_stay_inside() {
        for kind in [Kind::Linear, Kind::Logarithmic] {
            let scale = Scale::over(kind, [f64::NAN, f64::INFINITY, 0.0, 5.0], [10.0, 20.0]);
            for value in [f64::NAN, f64::NEG_INFINITY, 0.0, 1e300] {
                assert!((10.0..=20.0).contains(&scale.at(value)), "{kind:?} {value}");
            }
            assert!(!scale.ticks().is_empty());
            assert!(!Scale::over(kind, [], [0.0, 1.0]).ticks().is_empty());
        }
    }

    #[test]
    fn numbers_have_three_digits_that_count() {
        let written = [0.0, 78.93, 568.44, 1234.5, 0.0123, 4.0, -7.25, 1e12, f64::NAN].map(number);
        assert_eq!(written, ["0", "78.9", "568", "1234", "0.0123", "4", "-7.25", "1.00e12", "-"]);
    }
}
