//! Median and range of the rounds of a benchmark.

use serde::Serialize;

/// Median and range of the rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Zero without samples.
    pub(super) fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let at = |place: usize| samples.get(place).copied().unwrap_or_default();
        let last = samples.len().saturating_sub(1);
        Self {
            median: f64::midpoint(at(last / 2), at(last.div_ceil(2))),
            min: at(0),
            max: at(last),
        }
    }

    /// Its median divided by that of another one.
    #[must_use]
    pub fn ratio(&self, to: &Self) -> f64 {
        self.median / to.median.max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        let spread = |median, min, max| Spread { median, min, max };
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0]), spread(2.0, 1.0, 4.0));
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]), spread(2.5, 1.0, 4.0));
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
