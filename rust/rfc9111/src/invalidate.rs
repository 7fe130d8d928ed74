//! Stored responses that an unsafe request invalidates (RFC 9111, section 4.4).

use super::key::{Target, origin};
use penstock_http::wire::is_safe;
use penstock_http::wire::list::{Lines, values};

/// The targets, in origin-form, whose stored responses are invalidated: the target of the request, and the targets of
/// the same origin in Location and Content-Location. Empty if the method is safe or the request has failed.
pub fn invalidated(method: &str, target: Target<'_>, status: u16, response: &Lines<'_>) -> Vec<String> {
    if is_safe(method) || !(200..400).contains(&status) {
        return Vec::new();
    }
    let mut targets = vec![target.path.to_owned()];
    for value in values(response, "location").chain(values(response, "content-location")) {
        let named = std::str::from_utf8(value).ok();
        let named = named.and_then(|reference| resolve(target, reference));
        targets.extend(named.filter(|named| !targets.contains(named)));
    }
    targets
}

/// Resolves a reference to a target in origin-form; `None` if it is of another origin (RFC 3986, section
/// 5.2).
pub fn resolve(base: Target<'_>, reference: &str) -> Option<String> {
    let Target { scheme, authority, path: base } = base;
    let reference = reference.split('#').next().unwrap_or_default();
    let rest = match scheme_of(reference) {
        Some(other) if !other.eq_ignore_ascii_case(scheme) => return None,
        // A reference with a scheme must have an authority here: `http:path` is not valid in
        // section 4.2.
        Some(other) => Some(reference[other.len() + 1..].strip_prefix("//")?),
        None => reference.strip_prefix("//"),
    };
    let reference = match rest {
        None => reference,
        Some(rest) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            if origin(scheme, &rest[..end]) != origin(scheme, authority) {
                return None;
            }
            let path = &rest[end..];
            return Some(if path.starts_with('/') {
                without_dots(path)
            } else {
                without_dots(&format!("/{path}"))
            });
        }
    };
    let base_path = base.split('?').next().unwrap_or_default();
    Some(match reference.as_bytes() {
        [] => base.to_owned(),
        [b'?', ..] => format!("{base_path}{reference}"),
        [b'/', ..] => without_dots(reference),
        _ => {
            let directory = base_path.rfind('/').map_or("/", |slash| &base_path[..=slash]);
            without_dots(&format!("{directory}{reference}"))
        }
    })
}

/// The scheme that a reference begins with.
fn scheme_of(reference: &str) -> Option<&str> {
    let colon = reference.find(':')?;
    let scheme = &reference[..colon];
    let mut bytes = scheme.bytes();
    let starts = bytes.next().is_some_and(|first| first.is_ascii_alphabetic());
    (starts && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))).then_some(scheme)
}

/// Removes the segments `.` and `..` of the path (RFC 3986, section 5.2.4).
fn without_dots(target: &str) -> String {
    let (path, query) = target.find('?').map_or((target, ""), |mark| target.split_at(mark));
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            ".." => drop(kept.pop()),
            "." => {}
            _ => {
                kept.push(segment);
                continue;
            }
        }
        if is_last {
            kept.push("");
        }
    }
    format!("/{}{query}", kept.join("/"))
}
