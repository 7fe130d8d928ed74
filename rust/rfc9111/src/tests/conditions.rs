//! Validators, and the conditions of clients (RFC 9110, sections 8.8 and 13; RFC 9111, section 4.3.2).

use super::*;

fn answer_to(response: &str, request: &str) -> Answer {
    match Cache::holding(response).get(request) {
        Decision::Hit { answer, .. } => answer,
        other => panic!("{request:?} of {response:?}: {other:?}"),
    }
}

#[test]
fn entity_tags() {
    for text in ["\"\"", "\"a\"", "W/\"a\"", "\"a,b\"", "\"a\\\"", "\"\u{fc}\"", "\"!\""] {
        let tag = EntityTag::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(tag.to_bytes(), text.as_bytes());
        assert_eq!(tag.is_strong(), !text.starts_with('W'));
    }
    for text in [
        "", "a", "\"a", "a\"", "\"a b\"", "\"a\"b", "w/\"a\"", "W\"a\"", "W\\\"a\"", "W/a", "\"\x7f\"", "'a'",
    ] {
        assert_eq!(EntityTag::parse(text.as_bytes()), None, "{text}");
    }
}

/// RFC 9110, section 8.8.3.2.
#[test]
fn two_comparisons_of_tags() {
    for (one, other, same, equivalent) in [
        ("W/\"1\"", "W/\"1\"", false, true),
        ("W/\"1\"", "W/\"2\"", false, false),
        ("W/\"1\"", "\"1\"", false, true),
        ("\"1\"", "\"1\"", true, true),
    ] {
        let tags = [one, other].map(|text| EntityTag::parse(text.as_bytes()).unwrap());
        assert_eq!((tags[0].is_same(&tags[1]), tags[0].is_equivalent(&tags[1])), (same, equivalent));
    }
}

/// RFC 9110, section 13.1.2.
#[test]
fn if_none_match() {
    let response = |tag| format!("Cache-Control: max-age=100\nETag: {tag}");
    for (tag, condition, not_modified) in [
        ("\"a\"", "\"a\"", true),
        ("\"a\"", "\"b\"", false),
        ("\"a\"", "W/\"a\"", true),
        ("W/\"a\"", "W/\"a\"", true),
        ("\"a\"", "\"1\", \"a\", \"2\"", true),
        ("\"a\"", "\"1\",\"2\",\"a\"", true),
        ("\"a\"", ",, \"a\"", true),
        ("\"a\"", "*", true),
        ("\"a,b\"", "\"a,b\"", true),
        ("\"a\\\"", "\"a\\\", \"b\"", true),
        ("\"\u{fc}\"", "\"\u{fc}\"", true),
        ("\"a\"", "a", false),
        ("\"a\"", "\"a\" \"", false),
        ("\"a\"", "\"a\"x", false),
        ("\"a\"", "\"b\"\nIf-None-Match: \"a\"", true),
    ] {
        let expected = if not_modified { Answer::NotModified } else { Answer::Full };
        assert_eq!(
            answer_to(&response(tag), &format!("If-None-Match: {condition}")),
            expected,
            "{tag} {condition}"
        );
    }
    assert_eq!(answer_to("Cache-Control: max-age=100", "If-None-Match: \"a\""), Answer::Full);
}

/// RFC 9110, sections 13.1.3 and 13.2.2; RFC 9111, section 4.3.2.
#[test]
fn if_modified_since() {
    let modified = "Cache-Control: max-age=100\nDate: {0}\nLast-Modified: {-3000}\nETag: \"a\"";
    let undated = "Cache-Control: max-age=9999\nDate: {-3000}";
    for (response, condition, expected) in [
        (modified, "If-Modified-Since: {-3000}", Answer::NotModified),
        (modified, "If-Modified-Since: {-2000}", Answer::NotModified),
        (modified, "If-Modified-Since: {-3001}", Answer::Full),
        (modified, "If-Modified-Since: foo", Answer::Full),
        (modified, "If-Modified-Since: {0}\nIf-Modified-Since: {0}", Answer::Full),
        (modified, "If-Modified-Since: {-10000}\nIf-None-Match: \"a\"", Answer::NotModified),
        (modified, "If-Modified-Since: {0}\nIf-None-Match: \"b\"", Answer::Full),
        (undated, "If-Modified-Since: {-3000}", Answer::NotModified),
        (undated, "If-Modified-Since: {-3001}", Answer::Full),
    ] {
        assert_eq!(answer_to(response, condition), expected, "{condition}");
    }
    let rfc850 = "If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT";
    assert_eq!(answer_to("Cache-Control: max-age=100\nLast-Modified: {0}", rfc850), Answer::NotModified);
}

/// RFC 9110, section 13.2.1.
#[test]
fn conditions_mean_nothing_to_what_is_no_success() {
    let mut cache = Cache::new();
    cache.fetch("", 404, "Cache-Control: max-age=100\nETag: \"a\"");
    let full = Decision::Hit { stored: 0, answer: Answer::Full };
    assert_eq!(cache.get("If-None-Match: *"), full);
    assert_eq!(cache.get("Range: bytes=0-0"), full);
}

/// RFC 9111, section 4.3.1: the conditions that are made are those of the stored response, and not the client's.
#[test]
fn conditions_for_the_origin() {
    let conditions = |response: &str| {
        let cache = Cache::holding(response).after(10);
        match cache.get("If-None-Match: \"other\"") {
            Decision::Revalidate { conditions, .. } => conditions,
            other => panic!("{other:?}"),
        }
    };
    let fields = |fields: &[(&str, &str)]| fields.iter().copied().collect::<Fields>();
    assert_eq!(
        conditions("Cache-Control: max-age=1\nETag: W/\"a\""),
        fields(&[("If-None-Match", "W/\"a\"")])
    );
    // As it was written, because some origins compare the text.
    let asctime = "Sun Nov  6 08:49:37 1994";
    assert_eq!(
        conditions(&format!("Cache-Control: max-age=1\nETag: \"a\"\nLast-Modified: {asctime}")),
        fields(&[("If-None-Match", "\"a\""), ("If-Modified-Since", asctime)])
    );
}

/// RFC 9110, section 15.4.5.
#[test]
fn what_a_304_says() {
    for name in [
        "ETag",
        "Cache-Control",
        "Content-Location",
        "Date",
        "Expires",
        "Vary",
        "Access-Control-Allow-Origin",
    ] {
        assert!(is_in_not_modified(name.as_bytes()), "{name}");
    }
    for name in ["Content-Length", "content-type", "Content-Encoding", "Content-Range", "Content-Language"] {
        assert!(!is_in_not_modified(name.as_bytes()), "{name}");
    }
}
