//! Request targets for logs: without the values of tokens.
//!
//! A token in a target is a password that a log would keep. The names of the parameters come from the settings of
//! each site and from the token verifiers; they are kept for the whole process, because a request that matches no
//! route, or is refused before routing, has the same token. A JSON Web Token is recognised by its form too.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use percent_encoding::percent_decode_str;

static NAMES: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// The text in place of a value.
const HIDDEN: &str = "***";

/// Hides the values of parameters with this name, in the query and in the path, from now on.
pub fn hide(name: &str) {
    let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
    if !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
    }
}

/// `target` for a log.
pub fn shown(target: &str) -> Cow<'_, str> {
    if !may_hide(target.as_bytes()) {
        return Cow::Borrowed(target);
    }
    without(target, &NAMES.read().unwrap_or_else(PoisonError::into_inner))
}

/// `text` for a log: each of its words may be a target, or contain one.
pub fn without_tokens(text: &str) -> Cow<'_, str> {
    let words: Vec<_> = text.split(' ').map(shown).collect();
    if words.iter().all(|word| matches!(word, Cow::Borrowed(_))) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(words.join(" "))
}

/// Whether there may be a secret: the value of a name, a token, or something encoded. Most paths have none of their bytes.
fn may_hide(target: &[u8]) -> bool {
    memchr::memchr2(b'=', b'%', target).is_some()
        || memchr::memchr_iter(b'e', target).any(|at| target[at..].starts_with(b"eyJ"))
}

fn without<'a>(target: &'a str, names: &[String]) -> Cow<'a, str> {
    let mut made = String::new();
    let mut copied = 0;
    let mut at = 0;
    for piece in target.split(['/', '?', '&', ';', '#']) {
        let name = piece.split_once('=').map(|(name, _)| name);
        let from = match name {
            Some(name) if is_secret(name, names) => Some(name.len() + 1),
            Some(name) if hides(&piece[name.len() + 1..], names) => Some(name.len() + 1),
            None if hides(piece, names) => Some(0),
            _ => None,
        };
        if let Some(from) = from {
            made.push_str(&target[copied..at + from]);
            made.push_str(HIDDEN);
            copied = at + piece.len();
        }
        at += piece.len() + 1;
    }
    if copied == 0 {
        return Cow::Borrowed(target);
    }
    made.push_str(&target[copied..]);
    Cow::Owned(made)
}

fn is_secret(name: &str, names: &[String]) -> bool {
    let name = percent_decode_str(name).decode_utf8_lossy();
    names.iter().any(|secret| name.eq_ignore_ascii_case(secret))
}

/// Whether a value contains a token: a JSON Web Token, or an encoded target with one.
fn hides(value: &str, names: &[String]) -> bool {
    if value.find("eyJ").is_some_and(|at| is_jwt(&value[at..])) {
        return true;
    }
    // Each decoding shortens it by at least two bytes.
    decoded(value).is_some_and(|decoded| matches!(without(&decoded, names), Cow::Owned(_)))
}

/// Three parts of base64url; the first is a JSON object (RFC 7515, section 3.1).
fn is_jwt(text: &str) -> bool {
    let mut parts = text.split('.');
    let is_part = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let (Some(header), Some(claims), Some(_)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    header.len() > 8 && is_part(header) && is_part(claims)
}

/// Percent-decodes; `None` if nothing is encoded.
fn decoded(text: &str) -> Option<String> {
    match Cow::from(percent_decode_str(text)) {
        Cow::Borrowed(_) => None,
        Cow::Owned(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const JWT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln";

    fn seen(target: &str) -> String {
        without(target, &["token".to_owned(), "access_token".to_owned()]).into_owned()
    }

    #[test]
    fn values_of_named_parameters_are_hidden_wherever_they_stand() {
        for (target, expected) in [
            ("/vod/token=abc/a/b.ts?x=1", "/vod/token=***/a/b.ts?x=1"),
            ("/a?token=abc", "/a?token=***"),
            ("/a?x=1&token=abc&y=2&token=d", "/a?x=1&token=***&y=2&token=***"),
            ("/a?TOKEN=abc", "/a?TOKEN=***"),
            ("/a;token=abc/b", "/a;token=***/b"),
            ("/a?%74oken=abc", "/a?%74oken=***"),
            ("/a?token=a=b", "/a?token=***"),
            ("/a?token=", "/a?token=***"),
            ("token=abc", "token=***"),
            ("/a?next=%2Fvod%3Ftoken%3Dabc&x=1", "/a?next=***&x=1"),
            ("/a?next=%252Fvod%253Ftoken%253Dabc", "/a?next=***"),
            ("http://host/a?access_token=abc#b", "http://host/a?access_token=***#b"),
        ] {
            assert_eq!(seen(target), expected);
        }
    }

    #[test]
    fn a_json_web_token_is_hidden_whatever_it_is_called() {
        assert_eq!(seen(&format!("/a?key={JWT}")), "/a?key=***");
        assert_eq!(seen(&format!("/{JWT}/seg.ts")), "/***/seg.ts");
        assert_eq!(seen(&format!("/a?auth=Bearer%20{JWT}")), "/a?auth=***");
        assert_eq!(seen(&format!("/a?{JWT}")), "/a?***");
    }

    #[test]
    fn all_else_is_shown_as_it_is() {
        for target in [
            "/",
            "*",
            "",
            "/a?tokens=1&mytoken=2",
            "/eyJ.eyJ.a",
            "/a/token/b",
            "/a?%7=%zz",
            "/a%20b?c=%C3%A4",
            "/%",
        ] {
            assert!(
                matches!(without(target, &["token".to_owned()]), Cow::Borrowed(same) if same == target),
                "{target}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn no_value_of_a_token_is_left(before in "[ -~]{0,20}", value in "[A-Z]{24}", after in "([&#;/][ -~]{0,20})?") {
            let shown = seen(&format!("{before}&token={value}{after}"));
            proptest::prop_assert!(!shown.contains(&value), "{}", shown);
        }

        #[test]
        fn whatever_is_asked_for_can_be_shown(target in "\\PC{0,60}") {
            seen(&target);
        }
    }

    proptest! {
        #[test]
        fn what_is_passed_by_has_no_secret(target in "([a-z/?=%.&;#0-9]|eyJhbGciOiJI|eyJ|token=|%3D){0,12}") {
            if !may_hide(target.as_bytes()) {
                prop_assert!(matches!(without(&target, &["token".to_owned()]), Cow::Borrowed(_)));
            }
        }
    }
}
