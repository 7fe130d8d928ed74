//! Sections of fields, in heads and trailers: lines that end in CRLF, up to an empty line.
//!
//! [`Scanner`] finds the end of a section. One that has come in one piece, as nearly all do, it parses on the way. The bytes of any
//! other it reads once, however they arrive, and that is what finds the errors; its lines are parsed afterwards.

use std::ops::Range;

use memchr::memchr3;

use super::text::{is_same_name, is_text, is_token, quoted, text_length, token_length, trim};
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
    /// The length of the start line, once it has ended.
    start: usize,
    /// The empty line was found.
    is_over: bool,
    /// The fields of a section that was parsed on the way.
    parsed: Option<Vec<Field>>,
}

/// Room for the fields of a head: browsers send a dozen, and origins hardly more. Arbitrary.
const USUAL_FIELDS: usize = 16;

impl Scanner {
    pub(super) fn new(kind: &'static Kind, max_bytes: usize, max_fields: usize) -> Self {
        Self {
            kind,
            max_bytes,
            max_fields,
            position: 0,
            line: 0,
            lines: 0,
            start: 0,
            is_over: false,
            parsed: None,
        }
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
        if self.position == 0 && self.kind.start_line {
            if let Some(end) = self.parse_whole(window) {
                return Ok(Some(end));
            }
        }
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

    /// The end of a section that is whole and well-formed. Any other is left as it is.
    ///
    /// Once over the bytes: to find each line first, and then to parse it, took 4,800 instructions for the two heads of a
    /// relay, and this takes 3,200.
    fn parse_whole(&mut self, section: &[u8]) -> Option<usize> {
        let start = memchr3(b'\r', b'\n', 0, section).filter(|start| *start > 0)?;
        let mut position = end_of_line(section, start)?;
        let mut fields = Vec::with_capacity(USUAL_FIELDS);
        while section.get(position) != Some(&b'\r') {
            let (field, end) = field(section, position).filter(|_| fields.len() < self.max_fields)?;
            fields.push(field);
            position = end;
        }
        let end = end_of_line(section, position)?;
        (self.position, self.line, self.lines) = (end, end, fields.len() + 1);
        (self.start, self.is_over, self.parsed) = (start, true, Some(fields));
        Some(end)
    }

    /// The length of the start line, without its CRLF.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// The fields of `section`, whose end has been found.
    ///
    /// # Errors
    /// A line is not a field.
    pub(super) fn take_fields(&mut self, section: &[u8]) -> Result<Vec<Field>> {
        if let Some(fields) = self.parsed.take() {
            return Ok(fields);
        }
        let (kind, count) = (self.kind, self.fields());
        let first = if kind.start_line { self.start + 2 } else { 0 };
        let mut fields = Vec::with_capacity(count);
        let mut position = first;
        while let Some((field, end)) = field(section, position).filter(|_| fields.len() < count) {
            fields.push(field);
            position = end;
        }
        if fields.len() == count && section.get(position..) == Some(b"\r\n") {
            return Ok(fields);
        }
        Err(kind.malformed(culprit(section.get(first..).unwrap_or_default())))
    }

    /// Steps over the CRLF at `position`; the end of the section if its line was the empty one.
    fn end_line(&mut self) -> Result<Option<usize>> {
        let empty = self.position == self.line;
        if self.lines == 0 {
            self.start = self.position;
        }
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

/// The positions of a field's name and value in the bytes of its section: in 16 bytes, because a head is kept as long as what
/// follows it, for hours perhaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    name: Range<u32>,
    value: Range<u32>,
}

impl Field {
    /// `None` beyond 4 GiB.
    pub(super) fn new(name: Range<usize>, value: Range<usize>) -> Option<Self> {
        let short = |range: Range<usize>| Some(range.start.try_into().ok()?..range.end.try_into().ok()?);
        Some(Self { name: short(name)?, value: short(value)? })
    }

    /// Its name, in the bytes of its section.
    pub(super) fn name<'a>(&self, section: &'a [u8]) -> &'a [u8] {
        &section[self.name.start as usize..self.name.end as usize]
    }

    /// Where its value is.
    pub(super) fn value_range(&self) -> Range<usize> {
        self.value.start as usize..self.value.end as usize
    }

    /// Its value, in the bytes of its section.
    pub(super) fn value<'a>(&self, section: &'a [u8]) -> &'a [u8] {
        &section[self.value_range()]
    }

    /// Whether it has that name, ignoring case. Most names differ in their length, which is known without their bytes.
    pub(super) fn is(&self, name: &str, section: &[u8]) -> bool {
        self.name.len() == name.len() && is_same_name(self.name(section), name.as_bytes())
    }
}

/// The values of all fields of a section that have that name, ignoring case.
pub(super) fn values<'a, 'n>(
    fields: &'a [Field],
    section: &'a [u8],
    name: &'n str,
) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
    fields.iter().filter(move |field| field.is(name, section)).map(|field| field.value(section))
}

/// The field whose line begins at `start`, and the end of that line: a token, a colon right after it, and characters of a value
/// between optional whitespace (RFC 9112, section 5). `None` for any other line.
fn field(section: &[u8], start: usize) -> Option<(Field, usize)> {
    let colon = start + token_length(section.get(start..)?);
    if colon == start || section.get(colon) != Some(&b':') {
        return None;
    }
    let blanks = section[colon + 1..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let from = colon + 1 + blanks;
    let length = text_length(&section[from..]);
    let value = trim(&section[from..from + length]);
    let field = Field::new(start..colon, from..from + value.len())?;
    Some((field, end_of_line(section, from + length)?))
}

/// The place behind the CRLF at `position`.
fn end_of_line(section: &[u8], position: usize) -> Option<usize> {
    section.get(position..)?.starts_with(b"\r\n").then_some(position + 2)
}

/// The error of the first line that is not a field.
fn culprit(section: &[u8]) -> String {
    for line in section.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return format!("a line without a colon, {},", quoted(line));
        };
        let name = &line[..colon];
        if !is_token(name) {
            return format!("the field name {}", quoted(name));
        }
        if let Some(byte) = line[colon..].iter().find(|byte| !is_text(**byte)) {
            return format!("a control character {} in the field {}", quoted(&[*byte]), quoted(name));
        }
    }
    "a malformed field".to_owned()
}
