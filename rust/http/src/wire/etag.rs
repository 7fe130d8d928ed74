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
    /// Reads a whole field value; `None` if it is not an entity tag. A tag without quotes is not a
    /// validator.
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

    /// Whether it is strong: equal tags then mean equal bytes, and not only equal meaning.
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

    /// The field value.
    pub fn to_bytes(&self) -> Vec<u8> {
        [if self.weak { b"W/".as_slice() } else { b"" }, &self.opaque].concat()
    }
}

/// A list of entity tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tags {
    /// `*`: any representation.
    Any,
    /// These.
    These(Vec<EntityTag>),
}

impl Tags {
    /// Reads the fields of a list. If a member is not an entity tag, the list matches nothing. A backslash has no
    /// meaning in a tag, so this is not a list of quoted strings.
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
