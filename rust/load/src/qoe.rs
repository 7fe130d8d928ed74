//! What a viewer experienced, in the terms of CTA-2066 and ITU-T P.1203.

use serde::Serialize;

/// The figures of one session. Times are seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Qoe {
    /// From the arrival to the first frame; `None` if nothing was played.
    pub startup: Option<f64>,
    /// Media that was played.
    pub played: f64,
    /// Stalls after the start.
    pub stalls: u32,
    /// Time in them.
    pub stalled: f64,
    /// Seeks.
    pub seeks: u32,
    /// Time from seeks until something was shown, which is no stall.
    pub seeking: f64,
    /// Pauses.
    pub pauses: u32,
    /// Time in them.
    pub paused: f64,
    /// Segments that were given up for a lower rendition.
    pub abandoned: u32,
    /// Switches to a higher rendition.
    pub up: u32,
    /// Switches to a lower one.
    pub down: u32,
    /// Seconds from what was shown to the end of a live playlist, added up over its segments.
    pub behind: f64,
    /// How many were added up.
    pub live: u32,
    /// Seconds of media that arrived.
    pub media: f64,
    /// Their bitrate times their length: bits.
    pub bits: f64,
}

impl Qoe {
    /// The time in stalls as a share of the time since the start; 0 if nothing was played.
    pub fn rebuffer_ratio(&self) -> f64 {
        let whole = self.played + self.stalled;
        if whole > 0.0 { self.stalled / whole } else { 0.0 }
    }

    /// The mean bitrate of the media that arrived, in bits a second, weighted by its length.
    pub fn bitrate(&self) -> f64 {
        if self.media > 0.0 { self.bits / self.media } else { 0.0 }
    }
}
