//! An event as it stands on the wire, written once: as one chunk of HTTP/1.1, size line and all.
//!
//! Who wants it without chunks takes the part in between. What is written here a browser reads as the publisher meant it
//! (HTML Living Standard 9.2.6), and one event in as one event.

use std::fmt::{self, Write};
use std::num::NonZeroUsize;

use memchr::{memchr, memchr2, memchr3};

use super::Id;
use crate::error::{Code, Result};
use crate::wire::{CHUNK_END, ChunkHead, encode_chunk_head};

/// What is published.
#[derive(Debug, Clone, Copy, Default)]
pub struct Event<'a> {
    /// Its data. Line ends of any kind make lines of it.
    pub data: &'a [u8],
    /// Its type; `None` is a browser's `message`.
    pub name: Option<&'a str>,
    /// What it is called on the wire in place of its [`Id`](super::Id).
    pub id: Option<&'a str>,
    /// What it tells of the state of: while a subscriber lags the newest of a key can stand for those before.
    pub key: Option<&'a str>,
    /// After how many milliseconds a client that was disconnected comes back.
    pub retry: Option<u64>,
    /// It has no id on the wire, so that no client can come back by it.
    pub nameless: bool,
}

/// The longest type, id or key of an event. What clients send back with a request must fit into its head; arbitrary beyond
/// that.
pub(super) const LONGEST: usize = 1024;

impl Event<'_> {
    /// # Errors
    /// `BAD_EVENT` where it cannot be written so that it is read as it was meant.
    pub(super) fn check(&self) -> Result<()> {
        let parts = [("type", self.name), ("id", self.id), ("key", self.key)];
        for (what, text) in parts.into_iter().filter_map(|(what, text)| Some((what, text?.as_bytes()))) {
            if text.is_empty() || text.len() > LONGEST {
                let detail =
                    format!("the {what} of an event has {} bytes; it may have 1 to {LONGEST}", text.len());
                return Err(Code::BadEvent.error(detail));
            }
            if memchr3(b'\r', b'\n', 0, text).is_some() {
                return Err(Code::BadEvent.error(format!("the {what} of an event has a line end or a NUL")));
            }
        }
        Ok(())
    }

    /// Bytes on the wire, at most.
    pub(super) fn length(&self) -> usize {
        let longest = Text::of(Id::Time { milliseconds: u64::MAX, sequence: u64::MAX });
        self.lines(&longest).chunk().len()
    }

    /// How it is written where it is the one at `id`.
    pub(super) fn lines<'a>(&'a self, id: &'a Text) -> Lines<'a> {
        Lines { event: self, id: (!self.nameless).then(|| self.id.unwrap_or(id).as_bytes()) }
    }
}

/// The lines of an event.
pub(super) struct Lines<'a> {
    event: &'a Event<'a>,
    id: Option<&'a [u8]>,
}

impl Lines<'_> {
    /// Passes the pieces to `put`, in order.
    fn write(&self, mut put: impl FnMut(&[u8])) {
        let mut line = |name: &[u8], value: &[u8]| [name, value, b"\n"].into_iter().for_each(&mut put);
        if let Some(id) = self.id {
            line(b"id: ", id);
        }
        if let Some(name) = self.event.name {
            line(b"event: ", name.as_bytes());
        }
        if let Some(retry) = self.event.retry {
            line(b"retry: ", Text::of(retry).as_bytes());
        }
        each_line(self.event.data, |part| line(b"data: ", part));
        put(b"\n");
    }

    /// Bytes of it, without the framing.
    fn len(&self) -> usize {
        let mut length = 0;
        self.write(|piece| length += piece.len());
        length
    }

    /// As a chunk.
    pub(super) fn chunk(&self) -> Chunk<'_> {
        // An event has a blank line at least.
        let length = NonZeroUsize::new(self.len()).unwrap_or(NonZeroUsize::MIN);
        Chunk { lines: self, head: encode_chunk_head(length), length: length.get() }
    }
}

/// An event that is about to be written.
pub(super) struct Chunk<'a> {
    lines: &'a Lines<'a>,
    pub(super) head: ChunkHead,
    /// Bytes of the lines.
    length: usize,
}

impl Chunk<'_> {
    /// Bytes of all of it.
    pub(super) fn len(&self) -> usize {
        self.head.len() + self.length + CHUNK_END.len()
    }

    /// Writes it into the beginning of `memory`, which has room for it.
    pub(super) fn write(&self, memory: &mut [u8]) {
        let mut at = 0;
        let mut put = |piece: &[u8]| {
            memory[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        };
        put(&self.head);
        self.lines.write(&mut put);
        put(CHUNK_END);
    }
}

/// The lines of `data`, however they end: one at least, and one more after each line end.
fn each_line(mut data: &[u8], mut take: impl FnMut(&[u8])) {
    while let Some(end) = memchr2(b'\r', b'\n', data) {
        take(&data[..end]);
        let both = data[end..].starts_with(b"\r\n");
        data = &data[end + 1 + usize::from(both)..];
    }
    take(data);
}

/// A number or an id as text, without memory of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text {
    bytes: [u8; 41],
    length: usize,
}

impl Text {
    pub(super) fn of(value: impl fmt::Display) -> Self {
        let mut text = Self { bytes: [0; 41], length: 0 };
        // Two numbers of 20 digits and what is between them fit.
        let _ = write!(text, "{value}");
        text
    }
}

impl Write for Text {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let end = self.length + part.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(part.as_bytes());
        self.length = end;
        Ok(())
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        // Only whole strings have been written to it.
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

/// Says that events between `after`, which is what the client had if that is known, and `resumed` may be missing. It moves the client's last
/// id to `resumed`, so that it is told once.
pub(super) fn gap(after: Option<&str>, resumed: &str) -> String {
    format!("id: {resumed}\nevent: {GAP}\ndata: {}\n\n", gap_data(after, resumed))
}

/// The type of such an event.
pub(super) const GAP: &str = "penstock-gap";

/// Its data.
pub(super) fn gap_data(after: Option<&str>, resumed: &str) -> String {
    let after = after.map_or_else(|| "null".to_owned(), quoted);
    format!("{{\"after\": {after}, \"resumed\": {}}}", quoted(resumed))
}

/// Says that `last` was the last event of all. It has an id, so that who comes back has one by which he is told again.
pub(super) fn end(last: &str) -> String {
    format!("id: {last}\nevent: penstock-end\ndata: {{\"last\": {}}}\n\n", quoted(last))
}

/// Has a client that has had no event come back with `last`, and so learn what has come since.
pub(super) fn place(last: &str) -> String {
    format!("id: {last}\n\n")
}

/// A [`HEARTBEAT`](crate::events::HEARTBEAT) as a chunk.
pub(super) const HEARTBEAT_CHUNK: &[u8] = b"3\r\n:\n\n\r\n";

/// `text` as a chunk, if it is to be one.
pub(super) fn framed(text: String, chunked: bool) -> Vec<u8> {
    let Some(length) = NonZeroUsize::new(text.len()).filter(|_| chunked) else { return text.into_bytes() };
    [&encode_chunk_head(length), text.as_bytes(), CHUNK_END].concat()
}

/// `text` as a string of JSON (RFC 8259, section 7). No line ends are left in it.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\0'..='\x1f' => {
                // A String takes all that is written.
                let _ = write!(quoted, "\\u{:04x}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// The id on the wire of an event that was written by [`Chunk::write`], without its head.
pub(super) fn id_of(lines: &[u8]) -> &[u8] {
    const NAME: usize = b"id: ".len();
    let end = memchr(b'\n', lines).unwrap_or(lines.len());
    &lines[NAME.min(end)..end]
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::events::HEARTBEAT;
    use crate::events::retry;
    use crate::framing::event::parse;

    fn written(event: &Event<'_>, id: Id) -> Vec<u8> {
        let text = Text::of(id);
        let lines = event.lines(&text);
        let chunk = lines.chunk();
        let mut memory = vec![b'?'; chunk.len()];
        chunk.write(&mut memory);
        memory
    }

    /// What a browser makes of lines: the standard's own rule of line ends.
    fn joined(data: &str) -> String {
        data.replace("\r\n", "\n").replace('\r', "\n")
    }

    #[test]
    fn an_event_is_one_chunk() {
        let event = Event { data: b"a\r\nb", name: Some("x"), retry: Some(5), ..Event::default() };
        let expected = b"2b\r\nid: 1-2\nevent: x\nretry: 5\ndata: a\ndata: b\n\n\r\n";
        assert_eq!(
            written(&event, Id::Time { milliseconds: 1, sequence: 2 }).as_slice(),
            expected.as_slice()
        );
        assert_eq!(id_of(b"id: 1-2\nevent"), b"1-2");
    }

    #[test]
    fn an_event_without_a_name_has_no_id_on_the_wire() {
        let event = Event { data: b"a", nameless: true, ..Event::default() };
        assert_eq!(written(&event, Id::default()).as_slice(), b"9\r\ndata: a\n\n\r\n".as_slice());
    }

    #[test]
    fn what_could_not_be_read_as_it_is_meant_is_refused() {
        let long = "x".repeat(LONGEST + 1);
        for text in ["", "a\nb", "a\rb", "a\0b", long.as_str()] {
            let events = [
                Event { name: Some(text), ..Event::default() },
                Event { id: Some(text), ..Event::default() },
                Event { key: Some(text), ..Event::default() },
            ];
            for event in events {
                assert_eq!(event.check().unwrap_err().code(), Code::BadEvent, "{event:?}");
            }
        }
    }

    #[test]
    fn what_the_hub_says_itself_is_json_on_one_line() {
        assert_eq!(
            gap(Some("a\"\\\n\u{1}é"), "1-0"),
            "id: 1-0\nevent: penstock-gap\ndata: {\"after\": \"a\\\"\\\\\\u000a\\u0001é\", \"resumed\": \"1-0\"}\n\n"
        );
        assert_eq!(framed(retry(3), true), b"a\r\nretry: 3\n\n\r\n");
        assert_eq!(framed(end("7"), false), b"id: 7\nevent: penstock-end\ndata: {\"last\": \"7\"}\n\n");
    }

    #[test]
    fn the_chunk_of_a_heartbeat_is_what_would_be_made_of_it() {
        assert_eq!(framed(HEARTBEAT.to_owned(), true), HEARTBEAT_CHUNK);
    }

    proptest! {
        #[test]
        fn a_browser_reads_what_was_published(
            data in "[a\r\n: é]{0,20}",
            name in proptest::option::of("[a: é]{1,5}"),
            id in proptest::option::of("[a: é]{1,5}"),
        ) {
            let event = Event { data: data.as_bytes(), name: name.as_deref(), id: id.as_deref(), ..Event::default() };
            let chunk = written(&event, Id::default());
            let head = memchr(b'\n', &chunk).unwrap() + 1;
            let block = &chunk[head..chunk.len() - 2];
            let size = format!("{:x}\r\n", block.len());
            prop_assert_eq!(size.as_bytes(), &chunk[..head]);
            let read = parse(block);
            prop_assert!(read.dispatches());
            let text = |range: &std::ops::Range<usize>| std::str::from_utf8(&block[range.clone()]).unwrap();
            let lines: Vec<_> = read.data.lines().map(text).collect();
            prop_assert_eq!(lines.join("\n"), joined(&data));
            prop_assert_eq!(read.name.as_ref().map(text), name.as_deref());
            prop_assert_eq!(read.id.as_ref().map(text), Some(id.as_deref().unwrap_or("0-0")));
        }
    }
}
