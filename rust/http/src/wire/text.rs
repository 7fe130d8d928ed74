//! Character sets of HTTP, and the form in which errors show bytes: escaped, and only a few of them.

/// More would let a peer write its own log lines; fewer would cut ordinary header names.
const SHOWN: usize = 48;

/// The bytes in quotes, escaped, cut after [`SHOWN`] of them.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let more = if shown.len() < bytes.len() { "..." } else { "" };
    format!("\"{}{more}\"", shown.escape_ascii())
}

/// Letters, digits, and the other characters of a set. It is a table, because each name and each host is read byte by
/// byte, several times a request.
pub(super) struct Characters([bool; 256]);

impl Characters {
    pub(super) const fn new(marks: &[u8]) -> Self {
        let mut set = [false; 256];
        let mut byte = 0_u8;
        while byte < 128 {
            set[byte as usize] = byte.is_ascii_alphanumeric();
            byte += 1;
        }
        let mut mark = 0;
        while mark < marks.len() {
            set[marks[mark] as usize] = true;
            mark += 1;
        }
        Self(set)
    }

    pub(super) fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte)]
    }
}

/// `tchar` of RFC 9110, section 5.6.2.
const TOKEN: &Characters = &Characters::new(b"!#$%&'*+-.^_`|~");

/// A token of RFC 9110, section 5.6.2: the shape of methods and field names.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| TOKEN.has(*byte))
}

/// Whether a field name is one of `names`, ignoring case.
pub fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

/// The byte that replaces `byte` when two names are compared. CGI (RFC 3875, section 4.1.18) and what follows it turn `-`
/// into `_`, and PHP and some servers do the same with `.`: they cannot tell `X_Forwarded.For` from `X-Forwarded-For`.
pub fn folded(byte: u8) -> u8 {
    if matches!(byte, b'_' | b'.') { b'-' } else { byte.to_ascii_lowercase() }
}

/// Whether `name` reads as `known`, which is in lower case.
pub fn reads_as(name: &[u8], known: &str) -> bool {
    name.len() == known.len() && name.iter().zip(known.bytes()).all(|(byte, known)| folded(*byte) == known)
}

/// Whether `name` reads as one of `names`, which are in lower case.
pub fn reads_as_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|known| reads_as(name, known))
}

/// The characters of a field value (RFC 9110, section 5.5): visible characters, space, tab, and
/// obs-text.
pub(super) fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Removes optional whitespace (RFC 9110, section 5.6.3) at either end. `trim_ascii` would remove CR and LF too.
pub fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// The members of a comma-separated list (RFC 9110, section 5.6.1), trimmed, the empty ones too.
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim)
}

/// Whether a Content-Type is `text/event-stream`, with any parameters (RFC 9110, section 8.3.1).
pub fn names_event_stream(content_type: &[u8]) -> bool {
    media_type(content_type).eq_ignore_ascii_case(b"text/event-stream")
}

/// A Content-Type without its parameters.
pub fn media_type(content_type: &[u8]) -> &[u8] {
    trim(content_type.split(|byte| *byte == b';').next().unwrap_or_default())
}

/// Appends a field as a line.
pub fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}
