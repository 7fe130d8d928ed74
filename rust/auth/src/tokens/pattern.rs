//! Patterns of paths that are made of claims.

/// A text with names of claims in braces, such as `/vod/{sub}/*`, of which patterns are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    Claim(Box<str>),
}

impl Pattern {
    /// Takes a template apart. None if it has a brace without another, or one around nothing.
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

    /// The pattern with what `value` gives for each claim; none if it has nothing for one, or something that is not one
    /// segment of a path, or that would stand for more than itself.
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

/// Whether a value is a segment of a path as it stands, and none that an origin might follow elsewhere.
fn is_segment(value: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$'(),:@|+=".contains(&byte);
    !value.is_empty() && value != "." && value != ".." && value.bytes().all(is_plain)
}
