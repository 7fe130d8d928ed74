//! What a rule knows when it chooses a rendition, and what it chooses.

use serde::Deserialize;

/// The rule against an insufficient buffer: a segment must not take longer than a share of what is in the buffer. The share
/// falls with each choice.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Insufficient {
    /// The share at the first choice.
    pub first: f64,
    /// By what it is multiplied at each further one.
    pub falls: f64,
    /// Where it ends.
    pub least: f64,
}

/// What a choice depends on.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// Bits a second of the renditions, which rise.
    pub bitrates: &'a [f64],
    /// The rendition of the segment before.
    pub current: Option<usize>,
    /// Seconds of media that are ahead.
    pub buffer: f64,
    /// Seconds of the segment; 0 if that is not known.
    pub segment: f64,
    /// Whether frames have been shown.
    pub started: bool,
}

/// What a choice expects of the network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    /// Bits a second.
    pub(crate) throughput: f64,
    /// Seconds to a first byte.
    pub(crate) wait: f64,
    pub(crate) is_measured: bool,
}

/// What was chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The rendition.
    pub level: usize,
    /// Seconds to wait before its segment is fetched.
    pub delay: f64,
}

impl Insufficient {
    /// The highest rendition that the rule lets pass after so many choices.
    pub(crate) fn level(&self, chosen: u32, now: &Situation<'_>, network: Network) -> usize {
        if !now.started || now.segment <= 0.0 {
            return usize::MAX;
        }
        let falls = i32::try_from(chosen).unwrap_or(i32::MAX);
        let share = (self.first * self.falls.powi(falls)).max(self.least);
        let safe = share * (now.buffer - network.wait) * network.throughput / now.segment;
        now.bitrates.iter().rposition(|bitrate| *bitrate <= safe).unwrap_or(0)
    }
}
