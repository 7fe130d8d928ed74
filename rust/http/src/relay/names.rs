//! Names of fields that an operator gives, and which fields of clients origins are sent for a cache.

use crate::wire::{folded, reads_as, reads_as_one_of};

/// Whether `name` begins as `start`, which is in lower case, does.
pub(super) fn begins_as(name: &[u8], start: &str) -> bool {
    name.get(..start.len()).is_some_and(|name| reads_as(name, start))
}

/// Names that an operator gives. One that ends in `*` stands for all that begin so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Patterns(Vec<Box<str>>);

impl Patterns {
    fn new(names: impl IntoIterator<Item = String>) -> Self {
        let folded = |name: String| name.bytes().map(|byte| char::from(folded(byte))).collect();
        Self(names.into_iter().map(folded).collect())
    }

    fn has(&self, name: &[u8]) -> bool {
        self.0.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => begins_as(name, start),
            None => reads_as(name, pattern),
        })
    }
}

/// Which fields of a client the origin is sent with a request whose response may be stored for other clients.
///
/// A field that shapes a response, is not in the key, and is not named in Vary lets one client choose what others get.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FillFields {
    kept: Option<Patterns>,
    dropped: Patterns,
    always: Vec<&'static str>,
}

impl FillFields {
    /// With `kept`, those of these names and no others; without, all but those of the names `dropped`. Fields of the names
    /// `always`, which are in lower case, are sent in any case.
    pub fn new(kept: Option<Vec<String>>, dropped: Vec<String>, always: &[&'static str]) -> Self {
        Self { kept: kept.map(Patterns::new), dropped: Patterns::new(dropped), always: always.to_vec() }
    }

    /// What is sent with a request of `method`; none where its answer is stored for nobody, and all is sent.
    ///
    /// The answer to POST is stored if the origin says that it is what the URL has (RFC 9110, section 9.3.3). What changes
    /// something is told who asks, for limits and logs.
    pub fn of_method(&self, method: &str) -> Option<Fill<'_>> {
        let tells_address = method == "POST";
        (tells_address || matches!(method, "GET" | "HEAD")).then_some(Fill { fields: self, tells_address })
    }

    /// Whether a field of that name is sent, whatever the method.
    pub fn has(&self, name: &[u8]) -> bool {
        let is_listed = match &self.kept {
            Some(kept) => kept.has(name),
            None => !self.dropped.has(name),
        };
        is_listed || self.always.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    }
}

/// What is sent with one request whose response may be stored for other clients.
#[derive(Debug, Clone, Copy)]
pub struct Fill<'a> {
    fields: &'a FillFields,
    tells_address: bool,
}

impl Fill<'_> {
    /// Whether a field of that name is sent.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.fields.has(name)
            || (self.tells_address && reads_as_one_of(name, &["forwarded", "x-forwarded-for", "x-real-ip"]))
    }
}
