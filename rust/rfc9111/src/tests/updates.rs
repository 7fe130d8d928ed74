//! Stored responses that newer ones confirm or contradict (RFC 9111, sections 3.2, 4.3.4, 4.3.5 and 4.4).

use super::*;

const STORED: &str = "Cache-Control: max-age=2\nDate: {0}\nETag: \"a\"\nX: 1\nY: 1\nContent-Length: 5\n\
    Content-Encoding: gzip\nContent-Type: text/plain";

/// RFC 9111, section 4.3.4.
#[test]
fn a_304_confirms_what_it_is_about() {
    let confirms = |stored: &str, not_modified: &str| {
        let mut cache = Cache::holding(stored).after(10);
        cache.fetch("", 304, not_modified)
    };
    let stored = |validators: &str| format!("Cache-Control: max-age=2\n{validators}");
    for (validators, not_modified, expected) in [
        ("ETag: \"a\"", "ETag: \"a\"", Became::Updated),
        ("ETag: \"a\"", "", Became::Updated),
        ("ETag: \"a\"", "ETag: W/\"a\"", Became::Updated),
        ("ETag: \"a\"", "ETag: \"b\"", Became::Refetch),
        ("ETag: W/\"a\"", "ETag: \"a\"", Became::Refetch),
        ("ETag: \"a\"\nLast-Modified: {-5}", "Last-Modified: {-5}", Became::Updated),
        ("Last-Modified: {-5}", "Last-Modified: {-5}", Became::Updated),
        ("Last-Modified: {-5}", "Last-Modified: {-4}", Became::Refetch),
        ("Last-Modified: {-5}", "ETag: \"a\"", Became::Refetch),
    ] {
        assert_eq!(confirms(&stored(validators), not_modified), expected, "{validators:?} {not_modified:?}");
    }
}

/// RFC 9111, section 3.2.
#[test]
fn a_304_changes_the_fields_but_not_those_of_the_body() {
    let mut cache = Cache::holding(STORED).after(10);
    let newer = "Cache-Control: max-age=60\nDate: {10}\nETag: \"a\"\nX: 2\nX: 3\nZ: 1\nContent-Length: 0\n\
        Content-Encoding: br\nContent-Range: x\nContent-Type: text/html\nAge: 4";
    assert_eq!(cache.fetch("", 304, newer), Became::Updated);
    for (name, value) in [
        ("x", Some("2|3")),
        ("y", Some("1")),
        ("z", Some("1")),
        ("content-length", Some("5")),
        ("content-encoding", Some("gzip")),
        ("content-type", Some("text/html")),
        ("content-range", None),
        ("age", None),
    ] {
        assert_eq!(cache.field(name).as_deref(), value, "{name}");
    }
    assert_eq!(cache.held[0].freshness.age(at(10)), seconds(4));
    assert!(is_hit(&cache.after(65).get("")));
}

#[test]
fn a_304_without_a_date_is_of_now() {
    let mut cache = Cache::holding(STORED).after(10);
    assert_eq!(cache.fetch("", 304, ""), Became::Updated);
    assert_eq!(cache.field("date"), Some(date(10)));
    assert!(is_hit(&cache.after(11).get("")), "fresh again for as long as it was");
}

#[test]
fn a_304_may_end_the_storing() {
    let mut cache = Cache::holding(STORED).after(10);
    assert_eq!(cache.fetch("", 304, "Cache-Control: no-store"), Became::UpdatedOnce);
    assert_eq!(cache.held.len(), 0);
    let mut cache = Cache::holding(STORED).after(10);
    assert_eq!(cache.fetch("", 304, "Vary: *"), Became::UpdatedOnce);
    let mut cache = Cache::holding(STORED).after(10);
    assert_eq!(cache.fetch("Authorization: x", 304, ""), Became::UpdatedOnce, "RFC 9111, section 3.5");
}

#[test]
fn a_304_keeps_the_variant_or_makes_it_another() {
    let mut cache = Cache::new();
    cache.fetch("A: 1", 200, "Cache-Control: max-age=2\nETag: \"a\"\nVary: A");
    let mut cache = cache.after(10);
    assert_eq!(cache.fetch("A: 1", 304, "Vary: A"), Became::Updated);
    assert!(is_hit(&cache.get("A: 1")));
    let mut cache = cache.after(20);
    assert_eq!(cache.fetch("A: 1\nB: 2", 304, "Vary: B"), Became::Updated);
    assert!(is_hit(&cache.get("B: 2")));
    assert_eq!(why(&cache.get("A: 1")), "vary-miss");
}

#[test]
fn a_304_that_nobody_asked_for_is_not_believed() {
    let mut cache = Cache::holding("Cache-Control: max-age=2").after(10);
    assert_eq!(cache.fetch("", 304, ""), Became::Passed(Refusal::Status));
}

/// RFC 9111, section 4.3.5.
#[test]
fn an_answer_to_head_updates_or_makes_stale() {
    let head = |status, response: &str| {
        let mut cache = Cache::holding(STORED).after(10);
        let became = cache.exchange("HEAD", "", status, response);
        let x = cache.field("x").unwrap();
        (became, x, is_hit(&cache.get("")))
    };
    let one = || "1".to_owned();
    let passed = Became::Passed(Refusal::Method);
    let fresh = "Cache-Control: max-age=1000\nX: 2\nDate: {10}";
    assert_eq!(head(200, fresh), (Became::Updated, "2".to_owned(), true));
    assert_eq!(head(200, &format!("{fresh}\nETag: \"a\"\nContent-Length: 5")).0, Became::Updated);
    for other in ["ETag: \"b\"", "Content-Length: 6", "Last-Modified: {0}"] {
        assert_eq!(
            head(200, &format!("{fresh}\n{other}")),
            (Became::Passed(Refusal::Method), one(), false),
            "{other}"
        );
    }
    assert_eq!(head(410, fresh), (passed, one(), false));

    let mut cache = Cache::holding("Cache-Control: max-age=100\nETag: \"a\"");
    cache.policy.clients_may_refresh = true;
    let became = cache.exchange("HEAD", "Cache-Control: no-cache", 200, "ETag: \"b\"");
    assert_eq!((became, why(&cache.get(""))), (Became::Passed(Refusal::Method), "stale"));
    assert_eq!(
        Cache::new().exchange("HEAD", "", 200, fresh),
        Became::Passed(Refusal::Method),
        "it has no body"
    );
}

/// RFC 9111, section 4.4.
#[test]
fn unsafe_methods_invalidate() {
    let named = |method: &str, status, response: &str| {
        let text = Text::new(response);
        invalidated(method, TARGET, status, &text.lines())
    };
    let own = TARGET.path.to_owned();
    for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"] {
        for status in [200, 204, 303] {
            assert_eq!(named(method, status, ""), std::slice::from_ref(&own), "{method} {status}");
        }
        for status in [400, 404, 500, 503] {
            assert_eq!(named(method, status, "Location: /x"), [""; 0], "{method} {status}");
        }
    }
    for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
        assert_eq!(named(method, 200, "Location: /x"), [""; 0], "{method}");
    }
    assert_eq!(
        named("POST", 201, "Location: /x\nContent-Location: y?z\nLocation: /x#z"),
        [own.clone(), "/x".to_owned(), "/live/y?z".to_owned()]
    );
    assert_eq!(named("POST", 201, "Location: http://other.test/x\nContent-Location: /live/1.m4s?a=1"), [own]);
}

/// RFC 3986, section 5.4, of one origin.
#[test]
fn references_are_resolved() {
    let base = Target { scheme: "http", authority: "a", path: "/b/c/d;p?q" };
    for (reference, target) in [
        ("g", "/b/c/g"),
        ("./g", "/b/c/g"),
        ("g/", "/b/c/g/"),
        ("/g", "/g"),
        ("?y", "/b/c/d;p?y"),
        ("g?y", "/b/c/g?y"),
        ("#s", "/b/c/d;p?q"),
        ("g#s", "/b/c/g"),
        ("", "/b/c/d;p?q"),
        (".", "/b/c/"),
        ("./", "/b/c/"),
        ("..", "/b/"),
        ("../", "/b/"),
        ("../g", "/b/g"),
        ("../..", "/"),
        ("../../g", "/g"),
        ("../../../g", "/g"),
        ("/./g", "/g"),
        ("/../g", "/g"),
        ("g.", "/b/c/g."),
        ("..g", "/b/c/..g"),
        ("./g/.", "/b/c/g/"),
        ("g/../h", "/b/c/h"),
        ("g?y/../x", "/b/c/g?y/../x"),
        ("//a/x", "/x"),
        ("//A:80", "/"),
        ("http://a", "/"),
        ("HTTP://a:/x?y#z", "/x?y"),
        ("http://a?y", "/?y"),
        ("/x:y", "/x:y"),
    ] {
        assert_eq!(resolve(base, reference).as_deref(), Some(target), "{reference}");
    }
    for reference in ["//b/x", "https://a/x", "http://a:81/", "http:g", "mailto:x", "http://a@b/", "data:,x"]
    {
        assert_eq!(resolve(base, reference), None, "{reference}");
    }
}
