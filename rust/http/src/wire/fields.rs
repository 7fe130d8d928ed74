//! Header fields in one allocation.

use std::fmt;

use super::text::write_number;

/// The two lengths in front of a field.
const LENGTHS: usize = 2 * size_of::<usize>();

/// Names and values in their order. They take one allocation, whatever their number: ten fields of a request would otherwise
/// take twenty, on a thread for which other requests wait.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields {
    /// For each field the lengths of its name and value, the name and the value.
    bytes: Vec<u8>,
    count: usize,
}

impl Fields {
    /// Reserves room for `fields` fields with `bytes` bytes.
    pub fn with_capacity(fields: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(fields * LENGTHS + bytes), count: 0 }
    }

    /// Adds a field after the others. It is not checked here; see [`encode_request`](super::encode_request).
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(&name.len().to_ne_bytes());
        self.bytes.extend_from_slice(&value.len().to_ne_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.count += 1;
    }

    /// As [`Fields::push`], with the value that `write` appends.
    pub fn push_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.push(name, b"");
        let middle = self.bytes.len();
        write(&mut self.bytes);
        let length = self.bytes.len() - middle;
        self.bytes[start + LENGTHS / 2..start + LENGTHS].copy_from_slice(&length.to_ne_bytes());
    }

    /// As [`Fields::push`], with a number for a value.
    pub fn push_number(&mut self, name: &[u8], number: u64) {
        self.push_with(name, |out| write_number(out, number));
    }

    /// An iterator of names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (name, after) = rest.split_first_chunk()?;
            let (value, after) = after.split_first_chunk()?;
            let (name, after) = after.split_at_checked(usize::from_ne_bytes(*name))?;
            let (value, after) = after.split_at_checked(usize::from_ne_bytes(*value))?;
            rest = after;
            Some((name, value))
        })
    }

    /// Bytes of all names and values.
    pub fn size(&self) -> usize {
        self.bytes.len() - self.count * LENGTHS
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.count == 0
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
