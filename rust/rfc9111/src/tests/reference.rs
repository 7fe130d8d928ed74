//! The reference: a plain second implementation of the parsers that shares no code with them. Unit tests and fuzz
//! targets compare both. It is slow, and states each rule in the most direct way.

use std::collections::BTreeSet;

/// Cache-Control as the reference reads it: each directive with a lifetime, and the directives that are set or have
/// fields.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) spans: [Option<u64>; 4],
    pub(crate) scopes: [Option<BTreeSet<Vec<u8>>>; 2],
    pub(crate) flags: [bool; 6],
}

const SPANS: [&str; 4] = ["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"];
const SCOPES: [&str; 2] = ["no-cache", "private"];
const FLAGS: [&str; 6] =
    ["no-store", "public", "must-revalidate", "proxy-revalidate", "must-understand", "immutable"];

/// An empty set stands for the whole response.
pub(crate) fn control(lines: &[&[u8]]) -> Control {
    let mut control = Control::default();
    for member in lines.iter().flat_map(|line| members(line, b',')) {
        let text: Vec<char> = member.iter().map(|byte| char::from(*byte)).collect();
        let (name, argument) = match text.iter().position(|char| *char == '=') {
            Some(place) => (&text[..place], Some(&text[place + 1..])),
            None => (&text[..], None),
        };
        let spaced = name.last().is_some_and(|last| [' ', '\t'].contains(last));
        let name: String = name.iter().collect::<String>().trim_end_matches([' ', '\t']).to_lowercase();
        let argument = argument.map(|argument| if spaced { " ".to_owned() } else { plain(argument) });
        if let Some(place) = SPANS.iter().position(|known| *known == name) {
            let digits = argument.unwrap_or_default();
            let valid = !digits.is_empty() && digits.chars().all(|char| char.is_ascii_digit());
            let span = if valid { digits.parse().unwrap_or(u64::MAX).min(1 << 31) } else { 0 };
            control.spans[place] = Some(control.spans[place].map_or(span, |before| before.min(span)));
        } else if let Some(place) = SCOPES.iter().position(|known| *known == name) {
            let names = argument.map_or_else(BTreeSet::new, |argument| names(&argument));
            let whole = names.is_empty() || control.scopes[place].as_ref().is_some_and(BTreeSet::is_empty);
            let known = control.scopes[place].get_or_insert_default();
            if whole { known.clear() } else { known.extend(names) }
        } else if let Some(place) = FLAGS.iter().position(|known| *known == name) {
            control.flags[place] = true;
        }
    }
    control
}

/// The names in a list; `None` if a member is not a name.
fn names(list: &str) -> BTreeSet<Vec<u8>> {
    let bytes: Vec<u8> = list.chars().map(|char| char as u8).collect();
    let members: Vec<_> = members(&bytes, b',').into_iter().filter(|name| !name.is_empty()).collect();
    let is_name = |name: &Vec<u8>| {
        name.iter().all(|byte| byte.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(char::from(*byte)))
    };
    if members.iter().all(is_name) {
        members.into_iter().map(|name| name.to_ascii_lowercase()).collect()
    } else {
        BTreeSet::new()
    }
}

/// The value of an argument: without its quotes, if it is one quoted string.
fn plain(argument: &[char]) -> String {
    let whole: String = argument.iter().collect();
    let mut text = String::new();
    let mut rest = argument.iter();
    if rest.next() != Some(&'"') {
        return whole;
    }
    loop {
        match rest.next() {
            None => return whole,
            Some('"') => return if rest.next().is_none() { text } else { whole },
            Some('\\') => match rest.next() {
                None => return whole,
                Some(escaped) => text.push(*escaped),
            },
            Some(other) => text.push(*other),
        }
    }
}

/// The parts between separators outside quotes, the empty ones too.
pub(crate) fn members(line: &[u8], separator: u8) -> Vec<Vec<u8>> {
    // First which bytes are within quotes, then the cuts.
    let mut quoted = vec![false; line.len()];
    let mut at = 0;
    while at < line.len() {
        if line[at] == b'"' {
            let mut end = at + 1;
            while end < line.len() && line[end] != b'"' {
                end += if line[end] == b'\\' { 2 } else { 1 };
            }
            if end >= line.len() {
                break;
            }
            quoted[at..=end].fill(true);
            at = end;
        }
        at += 1;
    }
    let mut members = vec![Vec::new()];
    for (byte, quoted) in line.iter().zip(quoted) {
        if *byte == separator && !quoted {
            members.push(Vec::new());
        } else {
            members.last_mut().expect("one at least").push(*byte);
        }
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    for member in &mut members {
        let end = member.iter().rposition(|byte| !is_space(byte)).map_or(0, |last| last + 1);
        member.truncate(end);
        let start = member.iter().position(|byte| !is_space(byte)).unwrap_or(0);
        member.drain(..start);
    }
    members
}

/// The bytes of `length` that a Range field names, one by one; `None` if the field is ignored.
pub(crate) fn range(value: &[u8], length: u64) -> Option<BTreeSet<u64>> {
    let text = std::str::from_utf8(value).ok()?;
    let (unit, ranges) = text.split_once('=')?;
    if unit.to_lowercase() != "bytes" {
        return None;
    }
    let mut bytes = BTreeSet::new();
    let mut any = false;
    let digits = |text: &str| -> Option<u128> {
        let valid = !text.is_empty() && text.chars().all(|char| char.is_ascii_digit());
        valid.then(|| text.parse().unwrap_or(u128::MAX))
    };
    for member in members(ranges.as_bytes(), b',') {
        let member = String::from_utf8(member).expect("cut at ASCII");
        if member.is_empty() {
            continue;
        }
        any = true;
        let (first, last) = member.split_once('-')?;
        if first.is_empty() {
            let count = digits(last)?;
            bytes.extend((0..length).filter(|byte| u128::from(length - byte) <= count));
            continue;
        }
        let first = digits(first)?;
        let last = if last.is_empty() { u128::MAX } else { digits(last)? };
        // Numbers above the largest file size count as this size.
        if first.min(u128::from(u64::MAX)) > last.min(u128::from(u64::MAX)) {
            return None;
        }
        bytes.extend((0..length).filter(|byte| (first..=last).contains(&u128::from(*byte))));
    }
    any.then_some(bytes)
}

/// The names in Vary, or `None` for `*`.
pub(crate) fn vary(lines: &[&[u8]]) -> Option<BTreeSet<Vec<u8>>> {
    let joined = lines.join(&b","[..]);
    let mut names = BTreeSet::new();
    for name in joined.split(|byte| *byte == b',') {
        let name: Vec<u8> =
            String::from_utf8_lossy(name).trim_matches([' ', '\t']).to_lowercase().into_bytes();
        if name.is_empty() {
            continue;
        }
        if name == b"*"
            || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
        {
            return None;
        }
        names.insert(name);
    }
    Some(names)
}

/// The value of a field whose rules are not known, on one line and without whitespace around its commas.
pub(crate) fn on_one_line(lines: &[&[u8]]) -> Option<Vec<u8>> {
    let all: Vec<_> = lines.iter().flat_map(|line| members(line, b',')).collect();
    (!lines.is_empty()).then(|| all.join(&b","[..]))
}
