//! Which responses are stored, and which fields (RFC 9111, sections 3 to 3.5).

use super::*;

fn becomes(request: &str, status: u16, response: &str) -> Became {
    Cache::new().fetch(request, status, response)
}

fn refused(refusal: Refusal) -> Became {
    Became::Passed(refusal)
}

/// RFC 9111, section 3.
#[test]
fn what_may_be_stored() {
    for (status, response, expected) in [
        (200, "Cache-Control: max-age=10", Became::Stored),
        (200, "", refused(Refusal::Useless)),
        (200, "Date: {0}", refused(Refusal::Useless)),
        (200, "ETag: \"a\"", Became::Stored),
        (200, "ETag: a", refused(Refusal::Useless)),
        (200, "ETag: \"a\"\nETag: \"b\"", refused(Refusal::Useless)),
        (200, "Last-Modified: {-10}", Became::Stored),
        (200, "Cache-Control: max-age=0", refused(Refusal::Useless)),
        (200, "Cache-Control: max-age=0, stale-while-revalidate=5", Became::Stored),
        (200, "Cache-Control: no-cache, max-age=5", refused(Refusal::Useless)),
        (200, "Cache-Control: no-cache\nETag: \"a\"", Became::Stored),
        (200, "Cache-Control: max-age=10, no-store", refused(Refusal::NoStore)),
        (200, "Cache-Control: max-age=10, No-StOrE", refused(Refusal::NoStore)),
        (200, "Cache-Control: max-age=10\nCDN-Cache-Control: no-store", refused(Refusal::NoStore)),
        (200, "Cache-Control: no-store\nCDN-Cache-Control: max-age=10", Became::Stored),
        (200, "Cache-Control: no-store\nCDN-Cache-Control: max-age=10, &&&&&", refused(Refusal::NoStore)),
        (200, "Cache-Control: no-store\nCDN-Cache-Control: max-age=\"10\"", refused(Refusal::NoStore)),
        (200, "Cache-Control: private, max-age=10", refused(Refusal::Private)),
        (200, "Cache-Control: max-age=10\nCDN-Cache-Control: private", refused(Refusal::Private)),
        (200, "Cache-Control: private=\"x\", max-age=10", Became::Stored),
        (200, "Cache-Control: max-age=10\nVary: *", refused(Refusal::Vary)),
        (200, "Cache-Control: max-age=10, no-store, must-understand", Became::Stored),
        (599, "Cache-Control: max-age=10, no-store, must-understand", refused(Refusal::NotUnderstood)),
        (599, "Cache-Control: max-age=10, must-understand", refused(Refusal::NotUnderstood)),
        (599, "Cache-Control: max-age=10", Became::Stored),
        (599, "Last-Modified: {-1000}", refused(Refusal::Status)),
        (599, "Last-Modified: {-1000}\nCache-Control: public", Became::Stored),
        (302, "ETag: \"a\"", refused(Refusal::Status)),
        (302, "Cache-Control: max-age=10", Became::Stored),
        (304, "Cache-Control: max-age=10", refused(Refusal::Status)),
        (503, "Cache-Control: max-age=10", Became::Stored),
        (200, "Pragma: no-cache\nCache-Control: max-age=10", Became::Stored),
        (200, "Content-Type: text/event-stream\nCache-Control: max-age=10", refused(Refusal::Events)),
        (200, "Content-Type: Text/Event-Stream;charset=utf-8\nETag: \"a\"", refused(Refusal::Events)),
        (
            200,
            "Content-Type: text/event-stream\nContent-Length: 3\nCache-Control: max-age=10",
            Became::Stored,
        ),
        (200, "Content-Type: text/event-streamx\nCache-Control: max-age=10", Became::Stored),
        (200, "Content-Type: text/event\nCache-Control: max-age=10", Became::Stored),
    ] {
        assert_eq!(becomes("", status, response), expected, "{status} {response:?}");
    }
}

#[test]
fn explicit_freshness_stores_any_status() {
    for status in [200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599] {
        let mut cache = Cache::new();
        assert_eq!(
            cache.fetch("", status, "Cache-Control: max-age=100\nDate: {0}"),
            Became::Stored,
            "{status}"
        );
        assert!(is_hit(&cache.get("")), "{status}");
        let mut cache = Cache::new();
        cache.fetch("", status, "Expires: {-5000}\nLast-Modified: {-100000}\nDate: {0}");
        assert!(!is_hit(&cache.get("")), "{status}");
    }
}

/// RFC 9111, section 3.5.
#[test]
fn responses_to_credentials() {
    let credentials = "Authorization: FOO";
    for (control, expected) in [
        ("max-age=10", refused(Refusal::Authorization)),
        ("max-age=10, public", Became::Stored),
        ("max-age=10, must-revalidate", Became::Stored),
        ("s-maxage=10", Became::Stored),
        ("max-age=10, proxy-revalidate", refused(Refusal::Authorization)),
    ] {
        let response = format!("Cache-Control: {control}");
        assert_eq!(becomes(credentials, 200, &response), expected, "{control}");
        assert_eq!(becomes("", 200, &response), Became::Stored, "{control}");
    }
}

/// RFC 9111, section 5.2.1.5.
#[test]
fn a_client_forbids_storing() {
    assert_eq!(
        becomes("Cache-Control: no-store", 200, "Cache-Control: max-age=10"),
        refused(Refusal::RequestNoStore)
    );
    let mut cache = Cache::with(|policy| policy.clients_may_refresh = false);
    let became = cache.fetch("Cache-Control: no-store", 200, "Cache-Control: max-age=10");
    assert_eq!(became, refused(Refusal::RequestNoStore));
}

/// RFC 9111, section 7.3.
#[test]
fn responses_that_set_cookies() {
    let explicit = "Set-Cookie: a=b\nCache-Control: max-age=10";
    assert_eq!(becomes("", 200, explicit), Became::Stored);
    assert_eq!(becomes("", 200, "Set-Cookie: a=b\nLast-Modified: {-1000}"), refused(Refusal::Cookies));
    assert_eq!(becomes("", 200, "Set-Cookie: a=b\nETag: \"a\""), refused(Refusal::Cookies));
    let mut cache = Cache::with(|policy| policy.lifetime = Some(seconds(10)));
    assert_eq!(cache.fetch("", 200, explicit), refused(Refusal::Cookies), "the origin's word alone counts");
    let refuse = || Cache::with(|policy| policy.store_cookies = Cookies::Refuse);
    assert_eq!(refuse().fetch("", 200, explicit), refused(Refusal::Cookies));
    let stripped = "Set-Cookie: a=b\nCache-Control: max-age=10, private=\"Set-Cookie\"";
    assert_eq!(refuse().fetch("", 200, stripped), Became::Stored);
}

/// RFC 9111, sections 3.1, 5.2.2.4 and 5.2.2.7.
#[test]
fn what_is_kept_of_the_fields() {
    let cache = Cache::holding(
        "Cache-Control: max-age=10, no-cache=\"A, b\", private=c\na: 1\nB: 2\nC: 3\nD: 4\nD: 5\nAge: 3\nDate: {-1}",
    );
    for (name, value) in [
        ("a", None),
        ("b", None),
        ("c", None),
        ("age", None),
        ("d", Some("4|5".to_owned())),
        ("date", Some(date(-1))),
    ] {
        assert_eq!(cache.field(name), value, "{name}");
    }
    assert_eq!(cache.held[0].freshness.age(at(1)), seconds(4), "the age that came with it counts");
    assert_eq!(Cache::holding("ETag: \"a\"").field("date"), Some(date(0)), "RFC 9110, section 6.6.1");
}

/// RFC 9110, section 9.3.3.
#[test]
fn a_post_that_answers_a_get() {
    let post = |response: &str| {
        let mut cache = Cache::new();
        let became = cache.exchange("POST", "", 200, response);
        (became, is_hit(&cache.get("")))
    };
    let fresh = |location: &str| format!("Cache-Control: max-age=10\nContent-Location: {location}");
    assert_eq!(post(&fresh("/live/1.m4s?a=1")), (Became::Stored, true));
    assert_eq!(post(&fresh("http://MEDIA.test:80/live/1.m4s?a=1")), (Became::Stored, true));
    for response in [
        fresh("/live/1.m4s"),
        fresh("https://media.test/live/1.m4s?a=1"),
        "Cache-Control: max-age=10".to_owned(),
        "Content-Location: /live/1.m4s?a=1\nLast-Modified: {-1000}".to_owned(),
    ] {
        assert_eq!(post(&response), (refused(Refusal::Method), false), "{response}");
    }
    assert_eq!(Cache::new().exchange("PUT", "", 200, &fresh("/live/1.m4s?a=1")), refused(Refusal::Method));
    for status in [201, 203, 404] {
        let became = Cache::new().exchange("POST", "", status, &fresh("/live/1.m4s?a=1"));
        assert_eq!(became, refused(Refusal::Method), "{status}");
    }
}

#[test]
fn what_is_not_stored_drops_what_was_if_it_is_about_the_resource() {
    let stored = "Cache-Control: max-age=10\nETag: \"a\"";
    for (request, status, response, refusal, is_dropped) in [
        ("", 200, "Cache-Control: no-store", Refusal::NoStore, true),
        ("", 302, "Location: /x", Refusal::Status, true),
        ("", 404, "Cache-Control: no-store", Refusal::NoStore, true),
        ("", 410, "", Refusal::Useless, true),
        // These answers are about one client, not about the resource.
        ("", 200, "Cache-Control: private", Refusal::Private, false),
        ("Authorization: x", 200, "Cache-Control: no-store", Refusal::NoStore, false),
        ("", 400, "", Refusal::Status, false),
        ("", 401, "", Refusal::Status, false),
        ("", 403, "", Refusal::Status, false),
        ("", 429, "", Refusal::Status, false),
        ("", 431, "Cache-Control: no-store", Refusal::NoStore, false),
        ("", 500, "", Refusal::Status, false),
        ("", 503, "", Refusal::Status, false),
        ("Authorization: x", 200, "Cache-Control: max-age=10", Refusal::Authorization, false),
        ("", 206, "Content-Range: x\nCache-Control: max-age=10", Refusal::Range, false),
    ] {
        let mut cache = Cache::holding(stored).after(10);
        assert_eq!(cache.fetch(request, status, response), refused(refusal), "{status} {response:?}");
        assert_eq!(cache.held.is_empty(), is_dropped, "{status} {response:?}");
    }
    let mut cache = Cache::holding(stored).after(10);
    assert_eq!(cache.fetch("", 404, "Cache-Control: max-age=10"), Became::Stored);
    assert_eq!((cache.held.len(), cache.held[0].status), (1, 404));
}

#[test]
fn only_what_will_not_change_is_remembered_as_a_pass() {
    let outcome = |method: &str, request: &str, status: u16| {
        let (request, response) = (Text::new(request), Text::new("Cache-Control: no-store"));
        let (request, lines) = (request.lines(), response.lines());
        let request = Request::read(method, TARGET, &request);
        let reply = Reply { status, lines: &lines, timing: Timing { requested: at(0), received: at(0) } };
        match answered(&request, Asked::Nothing, None, reply, &policy(), at(0)) {
            Outcome::Pass { hit_for_miss, .. } => hit_for_miss,
            other => panic!("{other:?}"),
        }
    };
    for status in [200, 302, 404, 410] {
        assert!(outcome("GET", "", status), "{status}");
        assert!(!outcome("POST", "", status));
        assert!(!outcome("HEAD", "", status));
    }
    for status in [400, 401, 403, 406, 416, 429, 431, 500, 502, 503, 504] {
        assert!(!outcome("GET", "", status), "{status}: the client may have caused it");
    }
}
