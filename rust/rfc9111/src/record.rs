//! Encodes a stored response as bytes, for a store that outlives the process.
//!
//! Besides the fields it writes only values that do not follow from them. The store guarantees that the bytes come
//! back unchanged; the decoder checks only lengths.

use std::time::Duration;

use super::control::{ResponseControl, Scope};
use super::freshness::{Basis, Freshness};
use super::stored::{Content, Stored};
use super::time::Time;
use super::validate::Validators;
use super::vary::Selection;
use penstock_http::wire::Fields;
use penstock_http::wire::Span;

/// The writer. Numbers are little-endian, and each text follows its length.
#[derive(Debug, Default)]
pub struct Writing(pub Vec<u8>);

/// The reader. It gives `None` for bytes that were cut off.
#[derive(Debug)]
pub struct Reading<'a>(pub &'a [u8]);

impl Writing {
    /// Appends a number, in eight bytes.
    pub fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Appends bytes, after their length.
    pub fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text);
    }

    fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.0.push(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// To the nanosecond, so that a lifetime comes back unchanged.
    fn span(&mut self, span: Duration) {
        self.number(span.as_secs());
        self.number(span.subsec_nanos().into());
    }

    fn scope(&mut self, scope: &Scope) {
        match scope {
            Scope::Nothing => self.0.push(0),
            Scope::Response => self.0.push(1),
            Scope::Fields(names) => {
                self.0.push(2);
                self.number(names.len() as u64);
                for name in names {
                    self.text(name);
                }
            }
        }
    }
}

impl<'a> Reading<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next number.
    pub fn number(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// The next text that [`Writing::text`] wrote.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::try_from(length).ok()?)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    #[expect(clippy::option_option, reason = "what is cut off, and what was written to be none")]
    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Some(None) }
    }

    fn span(&mut self) -> Option<Duration> {
        let (seconds, nanos) = (self.number()?, u32::try_from(self.number()?).ok()?);
        (nanos < 1_000_000_000).then(|| Duration::new(seconds, nanos))
    }

    fn scope(&mut self) -> Option<Scope> {
        match self.byte()? {
            0 => Some(Scope::Nothing),
            1 => Some(Scope::Response),
            2 => {
                let count = self.number()?;
                (0..count).map(|_| self.text().map(Box::from)).collect::<Option<_>>().map(Scope::Fields)
            }
            _ => None,
        }
    }
}

impl Stored {
    /// Encodes it; `None` if several parts of the response are stored: each of them is encoded separately.
    pub fn encode(&self, to: &mut Writing) -> Option<()> {
        to.number(self.status.into());
        self.content.encode(to)?;
        to.number(self.fields.len() as u64);
        for (name, value) in self.fields.iter() {
            to.text(name);
            to.text(value);
        }
        self.control.encode(to);
        self.freshness.encode(to);
        self.selection.encode(to);
        to.0.push(self.is_invalid.into());
        Some(())
    }

    /// Decodes the output of [`Stored::encode`].
    pub fn decode(from: &mut Reading<'_>) -> Option<Self> {
        let status = u16::try_from(from.number()?).ok()?;
        let content = Content::decode(from)?;
        let mut fields = Fields::default();
        for _ in 0..from.number()? {
            let (name, value) = (from.text()?, from.text()?);
            fields.push(name, value);
        }
        let control = ResponseControl::decode(from)?;
        let freshness = Freshness::decode(from)?;
        let selection = Selection::decode(from)?;
        let is_invalid = from.flag()?;
        let lines: Vec<_> = fields.iter().collect();
        let validators = Validators::of(&lines, freshness.received);
        Some(Self { status, fields, control, freshness, validators, selection, content, is_invalid })
    }
}

impl Content {
    /// 0 and 1: the whole body, of unknown and of known length; 2: one part.
    fn encode(&self, to: &mut Writing) -> Option<()> {
        match self {
            Self::Whole(length) => to.optional(*length, Writing::number),
            Self::Parts(spans, length) => {
                let mut spans = spans.iter();
                let (Some(span), None) = (spans.next(), spans.next()) else { return None };
                to.0.push(2);
                to.number(span.start());
                to.number(span.end());
                to.optional(*length, Writing::number);
            }
        }
        Some(())
    }

    fn decode(from: &mut Reading<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => Self::Whole(None),
            1 => Self::Whole(Some(from.number()?)),
            2 => {
                let span = Span::new(from.number()?, from.number()?)?;
                let length = from.optional(Reading::number)?;
                if length.is_some_and(|length| span.end() > length) {
                    return None;
                }
                Self::Parts([span].into_iter().collect(), length)
            }
            _ => return None,
        })
    }
}

impl ResponseControl {
    fn encode(&self, to: &mut Writing) {
        for span in [self.max_age, self.s_maxage, self.stale_while_revalidate, self.stale_if_error] {
            to.optional(span, Writing::span);
        }
        to.scope(&self.no_cache);
        to.scope(&self.private);
        for flag in [
            self.no_store,
            self.public,
            self.must_revalidate,
            self.proxy_revalidate,
            self.must_understand,
            self.immutable,
        ] {
            to.0.push(flag.into());
        }
    }

    fn decode(from: &mut Reading<'_>) -> Option<Self> {
        Some(Self {
            max_age: from.optional(Reading::span)?,
            s_maxage: from.optional(Reading::span)?,
            stale_while_revalidate: from.optional(Reading::span)?,
            stale_if_error: from.optional(Reading::span)?,
            no_cache: from.scope()?,
            private: from.scope()?,
            no_store: from.flag()?,
            public: from.flag()?,
            must_revalidate: from.flag()?,
            proxy_revalidate: from.flag()?,
            must_understand: from.flag()?,
            immutable: from.flag()?,
        })
    }
}

impl Freshness {
    fn encode(&self, to: &mut Writing) {
        to.0.push(match self.basis {
            Basis::Explicit => 0,
            Basis::Heuristic => 1,
            Basis::Policy => 2,
            Basis::Nothing => 3,
        });
        for span in [self.lifetime, self.while_revalidate, self.if_error, self.initial_age] {
            to.span(span);
        }
        to.number(self.received.as_millis());
    }

    fn decode(from: &mut Reading<'_>) -> Option<Self> {
        Some(Self {
            basis: match from.byte()? {
                0 => Basis::Explicit,
                1 => Basis::Heuristic,
                2 => Basis::Policy,
                3 => Basis::Nothing,
                _ => return None,
            },
            lifetime: from.span()?,
            while_revalidate: from.span()?,
            if_error: from.span()?,
            initial_age: from.span()?,
            received: Time::from_millis(from.number()?),
        })
    }
}

impl Selection {
    fn encode(&self, to: &mut Writing) {
        to.number(self.values().len() as u64);
        for values in self.values() {
            to.number(self.names().len() as u64);
            for (name, value) in self.names().iter().zip(values) {
                to.text(name);
                to.optional(value.as_deref(), Writing::text);
            }
        }
    }

    fn decode(from: &mut Reading<'_>) -> Option<Self> {
        let mut fields: Option<Box<[Box<[u8]>]>> = None;
        let mut kinds = Vec::new();
        for _ in 0..from.number()? {
            let (mut names, mut values) = (Vec::new(), Vec::new());
            for _ in 0..from.number()? {
                names.push(Box::from(from.text()?));
                values.push(from.optional(|from| from.text().map(Box::from))?);
            }
            let names: Box<[_]> = names.into();
            if *fields.get_or_insert_with(|| names.clone()) != names {
                return None;
            }
            kinds.push(values.into());
        }
        Self::of_values(fields.unwrap_or_default(), kinds)
    }
}
