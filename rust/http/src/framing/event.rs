//! The fields of one block of server-sent events (HTML Living Standard 9.2.6).
//!
//! [`parse`] finds the positions of the fields and copies nothing. Bytes are not decoded: every byte with a
//! meaning in the format is ASCII, which UTF-8 uses for nothing else, so a field can be decoded later with the
//! same result.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr2};

/// The positions of the fields of a block in its bytes. If a field occurs twice, the later value
/// counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// The value of `event`. `None` if it is missing or empty: the type is then `message`.
    pub name: Option<Range<usize>>,
    /// The value of `id`. An empty one resets the last event ID, a missing one (`None`) keeps it. A value with a
    /// NUL counts as missing.
    pub id: Option<Range<usize>>,
    /// The value of `retry` in milliseconds. One that is empty, has anything but ASCII digits, or is beyond 64 bits
    /// counts as missing.
    pub retry: Option<u64>,
    /// The values of `data`.
    pub data: Data,
    /// Whether a blank line ends the block. The unfinished block at the end of a stream must not be dispatched.
    pub finished: bool,
}

impl Event {
    /// Whether a browser would hand this block to the page.
    pub fn dispatches(&self) -> bool {
        self.finished && !self.data.is_empty()
    }
}

/// The positions of the lines of an event's data. Joined with LF they are the data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Data {
    first: Option<Range<usize>>,
    /// The lines after the first. Nearly every event has one line, and then needs no allocation.
    more: Vec<Range<usize>>,
}

impl Data {
    /// Whether there is no line. One empty line is data of its own: the empty string.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The lines in their order.
    pub fn lines(&self) -> impl Iterator<Item = &Range<usize>> {
        self.first.iter().chain(&self.more)
    }

    /// The one line, if there is exactly one: the data is then a view of the block.
    pub fn only(&self) -> Option<&Range<usize>> {
        if self.more.is_empty() { self.first.as_ref() } else { None }
    }

    /// The data: these lines of `block`, joined with LF. Copied only if there are several.
    pub fn joined<'a>(&self, block: &'a [u8]) -> Cow<'a, [u8]> {
        match self.only() {
            Some(line) => Cow::Borrowed(&block[line.clone()]),
            None => self.lines().map(|line| &block[line.clone()]).collect::<Vec<_>>().join(&b'\n').into(),
        }
    }

    fn push(&mut self, line: Range<usize>) {
        if self.first.is_none() {
            self.first = Some(line);
        } else {
            self.more.push(line);
        }
    }
}

/// Finds the fields of `block`, a frame of [`Framing::Events`](super::Framing::Events). Blank lines before the
/// fields are skipped. A byte order mark is not: at the start of a stream it is no part of the first block, and
/// elsewhere it belongs to the name of a field.
pub fn parse(block: &[u8]) -> Event {
    let mut event = Event::default();
    let mut start = 0;
    while start < block.len() {
        let Some(length) = memchr2(b'\n', b'\r', &block[start..]) else {
            field(&mut event, block, start..block.len());
            event.finished = false;
            break;
        };
        let end = start + length;
        event.finished = length == 0;
        field(&mut event, block, start..end);
        start = end + 1;
        if block[end] == b'\r' && block.get(start) == Some(&b'\n') {
            start += 1;
        }
    }
    event
}

fn field(event: &mut Event, block: &[u8], line: Range<usize>) {
    let (name, value) = match memchr(b':', &block[line.clone()]) {
        Some(colon) => {
            let mut value = line.start + colon + 1..line.end;
            if block[value.clone()].first() == Some(&b' ') {
                value.start += 1;
            }
            (&block[line.start..line.start + colon], value)
        }
        None => (&block[line.clone()], line.end..line.end),
    };
    match name {
        b"data" => event.data.push(value),
        b"event" => event.name = Some(value).filter(|value| !value.is_empty()),
        b"id" if memchr(0, &block[value.clone()]).is_none() => event.id = Some(value),
        b"retry" => event.retry = milliseconds(&block[value]).or(event.retry),
        _ => {}
    }
}

fn milliseconds(digits: &[u8]) -> Option<u64> {
    // Checked here because parsing a number would also take a sign.
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
