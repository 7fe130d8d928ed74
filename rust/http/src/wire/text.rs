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

/// How many bytes at the beginning are characters of a token.
pub(super) fn token_length(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| !TOKEN.has(*byte)).unwrap_or(bytes.len())
}

/// A token of RFC 9110, section 5.6.2: the shape of methods and field names.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| TOKEN.has(*byte))
}

/// Names of fields, in lower case. Most other names differ in their length from each of them, which is known at once.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    names: &'static [&'static str],
    /// A bit for each length that one of them has.
    lengths: u64,
}

impl Names {
    /// `names` have less than 64 characters each.
    pub const fn new(names: &'static [&'static str]) -> Self {
        let (mut lengths, mut index) = (0, 0);
        while index < names.len() {
            assert!(names[index].len() < 64, "a longer name has no bit");
            lengths |= 1 << names[index].len();
            index += 1;
        }
        Self { names, lengths }
    }

    /// Whether `name` is one of them, ignoring case.
    pub fn has(&self, name: &[u8]) -> bool {
        self.has_length(name) && is_one_of(name, self.names)
    }

    /// Whether `name` reads as one of them: see [`reads_as`].
    pub fn reads(&self, name: &[u8]) -> bool {
        self.has_length(name) && reads_as_one_of(name, self.names)
    }

    fn has_length(&self, name: &[u8]) -> bool {
        name.len() < 64 && self.lengths >> name.len() & 1 != 0
    }
}

/// Whether a field name is one of `names`, ignoring case.
pub fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|other| is_same_name(name, other.as_bytes()))
}

/// Whether two names are the same, ignoring case: eight bytes at a time, because the names of a relay's four heads are compared
/// with the names that mean something to it.
#[inline]
pub fn is_same_name(name: &[u8], other: &[u8]) -> bool {
    // Most names differ in their length: that is asked without a call.
    name.len() == other.len() && has_same_letters(name, other)
}

/// [`is_same_name`] of names of one length.
fn has_same_letters(name: &[u8], other: &[u8]) -> bool {
    let mut words = name.chunks_exact(8).zip(other.chunks_exact(8));
    if !words.all(|(name, other)| lowered(name) == lowered(other)) {
        return false;
    }
    // The last eight may have been a part of what was compared before.
    match (name.last_chunk::<8>(), other.last_chunk::<8>()) {
        (Some(name), Some(other)) => lowered(name) == lowered(other),
        _ => name.eq_ignore_ascii_case(other),
    }
}

/// Eight bytes, of which letters of ASCII in lower case.
#[inline]
fn lowered(bytes: &[u8]) -> u64 {
    let word = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let low = word & !HIGHS;
    let from_a = low + ONES * (0x80 - u64::from(b'A'));
    let beyond_z = low + ONES * (0x80 - u64::from(b'Z') - 1);
    let is_upper = from_a & !beyond_z & !word & HIGHS;
    word | is_upper >> 2
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

/// How many bytes at the beginning are characters of a field value: eight at a time, because every value of a request is read
/// twice.
pub(super) fn text_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    loop {
        while let Some(word) = bytes.get(length..).and_then(<[u8]>::first_chunk) {
            let controls = controls(u64::from_le_bytes(*word));
            length += controls.trailing_zeros() as usize / 8;
            if controls != 0 {
                break;
            }
        }
        match bytes.get(length) {
            Some(byte) if is_text(*byte) => length += 1,
            _ => return length,
        }
    }
}

/// The high bit of the first of eight bytes that is a control character, and perhaps others above it; none if none is one.
fn controls(word: u64) -> u64 {
    let del = word ^ (ONES * 0x7f);
    let is_del = del.wrapping_sub(ONES) & !del;
    let is_below_space = word.wrapping_sub(ONES * u64::from(b' ')) & !word;
    (is_del | is_below_space) & HIGHS
}

/// Each of eight bytes is 1, and 0x80.
const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;

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

/// Appends a field as a line. Written out: in a loop over the four parts the two marks are copied by calls as well.
pub fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a number in decimal digits. `write!` takes 100 instructions more, and a hit writes two.
pub fn write_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b"0123456789"[(number % 10) as usize];
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_displayed() {
        for number in [0, 1, 9, 10, 99, 100, 4_294_967_296, u64::MAX - 1, u64::MAX] {
            let mut out = b"Age: ".to_vec();
            write_number(&mut out, number);
            assert_eq!(out, format!("Age: {number}").into_bytes());
        }
    }
}
