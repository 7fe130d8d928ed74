//! What an application may write as a response, read a second time: over all of it at once, without state, by the plain
//! second reading of heads and chunks. Tests and the fuzz target `checker` compare the checker with it.

use super::reference::{self, End, Fields, chunked_prefix};

/// Where a response stands when nothing follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Before a head.
    Nothing,
    WithinHead,
    /// That many bytes of the body are missing.
    Length(u64),
    BetweenChunks,
    WithinChunk,
    UntilClose,
    Complete,
    /// Complete with its head: what follows is not sent.
    Bodiless,
    Switched,
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) stand: Stand,
    /// Of the final head, or 101.
    pub(crate) status: Option<u16>,
    /// Whether it is complete, and allows another after it.
    pub(crate) keeps_alive: bool,
    pub(crate) continued: bool,
    /// The bytes of it that a client may see at most.
    pub(crate) most: usize,
}

/// Longer than any input of a test.
const MAX_BYTES: usize = 256 * 1024;
const MAX_FIELDS: usize = 4096;

pub(crate) fn response(bytes: &[u8], is_head_request: bool, may_switch: bool) -> Verdict {
    let mut verdict =
        Verdict { stand: Stand::Nothing, status: None, keeps_alive: false, continued: false, most: 0 };
    let head = loop {
        let rest = &bytes[verdict.most..];
        if rest.is_empty() {
            return verdict;
        }
        let head = match reference::head(rest, MAX_BYTES, MAX_FIELDS) {
            Ok(head) => head,
            Err(End::Open) => return Verdict { stand: Stand::WithinHead, ..verdict },
            Err(_) => return Verdict { stand: Stand::Refused, ..verdict },
        };
        if head.status == 101 && !may_switch {
            return Verdict { stand: Stand::Refused, ..verdict };
        }
        if head.status == 101 {
            return Verdict { stand: Stand::Switched, status: Some(101), most: bytes.len(), ..verdict };
        }
        if head.status >= 200 {
            break head;
        }
        verdict.continued |= head.status == 100;
        verdict.most += head.length;
    };
    let lengths = list(&head.fields, "content-length");
    let codings: Vec<&[u8]> = values(&head.fields, "transfer-encoding").collect();
    let length = lengths.first().map(|first| number(first));
    let refused = lengths.iter().any(|other| *other != lengths[0])
        || length == Some(None)
        || !(lengths.is_empty() || codings.is_empty())
        || codings.len() > 1
        || codings.iter().any(|coding| !coding.eq_ignore_ascii_case(b"chunked"))
        || !codings.is_empty() && head.minor_version == 0;
    if refused {
        return Verdict { stand: Stand::Refused, ..verdict };
    }
    let options = list(&head.fields, "connection");
    let has = |option: &[u8]| options.iter().any(|other| other.eq_ignore_ascii_case(option));
    let is_empty_by_status = head.status == 204 || head.status == 304;
    let unseen = head.status == 204 && (!codings.is_empty() || lengths.iter().any(|length| *length != b"0"));
    verdict.status = Some(head.status);
    let persists = !unseen && !has(b"close") && (head.minor_version == 1 || has(b"keep-alive"));
    verdict.most += head.length;
    let body = &bytes[verdict.most..];
    let (stand, most) = if is_head_request || is_empty_by_status {
        (Stand::Bodiless, 0)
    } else if !codings.is_empty() {
        in_chunks(body)
    } else if let Some(Some(length)) = length {
        counted(body, length)
    } else {
        (Stand::UntilClose, body.len())
    };
    let keeps_alive = persists && matches!(stand, Stand::Complete | Stand::Bodiless);
    Verdict { stand, keeps_alive, most: verdict.most + most, ..verdict }
}

fn counted(body: &[u8], length: u64) -> (Stand, usize) {
    match length.checked_sub(body.len() as u64) {
        Some(0) => (Stand::Complete, body.len()),
        Some(missing) => (Stand::Length(missing), body.len()),
        None => (Stand::Refused, usize::try_from(length).unwrap()),
    }
}

fn in_chunks(body: &[u8]) -> (Stand, usize) {
    let read = |behind: &[u8]| match chunked_prefix(&[body, behind].concat(), MAX_BYTES, MAX_BYTES) {
        Ok((_, _, rest)) => Ok(rest.len()),
        Err(end) => Err(end),
    };
    match read(b"") {
        Ok(0) => (Stand::Complete, body.len()),
        Ok(rest) => (Stand::Refused, body.len() - rest),
        // How much of it came before the fault, the reference does not say.
        Err(End::Fault(_)) => (Stand::Refused, body.len()),
        // Between two chunks the last one may come, and an extension may not.
        Err(_) if read(b"0\r\n\r\n") == Ok(0) && read(b";") == Err(End::Fault("BAD_CHUNK")) => {
            (Stand::BetweenChunks, body.len())
        }
        Err(_) => (Stand::WithinChunk, body.len()),
    }
}

fn values<'a>(fields: &'a Fields, name: &str) -> impl Iterator<Item = &'a [u8]> {
    fields
        .iter()
        .filter(move |(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(_, value)| value.as_slice())
}

fn list<'a>(fields: &'a Fields, name: &str) -> Vec<&'a [u8]> {
    let blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let mut members = Vec::new();
    for value in values(fields, name) {
        for member in value.split(|byte| *byte == b',') {
            let front = member.iter().take_while(|byte| blank(byte)).count();
            let back = member[front..].iter().rev().take_while(|byte| blank(byte)).count();
            members.push(&member[front..member.len() - back]);
        }
    }
    members
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Leading zeros are no reason to overflow.
    let kept: Vec<u8> = digits.iter().copied().skip_while(|digit| *digit == b'0').collect();
    if kept.len() > 19 {
        return None;
    }
    let number = kept.iter().fold(0_u128, |number, digit| number * 10 + u128::from(digit - b'0'));
    u64::try_from(number).ok().filter(|number| i64::try_from(*number).is_ok())
}
