//! Which requests a response answers (RFC 9111, section 4.1).

use super::*;

/// The decision about a request with one stored response.
fn selects(languages: Languages, stored_for: &str, response: &str, asked: &str) -> bool {
    let mut cache = Cache::with(|policy| policy.languages = languages);
    let response = format!("Cache-Control: max-age=100\n{response}");
    assert_eq!(cache.fetch(stored_for, 200, &response), Became::Stored);
    let decision = cache.get(asked);
    assert!(is_hit(&decision) || why(&decision) == "vary-miss");
    is_hit(&decision)
}

#[test]
fn anything_is_never_matched() {
    for lines in ["*", "*, *", "*\nVary: *", ", *", "\nVary: *", "*, Foo", "Foo, *", "Foo bar", "\"Foo\""] {
        let text = Text::new(&format!("Vary: {lines}"));
        assert_eq!(Vary::parse(values(&text.lines(), "vary")), Vary::Anything, "{lines:?}");
    }
    let none = Text::new("Vary: ,");
    assert_eq!(Vary::parse(values(&none.lines(), "vary")), Vary::Fields(Vec::new()));
}

#[test]
fn fields_that_are_named_must_match() {
    for (vary, stored_for, asked, expected) in [
        ("Foo", "Foo: 1", "Foo: 1", true),
        ("Foo", "Foo: 1", "Foo: 2", false),
        ("Foo", "", "Foo: 1", false),
        ("Foo", "Foo: 1", "", false),
        ("Foo", "", "", true),
        ("Foo", "Foo:", "", false),
        ("foo", "Foo: 1\nOther: 2", "FOO: 1\nOther: 3", true),
        ("Foo, Bar", "Foo: 1\nBar: a", "Bar: a\nFoo: 1", true),
        ("Foo, Bar", "Foo: 1\nBar: a", "Foo: 2\nBar: a", false),
        ("Foo, Bar", "Foo: 1\nBar: a", "", false),
        ("Foo\nVary: Bar", "Foo: 1\nBar: a", "Foo: 1\nBar: b", false),
        ("Foo, Bar, Baz", "Foo: 1\nBaz: 7", "Foo: 1\nBaz: 7", true),
        ("Foo, Bar, Baz", "Foo: 1\nBar: abc\nBaz: 7", "Foo: 1\nBaz: 7\nBar: abcde", false),
        // Lists whose rules are not known.
        ("Foo", "Foo: 1, 2", "Foo: 1\nFoo: 2", true),
        ("Foo", "Foo: 1,2", "Foo:  1,   2 ", true),
        ("Foo", "Foo: 1, 2", "Foo: 2, 1", false),
        ("Foo", "Foo: a", "Foo: A", false),
        ("Foo", "Foo: \"1, 2\"", "Foo: \"1,2\"", false),
        ("Foo", "Foo: \"1,2\", 3", "Foo: \"1,2\" ,3", true),
        ("Foo", "Foo: a b", "Foo: a  b", false),
        // Values that are not lists.
        ("Cookie", "Cookie: a=1, 2", "Cookie: a=1,2", false),
        ("User-Agent", "User-Agent: x (a, b)", "User-Agent: x (a, b)", true),
        ("Origin", "Origin: http://a", "Origin: http://b", false),
        // Two fields of one response cannot be confused.
        ("A, B", "A: 1\nB: 2", "A: 2\nB: 1", false),
    ] {
        let vary = format!("Vary: {vary}");
        for languages in [Languages::Ordered, Languages::Weighted, Languages::Preferred] {
            assert_eq!(
                selects(languages, stored_for, &vary, asked),
                expected,
                "{vary} {stored_for:?} {asked:?}"
            );
        }
    }
}

/// RFC 9110, section 12.5.3.
#[test]
fn codings_that_mean_the_same() {
    for (stored_for, asked, expected) in [
        ("gzip, br", "br, gzip", true),
        ("gzip, br", "BR,GZIP;q=1", true),
        ("gzip", "x-gzip;q=1.000", true),
        ("gzip;q=0.5, br", "br, gzip;Q=0.50", true),
        ("gzip, br", "gzip\nAccept-Encoding: br", true),
        ("gzip, gzip", "gzip", true),
        ("gzip", "gzip, br", false),
        ("gzip;q=0.5, br", "gzip, br", false),
        ("gzip;q=0", "", false),
        ("gzip;q=2", "gzip", false),
        ("gzip;q=0.5555", "gzip;q=0.555", false),
        ("gzip;x=1", "gzip", false),
        ("gzip;q=0.5;x", "gzip;q=0.5", false),
    ] {
        let fields = [stored_for, asked].map(|value| format!("Accept-Encoding: {value}"));
        let vary = "Vary: Accept-Encoding";
        assert_eq!(
            selects(Languages::Ordered, &fields[0], vary, &fields[1]),
            expected,
            "{stored_for} {asked}"
        );
    }
}

/// RFC 9110, section 12.5.4.
#[test]
fn languages_that_mean_the_same() {
    use Languages::{Ordered, Preferred, Weighted};
    for (languages, stored_for, asked, expected) in [
        (Ordered, "en, de", "eN, De", true),
        (Ordered, "en, de", " en ,   de", true),
        (Ordered, "en, de", "de, en", false),
        (Weighted, "en, de", "de, en", true),
        (Weighted, "en, de;q=0.5", "de;q=0.5, en", true),
        (Weighted, "en, de;q=0.5", "en;q=0.5, de", false),
        (Weighted, "en, de", "fr;q=0.5, de;q=1.0", false),
        (Preferred, "en, de", "de, en", true),
        (Preferred, "en, de", "fr;q=0.5, de;q=1.0", true),
        (Preferred, "en, de", "fr;q=0.5, DE", true),
        (Preferred, "en, de", "fr, de", false),
        (Preferred, "en, de", "de-AT", false),
        (Preferred, "en, de", "de;q=0", false),
        (Preferred, "en, de", "de, fr;q=x", false),
        (Preferred, "en, de", "*", false),
        (Preferred, "en, de", "", false),
    ] {
        let fields = [stored_for, asked].map(|value| format!("Accept-Language: {value}"));
        let response = "Vary: Accept-Language\nContent-Language: de";
        assert_eq!(selects(languages, &fields[0], response, &fields[1]), expected, "{languages:?} {asked}");
    }
    for language in ["de, en", "de\nContent-Language: en"] {
        let response = format!("Vary: Accept-Language\nContent-Language: {language}");
        assert!(!selects(Preferred, "Accept-Language: en", &response, "Accept-Language: de"), "{language}");
    }
    let both = "Vary: Accept-Language, Foo\nContent-Language: de";
    assert!(!selects(Preferred, "Accept-Language: en\nFoo: 1", both, "Accept-Language: de\nFoo: 2"));
}

#[test]
fn several_variants_stand_side_by_side() {
    let mut cache = Cache::new();
    for value in ["1", "2"] {
        let response = format!("Cache-Control: max-age=100\nVary: Foo\nIt: {value}");
        assert_eq!(cache.fetch(&format!("Foo: {value}"), 200, &response), Became::Stored);
    }
    assert_eq!(cache.get("Foo: 1"), Decision::Hit { stored: 0, answer: Answer::Full });
    assert_eq!(cache.get("Foo: 2"), Decision::Hit { stored: 1, answer: Answer::Full });
    assert_eq!(why(&cache.get("Foo: 3")), "vary-miss");
}

/// RFC 9111, section 4.1: of several the newest.
#[test]
fn the_newest_of_those_that_match() {
    let mut cache = Cache::new();
    cache.fetch("Foo: 1", 200, "Cache-Control: max-age=100\nVary: Foo\nDate: {-5}");
    cache.fetch("Foo: 2", 200, "Cache-Control: max-age=100\nDate: {-1}");
    assert_eq!(cache.get("Foo: 1"), Decision::Hit { stored: 1, answer: Answer::Full });
    cache.held.swap(0, 1);
    assert_eq!(cache.get("Foo: 1"), Decision::Hit { stored: 0, answer: Answer::Full });

    let mut cache = Cache::new();
    let response = |date| {
        format!("Cache-Control: max-age=100\nVary: Accept-Language\nContent-Language: de\nDate: {date}")
    };
    cache.fetch("Accept-Language: de", 200, &response("{-5}"));
    cache.fetch("Accept-Language: fr", 200, &response("{-1}"));
    let exact = Decision::Hit { stored: 0, answer: Answer::Full };
    assert_eq!(cache.get("Accept-Language: de"), exact, "the one that was made for it goes first");
}

/// RFC 9111, section 4.3.1.
#[test]
fn a_request_that_selects_none_asks_which_of_those_with_a_tag_it_is() {
    let mut cache = Cache::new();
    for (value, more) in [("1", "ETag: \"a\""), ("2", "ETag: W/\"b\""), ("3", "Last-Modified: {-9}")] {
        let response = format!("Cache-Control: max-age=100\nVary: Foo\nDate: {{-{value}}}\n{more}");
        assert_eq!(cache.fetch(&format!("Foo: {value}"), 200, &response), Became::Stored);
    }
    let Decision::Select { among, conditions, fill: Fill::Whole } = cache.get("Foo: 4") else {
        panic!("{:?}", cache.get("Foo: 4"))
    };
    assert_eq!(among, [0, 1], "the newest first");
    let fields: Vec<_> = conditions.iter().collect();
    assert_eq!(fields, [(b"If-None-Match".as_slice(), b"\"a\", W/\"b\"".as_slice())]);
    assert!(matches!(cache.decide("HEAD", "Foo: 4"), Decision::Miss { .. }), "HEAD is sent as it came");

    for unclear in ["", "ETag: \"c\"", "Last-Modified: {-9}"] {
        assert_eq!(cache.fetch("Foo: 4", 304, unclear), Became::Refetch, "{unclear:?}");
    }
    assert_eq!(cache.fetch("Foo: 4", 304, "ETag: W/\"b\"\nVary: Foo"), Became::Updated);
    for asked in ["Foo: 2", "Foo: 4"] {
        assert_eq!(cache.get(asked), Decision::Hit { stored: 1, answer: Answer::Full }, "{asked}");
    }
    assert_eq!(cache.fetch("Foo: 5", 200, "Cache-Control: max-age=100\nVary: Foo"), Became::Stored);
    assert_eq!(cache.get("Foo: 5"), Decision::Hit { stored: 3, answer: Answer::Full });
}

/// Some origins give one tag to a representation in all of its codings, and a Host is part of the target.
#[test]
fn what_a_client_cannot_read_or_did_not_ask_for_is_not_asked_about() {
    let of = |stored_for: &str, fields: &str, asked: &str| {
        let mut cache = Cache::new();
        let response =
            format!("Cache-Control: max-age=100\nETag: \"a\"\nVary: Accept-Encoding, Foo\n{fields}");
        assert_eq!(cache.fetch(stored_for, 200, &response), Became::Stored);
        matches!(cache.get(asked), Decision::Select { .. })
    };
    for (coding, accepted, expected) in [
        ("", "", true),
        ("", "gzip", true),
        ("gzip", "gzip, br", true),
        ("gzip", "X-GZIP;q=0.1", true),
        ("gzip", "", false),
        ("gzip", "br", false),
        ("gzip", "gzip;q=0", false),
        ("gzip", "gzip;q=0, gzip", false),
        ("gzip", "*", false),
        ("gzip, br", "gzip, br", false),
    ] {
        let fields = if coding.is_empty() { String::new() } else { format!("Content-Encoding: {coding}") };
        let asked = format!("Accept-Encoding: {accepted}\nFoo: 2");
        assert_eq!(of("Foo: 1", &fields, &asked), expected, "{coding:?}, {accepted:?}");
    }
    assert!(of("Host: a\nFoo: 1", "", "Host: a\nFoo: 2"));
    for (stored_for, asked) in [("Host: a\nFoo: 1", "Host: b\nFoo: 2"), ("Foo: 1", "Host: b\nFoo: 2")] {
        assert!(!of(stored_for, "", asked), "{asked:?}");
    }
}

#[test]
fn a_response_is_known_to_be_for_so_many_kinds_of_requests() {
    let of = |value: usize| {
        let text = Text::new(&format!("Foo: {value}"));
        let vary = Vary::parse([b"foo".as_slice()].into_iter());
        Selection::of(&vary, &text.lines(), Languages::Ordered).unwrap()
    };
    let many = (0..100).fold(of(0), |all, value| all.with(of(value)));
    let selects = |value: usize| {
        let text = Text::new(&format!("Foo: {value}"));
        many.matches(&text.lines(), Languages::Ordered, None)
    };
    assert_eq!((0..100).filter(|value| selects(*value)).collect::<Vec<_>>(), (36..100).collect::<Vec<_>>());
    assert_eq!(of(1).without(&many), Some(of(1)), "it has been forgotten");
    assert_eq!(of(99).without(&many), None);
    assert_eq!(of(1).with(of(99)).without(&many), Some(of(1)));
}
