//! Seeded random numbers: each session has a stream of its own, so that what one does changes nothing for another.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// What a stream of numbers is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The times at which the sessions of a workload arrive.
    Arrivals,
    /// All that the session of this index does.
    Session(u64),
    /// The network that the session of this index has.
    Network(u64),
    /// What the viewer of the session of this index does.
    Viewer(u64),
}

/// A stream of random numbers. The same seed, workload and purpose give the same numbers on every machine.
///
/// It keeps its place, and not the block of the cipher that it is in: each session has one, and draws a few numbers in its life.
#[derive(Debug, Clone)]
pub struct Random {
    seed: u64,
    stream: u64,
    /// Numbers that have been drawn.
    drawn: u64,
}

impl Random {
    /// The stream of `purpose` in the workload of this index.
    pub fn new(seed: u64, workload: usize, purpose: Purpose) -> Self {
        // Sessions count from 1: 0 is the stream of the arrivals. No run has 2^38 of them.
        let within = match purpose {
            Purpose::Arrivals => 0,
            Purpose::Session(index) => index + 1,
            Purpose::Network(index) => (1 << 39) | (index + 1),
            Purpose::Viewer(index) => (1 << 38) | (index + 1),
        };
        Self { seed, stream: ((workload as u64) << 40) | within, drawn: 0 }
    }

    fn next(&mut self) -> u64 {
        let mut cipher = ChaCha8Rng::seed_from_u64(self.seed);
        cipher.set_stream(self.stream);
        // A number is two words of the cipher.
        cipher.set_word_pos(u128::from(self.drawn) * 2);
        self.drawn += 1;
        cipher.next_u64()
    }

    /// Uniform in [0, 1).
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponential with the mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// Normal with the mean 0 and the deviation 1, by Box and Muller (1958).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_the_same_for_the_same_seed_and_differ_otherwise() {
        let first = |seed, workload, purpose| Random::new(seed, workload, purpose).uniform().to_bits();
        let known = first(7, 0, Purpose::Session(3));
        assert_eq!(known, first(7, 0, Purpose::Session(3)));
        assert_ne!(known, first(8, 0, Purpose::Session(3)));
        assert_ne!(known, first(7, 1, Purpose::Session(3)));
        assert_ne!(known, first(7, 0, Purpose::Session(4)));
        assert_ne!(known, first(7, 0, Purpose::Arrivals));
        assert_ne!(known, first(7, 0, Purpose::Network(3)));
        assert_ne!(known, first(7, 0, Purpose::Viewer(3)));
        assert_ne!(first(7, 0, Purpose::Network(3)), first(7, 0, Purpose::Viewer(3)));
    }

    #[test]
    fn means_and_deviations_are_those_of_the_distributions() {
        let mut random = Random::new(1, 0, Purpose::Arrivals);
        let count = 100_000;
        let mean = (0..count).map(|_| random.exponential()).sum::<f64>() / f64::from(count);
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        let normals: Vec<f64> = (0..count).map(|_| random.normal()).collect();
        let mean = normals.iter().sum::<f64>() / f64::from(count);
        let variance = normals.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / f64::from(count);
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }
}
