//! The fields `traceparent` and `tracestate` (W3C Trace Context, level 2, sections 3.2 and 3.3).

use std::ops::Range;

use crate::id::{SpanId, TraceId, read_hex, write_hex};

/// The fields by which a server tells the next one of a trace: the span, and what tracing systems have to say.
pub const FIELDS: [&str; 2] = ["traceparent", "tracestate"];

/// Bytes of a `traceparent` of version 00.
const LENGTH: usize = 55;

/// The field as a line, and where its value is.
const LINE: &[u8; 70] = b"traceparent: 00-00000000000000000000000000000000-0000000000000000-00\r\n";
const VALUE: Range<usize> = LINE.len() - 2 - LENGTH..LINE.len() - 2;

/// The caller records the trace.
const SAMPLED: u8 = 1;
/// The low 56 bits of the trace's id are random.
const RANDOM: u8 = 2;

/// Bytes of `tracestate` that are passed on: as many as the specification asks for (section 3.3.1.5).
const MOST_STATE: usize = 512;
/// Members of it (section 3.3.1.1).
const MOST_MEMBERS: usize = 32;
/// A member that is longer is dropped before others are (section 3.3.1.5).
const LONG_MEMBER: usize = 128;

/// A span and its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// It is recorded, as far as is known.
    pub is_sampled: bool,
    /// The low 56 bits of the trace's id are random.
    pub is_random: bool,
}

impl SpanContext {
    /// Reads the value of `traceparent`. A later version may have more parts (section 4.3).
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (version, rest) = value.split_at_checked(3)?;
        let mut number = [0];
        read_hex(&version[..2], &mut number)?;
        let is_long = match number[0] {
            0 => value.len() != LENGTH,
            0xff => true,
            _ => value.get(LENGTH).is_some_and(|byte| *byte != b'-'),
        };
        if is_long || version[2] != b'-' || value.len() < LENGTH {
            return None;
        }
        let (mut trace, mut span, mut flags) = ([0; 16], [0; 8], [0]);
        read_hex(&rest[..32], &mut trace)?;
        read_hex(&rest[33..49], &mut span)?;
        read_hex(&rest[50..52], &mut flags)?;
        let is_valid = rest[32] == b'-' && rest[49] == b'-' && trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Self {
            trace: TraceId(trace),
            span: SpanId(span),
            is_sampled: flags[0] & SAMPLED != 0,
            // A later version may give the bit another meaning.
            is_random: flags[0] & RANDOM != 0 && number[0] == 0,
        })
    }

    /// The value of `traceparent`.
    pub fn write(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        out.copy_from_slice(&self.line()[VALUE]);
        out
    }

    /// The field `traceparent` as a line.
    pub(crate) fn line(&self) -> [u8; LINE.len()] {
        let mut line = *LINE;
        let out = &mut line[VALUE];
        write_hex(&self.trace.0, &mut out[3..35]);
        write_hex(&self.span.0, &mut out[36..52]);
        write_hex(&[self.flags()], &mut out[53..]);
        line
    }

    pub(crate) fn flags(&self) -> u8 {
        (u8::from(self.is_sampled) * SAMPLED) | (u8::from(self.is_random) * RANDOM)
    }
}

/// What a request says of its trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The span of the caller.
    pub context: SpanContext,
    /// What tracing systems have to say beside it.
    pub state: State,
}

impl Parent {
    /// Reads the fields of a request. `None` if `traceparent` is missing, malformed, or there is more than one; then
    /// `tracestate` has no meaning (section 4.3).
    pub fn of<'a>(
        parents: impl IntoIterator<Item = &'a [u8]>,
        states: impl IntoIterator<Item = &'a [u8]>,
    ) -> Option<Self> {
        let mut parents = parents.into_iter();
        let (first, None) = (parents.next()?, parents.next()) else { return None };
        Some(Self { context: SpanContext::parse(first)?, state: State::parse(states) })
    }
}

/// The members of `tracestate`, in order, as the callers wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State(Box<str>);

impl State {
    /// Reads the fields. If one is malformed there is nothing (section 3.3.1.5); what is too long loses long members, then the
    /// last ones.
    fn parse<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut members = Vec::new();
        for field in fields {
            for member in field.split(|byte| *byte == b',') {
                let member = member.trim_ascii();
                if member.is_empty() {
                    continue;
                }
                match std::str::from_utf8(member).ok().filter(|member| is_member(member)) {
                    Some(member) if members.len() < MOST_MEMBERS => members.push(member),
                    _ => return Self::default(),
                }
            }
        }
        let length = |members: &[&str]| members.iter().map(|member| member.len() + 1).sum::<usize>();
        while length(&members) > MOST_STATE + 1 {
            let long = members.iter().rposition(|member| member.len() > LONG_MEMBER);
            members.remove(long.unwrap_or(members.len() - 1));
        }
        Self(members.join(",").into())
    }

    /// The value of the field; without a byte, it is not sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether it is a key and a value (sections 3.3.1.3.1 and 3.3.1.3.2). How keys of several tenants are made up is not looked at.
fn is_member(member: &str) -> bool {
    let Some((key, value)) = member.split_once('=') else { return false };
    let is_key = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let begins = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    key.len() <= 256
        && key.as_bytes().first().is_some_and(begins)
        && key.bytes().all(is_key)
        && value.len() <= 256
        && value.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALUE: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_parent_is_read_and_written() {
        let context = SpanContext::parse(VALUE).unwrap();
        assert_eq!(context.trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.span.to_string(), "00f067aa0ba902b7");
        assert!(context.is_sampled && !context.is_random);
        assert_eq!(context.write(), VALUE);
        assert_eq!(context.line()[..], [b"traceparent: ", VALUE, b"\r\n"].concat());
        let random = SpanContext { is_sampled: false, is_random: true, ..context };
        assert!(random.write().ends_with(b"-02"));
        assert_eq!(SpanContext::parse(&random.write()), Some(random));
    }

    #[test]
    fn what_is_no_parent_is_refused() {
        let text = std::str::from_utf8(VALUE).unwrap();
        for wrong in [
            "",
            "00",
            &text[..54],
            &format!("{text}-"),
            &format!("{text}0"),
            &text.replace("00-4", "ff-4"),
            &text.replace("00-4", "0g-4"),
            &text.replace('-', "_"),
            &text.replace('b', "B"),
            &format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            &format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16)),
            &text.replace("-01", "-0x"),
            &text.replace("00-4", "cc-4").replace("-01", "-01.what"),
        ] {
            assert_eq!(SpanContext::parse(wrong.as_bytes()), None, "{wrong}");
        }
        for later in ["cc-4", "01-4"] {
            let later = text.replace("00-4", later);
            assert!(SpanContext::parse(later.as_bytes()).is_some(), "{later}");
            assert!(SpanContext::parse(format!("{later}-what").as_bytes()).is_some(), "{later}-what");
        }
    }

    #[test]
    fn there_is_one_parent_or_none() {
        assert!(Parent::of([VALUE], []).is_some());
        assert_eq!(Parent::of([VALUE, VALUE], []), None);
        assert_eq!(Parent::of([], [&b"a=1"[..]]), None);
    }

    #[test]
    fn state_is_passed_on_as_it_came() {
        let state = |fields: &[&str]| State::parse(fields.iter().map(|field| field.as_bytes()));
        assert_eq!(state(&["a=1,b=2", " c@d = x", ""]).as_str(), "");
        assert_eq!(state(&["a=1 , b=2", ",", "c@d=x y"]).as_str(), "a=1,b=2,c@d=x y");
        for wrong in ["a", "A=1", "=1", "a=1=2", "a=\u{e9}", "a=\t1\u{7f}", &format!("{}=1", "a".repeat(257))]
        {
            assert_eq!(state(&["x=y", wrong]).as_str(), "", "{wrong}");
        }
        let many: Vec<_> = (0..33).map(|number| format!("a{number}=1")).collect();
        assert_eq!(state(&[&many.join(",")]).as_str(), "");
        assert_eq!(state(&[&many[..32].join(",")]).as_str(), many[..32].join(","));
        let (long, short) = (format!("l={}", "x".repeat(200)), format!("s={}", "y".repeat(100)));
        let cut = state(&[&long, &short, &long, &short, &short]);
        assert_eq!(cut.as_str(), [&*long, &short, &short].join(",") + "," + &short);
        assert_eq!(state(&[&[&*short; 6].join(",")]).as_str().len(), 4 * 103 - 1);
    }

    proptest! {
        #[test]
        fn any_field_is_read_without_a_panic(parent: Vec<u8>, state: Vec<u8>) {
            let _ = SpanContext::parse(&parent);
            let state = State::parse([&state[..]]);
            prop_assert!(state.as_str().len() <= MOST_STATE);
        }

        #[test]
        fn what_is_written_is_read_again(at in 0..LENGTH, byte: u8) {
            let mut value = VALUE.to_vec();
            value[at] = byte;
            if let Some(context) = SpanContext::parse(&value) {
                prop_assert_eq!(SpanContext::parse(&context.write()), Some(context));
            }
        }
    }
}
