//! A stored response without its body (RFC 9111, sections 3.1 to 3.4).

use super::control::ResponseControl;
use super::freshness::{Freshness, Timing};
use super::policy::Policy;
use super::request::Request;
use super::storable::{Refusal, check, check_method, is_kept, is_live, is_of_use};
use super::targeted::response_control;
use super::time::Time;
use super::validate::{Validators, freshened};
use super::vary::{Selection, Vary};
use penstock_http::wire::ContentRange;
use penstock_http::wire::list::{Lines, elements, number, values};
use penstock_http::wire::{Fields, is_one_of};
use penstock_http::wire::{Span, Spans};

/// The stored part of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The whole, stored or being fetched. The length may be known only at the end.
    Whole(Option<u64>),
    /// These bytes, and the length of the whole if it is known.
    Parts(Spans, Option<u64>),
}

impl Content {
    /// The bytes up to the first missing byte after some that are stored.
    pub fn first(&self) -> Span {
        match self {
            Self::Whole(_) => Span::ALL,
            Self::Parts(spans, _) => spans.iter().next().unwrap_or(Span::ALL),
        }
    }
}

/// A stored response without its body.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its status. If parts are stored it is the status of the whole, 200.
    pub status: u16,
    /// Its fields, without Age. Date is among them.
    pub fields: Fields,
    /// Its cache directives.
    pub control: ResponseControl,
    /// Its age and freshness.
    pub freshness: Freshness,
    /// Its validators.
    pub validators: Validators,
    /// The requests that it answers.
    pub selection: Selection,
    /// The stored part of the body.
    pub content: Content,
    /// Whether it must be validated before it is used again (RFC 9111, section 4.4).
    pub is_invalid: bool,
}

impl Stored {
    /// The stored form of a response, if it may be stored. `lines` are its end-to-end fields, as
    /// [`response_fields`](penstock_http::relay::response_fields) gives them.
    ///
    /// # Errors
    /// The reason why it is not stored.
    pub fn of(
        request: &Request<'_>,
        status: u16,
        lines: &Lines<'_>,
        timing: Timing,
        policy: &Policy,
    ) -> Result<Self, Refusal> {
        let control = response_control(lines, &policy.targets);
        let freshness = Freshness::of(status, lines, &control, timing, policy);
        let validators = Validators::of(lines, timing.received);
        check_method(request, status, lines, &freshness)?;
        check(request, status, lines, &control.0, &freshness, policy)?;
        if is_live(lines) {
            return Err(Refusal::Events);
        }
        let vary = Vary::of(lines, request.lines);
        let selection = Selection::of(&vary, request.lines, policy.languages).ok_or(Refusal::Vary)?;
        if !validators.any() && !is_of_use(&control.0, &freshness) {
            return Err(Refusal::Useless);
        }
        let content = content(status, lines)?;
        let is_part = status == 206;
        let kept = lines.iter().filter(|(name, _)| {
            is_kept(name, &control.0) && !(is_part && is_one_of(name, &["content-range", "content-length"]))
        });
        let mut fields: Fields = kept.copied().collect();
        add_date(&mut fields, timing.received);
        let status = if is_part { 200 } else { status };
        let control = control.0;
        Ok(Self { status, fields, control, freshness, validators, selection, content, is_invalid: false })
    }

    /// The response after a newer one has confirmed it (RFC 9111, sections 3.2, 3.4, 4.3.4 and 4.3.5), and
    /// whether it may remain stored.
    pub fn updated(
        &self,
        request: &Request<'_>,
        newer: &Lines<'_>,
        timing: Timing,
        policy: &Policy,
    ) -> (Self, Result<(), Refusal>) {
        let said = response_control(newer, &policy.targets).0;
        let kept: Vec<_> = newer.iter().filter(|(name, _)| is_kept(name, &said)).copied().collect();
        let mut fields = freshened(&self.fields, &kept);
        if values(&kept, "date").next().is_none() {
            fields = fields.iter().filter(|(name, _)| !is_one_of(name, &["date"])).collect();
        }
        add_date(&mut fields, timing.received);
        let lines: Vec<_> = fields.iter().collect();
        let control = response_control(&lines, &policy.targets);
        let age = values(newer, "age").map(|value| (b"age".as_slice(), value));
        let aged: Vec<_> = lines.iter().copied().chain(age).collect();
        let freshness = Freshness::of(self.status, &aged, &control, timing, policy);
        let vary = Vary::of(&lines, request.lines);
        let own = Selection::of(&vary, request.lines, policy.languages);
        let is_same = self.selection.has_fields_of(&vary);
        let selection = own.map(|own| if is_same { self.selection.clone().with(own) } else { own });
        let may = check(request, self.status, &lines, &control.0, &freshness, policy)
            .and(selection.as_ref().map(|_| ()).ok_or(Refusal::Vary));
        let updated = Self {
            status: self.status,
            validators: Validators::of(&lines, timing.received),
            control: control.0,
            freshness,
            selection: selection.unwrap_or_default(),
            content: self.content.clone(),
            is_invalid: false,
            fields,
        };
        (updated, may)
    }

    /// The length of the representation in bytes, if it is known.
    pub fn length(&self) -> Option<u64> {
        match self.content {
            Content::Whole(length) | Content::Parts(_, length) => length,
        }
    }

    /// Its language, if it has exactly one.
    pub fn language(&self) -> Option<&[u8]> {
        let is_language = |(name, _): &(&[u8], &[u8])| is_one_of(name, &["content-language"]);
        let mut languages = self.fields.iter().filter(is_language).map(|(_, value)| value);
        languages.next().filter(|_| languages.next().is_none())
    }

    /// Its content coding, if it has one. If there are several fields, the last alone is not its coding.
    pub(super) fn coding(&self) -> Option<&[u8]> {
        let is_coding = |(name, _): &(&[u8], &[u8])| is_one_of(name, &["content-encoding"]);
        self.fields.iter().filter(is_coding).map(|(_, value)| value).last()
    }
}

/// A recipient with a clock adds a missing Date (RFC 9110, section 6.6.1).
fn add_date(fields: &mut Fields, received: Time) {
    if !fields.iter().any(|(name, _)| is_one_of(name, &["date"])) {
        fields.push(b"Date", received.to_string().as_bytes());
    }
}

/// The part of the body that the response brings.
fn content(status: u16, lines: &Lines<'_>) -> Result<Content, Refusal> {
    let length =
        values(lines, "content-length").next().and_then(|value| elements(value).next()).and_then(number);
    if status != 206 {
        return Ok(Content::Whole(if status == 204 { Some(0) } else { length }));
    }
    let mut ranges = values(lines, "content-range");
    let range = ranges.next().filter(|_| ranges.next().is_none());
    let range = range.and_then(ContentRange::parse).ok_or(Refusal::Range)?;
    let span = range.span.ok_or(Refusal::Range)?;
    if length.is_some_and(|length| length != span.len()) {
        return Err(Refusal::Range);
    }
    if Span::new(0, range.length.unwrap_or(0)) == Some(span) {
        return Ok(Content::Whole(range.length));
    }
    // No byte of it is stored yet: the reader of the body adds spans as they arrive.
    Ok(Content::Parts(Spans::default(), range.length))
}
