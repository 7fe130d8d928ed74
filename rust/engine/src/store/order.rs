//! What the origin is to be asked on behalf of the cache, and about what.

use super::object::Object;
use crate::cache::{Asked, CacheStatus, Fill, Request, Time, Why, confirmed};
use crate::sync::Arc;
use crate::wire::list::Lines;
use crate::wire::{Fields, Ranges, Span, Spec, is_one_of};

/// How much of a representation is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it.
    Whole,
    /// What the client asks for; which bytes those are is known where it is one range with two ends.
    Asked(Option<Span>),
    /// These bytes, in a Range of the cache's own: what comes does for the client only together with what is stored.
    Own(Span),
}

/// What the origin is to be asked, and about what.
pub(super) struct Order {
    pub(super) why: Why,
    pub(super) status: CacheStatus,
    /// What is stored and no longer fresh, or not all that is wanted.
    pub(super) stored: Option<Arc<Object>>,
    /// What other requests have selected, the newest first: any of it may be good for this one.
    pub(super) variants: Vec<Arc<Object>>,
    pub(super) conditions: Fields,
    pub(super) asked: Asked,
    pub(super) extent: Extent,
    /// Whoever asks is in the middle of what is stored: nothing else will do.
    pub(super) continues: bool,
}

impl Order {
    pub(super) fn new(why: Why, status: CacheStatus) -> Self {
        let (conditions, asked, extent) = (Fields::default(), Asked::Nothing, Extent::Whole);
        let variants = Vec::new();
        Self { why, status, stored: None, variants, conditions, asked, extent, continues: false }
    }

    /// What a 304 with the fields `lines` is about.
    pub(super) fn confirmed(&self, lines: &Lines<'_>, received: Time) -> Option<Arc<Object>> {
        let states = self.variants.iter().map(|object| &object.stored.validators);
        confirmed(states, lines, received).map(|place| Arc::clone(&self.variants[place]))
    }

    /// For the rest of `stored`, if that is still its state: `if_range` is its entity tag.
    pub(super) fn rest(
        why: Why,
        status: CacheStatus,
        stored: Arc<Object>,
        span: Span,
        if_range: &[u8],
    ) -> Self {
        let mut order = Self { stored: Some(stored), asked: Asked::Rest, ..Self::new(why, status) };
        order.range(span);
        order.conditions.push(b"If-Range", if_range);
        order
    }

    /// For these bytes alone.
    fn range(&mut self, span: Span) {
        self.conditions.push(b"Range", format!("bytes={span}").as_bytes());
        self.extent = Extent::Own(span);
    }

    /// For so much.
    pub(super) fn fill(&mut self, wanted: Fill, request: &Request<'_>) {
        match wanted {
            Fill::Whole => {}
            Fill::Span(span) => self.range(span),
            Fill::Asked => self.range_of(request),
        }
    }

    /// For what the client asks for.
    fn range_of(&mut self, request: &Request<'_>) {
        for (name, value) in request.lines.iter().filter(|(name, _)| is_one_of(name, &["range", "if-range"]))
        {
            self.conditions.push(name, value);
        }
        let span = match request.ranges.as_ref().map(Ranges::specs) {
            Some([Spec::From(first, Some(last))]) if request.if_range.is_none() => {
                Span::new(*first, last.saturating_add(1))
            }
            _ => None,
        };
        self.extent = Extent::Asked(span);
    }

    /// The same anew, about nothing that is stored.
    pub(super) fn forget_conditions(&mut self) {
        (self.asked, self.extent) = (Asked::Nothing, Extent::Whole);
        self.conditions = Fields::default();
        self.variants.clear();
    }

    /// The bytes that others may wait for; none where it is not known what will come.
    pub(super) fn awaited(&self) -> Option<Span> {
        match self.extent {
            Extent::Whole => Some(Span::ALL),
            Extent::Asked(span) => span,
            Extent::Own(span) => Some(span),
        }
    }
}
