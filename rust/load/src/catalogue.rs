//! Which title a session asks for: Zipf's law over the ranks of a catalogue.

use crate::random::Random;

/// Titles, the most popular first: the one of rank k is asked for in proportion to k to the power of -α.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalogue {
    /// The share of all titles up to this one.
    cumulative: Vec<f64>,
}

impl Catalogue {
    /// A catalogue of `titles`, at least one, with the exponent `alpha`; 0 makes all titles equally popular.
    #[expect(clippy::cast_precision_loss, reason = "no catalogue has 2^53 titles")]
    pub fn new(titles: usize, alpha: f64) -> Self {
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = (1..=titles.max(1))
            .map(|rank| {
                sum += (rank as f64).powf(-alpha);
                sum
            })
            .collect();
        for share in &mut cumulative {
            *share /= sum;
        }
        Self { cumulative }
    }

    /// A title, from 0 on.
    pub fn pick(&self, random: &mut Random) -> usize {
        let at = random.uniform();
        self.cumulative.partition_point(|share| *share <= at).min(self.cumulative.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    /// The exponent of greatest likelihood, by bisection of the derivative.
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    fn fitted(counts: &[u32]) -> f64 {
        let total: f64 = counts.iter().map(|count| f64::from(*count)).sum();
        let logs = |rank: usize| ((rank + 1) as f64).ln();
        let observed =
            counts.iter().enumerate().map(|(rank, count)| f64::from(*count) * logs(rank)).sum::<f64>()
                / total;
        let (mut low, mut high) = (0.0, 4.0);
        for _ in 0..60 {
            let alpha = f64::midpoint(low, high);
            let weights: Vec<f64> = (0..counts.len()).map(|rank| (-alpha * logs(rank)).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let expected =
                weights.iter().enumerate().map(|(rank, weight)| weight * logs(rank)).sum::<f64>() / sum;
            if expected > observed { low = alpha } else { high = alpha }
        }
        low
    }

    #[test]
    fn the_fitted_exponent_is_the_given_one() {
        for alpha in [0.0, 0.7, 1.0, 1.4] {
            let catalogue = Catalogue::new(500, alpha);
            let mut random = Random::new(5, 0, Purpose::Arrivals);
            let mut counts = vec![0u32; 500];
            for _ in 0..50_000 {
                counts[catalogue.pick(&mut random)] += 1;
            }
            let found = fitted(&counts);
            assert!((found - alpha).abs() < 0.05, "{found} for {alpha}");
        }
    }

    #[test]
    fn one_title_is_always_picked() {
        let catalogue = Catalogue::new(1, 1.0);
        let mut random = Random::new(5, 0, Purpose::Arrivals);
        assert!((0..100).all(|_| catalogue.pick(&mut random) == 0));
    }
}
