//! JSON as bytes (RFC 8259): whether a text is one whole value, and the positions of the members of its
//! objects.
//!
//! Only names that have escapes are decoded, and only to be compared. The invariant: a text that [`Json::read`] has
//! accepted is well-formed and UTF-8, and so is every value within it; any parser accepts its bytes.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr2};

/// How deep values may be nested: one bit each. As deep as `serde_json` allows.
const DEPTH: u32 = 128;

/// One whole value within a text.
#[derive(Debug, Clone)]
pub struct Json<'a> {
    text: &'a [u8],
    range: Range<usize>,
}

/// A member of an object.
#[derive(Debug, Clone)]
pub struct Member<'a> {
    /// Its name with its escapes, without the quotes.
    pub name: &'a [u8],
    /// Its value.
    pub value: Json<'a>,
}

impl<'a> Json<'a> {
    /// The value of `text`, which may have whitespace around it. `None` if `text` is not one value, is not UTF-8, or
    /// is nested too deep.
    pub fn read(text: &'a [u8]) -> Option<Self> {
        std::str::from_utf8(text).ok()?;
        let mut reader = Reader { text, at: 0 };
        reader.space();
        let start = reader.at;
        reader.value()?;
        let range = start..reader.at;
        reader.space();
        (reader.at == text.len()).then_some(Self { text, range })
    }

    /// Its bytes as written.
    pub fn bytes(&self) -> &'a [u8] {
        &self.text[self.range.clone()]
    }

    /// Its position in the text.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        self.bytes().first() == Some(&b'{')
    }

    /// Its members in their order; no members if it is not an object.
    pub fn members(&self) -> Members<'a> {
        Members(self.inside(self.is_object()))
    }

    /// Its elements in their order; no elements if it is not an array.
    pub fn elements(&self) -> Elements<'a> {
        Elements(self.inside(self.is_array()))
    }

    /// The bytes after its first byte, if that is `open`.
    fn inside(&self, open: bool) -> Inside<'a> {
        let at = self.range.start + usize::from(open);
        Inside { reader: Reader { text: &self.text[..self.range.end], at }, open }
    }

    /// The bytes between the quotes, if it is a string.
    fn quoted(&self) -> Option<&'a [u8]> {
        self.bytes().strip_prefix(b"\"")?.strip_suffix(b"\"")
    }

    /// Whether it is an array.
    pub fn is_array(&self) -> bool {
        self.bytes().first() == Some(&b'[')
    }

    /// Whether it is a string.
    pub fn is_string(&self) -> bool {
        self.bytes().first() == Some(&b'"')
    }

    /// Whether it is a string that stands for that text, with or without escapes. Allocates
    /// nothing.
    pub fn is_text(&self, text: &str) -> bool {
        self.quoted().is_some_and(|string| stands_for(string, text))
    }

    /// The text of a string. `None` if it is not a string, or half of a surrogate pair is missing.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        self.quoted().and_then(text)
    }

    /// The number as an `f64`, rounded to the nearest.
    pub fn number(&self) -> Option<f64> {
        let is_number = matches!(self.bytes().first(), Some(b'-' | b'0'..=b'9'));
        is_number.then(|| std::str::from_utf8(self.bytes()).ok()?.parse().ok())?
    }

    /// Whether two of its members have the same name, with or without escapes. Allocates nothing; the time grows with
    /// the square of their number.
    pub fn has_duplicates(&self) -> bool {
        let mut members = self.members().enumerate();
        members
            .any(|(index, member)| self.members().take(index).any(|other| is_same(other.name, member.name)))
    }

    /// The member of that name. If there are several it is the last one, as in parsers that make a
    /// table of them.
    pub fn get(&self, name: &str) -> Option<Self> {
        self.members().filter(|member| member.is(name)).last().map(|member| member.value)
    }

    /// The value at the end of a path of names.
    pub fn at(&self, path: &[String]) -> Option<Self> {
        path.iter().try_fold(self.clone(), |value, name| value.get(name))
    }
}

impl<'a> Member<'a> {
    /// Whether it has that name, with or without escapes. Allocates nothing.
    pub fn is(&self, name: &str) -> bool {
        stands_for(self.name, name)
    }

    /// Appends it as a member of an object that is being written.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(b'"');
        out.extend_from_slice(self.name);
        out.extend_from_slice(b"\":");
        out.extend_from_slice(self.value.bytes());
    }

    /// Its name. `None` if half of a surrogate pair is missing: that is not text.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        text(self.name)
    }
}

/// An iterator between the brackets of an array or object that is known to be well-formed.
#[derive(Debug)]
struct Inside<'a> {
    reader: Reader<'a>,
    open: bool,
}

impl<'a> Inside<'a> {
    /// Moves to the beginning of the next item; `None` at `end`.
    fn next(&mut self, end: u8) -> Option<&mut Self> {
        if !self.open {
            return None;
        }
        self.reader.space();
        if self.reader.peek()? == b',' {
            self.reader.at += 1;
            self.reader.space();
        }
        self.open = self.reader.peek()? != end;
        self.open.then_some(self)
    }

    /// The value that begins here.
    fn value(&mut self) -> Option<Json<'a>> {
        let start = self.reader.at;
        self.reader.value()?;
        Some(Json { text: self.reader.text, range: start..self.reader.at })
    }
}

/// The elements of an array that is known to be well-formed.
#[derive(Debug)]
pub struct Elements<'a>(Inside<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        self.0.next(b']')?;
        self.0.value()
    }
}

/// The members of an object that is known to be well-formed.
#[derive(Debug)]
pub struct Members<'a>(Inside<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        let inside = self.0.next(b'}')?;
        let name = inside.reader.name()?;
        inside.reader.space();
        Some(Member { name: &inside.reader.text[name], value: inside.value()? })
    }
}

/// Skips values, and checks that they are well-formed.
#[derive(Debug)]
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, expected: u8) -> Option<()> {
        (self.peek()? == expected).then(|| self.at += 1)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Skips one value, which begins here.
    fn value(&mut self) -> Option<()> {
        // The lowest bit is the innermost value: 1 if it is an object. It is a loop and not a recursion, so that no
        // text can exhaust the stack.
        let (mut objects, mut depth) = (0_u128, 0);
        loop {
            if let Some(is_object) = self.simple_or_open()? {
                if depth == DEPTH {
                    return None;
                }
                (objects, depth) = (objects << 1 | u128::from(is_object), depth + 1);
                if is_object {
                    self.name()?;
                }
                self.space();
                continue;
            }
            loop {
                if depth == 0 {
                    return Some(());
                }
                self.space();
                let is_object = objects & 1 == 1;
                let byte = self.peek()?;
                self.at += 1;
                match (byte, is_object) {
                    (b',', _) => {
                        self.space();
                        if is_object {
                            self.name()?;
                            self.space();
                        }
                        break;
                    }
                    (b'}', true) | (b']', false) => (objects, depth) = (objects >> 1, depth - 1),
                    _ => return None,
                }
            }
        }
    }

    /// Skips a value that contains no other; or the beginning of an array or object, up to its first item, and returns
    /// whether that is an object.
    #[expect(clippy::option_option, reason = "the outer one says that it is no value")]
    fn simple_or_open(&mut self) -> Option<Option<bool>> {
        let first = self.peek()?;
        match first {
            b'{' | b'[' => {
                self.at += 1;
                self.space();
                let is_object = first == b'{';
                if self.peek()? != if is_object { b'}' } else { b']' } {
                    return Some(Some(is_object));
                }
                self.at += 1;
            }
            b'"' => {
                self.string()?;
            }
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.word(b"true")?,
            b'f' => self.word(b"false")?,
            _ => self.word(b"null")?,
        }
        Some(None)
    }

    /// Skips a name and its colon; returns the position of the name.
    fn name(&mut self) -> Option<Range<usize>> {
        let name = self.string()?;
        self.space();
        self.eat(b':')?;
        Some(name)
    }

    /// Skips a string; returns its position, without its quotes.
    fn string(&mut self) -> Option<Range<usize>> {
        self.eat(b'"')?;
        let start = self.at;
        loop {
            let rest = &self.text[self.at..];
            let length = memchr2(b'"', b'\\', rest)?;
            // Without a branch for each byte: an image within a request has millions.
            if rest[..length].iter().fold(u8::MAX, |least, byte| least.min(*byte)) < 0x20 {
                return None;
            }
            self.at += length;
            if rest[length] == b'"' {
                self.at += 1;
                return Some(start..self.at - 1);
            }
            self.escape()?;
        }
    }

    fn escape(&mut self) -> Option<()> {
        let digits = match self.text.get(self.at + 1)? {
            b'u' => self.text.get(self.at + 2..self.at + 6)?,
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => &[],
            _ => return None,
        };
        self.at += 2 + digits.len();
        digits.iter().all(u8::is_ascii_hexdigit).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek()? == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let count = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| self.at += word.len())
    }
}

/// The text of a well-formed string. `None` if half of a surrogate pair is missing: that is not text.
fn text(string: &[u8]) -> Option<Cow<'_, str>> {
    let string = std::str::from_utf8(string).ok()?;
    if memchr(b'\\', string.as_bytes()).is_none() {
        return Some(Cow::Borrowed(string));
    }
    char::decode_utf16(units(string)).collect::<Result<String, _>>().ok().map(Cow::Owned)
}

/// Whether a well-formed string stands for that text.
fn stands_for(string: &[u8], text: &str) -> bool {
    if memchr(b'\\', string).is_none() {
        return string == text.as_bytes();
    }
    std::str::from_utf8(string).is_ok_and(|string| units(string).eq(text.encode_utf16()))
}

/// Whether two well-formed strings stand for the same text.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one == other
        || match (std::str::from_utf8(one), std::str::from_utf8(other)) {
            (Ok(one), Ok(other)) => units(one).eq(units(other)),
            _ => false,
        }
}

/// The UTF-16 units of a well-formed string, the units in which its escapes are written.
fn units(string: &str) -> impl Iterator<Item = u16> + '_ {
    let mut rest = string.chars();
    let mut low = None;
    std::iter::from_fn(move || {
        if let Some(low) = low.take() {
            return Some(low);
        }
        let next = rest.next()?;
        if next != '\\' {
            let mut pair = [0; 2];
            let pair = next.encode_utf16(&mut pair);
            low = pair.get(1).copied();
            return Some(pair[0]);
        }
        Some(match rest.next()? {
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'u' => {
                let (digits, behind) = rest.as_str().split_at_checked(4)?;
                rest = behind.chars();
                u16::from_str_radix(digits, 16).ok()?
            }
            // A quote or a slash of either kind.
            other => u16::try_from(u32::from(other)).ok()?,
        })
    })
}

#[cfg(all(test, not(loom)))]
mod tests;
