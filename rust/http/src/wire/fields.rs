//! Header fields in one allocation.

use std::fmt;
use std::io::Write;

/// Names and values in their order. They take two allocations, whatever their number: ten fields of a request
/// would otherwise take twenty, on a thread for which other requests wait.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields {
    bytes: Vec<u8>,
    /// The positions at which the name and the value end.
    ends: Vec<(usize, usize)>,
}

impl Fields {
    /// Reserves room for `fields` fields with `bytes` bytes.
    pub fn with_capacity(fields: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(fields) }
    }

    /// Adds a field after the others. It is not checked here; see [`encode_request`](super::encode_request).
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(name);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((middle, self.bytes.len()));
    }

    /// As [`Fields::push`], with a value that is displayed.
    pub fn write(&mut self, name: &[u8], value: impl fmt::Display) {
        self.bytes.extend_from_slice(name);
        let middle = self.bytes.len();
        write!(self.bytes, "{value}").expect("a Vec takes all that is written");
        self.ends.push((middle, self.bytes.len()));
    }

    /// An iterator of names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        let mut start = 0;
        self.ends.iter().map(move |&(middle, end)| {
            let field = (&self.bytes[start..middle], &self.bytes[middle..end]);
            start = end;
            field
        })
    }

    /// Bytes of all names and values.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(N, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut fields = Self::default();
        for (name, value) in pairs {
            fields.push(name.as_ref(), value.as_ref());
        }
        fields
    }
}

impl fmt::Debug for Fields {
    /// Without the values, because logs show fields and values can be cookies.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| String::from_utf8_lossy(name))).finish()
    }
}
