//! An origin that makes up what it serves, for any title: for trying a scenario out, and for measuring what the generator itself
//! can do.
//!
//! `/vod/TITLE/master.m3u8`, `/vod/TITLE/LEVEL.m3u8` and `/vod/TITLE/LEVEL/NUMBER.m4s` are titles of HLS, whose segments have the
//! sizes of their bitrates. Under `/live` there are the same with windows that move on with the clock. `/events/TOPIC` are
//! events with the numbers of the clock, which a subscriber may resume, and `/v1/chat/completions` are tokens.

use std::convert::Infallible;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime};

use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

mod made;

use made::{Made, Ticks};

const PLAYLIST: &str = "application/vnd.apple.mpegurl";
/// Seconds for which what does not change may be stored.
const LONG: f64 = 3600.0;

/// What it serves.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Bits a second of the renditions.
    pub bitrates: Vec<u64>,
    /// Seconds of a segment.
    pub segment: f64,
    /// Segments of a title.
    pub segments: u64,
    /// Segments of a live playlist.
    pub window: u64,
    /// Events a second of a topic.
    pub events: f64,
    /// Tokens of a completion.
    pub tokens: u64,
    /// Seconds from one to the next.
    pub token: f64,
}

impl Settings {
    /// Reads settings.
    ///
    /// # Errors
    /// It is not the JSON of settings, in words.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("no settings: {error}"))
    }
}

/// An origin, on a thread of its own, on a free port of 127.0.0.1. It ends when it is dropped.
#[derive(Debug)]
pub struct Origin {
    port: u16,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Origin {
    /// Starts it.
    ///
    /// # Errors
    /// There is no port, or no thread.
    pub fn start(settings: Settings) -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, Arc::new(Served::new(settings))) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("load-origin".into()).spawn(work)?;
        Ok(Self { port, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of its thread has been printed.
            let _ended = thread.join();
        }
    }
}

/// What the connections share.
struct Served {
    settings: Settings,
    start: Instant,
    /// The same, in seconds since 1970.
    clock: f64,
}

impl Served {
    fn new(settings: Settings) -> Self {
        let clock =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Self { settings, start: Instant::now(), clock }
    }

    /// The number of the last segment of live titles: there is a whole window at the start.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "segments of a run")]
    fn live(&self) -> u64 {
        self.settings.window - 1 + (self.start.elapsed().as_secs_f64() / self.settings.segment) as u64
    }
}

async fn accept(listener: std::net::TcpListener, served: Arc<Served>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: connections that end give some back.
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        // It fails only on a connection that is gone.
        let _set = stream.set_nodelay(true);
        let served = Arc::clone(&served);
        let service = service_fn(move |request| {
            let answered = answer(&served, &request);
            async move { Ok::<_, Infallible>(answered) }
        });
        tokio::spawn(async move {
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A client that left.
            let _ended = connection.await;
        });
    }
}

/// What is answered: a type, seconds for which it may be stored, and a body.
struct Found {
    kind: &'static str,
    fresh: f64,
    body: Made,
}

fn answer(served: &Served, request: &Request<Incoming>) -> Response<Made> {
    let path: Vec<&str> = request.uri().path().split('/').skip(1).collect();
    let found = match path[..] {
        ["vod", _, ref rest @ ..] => title(served, rest, None),
        ["live", _, ref rest @ ..] => title(served, rest, Some(served.live())),
        ["events", _] => Some(Found { kind: "text/event-stream", fresh: 0.0, body: events(served, request) }),
        ["v1", "chat", "completions"] => {
            let ticks = Ticks::tokens(served.settings.tokens, served.settings.token);
            Some(Found { kind: "text/event-stream", fresh: 0.0, body: Made::Ticks(ticks) })
        }
        _ => None,
    };
    let mut response = Response::new(Made::text(String::new()));
    let Some(Found { kind, fresh, body }) = found else {
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    let fields = response.headers_mut();
    fields.insert("content-type", HeaderValue::from_static(kind));
    let stored = if fresh > 0.0 { format!("max-age={fresh:.0}") } else { "no-store".to_owned() };
    fields.extend(HeaderValue::from_str(&stored).ok().map(|stored| ("cache-control", stored)).map(named));
    *response.body_mut() = body;
    if let (Some(range), Made::Whole { left: whole, .. }) = (request.headers().get("range"), response.body())
    {
        let whole = *whole;
        if let Some((first, last)) = range.to_str().ok().and_then(|range| part(range, whole)) {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let told = HeaderValue::from_str(&format!("bytes {first}-{last}/{whole}")).ok();
            response.headers_mut().extend(told.map(|told| ("content-range", told)).map(named));
            response.body_mut().cut(first, last);
        }
    }
    response
}

fn named((name, value): (&'static str, HeaderValue)) -> (HeaderName, HeaderValue) {
    (HeaderName::from_static(name), value)
}

/// The first and the last byte of a range, of a resource of so many bytes. `None`: the whole is sent.
fn part(range: &str, whole: u64) -> Option<(u64, u64)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let first: u64 = first.parse().ok()?;
    let last = last.parse().unwrap_or(u64::MAX).min(whole.saturating_sub(1));
    (first <= last).then_some((first, last))
}

/// What a title has; `live` is the number of the last segment of one that goes on.
fn title(served: &Served, rest: &[&str], live: Option<u64>) -> Option<Found> {
    let settings = &served.settings;
    let level = |text: &str| text.parse().ok().filter(|level: &usize| *level < settings.bitrates.len());
    // A live playlist is fresh for half of a segment.
    let fresh = if live.is_some() { (settings.segment / 2.0).floor() } else { LONG };
    match rest {
        ["master.m3u8"] => {
            Some(Found { kind: PLAYLIST, fresh: LONG, body: Made::text(multivariant(settings)) })
        }
        [name] => {
            let text = media(settings, name.strip_suffix(".m3u8").and_then(level)?, live);
            Some(Found { kind: PLAYLIST, fresh, body: Made::text(text) })
        }
        [rendition, name] => {
            let number: u64 = name.strip_suffix(".m4s")?.parse().ok()?;
            let last = live.unwrap_or(settings.segments.saturating_sub(1));
            let body = Made::filler(size(settings, level(rendition)?));
            (number <= last).then_some(Found { kind: "video/iso.segment", fresh: LONG, body })
        }
        _ => None,
    }
}

/// The events of a topic, from the one after the last that the client has, or from now on.
fn events(served: &Served, request: &Request<Incoming>) -> Made {
    let last = request.headers().get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<u64>().ok());
    Made::Ticks(Ticks::events(served.start, served.clock, served.settings.events, last.map(|last| last + 1)))
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes of a segment"
)]
fn size(settings: &Settings, level: usize) -> u64 {
    (settings.bitrates[level] as f64 * settings.segment / 8.0) as u64
}

fn multivariant(settings: &Settings) -> String {
    let mut text = "#EXTM3U\n".to_owned();
    for (level, bitrate) in settings.bitrates.iter().enumerate() {
        // Writing to a text cannot fail.
        let _written = write!(text, "#EXT-X-STREAM-INF:BANDWIDTH={bitrate}\n{level}.m3u8\n");
    }
    text
}

fn media(settings: &Settings, level: usize, live: Option<u64>) -> String {
    let first = live.map_or(0, |last| last + 1 - settings.window.min(last + 1));
    let mut text = format!(
        "#EXTM3U\n#EXT-X-TARGETDURATION:{}\n#EXT-X-MEDIA-SEQUENCE:{first}\n",
        settings.segment.ceil()
    );
    if live.is_none() {
        text.push_str("#EXT-X-PLAYLIST-TYPE:VOD\n");
    }
    for number in first..live.map_or(settings.segments, |last| last + 1) {
        let _written = write!(text, "#EXTINF:{},\n{level}/{number}.m4s\n", settings.segment);
    }
    if live.is_none() {
        text.push_str("#EXT-X-ENDLIST\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let bitrates = vec![8000];
        Settings { bitrates, segment: 2.0, segments: 3, window: 2, events: 1.0, tokens: 1, token: 0.1 }
    }

    #[test]
    fn a_live_playlist_has_its_window_and_no_end() {
        let uris = |live| {
            let text = media(&settings(), 0, live);
            let numbers = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
            (numbers.collect::<Vec<_>>(), text.contains("ENDLIST"))
        };
        assert_eq!(uris(None).0.len(), 3);
        assert!(uris(None).1);
        assert_eq!(uris(Some(0)), (vec!["0/0.m4s".to_owned()], false));
        assert_eq!(uris(Some(7)), (vec!["0/6.m4s".to_owned(), "0/7.m4s".to_owned()], false));
    }

    #[test]
    fn a_range_is_cut_to_the_resource() {
        assert_eq!(part("bytes=0-9", 100), Some((0, 9)));
        assert_eq!(part("bytes=90-", 100), Some((90, 99)));
        assert_eq!(part("bytes=90-500", 100), Some((90, 99)));
        for whole in ["bytes=100-", "bytes=9-3", "bytes=-5", "lines=0-1", ""] {
            assert_eq!(part(whole, 100), None, "{whole}");
        }
    }
}
