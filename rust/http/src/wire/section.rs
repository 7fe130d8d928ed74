//! Sections of fields, in heads and trailers: lines that end in CRLF, up to an empty line.
//!
//! [`Scanner`] reads each byte once, however the bytes arrive, and finds the end of the section; [`fields`] then
//! parses a whole section. httparse parses only names and values, in which it is strict: it would also accept a
//! lone LF as the end of a line, and skip leading empty lines (checked against 1.10).

use std::ops::Range;

use memchr::memchr3;

use super::text::quoted;
use penstock_error::{Code, Error, Result};

/// The error codes and limits of one kind of section.
#[derive(Debug)]
pub(super) struct Kind {
    name: &'static str,
    malformed: Code,
    too_large: Code,
    bare: Code,
    folded: Code,
    /// Whether the first line is a start line and not a field.
    start_line: bool,
}

pub(super) const HEAD: &Kind = &Kind {
    name: "response head",
    malformed: Code::BadHead,
    too_large: Code::HeadTooLarge,
    bare: Code::BareLineFeed,
    folded: Code::FoldedHeader,
    start_line: true,
};

pub(super) const TRAILER: &Kind = &Kind {
    name: "trailer section",
    malformed: Code::BadTrailer,
    too_large: Code::BadTrailer,
    bare: Code::BareLineFeed,
    folded: Code::FoldedHeader,
    start_line: false,
};

pub(super) const REQUEST_TRAILER: &Kind = &Kind {
    name: "trailer section",
    malformed: Code::BadRequestBody,
    too_large: Code::BadRequestBody,
    bare: Code::BadRequestBody,
    folded: Code::BadRequestBody,
    start_line: false,
};

pub(super) const REQUEST_HEAD: &Kind = &Kind {
    name: "request head",
    malformed: Code::BadRequestHead,
    too_large: Code::RequestHeadTooLarge,
    bare: Code::BadRequestHead,
    folded: Code::BadRequestHead,
    start_line: true,
};

impl Kind {
    pub(super) fn malformed(&self, what: impl std::fmt::Display) -> Error {
        self.malformed.error(format!("{what} in the {}", self.name))
    }
}

/// Finds the end of a section in a buffer that grows.
#[derive(Debug)]
pub(super) struct Scanner {
    kind: &'static Kind,
    /// The limit in bytes of the whole section, with its empty line.
    max_bytes: usize,
    max_fields: usize,
    /// The bytes before this position have been read.
    position: usize,
    /// The beginning of the line at `position`.
    line: usize,
    lines: usize,
    /// The empty line was found.
    is_over: bool,
}

impl Scanner {
    pub(super) fn new(kind: &'static Kind, max_bytes: usize, max_fields: usize) -> Self {
        Self { kind, max_bytes, max_fields, position: 0, line: 0, lines: 0, is_over: false }
    }

    /// Whether a byte has been read.
    pub(super) fn has_begun(&self) -> bool {
        self.position > 0
    }

    /// Whether the start line has ended.
    pub(super) fn has_started(&self) -> bool {
        self.lines > 0
    }

    /// The number of fields so far; of all fields after the end has been found.
    pub(super) fn fields(&self) -> usize {
        self.lines.saturating_sub(usize::from(self.kind.start_line))
    }

    /// Whether the section is complete and has that many bytes.
    pub(super) fn has_ended_at(&self, length: usize) -> bool {
        self.is_over && self.position == length
    }

    /// The length of the section with its empty line, if it is complete. `buffer` must begin with the bytes of the last
    /// call.
    pub(super) fn scan(&mut self, buffer: &[u8]) -> Result<Option<usize>> {
        // Bytes beyond the limit are not read: it must not matter whether they came with this read or a later one.
        let window = &buffer[..buffer.len().min(self.max_bytes)];
        while self.position < window.len() {
            if self.position == self.line && self.lines > 0 && matches!(window[self.line], b' ' | b'\t') {
                return Err(self
                    .kind
                    .folded
                    .error(format!("a line of the {} begins with whitespace", self.kind.name)));
            }
            let Some(offset) = memchr3(b'\r', b'\n', 0, &window[self.position..]) else {
                self.position = window.len();
                break;
            };
            self.position += offset;
            match (window[self.position], window.get(self.position + 1)) {
                (0, _) => return Err(self.kind.malformed("a NUL byte")),
                (b'\r', None) => break,
                (b'\r', Some(b'\n')) => {
                    if let Some(end) = self.end_line()? {
                        return Ok(Some(end));
                    }
                }
                (byte, _) => return Err(bare(byte, self.kind.bare, self.kind.name)),
            }
        }
        if window.len() == self.max_bytes {
            return Err(self
                .kind
                .too_large
                .error(format!("the {} exceeds {} bytes", self.kind.name, self.max_bytes)));
        }
        Ok(None)
    }

    /// Steps over the CRLF at `position`; the end of the section if its line was the empty one.
    fn end_line(&mut self) -> Result<Option<usize>> {
        let empty = self.position == self.line;
        self.position += 2;
        self.line = self.position;
        if empty {
            if self.kind.start_line && self.lines == 0 {
                return Err(self.kind.malformed("an empty first line"));
            }
            self.is_over = true;
            return Ok(Some(self.position));
        }
        self.lines += 1;
        if self.fields() > self.max_fields {
            return Err(self
                .kind
                .too_large
                .error(format!("the {} has more than {} fields", self.kind.name, self.max_fields)));
        }
        Ok(None)
    }
}

/// The error of a line that ends in `byte` alone.
pub(super) fn bare(byte: u8, code: Code, place: &str) -> Error {
    let name = if byte == b'\n' { "LF without CR" } else { "CR without LF" };
    code.error(format!("{name} in the {place}"))
}

/// The positions of a field's name and value in the bytes of its section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: Range<usize>,
    pub(super) value: Range<usize>,
}

/// The values of all fields of a section that have that name, ignoring case.
pub(super) fn values<'a, 'n>(
    fields: &'a [Field],
    section: &'a [u8],
    name: &'n str,
) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
    // Most names differ in their length, which is known without their bytes.
    let has_name = move |field: &&Field| {
        field.name.len() == name.len() && section[field.name.clone()].eq_ignore_ascii_case(name.as_bytes())
    };
    fields.iter().filter(has_name).map(|field| &section[field.value.clone()])
}

/// The `count` fields of a section whose end a [`Scanner`] has found, from byte `start` on.
pub(super) fn fields(kind: &Kind, section: &[u8], start: usize, count: usize) -> Result<Vec<Field>> {
    let mut headers = vec![httparse::EMPTY_HEADER; count];
    match httparse::parse_headers(&section[start..], &mut headers) {
        Ok(httparse::Status::Complete((length, found)))
            if start + length == section.len() && found.len() == count => {}
        _ => return Err(kind.malformed(culprit(&section[start..]))),
    }
    let range = |part: &[u8]| {
        let from = part.as_ptr().addr() - section.as_ptr().addr();
        from..from + part.len()
    };
    Ok(headers
        .iter()
        .map(|header| Field { name: range(header.name.as_bytes()), value: range(header.value) })
        .collect())
}

/// The error of the first line that is not a field; httparse reports only that there is one.
fn culprit(section: &[u8]) -> String {
    for line in section.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return format!("a line without a colon, {},", quoted(line));
        };
        let name = &line[..colon];
        if !super::text::is_token(name) {
            return format!("the field name {}", quoted(name));
        }
        if let Some(byte) = line[colon..].iter().find(|byte| !super::text::is_text(**byte)) {
            return format!("a control character {} in the field {}", quoted(&[*byte]), quoted(name));
        }
    }
    "a malformed field".to_owned()
}
