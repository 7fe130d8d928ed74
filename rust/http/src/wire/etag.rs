//! Entity tags, and lists of them (RFC 9110, sections 8.8.3 and 13.1).

use super::trim;

/// An entity tag (RFC 9110, section 8.8.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityTag {
    weak: bool,
    /// With its quotes.
    opaque: Box<[u8]>,
}

impl EntityTag {
    /// A whole field value, or none if it is no entity tag: a tag without quotes is no validator.
    pub fn parse(value: &[u8]) -> Option<Self> {
        match Self::split(value)? {
            (tag, []) => Some(tag),
            _ => None,
        }
    }

    /// The tag that a text begins with, and what follows it.
    fn split(text: &[u8]) -> Option<(Self, &[u8])> {
        let (weak, rest) = text.strip_prefix(b"W/").map_or((false, text), |rest| (true, rest));
        let inner = rest.strip_prefix(b"\"")?;
        let length = inner.iter().position(|byte| *byte == b'"')?;
        let is_etagc = |byte: &u8| *byte == 0x21 || *byte >= 0x23 && *byte != 0x7f;
        inner[..length].iter().all(is_etagc).then(|| {
            let (opaque, rest) = rest.split_at(length + 2);
            (Self { weak, opaque: opaque.into() }, rest)
        })
    }

    /// Whether it says that the bytes are the same, and not only what they mean.
    pub fn is_strong(&self) -> bool {
        !self.weak
    }

    /// Strong comparison: the bytes are the same.
    pub fn is_same(&self, other: &Self) -> bool {
        !self.weak && self == other
    }

    /// Weak comparison: the meaning is the same.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        self.opaque == other.opaque
    }

    /// As it stands in a field.
    pub fn to_bytes(&self) -> Vec<u8> {
        [if self.weak { b"W/".as_slice() } else { b"" }, &self.opaque].concat()
    }
}

/// What a list of entity tags holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tags {
    /// `*`: any representation there is.
    Any,
    /// These.
    These(Vec<EntityTag>),
}

impl Tags {
    /// The fields of a list; none that match, if any of it is no entity tag. Backslashes mean nothing in a tag, so
    /// that lists of quoted strings are no model.
    pub fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut tags = None;
        for line in lines {
            let tags: &mut Vec<_> = tags.get_or_insert_default();
            let mut rest = trim(line);
            if rest == b"*" {
                return Some(Self::Any);
            }
            while let [first, after @ ..] = rest {
                if matches!(first, b',' | b' ' | b'\t') {
                    rest = after;
                    continue;
                }
                let Some((tag, after)) = EntityTag::split(rest) else { return Some(Self::These(Vec::new())) };
                if !matches!(after, [] | [b',' | b' ' | b'\t', ..]) {
                    return Some(Self::These(Vec::new()));
                }
                tags.push(tag);
                rest = after;
            }
        }
        tags.map(Self::These)
    }
}
