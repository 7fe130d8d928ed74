//! The usage that a model's response reports: found by a search for its name, taken over as bytes.
//!
//! Servers say what a response has cost in one object, in the last event or in a few. Whoever looks into every event for
//! it parses thousands of deltas for nothing. [`Wanted::may_have`] turns those away with a search for `"usage"` that is
//! followed by an object: a quote within a string is escaped, so no text that a model writes contains it. What is left
//! is parsed from its beginning. Objects that follow one another are merged name by name, the later value counts.

use memchr::memmem::Finder;

use crate::json::Json;

/// Bytes of a usage at most. They take some 100 to 600; and a number of so many digits is one that Python still reads.
const MOST: usize = 4096;

/// Where a usage may lie: the names of members, from the outermost object on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The names.
    pub names: Vec<String>,
    /// Whether what lies there is all of it. If not, it is a beginning that later ones add to.
    pub is_final: bool,
}

/// What is looked for.
#[derive(Debug, Clone)]
pub struct Wanted {
    paths: Vec<Path>,
    /// For each innermost name, in quotes.
    finders: Vec<Finder<'static>>,
}

impl Wanted {
    /// Looks for objects at these paths; each has a name at least.
    pub fn new(paths: Vec<Path>) -> Self {
        let mut needles: Vec<String> =
            paths.iter().filter_map(|path| path.names.last()).map(|name| format!("\"{name}\"")).collect();
        needles.sort();
        needles.dedup();
        let finders = needles.iter().map(|needle| Finder::new(needle.as_bytes()).into_owned()).collect();
        Self { paths, finders }
    }

    /// Whether `text`, of one event or more, may have an object under one of the names. What is left of a line counts as
    /// if it were one: only who joins the lines of the data can tell.
    pub fn may_have(&self, text: &[u8]) -> bool {
        self.finders.iter().any(|finder| {
            // Many deltas say `"usage":null`.
            finder.find_iter(text).any(|at| is_before_object(&text[at + finder.needle().len()..]))
        })
    }

    /// Adds what `data` has to `usage`; `data` is of one event, or a whole body. What is no JSON has none.
    pub fn collect(&self, data: &[u8], usage: &mut Usage) {
        let Some(json) = Json::read(data) else { return };
        for path in &self.paths {
            if let Some(object) = json.at(&path.names).filter(Json::is_object) {
                usage.merge(&object);
                usage.is_final |= path.is_final;
            }
        }
    }
}

/// Whether what follows a name is an object, or a line break within which more data may begin.
fn is_before_object(rest: &[u8]) -> bool {
    let mut colon = false;
    for byte in rest {
        match byte {
            b' ' | b'\t' => {}
            b':' if !colon => colon = true,
            b'{' => return colon,
            byte => return matches!(byte, b'\n' | b'\r'),
        }
    }
    false
}

/// What was found so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// One object of JSON; empty before the first.
    merged: Vec<u8>,
    is_final: bool,
    is_too_large: bool,
}

impl Usage {
    /// The object, as JSON; nothing if there was none, or too large a one.
    pub fn bytes(&self) -> Option<&[u8]> {
        (!self.is_too_large && !self.merged.is_empty()).then_some(&self.merged)
    }

    /// Whether all of it has been seen.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Whether there was more than is kept.
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    fn merge(&mut self, new: &Json<'_>) {
        if new.bytes().len() > MOST {
            self.is_too_large = true;
            return;
        }
        let old = std::mem::take(&mut self.merged);
        // All of the new behind what is left of the old: whoever parses it takes the later of two members.
        let mut merged = Vec::with_capacity(new.bytes().len());
        let old = Json::read(&old);
        let kept = old
            .iter()
            .flat_map(Json::members)
            .filter(|member| new.members().all(|other| other.name != member.name));
        for member in kept.chain(new.members()) {
            merged.push(if merged.is_empty() { b'{' } else { b',' });
            member.write(&mut merged);
        }
        if merged.is_empty() {
            merged.push(b'{');
        }
        merged.push(b'}');
        self.is_too_large |= merged.len() > MOST;
        if !self.is_too_large {
            self.merged = merged;
        }
    }
}
