//! The one rule that compares a printed number with ours.

use serde::{Deserialize, Serialize};

/// Share by which two numbers may differ and still be the same result.
const SAME: f64 = 0.05;

/// The direction in which a number is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// A time, a loss.
    Less,
    /// A rate, a saving.
    More,
    /// A fact that ought to be equal: a length, a number of operations.
    Same,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// At most 5 % from the paper's number.
    Reproduced,
    /// Better by more than 5 %.
    Surpassed,
    /// Worse by more than 5 %.
    NotReached,
    /// The numbers do not describe the same thing, or the paper has none.
    NotComparable,
    /// We have no number.
    NotMeasured,
}

impl Verdict {
    /// All verdicts.
    pub const ALL: [Self; 5] =
        [Self::Surpassed, Self::Reproduced, Self::NotReached, Self::NotComparable, Self::NotMeasured];

    /// As people read it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Surpassed => "surpassed",
            Self::NotReached => "not reached",
            Self::NotComparable => "not comparable",
            Self::NotMeasured => "not measured",
        }
    }
}

/// The verdict on a row. `found` is our number: Antedate's, or else that of the unmodified
/// processing here.
#[must_use]
pub(super) fn of(printed: Option<f64>, found: Option<f64>, better: Better, comparable: bool) -> Verdict {
    let Some(found) = found.filter(|value| value.is_finite()) else {
        return if comparable { Verdict::NotMeasured } else { Verdict::NotComparable };
    };
    let Some(printed) = printed.filter(|_| comparable) else { return Verdict::NotComparable };
    let worse = match better {
        Better::Less => found - printed,
        Better::More => printed - found,
        Better::Same => (found - printed).abs(),
    };
    // Of a printed zero nothing is a share.
    let allowed = SAME * printed.abs();
    if worse > allowed + 1e-9 {
        Verdict::NotReached
    } else if worse < -allowed - 1e-9 {
        Verdict::Surpassed
    } else {
        Verdict::Reproduced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_percent_decide() {
        let less = |found| of(Some(100.0), Some(found), Better::Less, true);
        assert_eq!(
            [94.9, 95.0, 105.0, 105.1].map(less),
            [Verdict::Surpassed, Verdict::Reproduced, Verdict::Reproduced, Verdict::NotReached]
        );
        let more = |found| of(Some(100.0), Some(found), Better::More, true);
        assert_eq!(
            [94.9, 95.0, 105.0, 105.1].map(more),
            [Verdict::NotReached, Verdict::Reproduced, Verdict::Reproduced, Verdict::Surpassed]
        );
        let same = |found| of(Some(8.0), Some(found), Better::Same, true);
        assert_eq!(
            [7.0, 8.0, 9.0].map(same),
            [Verdict::NotReached, Verdict::Reproduced, Verdict::NotReached]
        );
    }

    #[test]
    fn zero_and_negative_numbers_compare() {
        assert_eq!(of(Some(0.0), Some(0.0), Better::Less, true), Verdict::Reproduced);
        assert_eq!(of(Some(0.0), Some(1.0), Better::Less, true), Verdict::NotReached);
        assert_eq!(of(Some(-50.0), Some(-20.0), Better::More, true), Verdict::Surpassed);
    }

    #[test]
    fn missing_numbers_have_no_comparison() {
        assert_eq!(of(Some(1.0), None, Better::Less, true), Verdict::NotMeasured);
        assert_eq!(of(Some(1.0), Some(f64::NAN), Better::Less, true), Verdict::NotMeasured);
        assert_eq!(of(None, Some(1.0), Better::Less, true), Verdict::NotComparable);
        assert_eq!(of(Some(1.0), Some(1.0), Better::Less, false), Verdict::NotComparable);
        assert_eq!(of(Some(1.0), None, Better::Less, false), Verdict::NotComparable);
    }
}
