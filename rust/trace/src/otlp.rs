//! The protocol of OpenTelemetry (OTLP 1, `opentelemetry/proto/trace/v1/trace.proto`) in protobuf's encoding: what is written
//! here, and nothing else of it.

use crate::context::SpanContext;
use crate::span::{Span, Value};

/// Bytes of a text that are told. A client chooses some of them. Arbitrary.
const MOST_TEXT: usize = 1024;

/// Kinds of encodings (protobuf.dev, "Encoding").
const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const LENGTH: u8 = 2;
const FIXED32: u8 = 5;

/// Bytes of the largest number.
const MOST_VARINT: usize = 10;

/// Numbers of fields.
mod field {
    pub(super) mod span {
        pub(crate) const TRACE: u8 = 1;
        pub(crate) const ID: u8 = 2;
        pub(crate) const STATE: u8 = 3;
        pub(crate) const PARENT: u8 = 4;
        pub(crate) const NAME: u8 = 5;
        pub(crate) const KIND: u8 = 6;
        pub(crate) const BEGAN: u8 = 7;
        pub(crate) const ENDED: u8 = 8;
        pub(crate) const ATTRIBUTES: u8 = 9;
        pub(crate) const LINKS: u8 = 13;
        pub(crate) const STATUS: u8 = 15;
        pub(crate) const FLAGS: u8 = 16;
    }
    pub(super) mod link {
        pub(crate) const TRACE: u8 = 1;
        pub(crate) const ID: u8 = 2;
        pub(crate) const FLAGS: u8 = 6;
    }
    pub(super) mod value {
        pub(crate) const TEXT: u8 = 1;
        pub(crate) const FLAG: u8 = 2;
        pub(crate) const NUMBER: u8 = 3;
        pub(crate) const FLOAT: u8 = 4;
    }
    pub(super) const KEY: u8 = 1;
    pub(super) const VALUE: u8 = 2;
    pub(super) const STATUS_CODE: u8 = 3;
    pub(super) const RESOURCE_SPANS: u8 = 1;
    pub(super) const RESOURCE: u8 = 1;
    pub(super) const RESOURCE_ATTRIBUTES: u8 = 1;
    pub(super) const SCOPE_SPANS: u8 = 2;
    pub(super) const SCOPE: u8 = 1;
    pub(super) const SCOPE_NAME: u8 = 1;
    pub(super) const SCOPE_VERSION: u8 = 2;
    pub(super) const SPANS: u8 = 2;
}

/// `ExportTraceServiceResponse.partial_success`, and its `rejected_spans`.
const PARTIAL_SUCCESS: u8 = 1;
const REJECTED_SPANS: u8 = 1;
/// `STATUS_CODE_ERROR`.
const ERROR: u64 = 2;
/// `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK` and `SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK`.
const KNOWS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// What the spans are of: names and values, such as `service.name`.
pub type Resource = Vec<(String, String)>;

/// The body of a request that brings `spans`, as a [`crate::Batch`] has them, to a collector.
pub fn request(resource: &Resource, version: &str, spans: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(spans.len() + 512);
    message(field::RESOURCE_SPANS, &mut out, |out| {
        message(field::RESOURCE, out, |out| {
            for (name, value) in resource {
                attribute(field::RESOURCE_ATTRIBUTES, name, Value::Text(value), out);
            }
        });
        message(field::SCOPE_SPANS, out, |out| {
            message(field::SCOPE, out, |out| {
                bytes(field::SCOPE_NAME, b"penstock", out);
                bytes(field::SCOPE_VERSION, version.as_bytes(), out);
            });
            out.extend_from_slice(spans);
        });
    });
    out
}

/// How many spans a collector has refused of a batch, by the body of its answer (`ExportTraceServiceResponse.partial_success`).
/// What is no such message says nothing.
pub fn rejected(answer: &[u8]) -> u64 {
    let partial = field_of(answer, PARTIAL_SUCCESS).and_then(|(_, bytes)| bytes);
    partial.and_then(|partial| field_of(partial, REJECTED_SPANS)).map_or(0, |(value, _)| value)
}

/// The number, or the bytes, of a field of a message.
fn field_of(mut message: &[u8], wanted: u8) -> Option<(u64, Option<&[u8]>)> {
    while !message.is_empty() {
        let key = read_varint(&mut message)?;
        let is_wanted = key >> 3 == u64::from(wanted);
        match key.to_le_bytes()[0] & 7 {
            VARINT => {
                let value = read_varint(&mut message)?;
                if is_wanted {
                    return Some((value, None));
                }
            }
            LENGTH => {
                let length = usize::try_from(read_varint(&mut message)?).ok()?;
                let (bytes, rest) = message.split_at_checked(length)?;
                if is_wanted {
                    return Some((0, Some(bytes)));
                }
                message = rest;
            }
            FIXED64 => message = message.get(8..)?,
            FIXED32 => message = message.get(4..)?,
            _ => return None,
        }
    }
    None
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for place in 0..10 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << (7 * place);
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Appends `span`, as a part of the message that has spans.
pub(crate) fn write_span(span: &Span<'_>, out: &mut Vec<u8>) {
    use field::span as of;
    message(field::SPANS, out, |out| {
        bytes(of::TRACE, &span.context.trace.0, out);
        bytes(of::ID, &span.context.span.0, out);
        if !span.state.as_str().is_empty() {
            bytes(of::STATE, span.state.as_str().as_bytes(), out);
        }
        if let Some(parent) = span.parent {
            bytes(of::PARENT, &parent.0, out);
        }
        bytes(of::NAME, span.name.as_bytes(), out);
        number(of::KIND, span.kind as u64, out);
        fixed64(of::BEGAN, span.began, out);
        // A clock that was set back between the two would make it end before it began.
        fixed64(of::ENDED, span.ended.max(span.began), out);
        for (name, value) in span.attributes {
            attribute(of::ATTRIBUTES, name, *value, out);
        }
        if let Some(link) = span.link {
            message(of::LINKS, out, |out| write_link(link, out));
        }
        if span.is_failure {
            message(of::STATUS, out, |out| number(field::STATUS_CODE, ERROR, out));
        }
        let remote = if span.is_remote { IS_REMOTE } else { 0 };
        fixed32(of::FLAGS, u32::from(span.context.flags()) | KNOWS_REMOTE | remote, out);
    });
}

fn write_link(link: SpanContext, out: &mut Vec<u8>) {
    bytes(field::link::TRACE, &link.trace.0, out);
    bytes(field::link::ID, &link.span.0, out);
    fixed32(field::link::FLAGS, u32::from(link.flags()), out);
}

/// Appends an attribute, as a field of this number. If all of its lengths need one byte, as those of most do, they are known before,
/// and nothing is moved.
fn attribute(number_of_field: u8, name: &str, value: Value<'_>, out: &mut Vec<u8>) {
    use field::value as of;
    let length = |length: usize| u8::try_from(length).unwrap_or(u8::MAX);
    let tag = |number: u8| number << 3 | LENGTH;
    // A value is a message: of a text its key and length, which stand before it, and of any other all of it.
    let mut front = [0; 1 + MOST_VARINT];
    let (size, text) = match value {
        Value::Text(text) => {
            front[..2].copy_from_slice(&[tag(of::TEXT), length(text.len())]);
            (2, text)
        }
        Value::Flag(flag) => {
            front[..2].copy_from_slice(&[of::FLAG << 3 | VARINT, flag.into()]);
            (2, "")
        }
        // A negative one is sent as the number of 64 bits that it is modulo 2^64.
        Value::Number(number) => {
            front[0] = of::NUMBER << 3 | VARINT;
            (1 + put_varint(u64::from_ne_bytes(number.to_ne_bytes()), &mut front[1..]), "")
        }
        Value::Float(number) => {
            front[0] = of::FLOAT << 3 | FIXED64;
            front[1..9].copy_from_slice(&number.to_bits().to_le_bytes());
            (9, "")
        }
    };
    // Name and value have a key and a length before them.
    let all = name.len() + size + text.len() + 4;
    if all >= 0x80 {
        return long_attribute(number_of_field, name, &front[..size], text, out);
    }
    out.reserve(all + 2);
    out.extend_from_slice(&[tag(number_of_field), length(all), tag(field::KEY), length(name.len())]);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&[tag(field::VALUE), length(size + text.len())]);
    out.extend_from_slice(&front[..size]);
    out.extend_from_slice(text.as_bytes());
}

/// An attribute with a `text`, or without one a whole value.
fn long_attribute(number_of_field: u8, name: &str, value: &[u8], text: &str, out: &mut Vec<u8>) {
    message(number_of_field, out, |out| {
        bytes(field::KEY, name.as_bytes(), out);
        message(field::VALUE, out, |out| match text {
            "" => out.extend_from_slice(value),
            text => bytes(field::value::TEXT, cut(text).as_bytes(), out),
        });
    });
}

/// Writes a number to the front of `out`, which has room for it; how many bytes that took.
fn put_varint(mut value: u64, out: &mut [u8]) -> usize {
    let mut at = 0;
    while value >= 0x80 {
        out[at] = value.to_le_bytes()[0] | 0x80;
        value >>= 7;
        at += 1;
    }
    out[at] = value.to_le_bytes()[0];
    at + 1
}

/// The first bytes of `text`, as many whole characters as fit.
fn cut(text: &str) -> &str {
    if text.len() <= MOST_TEXT {
        return text;
    }
    let end = (0..=MOST_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

fn key(number: u8, encoding: u8, out: &mut Vec<u8>) {
    // Fields from 16 on need two bytes.
    varint(u64::from(number) << 3 | u64::from(encoding), out);
}

fn varint(value: u64, out: &mut Vec<u8>) {
    let mut bytes = [0; MOST_VARINT];
    let size = put_varint(value, &mut bytes);
    out.extend_from_slice(&bytes[..size]);
}

fn number(number: u8, value: u64, out: &mut Vec<u8>) {
    key(number, VARINT, out);
    varint(value, out);
}

fn fixed64(number: u8, value: u64, out: &mut Vec<u8>) {
    key(number, FIXED64, out);
    out.extend_from_slice(&value.to_le_bytes());
}

fn fixed32(number: u8, value: u32, out: &mut Vec<u8>) {
    key(number, FIXED32, out);
    out.extend_from_slice(&value.to_le_bytes());
}

fn bytes(number: u8, value: &[u8], out: &mut Vec<u8>) {
    key(number, LENGTH, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Appends a message within a message: what `body` appends, after its length. Most need one byte for that; the bytes of others
/// are moved.
fn message(number: u8, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    key(number, LENGTH, out);
    let start = out.len();
    out.push(0);
    body(out);
    let length = out.len() - start - 1;
    if let Ok(length @ ..0x80) = u8::try_from(length) {
        out[start] = length;
    } else {
        let mut prefix = [0; MOST_VARINT];
        let size = put_varint(length as u64, &mut prefix);
        // As much room as it needs besides the byte that is there.
        out.extend_from_slice(&prefix[1..size]);
        out.copy_within(start + 1..start + 1 + length, start + size);
        out[start..start + size].copy_from_slice(&prefix[..size]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::State;
    use crate::id::{SpanId, TraceId};
    use crate::span::Kind;

    #[test]
    fn numbers_are_written_as_the_examples_of_protobuf_are() {
        // protobuf.dev, "Encoding": 150 in field 1, "testing" in field 2, a message with the first in field 3.
        let mut out = Vec::new();
        number(1, 150, &mut out);
        assert_eq!(out, [0x08, 0x96, 0x01]);
        out.clear();
        bytes(2, b"testing", &mut out);
        assert_eq!(out, [&[0x12, 0x07][..], b"testing"].concat());
        out.clear();
        message(3, &mut out, |out| number(1, 150, out));
        assert_eq!(out, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        out.clear();
        message(16, &mut out, |out| out.extend_from_slice(&[7; 300]));
        assert_eq!(out, [&[0x82, 0x01, 0xac, 0x02][..], &[7; 300]].concat());
    }

    #[test]
    fn an_attribute_has_the_same_form_whatever_its_length() {
        for value in [Value::Text("b"), Value::Number(300), Value::Float(0.5), Value::Flag(true)] {
            let mut out = Vec::new();
            attribute(9, "a", value, &mut out);
            let own = &out[7..];
            let size = u8::try_from(own.len()).unwrap();
            assert_eq!(out[..7], [0x4a, size + 5, 0x0a, 1, b'a', 0x12, size], "{value:?}");
            // With a name that is too long for lengths of one byte.
            let name = "n".repeat(200);
            let mut long = Vec::new();
            attribute(9, &name, value, &mut long);
            let front = [&[0x4a, 0, 0, 0x0a, 200, 1][..], name.as_bytes(), &[0x12, out[6]]].concat();
            assert_eq!(
                (long.len(), &long[3..front.len()]),
                (front.len() + own.len(), &front[3..]),
                "{value:?}"
            );
            assert_eq!(&long[front.len()..], own, "{value:?}");
        }
    }

    #[test]
    fn a_negative_number_has_ten_bytes() {
        let mut out = Vec::new();
        attribute(9, "a", Value::Number(-2), &mut out);
        let value = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(out, [&[0x4a, 16, 0x0a, 1, b'a', 0x12, 11, 0x18][..], &value].concat());
    }

    #[test]
    fn a_span_is_written_field_by_field() {
        let context =
            SpanContext { trace: TraceId([1; 16]), span: SpanId([2; 8]), is_sampled: true, is_random: false };
        let span = Span {
            context,
            parent: None,
            is_remote: false,
            state: &State::default(),
            name: "n",
            kind: Kind::Client,
            began: 2,
            ended: 1,
            attributes: &[],
            is_failure: true,
            link: None,
        };
        let mut out = Vec::new();
        write_span(&span, &mut out);
        let expected = [
            &[0x12, 61][..],
            &[0x0a, 16],
            &[1; 16],
            &[0x12, 8],
            &[2; 8],
            &[0x2a, 1, b'n'],
            &[0x30, 3],
            &[0x39, 2, 0, 0, 0, 0, 0, 0, 0],
            &[0x41, 2, 0, 0, 0, 0, 0, 0, 0],
            &[0x7a, 2, 0x18, 2],
            &[0x85, 0x01, 0x01, 0x01, 0, 0],
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn an_answer_says_how_many_were_refused() {
        let mut answer = Vec::new();
        message(1, &mut answer, |out| {
            bytes(2, b"why", out);
            number(1, 300, out);
        });
        assert_eq!(rejected(&answer), 300);
        assert_eq!(rejected(b""), 0);
        for end in 0..answer.len() {
            assert_eq!(rejected(&answer[..end]), 0, "{end}");
        }
        assert_eq!(rejected(&[0xff; 64]), 0);
    }

    #[test]
    fn a_long_text_is_cut_between_two_characters() {
        assert_eq!(cut(&"é".repeat(600)).len(), 1024);
        assert_eq!(cut(&format!("a{}", "é".repeat(600))).len(), 1023);
        assert_eq!(cut("short"), "short");
    }
}
