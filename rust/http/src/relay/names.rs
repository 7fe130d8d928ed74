//! Names of fields that an operator gives, and the fields of clients that are sent to origins on
//! cached routes.

use crate::wire::{folded, reads_as, reads_as_one_of};

/// Whether `name` begins with `start`, which is in lower case.
pub(super) fn begins_as(name: &[u8], start: &str) -> bool {
    name.get(..start.len()).is_some_and(|name| reads_as(name, start))
}

/// Names that an operator gives. A name that ends in `*` stands for all names with this beginning.
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

/// The fields of a client that the origin gets with a request whose response may be stored for other clients.
///
/// A field that shapes a response, is not in the key, and is not named in Vary lets one client choose what others get.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FillFields {
    kept: Option<Patterns>,
    dropped: Patterns,
    always: Vec<&'static str>,
}

impl FillFields {
    /// With `kept`, the fields of these names and no others; without, all fields except those named in `dropped`. Fields
    /// named in `always`, which is in lower case, are always sent.
    pub fn new(kept: Option<Vec<String>>, dropped: Vec<String>, always: &[&'static str]) -> Self {
        Self { kept: kept.map(Patterns::new), dropped: Patterns::new(dropped), always: always.to_vec() }
    }

    /// The fields that are sent with a request of `method`; `None` if its response is never stored, so that
    /// all fields are sent.
    ///
    /// A response to POST is stored if the origin says that it represents the URL (RFC 9110, section 9.3.3). Other unsafe
    /// requests carry all fields, because origins limit and log clients by them.
    pub fn of_method(&self, method: &str) -> Option<Fill<'_>> {
        let tells_address = method == "POST";
        (tells_address || matches!(method, "GET" | "HEAD")).then_some(Fill { fields: self, tells_address })
    }

    /// Whether a field of that name is sent with every method.
    pub fn has(&self, name: &[u8]) -> bool {
        let is_listed = match &self.kept {
            Some(kept) => kept.has(name),
            None => !self.dropped.has(name),
        };
        is_listed || self.always.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    }
}

/// The fields that are sent with one request whose response may be stored for other clients.
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
