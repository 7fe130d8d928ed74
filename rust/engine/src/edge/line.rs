//! A line of the access log: what it can say, and in which form.
//!
//! What a client has sent is written so that it can end neither the line nor a text between quotes, and without tokens.

use std::io::Write as _;
use std::time::Duration;

use penstock_trace::{Attempted, Trace};

use super::tally::Lane;
use crate::clock::stamp;
use crate::error::{Code, Source};
use crate::wire::{Incoming, shown, without_tokens};

/// What a line says.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) client: Option<&'a str>,
    /// `http` or `https`.
    pub(super) scheme: &'static str,
    /// None if its head could not be read.
    pub(super) incoming: Option<&'a Incoming>,
    /// Its version of HTTP.
    pub(super) version: (u8, u8),
    /// What the client got; 499 if it left before a head.
    pub(super) status: u16,
    /// Bytes after the head that were sent.
    pub(super) bytes: u64,
    /// Bytes of the request's body.
    pub(super) received: u64,
    pub(super) elapsed: Duration,
    /// Up to the head of the response.
    pub(super) first_byte: Option<Duration>,
    pub(super) lane: Lane,
    pub(super) route: Option<&'a str>,
    /// How the cache has answered.
    pub(super) cache: Option<&'static str>,
    pub(super) tenant: Option<&'a str>,
    pub(super) failure: Option<Code>,
    /// Knows the attempts at origins, if lines tell of them.
    pub(super) trace: Option<&'a Trace>,
}

/// The form of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// The words that lines have by default, as far as they are known.
    Plain,
    /// An object of JSON, with all that is known.
    Json,
    /// Texts and fields, one after the other.
    Template(Vec<Part>),
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// As it is.
    Text(String),
    /// What is known, or `-`.
    Field(Field),
}

macro_rules! fields {
    ($($variant:ident $name:literal $what:literal),+ $(,)?) => {
        /// Something that a line can say.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Field {
            $(#[doc = $what] $variant,)+
        }

        impl Field {
            /// All of them, by name, with what they are.
            pub const ALL: &'static [(&'static str, Self, &'static str)] =
                &[$(($name, Self::$variant, $what)),+];
        }
    };
}

fields! {
    Time "time" "When the response ended (RFC 3339, in UTC).",
    ClfTime "time_clf" "The same, as in the common log format: `26/Nov/2026:16:05:24 +0000`.",
    Client "client" "The address of the client.",
    Scheme "scheme" "`http` or `https`.",
    Method "method" "The method.",
    Host "host" "The host and port that were asked for.",
    Target "target" "The target, without tokens.",
    Version "version" "`HTTP/1.0`, `HTTP/1.1` or `HTTP/2.0`.",
    Request "request" "Method, target and version.",
    Referer "referer" "The field Referer, without tokens.",
    UserAgent "user_agent" "The field User-Agent.",
    Status "status" "The status that the client got; 499 if it left before, 444 if the application closed.",
    Bytes "bytes" "Bytes that were sent after the head.",
    Received "received" "Bytes of the body of the request.",
    Seconds "seconds" "From the head of the request to the end of the response.",
    FirstByte "first_byte_seconds" "From the head of the request to that of the response.",
    Lane "lane" "`native`, `app` or `edge`.",
    Route "route" "The name of the native route.",
    Cache "cache" "`hit`, `stale`, `revalidated`, `collapsed`, `miss` or `passed`.",
    Tenant "tenant" "The tenant.",
    Failure "failure" "The name of the error.",
    End "end" "How the response ended: `whole`, `client` if the client was the reason, or the name of the error.",
    Origin "origin" "The origins that were asked, one for each attempt.",
    OriginStatus "origin_status" "Their statuses, or the names of the errors.",
    OriginSeconds "origin_seconds" "How long each attempt took, up to the head.",
    QueueSeconds "queue_seconds" "How long each attempt waited for a connection.",
    ConnectSeconds "connect_seconds" "How long each attempt took to open one: name, connection and TLS.",
    Trace "trace" "The id of the trace.",
}

impl Field {
    /// The one that is called so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, ..)| *known == name).map(|(_, field, _)| *field)
    }

    fn is_of_attempts(self) -> bool {
        matches!(
            self,
            Self::Origin
                | Self::OriginStatus
                | Self::OriginSeconds
                | Self::QueueSeconds
                | Self::ConnectSeconds
        )
    }
}

impl Format {
    /// Whether lines tell of attempts at origins.
    pub(super) fn tells_of_attempts(&self) -> bool {
        match self {
            Self::Plain => false,
            Self::Json => true,
            Self::Template(parts) => {
                parts.iter().any(|part| matches!(part, Part::Field(field) if field.is_of_attempts()))
            }
        }
    }

    /// Whether lines tell how the cache has answered.
    pub(super) fn tells_of_cache(&self) -> bool {
        match self {
            Self::Plain => false,
            Self::Json => true,
            Self::Template(parts) => parts.contains(&Part::Field(Field::Cache)),
        }
    }

    /// Appends the line of `entry`.
    pub(super) fn write(&self, entry: &Entry<'_>, lines: &mut Vec<u8>) {
        match self {
            Self::Plain => entry.write_plain(lines),
            Self::Json => entry.write_json(lines),
            Self::Template(parts) => entry.write_template(parts, lines),
        }
        lines.push(b'\n');
    }
}

/// Appends formatted text.
macro_rules! put {
    ($lines:expr, $($what:tt)+) => { write!($lines, $($what)+).expect("a Vec takes all that is written") };
}

impl Entry<'_> {
    fn write_plain(&self, lines: &mut Vec<u8>) {
        put!(lines, "{} {} ", stamp(), self.client.unwrap_or("-"));
        match self.incoming {
            Some(_) => put!(lines, "\"{}\"", self.request()),
            None => lines.extend_from_slice(b"\"-\""),
        }
        put!(lines, " {} {} {:.6}", self.status, self.bytes, self.elapsed.as_secs_f64());
        if let Some(route) = self.route {
            put!(lines, " route={route}");
        }
        if let Some(tenant) = self.tenant {
            // With what could end the string or the line escaped: it may be what a client has sent.
            put!(lines, " tenant={tenant:?}");
        }
        if let Some(code) = self.failure {
            put!(lines, " failed=0x{:03X}/{}", code.number(), code.name());
        }
    }

    /// Graphic ASCII; a quote must not end the string.
    fn target(&self) -> Option<String> {
        self.incoming.map(|incoming| shown(incoming.target()).replace('"', "%22"))
    }

    fn request(&self) -> String {
        let (major, minor) = self.version;
        let method = self.incoming.map_or("-", Incoming::method);
        format!("{method} {} HTTP/{major}.{minor}", self.target().as_deref().unwrap_or("-"))
    }

    fn header(&self, name: &str) -> Option<String> {
        let value = self.incoming?.get_all(name).next()?;
        let text = String::from_utf8_lossy(value);
        Some(without_tokens(&text).into_owned())
    }

    fn end(&self) -> &'static str {
        match self.failure {
            None => "whole",
            Some(code) if code.source() == Source::Client => "client",
            Some(code) => code.name(),
        }
    }

    /// The value of a field, as text that may have any character.
    fn value(&self, field: Field, attempts: &[Attempted]) -> Option<String> {
        match field {
            Field::Time => Some(stamp().to_string()),
            Field::ClfTime => Some(clf(&stamp().to_string())),
            Field::Client => self.client.map(str::to_owned),
            Field::Scheme => Some(self.scheme.to_owned()),
            Field::Method => self.incoming.map(|incoming| incoming.method().to_owned()),
            Field::Host => {
                self.incoming.map(|incoming| incoming.authority().to_owned()).filter(|host| !host.is_empty())
            }
            Field::Target => self.target(),
            Field::Version => Some(format!("HTTP/{}.{}", self.version.0, self.version.1)),
            Field::Request => self.incoming.map(|_| self.request()),
            Field::Referer => self.header("referer"),
            Field::UserAgent => self.header("user-agent"),
            Field::Status => Some(self.status.to_string()),
            Field::Bytes => Some(self.bytes.to_string()),
            Field::Received => Some(self.received.to_string()),
            Field::Seconds => Some(seconds(self.elapsed)),
            Field::FirstByte => self.first_byte.map(seconds),
            Field::Lane => Some(self.lane.name().to_owned()),
            Field::Route => self.route.map(str::to_owned),
            Field::Cache => self.cache.map(str::to_owned),
            Field::Tenant => self.tenant.map(str::to_owned),
            Field::Failure => self.failure.map(|code| code.name().to_owned()),
            Field::End => Some(self.end().to_owned()),
            Field::Trace => {
                self.trace.filter(|trace| trace.is_told()).map(|trace| trace.context.trace.to_string())
            }
            _ => of_attempts(field, attempts),
        }
    }

    fn write_template(&self, parts: &[Part], lines: &mut Vec<u8>) {
        let attempts = self.attempts();
        for part in parts {
            match part {
                Part::Text(text) => lines.extend_from_slice(text.as_bytes()),
                Part::Field(field) => match self.value(*field, &attempts) {
                    Some(value) => escape(&value, lines),
                    None => lines.push(b'-'),
                },
            }
        }
    }

    /// The attempts at origins, if lines tell of them.
    fn attempts(&self) -> Vec<Attempted> {
        let mut attempts = Vec::new();
        if let Some(trace) = self.trace {
            trace.each_attempt(|attempted| attempts.push(attempted.clone()));
        }
        attempts
    }

    fn write_json(&self, lines: &mut Vec<u8>) {
        lines.push(b'{');
        let mut is_first = true;
        for (name, field, _) in Field::ALL {
            // They say what others say, or stand in the list of the attempts.
            if field.is_of_attempts() || matches!(field, Field::ClfTime | Field::Request) {
                continue;
            }
            let Some(value) = self.value(*field, &[]) else { continue };
            if !std::mem::take(&mut is_first) {
                lines.push(b',');
            }
            put!(lines, "\"{name}\":");
            let is_number = matches!(
                field,
                Field::Status | Field::Bytes | Field::Received | Field::Seconds | Field::FirstByte
            );
            if is_number {
                lines.extend_from_slice(value.as_bytes());
            } else {
                quote(&value, lines);
            }
        }
        write_attempts(&self.attempts(), lines);
        lines.push(b'}');
    }
}

/// Appends a member with what is known of each attempt.
fn write_attempts(attempts: &[Attempted], lines: &mut Vec<u8>) {
    if attempts.is_empty() {
        return;
    }
    lines.extend_from_slice(b",\"origins\":[");
    for (number, attempted) in attempts.iter().enumerate() {
        lines.extend_from_slice(if number > 0 { b",{\"origin\":" } else { b"{\"origin\":" });
        quote(&attempted.origin, lines);
        if let Some(status) = attempted.status {
            put!(lines, ",\"status\":{status}");
        }
        if let Some(error) = attempted.error {
            put!(lines, ",\"error\":\"{error}\"");
        }
        put!(lines, ",\"seconds\":{:.6}", attempted.took().as_secs_f64());
        put!(lines, ",\"queue_seconds\":{:.6}", attempted.queued.as_secs_f64());
        if let Some(connected) = attempted.connected {
            put!(lines, ",\"connect_seconds\":{:.6}", connected.as_secs_f64());
        }
        put!(lines, ",\"reused\":{}}}", attempted.reused);
    }
    lines.push(b']');
}

/// The values of a field of each attempt.
fn of_attempts(field: Field, attempts: &[Attempted]) -> Option<String> {
    let value = |attempted: &Attempted| match field {
        Field::Origin => attempted.origin.to_string(),
        Field::OriginStatus => outcome(attempted),
        Field::OriginSeconds => seconds(attempted.took()),
        Field::QueueSeconds => seconds(attempted.queued),
        _ => attempted.connected.map_or_else(|| "-".to_owned(), seconds),
    };
    let all: Vec<_> = attempts.iter().map(value).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn seconds(time: Duration) -> String {
    format!("{:.6}", time.as_secs_f64())
}

/// The status of the response, or why there was none.
fn outcome(attempted: &Attempted) -> String {
    match (attempted.status, attempted.error) {
        (Some(status), _) => status.to_string(),
        (None, Some(error)) => error.to_owned(),
        (None, None) => "-".to_owned(),
    }
}

/// Appends `value` without what could end a line or a text between quotes, as nginx does it: `\xXX` for such bytes.
fn escape(value: &str, lines: &mut Vec<u8>) {
    for byte in value.bytes() {
        match byte {
            b'"' | b'\\' | ..=0x1f | 0x7f => put!(lines, "\\x{byte:02X}"),
            byte => lines.push(byte),
        }
    }
}

/// Appends `value` as a string of JSON (RFC 8259, section 7).
fn quote(value: &str, lines: &mut Vec<u8>) {
    lines.push(b'"');
    for byte in value.bytes() {
        match byte {
            b'"' | b'\\' => lines.extend_from_slice(&[b'\\', byte]),
            ..=0x1f | 0x7f => put!(lines, "\\u{byte:04x}"),
            byte => lines.push(byte),
        }
    }
    lines.push(b'"');
}

/// A time of RFC 3339 in UTC as the common log format has it.
fn clf(stamp: &str) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let part = |range: std::ops::Range<usize>| stamp.get(range).unwrap_or_default();
    let month = part(5..7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.wrapping_sub(1)));
    format!("{}/{}/{}:{} +0000", part(8..10), month.unwrap_or(&"-"), part(0..4), part(11..19))
}

/// For tests of lines and of logs.
#[cfg(test)]
pub(super) mod samples {
    use super::*;
    use crate::wire::{IncomingLimits, parse_incoming};

    pub(in crate::edge) fn request(head: &str) -> Incoming {
        let limits = IncomingLimits { line_bytes: 1000, head_bytes: 4000, head_fields: 20 };
        parse_incoming(format!("{head}\r\n\r\n").as_bytes(), &limits).unwrap()
    }

    pub(in crate::edge) fn entry(incoming: &Incoming) -> Entry<'_> {
        Entry {
            client: Some("192.0.2.1"),
            scheme: "https",
            incoming: Some(incoming),
            version: (1, 1),
            status: 200,
            bytes: 5,
            received: 7,
            elapsed: Duration::from_micros(1500),
            first_byte: Some(Duration::from_micros(500)),
            lane: Lane::Native,
            route: Some("vod"),
            cache: Some("hit"),
            tenant: None,
            failure: None,
            trace: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{entry, request};
    use super::*;

    fn line(format: &Format, entry: &Entry<'_>) -> String {
        let mut lines = Vec::new();
        format.write(entry, &mut lines);
        String::from_utf8(lines).unwrap()
    }

    fn fields(names: &[&str]) -> Format {
        let parts = names
            .iter()
            .flat_map(|name| [Part::Field(Field::named(name).unwrap()), Part::Text("|".to_owned())]);
        Format::Template(parts.collect())
    }

    #[test]
    fn a_template_says_what_is_asked_for() {
        crate::wire::hide("line_secret");
        let incoming = request(
            "GET /a%22b?line_secret=hidden HTTP/1.1\r\nHost: h:1\r\nUser-Agent: a \"b\" \\ \u{e9}\r\nReferer: http://x/?line_secret=y",
        );
        let names = [
            "client",
            "scheme",
            "method",
            "host",
            "target",
            "version",
            "request",
            "referer",
            "user_agent",
            "status",
            "bytes",
            "received",
            "seconds",
            "first_byte_seconds",
            "lane",
            "route",
            "cache",
            "tenant",
            "failure",
            "end",
            "origin",
            "trace",
        ];
        let text = line(&fields(&names), &entry(&incoming));
        let expected = "192.0.2.1|https|GET|h:1|/a%22b?line_secret=***|HTTP/1.1|GET /a%22b?line_secret=*** HTTP/1.1|\
            http://x/?line_secret=***|a \\x22b\\x22 \\x5C \u{e9}|200|5|7|0.001500|0.000500|native|vod|hit|-|-|whole|-|-|\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn json_is_json_whatever_a_client_sends() {
        crate::wire::hide("line_secret");
        let incoming = request("GET /a?line_secret=hidden HTTP/1.1\r\nHost: h\r\nUser-Agent: \"\\\t\u{e9}");
        let told = Entry { tenant: Some("a\"\n"), failure: Some(Code::OriginReset), ..entry(&incoming) };
        let text = line(&Format::Json, &told);
        assert_eq!(text.lines().count(), 1);
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["user_agent"], "\"\\\t\u{e9}");
        assert_eq!(read["tenant"], "a\"\n");
        assert_eq!((&read["status"], &read["bytes"]), (&200.into(), &5.into()));
        assert_eq!((&read["end"], &read["failure"]), (&"ORIGIN_RESET".into(), &"ORIGIN_RESET".into()));
        assert!(!text.contains("hidden") && read.get("origins").is_none(), "{text}");
    }

    #[test]
    fn attempts_are_told() {
        let incoming = request("GET / HTTP/1.1\r\nHost: h");
        let now = std::time::Instant::now();
        let trace = Trace::untold(now);
        for (origin, status) in [("http://a:1", None), ("http://b:2", Some(200))] {
            trace.end(&trace.attempt(now), "GET".into(), origin.into(), now, |attempted| {
                attempted.status = status;
                attempted.error = status.is_none().then_some("CONNECT_FAILED");
            });
        }
        let told = Entry { trace: Some(&trace), ..entry(&incoming) };
        let text = line(&fields(&["origin", "origin_status", "connect_seconds", "trace"]), &told);
        assert_eq!(text, "http://a:1, http://b:2|CONNECT_FAILED, 200|-, -|-|\n");
        let read: serde_json::Value = serde_json::from_str(&line(&Format::Json, &told)).unwrap();
        assert_eq!(read["origins"][0]["error"], "CONNECT_FAILED");
        assert_eq!(read["origins"][1]["status"], 200);
        assert!(read.get("trace").is_none());
    }

    #[test]
    fn a_head_that_could_not_be_read_has_a_line_too() {
        let incoming = request("GET / HTTP/1.1\r\nHost: h");
        let told = Entry { incoming: None, ..entry(&incoming) };
        assert_eq!(line(&fields(&["request", "target", "user_agent"]), &told), "-|-|-|\n");
        serde_json::from_str::<serde_json::Value>(&line(&Format::Json, &told)).unwrap();
        assert!(line(&Format::Plain, &told).contains("\"-\" 200 5"));
    }

    #[test]
    fn a_time_of_the_common_log_format() {
        assert_eq!(clf("2026-11-26T16:05:24.123Z"), "26/Nov/2026:16:05:24 +0000");
    }
}
