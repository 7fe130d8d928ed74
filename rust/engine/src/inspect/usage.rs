//! The usage in a model's response: found by a search for its name, and kept as bytes.
//!
//! Servers report a usage as one object, in the last event or in a few. To parse every event for it would parse
//! thousands of deltas for nothing. [`Wanted::may_have`] excludes them by a search for `"usage"` before an object: a
//! quote within a string is escaped, so no text that a model writes contains it. The other events are parsed from their
//! beginning. Several objects are merged name by name; the later value counts.

use memchr::memmem::Finder;

use crate::json::Json;

/// The limit of a usage in bytes. Usages have 100 to 600, and Python can read a number with so many digits.
const MOST: usize = 4096;

/// The path of a usage: the names of members, from the outermost object on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The names.
    pub names: Vec<String>,
    /// Whether the object is complete. If not, later ones add to it.
    pub is_final: bool,
}

/// The paths of usages, prepared for a search.
#[derive(Debug, Clone)]
pub struct Wanted {
    paths: Vec<Path>,
    /// A searcher for each innermost name, in quotes.
    finders: Vec<Finder<'static>>,
}

impl Wanted {
    /// Prepares a search for objects at these paths; each path has at least one name.
    pub fn new(paths: Vec<Path>) -> Self {
        let mut needles: Vec<String> =
            paths.iter().filter_map(|path| path.names.last()).map(|name| format!("\"{name}\"")).collect();
        needles.sort();
        needles.dedup();
        let finders = needles.iter().map(|needle| Finder::new(needle.as_bytes()).into_owned()).collect();
        Self { paths, finders }
    }

    /// Whether `text`, of one event or more, may have an object under one of the names. A name at the end of a line
    /// counts: only after the lines of the data have been joined is it known.
    pub fn may_have(&self, text: &[u8]) -> bool {
        self.finders.iter().any(|finder| {
            // Many deltas have `"usage":null`.
            finder.find_iter(text).any(|at| is_before_object(&text[at + finder.needle().len()..]))
        })
    }

    /// Adds the usage in `data` to `usage`; `data` is of one event, or a whole body. Data that is not JSON
    /// has none.
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

/// The usage that was found so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// One JSON object; empty before the first.
    merged: Vec<u8>,
    is_final: bool,
    is_too_large: bool,
}

impl Usage {
    /// The object, as JSON; `None` if there was none, or it was too large.
    pub fn bytes(&self) -> Option<&[u8]> {
        (!self.is_too_large && !self.merged.is_empty()).then_some(&self.merged)
    }

    /// Whether it is complete.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Whether a usage was above the limit.
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    fn merge(&mut self, new: &Json<'_>) {
        if new.bytes().len() > MOST {
            self.is_too_large = true;
            return;
        }
        let old = std::mem::take(&mut self.merged);
        // The new members after the remaining old ones: parsers take the later of two members.
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
