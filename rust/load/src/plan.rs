//! What a run does, as JSON says it. Nothing has a default here: Python declares and checks the settings.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use crate::abr::Rule;
use crate::arrivals::Arrivals;
use crate::network::Network;
use crate::viewer::Habits;

/// A run, or a part of one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Decides all random numbers.
    pub seed: u64,
    /// Seconds in which sessions arrive, and after which the ones that are left end.
    pub duration: f64,
    /// Where requests go: `http://host:port` or `https://host:port`.
    pub target: String,
    /// Certificates by which those of servers are verified, as PEM. `None`: those of the machine.
    pub roots: Option<String>,
    /// Threads, each with its part of the sessions.
    pub threads: usize,
    /// The part that this process has, from 0 on, of `parts`.
    pub part: u64,
    /// Processes that share the sessions: session i is in part i modulo this.
    pub parts: u64,
    /// Sessions of this process at a time at most. Arrivals beyond are dropped, which makes the run void.
    pub max_sessions: usize,
    /// Seconds to the end of a response, from when its request is sent.
    pub timeout: f64,
    /// Sessions whose buffers are recorded over time.
    pub samples: u64,
    /// What arrives.
    pub workloads: Vec<Workload>,
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// It is no plan, in words.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("no plan: {error}"))
    }
}

/// One kind of sessions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// How the report calls it.
    pub name: String,
    /// When its sessions arrive.
    pub arrivals: Arrivals,
    /// What they do.
    pub sessions: Sessions,
}

/// What a session does.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Sessions {
    /// Plays a title of HLS (RFC 8216).
    Hls(Hls),
    /// Makes one request. Requests of all sessions share `connections`, and wait for one.
    Requests(Requests),
    /// Subscribes to events.
    Events(Events),
    /// Reads the tokens of a completion.
    Tokens(Tokens),
}

impl Sessions {
    /// How many titles there are, and the exponent of Zipf's law for them.
    pub fn titles(&self) -> (usize, f64) {
        match self {
            Self::Hls(each) => (each.titles, each.alpha),
            Self::Requests(each) => (each.titles, each.alpha),
            Self::Events(each) => (each.titles, each.alpha),
            Self::Tokens(each) => (each.titles, each.alpha),
        }
    }
}

/// Sessions that subscribe to events.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Events {
    /// The path; `{title}` becomes the number of the topic, from 0 on.
    pub path: String,
    /// How many topics there are.
    pub titles: usize,
    /// The exponent of Zipf's law for them.
    pub alpha: f64,
    /// The key of the number that counts events, in data that is JSON. `None`: the digits at the end of the id.
    pub counter: Option<String>,
    /// The key of the time of publication, in seconds since 1970. `None`: delays are not measured.
    pub clock: Option<String>,
    /// The type of the event by which the server says that others are missing.
    pub gap_event: String,
    /// Seconds before a connection is made again, until the server says otherwise.
    pub reconnect_delay: f64,
    /// Seconds of the longest of these waits after failures in a row.
    pub max_reconnect_delay: f64,
    /// Seconds without a byte after which the connection is given up.
    pub idle: f64,
    /// How long a subscriber stays.
    pub watch: Watch,
    /// Networks that sessions have. The others read as fast as they can.
    pub networks: Vec<Share>,
}

/// Sessions that read the tokens of a completion.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// The path; `{title}` becomes a number from 0 on.
    pub path: String,
    /// How many of them there are.
    pub titles: usize,
    /// The exponent of Zipf's law for them.
    pub alpha: f64,
    /// What is posted.
    pub body: String,
    /// The value of the field Authorization.
    pub authorization: Option<String>,
    /// The share of sessions that leave before the end.
    pub leave: f64,
    /// How long those stay.
    pub watch: Watch,
    /// Seconds without a byte after which the stream is given up.
    pub idle: f64,
}

/// Sessions that play.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hls {
    /// The path of a multivariant or media playlist; `{title}` becomes the number of the title, from 0 on.
    pub path: String,
    /// How many titles there are.
    pub titles: usize,
    /// The exponent of Zipf's law for them.
    pub alpha: f64,
    /// The player.
    #[serde(deserialize_with = "shared")]
    pub player: Arc<Player>,
    /// How long a viewer watches.
    pub watch: Watch,
    /// What a viewer does besides.
    pub habits: Habits,
    /// Networks that sessions have. The others read as fast as they can.
    pub networks: Vec<Share>,
}

/// A network, and how many sessions have it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The share of the sessions; all together at most 1.
    pub share: f64,
    /// The network.
    pub network: Network,
}

/// Sessions of one request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// The path; `{title}` becomes the number of the title, from 0 on.
    pub path: String,
    /// How many titles there are.
    pub titles: usize,
    /// The exponent of Zipf's law for them.
    pub alpha: f64,
    /// Connections of this process. They are divided among its threads.
    pub connections: usize,
    /// What ranges are asked for. `None`: all requests are for the whole.
    pub range: Option<Ranges>,
    /// Networks that sessions have, with a connection of their own each. The others read as fast as they can.
    pub networks: Vec<Share>,
}

/// Requests for parts of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranges {
    /// The share of the requests.
    pub share: f64,
    /// Bytes of a part.
    pub length: u64,
    /// Bytes of the resource from which the first byte is drawn.
    pub within: u64,
}

fn shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Player>, D::Error> {
    Player::deserialize(deserializer).map(Into::into)
}

/// A player's rules.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Player {
    /// How it chooses renditions.
    pub rule: Rule,
    /// Seconds of media that it buffers at most.
    pub buffer: f64,
    /// Seconds in the buffer with which it starts to play.
    pub startup: f64,
    /// Seconds in the buffer with which it plays on after a stall.
    pub resume: f64,
    /// Times that a request is made again before the session fails.
    pub retries: u32,
    /// Seconds before the first of them; each further wait is twice as long.
    pub retry_delay: f64,
    /// Seconds of the longest of these waits.
    pub max_retry_delay: f64,
    /// When a segment that comes too slowly is given up. `None`: never.
    pub abandon: Option<Abandon>,
}

/// When a segment that comes too slowly is given up for one of a lower rendition.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abandon {
    /// Seconds after its request before it may be.
    pub after: f64,
    /// Times its length that the whole may take, as it looks.
    pub times: f64,
}

/// How long a viewer watches: log-normal.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Seconds that half of the viewers exceed.
    pub median: f64,
    /// The deviation of the logarithm; 0 makes all the same.
    pub sigma: f64,
}
