//! Adds members to the JSON of a request, so that its response reports a usage.
//!
//! Members are spliced in: the text of the client stays byte for byte, with its numbers and order. A request that is not
//! a JSON object which asks for a stream, or that can be read in two ways, is not changed.

use std::ops::Range;

use crate::json::{Json, Member};

/// The members that are added to requests.
#[derive(Debug, Clone)]
pub struct Amendment {
    /// A JSON object.
    object: Vec<u8>,
    insists: bool,
}

/// Bytes that replace others.
struct Splice {
    range: Range<usize>,
    text: Vec<u8>,
}

impl Amendment {
    /// Adds the members of `object`, as deep as both sides have objects. Existing members stay, or are replaced if
    /// this `insists`. `None` if `object` is not a JSON object.
    pub fn new(object: Vec<u8>, insists: bool) -> Option<Self> {
        Json::read(&object).filter(Json::is_object)?;
        Some(Self { object, insists })
    }

    /// `request` with the members added; `None` if it stays as it is.
    pub fn apply(&self, request: &[u8]) -> Option<Vec<u8>> {
        let body = Json::read(request)?;
        let members: Vec<Member<'_>> = body.members().collect();
        if only(&members, "stream")??.bytes() != b"true" {
            return None;
        }
        let mut splices = Vec::new();
        self.merge(&body, &members, &Json::read(&self.object)?, &mut splices)?;
        splices.sort_by_key(|splice| splice.range.start);
        let added: usize = splices.iter().map(|splice| splice.text.len()).sum();
        let mut amended = Vec::with_capacity(request.len() + added);
        let mut at = 0;
        for Splice { range, text } in &splices {
            amended.extend_from_slice(&request[at..range.start]);
            amended.extend_from_slice(text);
            at = range.end;
        }
        amended.extend_from_slice(&request[at..]);
        (!splices.is_empty()).then_some(amended)
    }

    /// Finds the members that must be added to `object`, which has `members`. `None` if it has one of them twice:
    /// parsers differ in which one counts.
    fn merge(
        &self,
        object: &Json<'_>,
        members: &[Member<'_>],
        more: &Json<'_>,
        splices: &mut Vec<Splice>,
    ) -> Option<()> {
        let mut added = Vec::new();
        for new in more.members() {
            match only(members, &new.text()?)? {
                None => {
                    new.write(&mut added);
                    added.push(b',');
                }
                Some(old) if old.is_object() && new.value.is_object() => {
                    let members: Vec<Member<'_>> = old.members().collect();
                    self.merge(&old, &members, &new.value, splices)?;
                }
                Some(old) if self.insists && old.bytes() != new.value.bytes() => {
                    splices.push(Splice { range: old.range(), text: new.value.bytes().to_vec() });
                }
                Some(_) => {}
            }
        }
        if members.is_empty() {
            added.pop();
        }
        if !added.is_empty() {
            let at = object.range().start + 1;
            splices.push(Splice { range: at..at, text: added });
        }
        Some(())
    }
}

/// The member of that name, if there is one; `None` for two.
#[expect(clippy::option_option, reason = "the outer one says that there are two")]
fn only<'a>(members: &[Member<'a>], name: &str) -> Option<Option<Json<'a>>> {
    let mut found = members.iter().filter(|member| member.is(name));
    let first = found.next().map(|member| member.value.clone());
    found.next().is_none().then_some(first)
}
