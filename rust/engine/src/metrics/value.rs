//! The values of samples.

use std::fmt;
use std::time::Duration;

/// The value of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A count.
    Whole(u64),
    /// A measure.
    Real(f64),
}

impl Value {
    /// The sum of two values of one sample.
    pub(super) fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => Self::Whole(one.saturating_add(other)),
            _ => Self::Real(self.real() + other.real()),
        }
    }

    /// By how much it is above an earlier value of its sample; 0 if it is not.
    pub(super) fn minus(self, earlier: Self) -> Self {
        match (self, earlier) {
            (Self::Whole(now), Self::Whole(earlier)) => Self::Whole(now.saturating_sub(earlier)),
            _ => Self::Real((self.real() - earlier.real()).max(0.0)),
        }
    }

    pub(super) fn is_zero(self) -> bool {
        self.real() <= 0.0
    }

    /// A value that was written; `None` if it is no number, or below 0.
    pub(super) fn read(text: &str) -> Option<Self> {
        if let Ok(count) = text.parse() {
            return Some(Self::Whole(count));
        }
        let measure = text.parse().ok().filter(|measure: &f64| measure.is_finite() && *measure >= 0.0)?;
        Some(Self::Real(measure))
    }

    #[expect(clippy::cast_precision_loss, reason = "the sum of a count and a measure is a measure")]
    fn real(self) -> f64 {
        match self {
            Self::Whole(count) => count as f64,
            Self::Real(measure) => measure,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(count) => count.fmt(f),
            Self::Real(measure) => measure.fmt(f),
        }
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Whole(count)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Whole(count as u64)
    }
}

impl From<bool> for Value {
    fn from(is_so: bool) -> Self {
        Self::Whole(u64::from(is_so))
    }
}

impl From<Duration> for Value {
    fn from(duration: Duration) -> Self {
        Self::Real(duration.as_secs_f64())
    }
}
