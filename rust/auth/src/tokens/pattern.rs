//! Path patterns that are made of claims.

/// A template of patterns with names of claims in braces, such as `/vod/{sub}/*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    Claim(Box<str>),
}

impl Pattern {
    /// Parses a template. `None` if it has an unmatched brace, or an empty pair.
    pub fn parse(template: &str) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut rest = template;
        while let Some((text, behind)) = rest.split_once('{') {
            let (claim, behind) = behind.split_once('}')?;
            if text.contains('}') || claim.is_empty() || claim.contains('{') {
                return None;
            }
            pieces.push(Piece::Text(text.into()));
            pieces.push(Piece::Claim(claim.into()));
            rest = behind;
        }
        if rest.contains('}') {
            return None;
        }
        pieces.push(Piece::Text(rest.into()));
        Some(Self(pieces))
    }

    /// The pattern with the `value` of each claim. `None` if a claim has no value, or one that is not one segment of a
    /// path, or that would match more than itself.
    pub(super) fn fill(&self, value: impl Fn(&str) -> Option<Box<str>>) -> Option<Box<str>> {
        let mut filled = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Claim(name) => filled.push_str(&value(name).filter(|value| is_segment(value))?),
            }
        }
        Some(filled.into())
    }
}

/// Whether a value is one literal segment of a path, and no origin might resolve it to another.
fn is_segment(value: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$'(),:@|+=".contains(&byte);
    !value.is_empty() && value != "." && value != ".." && value.bytes().all(is_plain)
}
