//! Members that are added to the JSON of a request, so that its response says what it has cost.
//!
//! The request is spliced and not written anew: what the client has said stays as it has said it, byte for byte, numbers
//! and order included. What is not an object of JSON that asks for a stream, or can be read in two ways, is not
//! changed: the origin answers for it.

use std::ops::Range;

use crate::json::{Json, Member};

/// What is added to requests.
#[derive(Debug, Clone)]
pub struct Amendment {
    /// An object of JSON.
    object: Vec<u8>,
    insists: bool,
}

/// Bytes in the place of others.
struct Splice {
    range: Range<usize>,
    text: Vec<u8>,
}

impl Amendment {
    /// Adds the members of `object`, as deep as both sides have objects. What is there already stays, or has its place
    /// taken if this `insists`. `None` for what is no object of JSON.
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

    /// Finds what has to be added to `object`, which has `members`. `None` where it has one of them twice: which one
    /// counts depends on who reads it.
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
