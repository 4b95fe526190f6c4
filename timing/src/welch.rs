//! Welch's t of two classes of measurements.

/// Means and squared deviations of two classes (Welford's method).
#[derive(Clone, Copy, Default)]
pub(crate) struct Classes([(f64, f64, f64); 2]);

impl Classes {
    /// Adds a measurement of a class.
    pub(crate) fn add(&mut self, class: usize, value: f64) {
        let (count, mean, squares) = &mut self.0[class];
        *count += 1.0;
        let before = value - *mean;
        *mean += before / *count;
        *squares += before * (value - *mean);
    }

    /// Measurements of the smaller class.
    pub(crate) fn least(&self) -> f64 {
        self.0[0].0.min(self.0[1].0)
    }

    /// The statistic: 0 if nothing varies and the means are equal.
    pub(crate) fn t(&self) -> f64 {
        let [(a, mean_a, squares_a), (b, mean_b, squares_b)] = self.0;
        let difference = mean_a - mean_b;
        let error = (squares_a / (a - 1.0) / a + squares_b / (b - 1.0) / b).sqrt();
        if difference == 0.0 { 0.0 } else { difference / error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_is_seen_and_noise_is_not() {
        let mut classes = [Classes::default(); 2];
        for at in 0..10_000_u32 {
            let noise = f64::from(at.wrapping_mul(2_654_435_761) >> 22);
            classes[0].add((at % 2) as usize, noise);
            classes[1].add((at % 2) as usize, noise + f64::from(at % 2) * 20.0);
        }
        assert!(classes[0].t().abs() < 4.5, "{}", classes[0].t());
        assert!(classes[1].t().abs() > 4.5, "{}", classes[1].t());
    }

    #[test]
    fn statistic_is_that_of_the_textbook() {
        let mut classes = Classes::default();
        [1.0, 2.0, 3.0].iter().for_each(|value| classes.add(0, *value));
        [2.0, 4.0, 6.0, 8.0].iter().for_each(|value| classes.add(1, *value));
        // Means 2 and 5, variances 1 and 20/3: -3 / sqrt(1/3 + 5/3).
        assert!((classes.t() + 3.0 / 2.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(classes.least(), 3.0);
    }
}
