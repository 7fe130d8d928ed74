//! Decisions about requests, in the order of RFC 9111 and RFC 5861.

use proptest::prelude::*;

use super::*;

const FRESH: &str = "Cache-Control: max-age=100\nDate: {0}";

/// The decision about a GET at some time, with a response that was stored at the start.
fn gets(response: &str, request: &str, now: u64) -> &'static str {
    why(&Cache::holding(response).after(now).get(request))
}

/// RFC 9111, section 4.2.
#[test]
fn a_fresh_response_is_used_and_a_stale_one_is_not() {
    for (response, now, expected) in [
        (FRESH, 0, "hit"),
        (FRESH, 99, "hit"),
        (FRESH, 100, "stale"),
        ("Cache-Control: max-age=3600\nAge: 3599\nDate: {0}", 1, "stale"),
        ("CDN-Cache-Control: max-age=10\nCache-Control: max-age=1", 5, "hit"),
        ("CDN-Cache-Control: max-age=1\nCache-Control: max-age=10", 5, "stale"),
        ("CDN-Cache-Control: max-age=10\nCache-Control: no-store", 5, "hit"),
        ("Expires: {10}\nDate: {0}", 9, "hit"),
        ("Expires: {10}\nDate: {0}", 10, "stale"),
        ("Last-Modified: {-1000}\nDate: {0}", 99, "hit"),
        ("Last-Modified: {-1000}\nDate: {0}", 100, "stale"),
        ("ETag: \"a\"", 0, "stale"),
    ] {
        assert_eq!(gets(response, "", now), expected, "{response:?} at {now}");
    }
    assert_eq!(why(&Cache::new().get("")), "uri-miss");
}

/// RFC 9111, sections 5.2.2.4 and 5.2.2.2.
#[test]
fn what_must_be_validated_is() {
    for (response, now, expected) in [
        ("Cache-Control: no-cache, max-age=100\nETag: \"a\"", 0, "stale"),
        ("CDN-Cache-Control: no-cache\nCache-Control: max-age=100\nETag: \"a\"", 0, "stale"),
        ("Cache-Control: no-cache=\"x\", max-age=100", 0, "hit"),
        ("Cache-Control: max-age=10, must-revalidate", 9, "hit"),
        ("Cache-Control: max-age=10, must-revalidate, stale-while-revalidate=100", 11, "stale"),
        ("Cache-Control: max-age=10, proxy-revalidate, stale-while-revalidate=100", 11, "stale"),
        ("Cache-Control: s-maxage=10, stale-while-revalidate=100", 11, "stale"),
    ] {
        assert_eq!(gets(response, "", now), expected, "{response:?} at {now}");
    }
    for directive in ["must-revalidate", "proxy-revalidate", "s-maxage=10"] {
        let response = format!("Cache-Control: max-age=10, {directive}");
        assert_eq!(gets(&response, "Cache-Control: max-stale", 11), "stale", "{directive}");
    }
}

/// RFC 5861, section 3.
#[test]
fn a_stale_response_is_served_while_it_is_fetched_anew() {
    let response = "Cache-Control: max-age=10, stale-while-revalidate=5\nETag: \"a\"";
    assert_eq!(gets(response, "", 9), "hit");
    assert_eq!(gets(response, "", 15), "hit-stale");
    assert_eq!(gets(response, "", 16), "stale");
    let Decision::HitStale { refresh: Some(fields), answer, .. } = Cache::holding(response).after(12).get("")
    else {
        panic!("it is fetched anew")
    };
    assert_eq!(fields, [("If-None-Match", "\"a\"")].into_iter().collect());
    assert_eq!(answer, Answer::Full);
    assert_eq!(gets("Cache-Control: max-age=10, stale-while-revalidate=x", "", 10), "stale");

    let mut cache = Cache::with(|policy| policy.stale_while_revalidate = seconds(5));
    cache.fetch("", 200, "Cache-Control: max-age=10");
    assert_eq!(why(&cache.after(12).get("")), "hit-stale");
    let mut cache = Cache::with(|policy| policy.stale_while_revalidate = seconds(5));
    cache.fetch("", 200, "ETag: \"a\"");
    assert_eq!(why(&cache.get("")), "stale", "the operator's default is no lifetime");
}

/// RFC 5861, section 4; RFC 9111, section 4.2.4.
#[test]
fn a_stale_response_stands_in_for_an_error() {
    let became = |policy: &dyn Fn(&mut Policy), response: &str, request: &str, now, status| {
        let mut cache = Cache::with(|values| policy(values));
        assert_eq!(cache.fetch("", 200, response), Became::Stored);
        let mut cache = cache.after(now);
        let became = cache.fetch(request, status, "");
        assert_eq!(cache.held.len(), 1, "an error does not take the place of what is stored");
        became
    };
    let (quiet, tolerant) = (|_: &mut Policy| {}, |policy: &mut Policy| policy.stale_if_error = seconds(60));
    let passed = Became::Passed(Refusal::Status);
    let said = "Cache-Control: max-age=2, stale-if-error=60";
    for status in [500, 502, 503, 504] {
        assert_eq!(became(&quiet, said, "", 62, status), Became::Stale, "{status}");
    }
    assert_eq!(became(&quiet, said, "", 63, 503), passed);
    assert_eq!(became(&quiet, "Cache-Control: max-age=2", "", 3, 503), passed);
    assert_eq!(
        became(&quiet, "Cache-Control: max-age=2", "Cache-Control: stale-if-error=9", 3, 503),
        Became::Stale
    );
    assert_eq!(became(&tolerant, "Cache-Control: max-age=2", "", 3, 503), Became::Stale);
    assert_eq!(became(&tolerant, "Cache-Control: max-age=2, stale-if-error=0", "", 3, 503), passed);
    assert_eq!(became(&tolerant, "ETag: \"a\"", "", 3, 503), Became::Stale);
    for directive in
        ["must-revalidate", "proxy-revalidate", "s-maxage=2", "stale-if-error=60, must-revalidate"]
    {
        let response = format!("Cache-Control: max-age=2, {directive}");
        assert_eq!(became(&tolerant, &response, "", 3, 503), passed, "{directive}");
    }
    let no_cache = "Cache-Control: max-age=2, no-cache\nETag: \"a\"";
    assert_eq!(became(&tolerant, no_cache, "", 3, 503), passed);
    assert_eq!(became(&tolerant, "Cache-Control: max-age=50", "Cache-Control: no-cache", 3, 503), passed);
    assert_eq!(
        became(&tolerant, "Cache-Control: max-age=50", "Cache-Control: max-age=0", 3, 503),
        Became::Stale
    );
}

/// RFC 9111, sections 5.2.1 and 5.4.
#[test]
fn what_clients_ask_of_caches() {
    for (response, request, now, expected) in [
        (FRESH, "Cache-Control: max-age=0", 0, "request"),
        (FRESH, "Cache-Control: max-age=1", 1, "hit"),
        (FRESH, "Cache-Control: max-age=1", 2, "request"),
        ("Cache-Control: max-age=100\nAge: 50", "Cache-Control: max-age=49", 0, "request"),
        (FRESH, "Cache-Control: min-fresh=50", 50, "hit"),
        (FRESH, "Cache-Control: min-fresh=50", 51, "request"),
        (FRESH, "Cache-Control: max-stale=5", 105, "hit-stale"),
        (FRESH, "Cache-Control: max-stale=5", 106, "stale"),
        (FRESH, "Cache-Control: max-stale", 999, "hit-stale"),
        (FRESH, "Cache-Control: no-cache", 0, "request"),
        (FRESH, "Pragma: no-cache", 0, "request"),
        (FRESH, "Pragma: foo\nCache-Control: nothing-to-see-here", 0, "hit"),
        (FRESH, "Cache-Control: no-store", 0, "request"),
        (FRESH, "Cache-Control: only-if-cached", 0, "hit"),
        (FRESH, "Cache-Control: only-if-cached", 100, "504"),
        (FRESH, "Cache-Control: only-if-cached, max-stale", 100, "hit-stale"),
        (FRESH, "Cache-Control: only-if-cached, no-store", 0, "hit"),
        (FRESH, "Cache-Control: only-if-cached, no-cache", 0, "504"),
        (FRESH, "Cookie: a=b", 0, "hit"),
        (FRESH, "Authorization: Basic x", 0, "hit"),
    ] {
        assert_eq!(gets(response, request, now), expected, "{request:?} at {now}");
    }
    assert_eq!(why(&Cache::new().get("Cache-Control: only-if-cached")), "504");
}

#[test]
fn clients_that_may_not_refresh_do_not() {
    let mut cache = Cache::with(|policy| policy.clients_may_refresh = false);
    cache.fetch("", 200, FRESH);
    for request in ["no-cache", "max-age=0", "min-fresh=1000", "no-store"] {
        assert_eq!(why(&cache.get(&format!("Cache-Control: {request}"))), "hit", "{request}");
    }
    assert_eq!(why(&cache.get("Pragma: no-cache")), "hit");
    let cache = cache.after(100);
    assert_eq!(why(&cache.get("Cache-Control: only-if-cached")), "504");
    assert_eq!(why(&cache.get("Cache-Control: max-stale")), "hit-stale");
}

#[test]
fn what_goes_past_the_cache() {
    let cache = Cache::holding(FRESH);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "M-SEARCH", "get"] {
        assert_eq!(cache.decide(method, ""), Decision::Bypass(Why::Method), "{method}");
    }
    assert!(is_hit(&cache.decide("HEAD", "")));
    // RFC 9111, section 4.3.2: these are for the origin.
    for condition in ["If-Match: \"a\"", "If-Unmodified-Since: {0}"] {
        assert_eq!(cache.get(condition), Decision::Bypass(Why::Bypass), "{condition}");
    }
}

#[test]
fn a_stale_response_without_validators_is_fetched_anew_and_may_stand_in() {
    let cache = Cache::holding(FRESH).after(100);
    let miss = Decision::Miss { fill: Fill::Whole, why: Why::Stale, stored: Some(0) };
    assert_eq!(cache.get(""), miss);
    let cache = Cache::holding("Cache-Control: max-age=1\nETag: \"a\"").after(1);
    assert!(matches!(cache.get(""), Decision::Revalidate { stored: 0, .. }));
    assert!(
        matches!(cache.decide("HEAD", ""), Decision::Miss { stored: Some(0), .. }),
        "HEAD is sent as HEAD"
    );
}

/// RFC 9111, section 4.4.
#[test]
fn an_invalid_response_is_validated_before_all_else() {
    let mut cache = Cache::with(|policy| policy.stale_if_error = seconds(60));
    cache.fetch("", 200, "Cache-Control: max-age=100, stale-while-revalidate=100\nETag: \"a\"");
    cache.held[0].is_invalid = true;
    assert_eq!(why(&cache.get("")), "stale");
    assert_eq!(why(&cache.get("Cache-Control: max-stale")), "stale");
    assert_eq!(cache.fetch("", 503, ""), Became::Passed(Refusal::Status));
    assert_eq!(cache.fetch("", 304, ""), Became::Updated);
    assert!(is_hit(&cache.get("")));
}

#[test]
fn a_soft_purge_makes_stale() {
    let mut cache = Cache::holding("Cache-Control: max-age=100, stale-while-revalidate=10").after(5);
    cache.held[0].freshness.expire(at(5));
    assert_eq!(why(&cache.get("")), "hit-stale");
    assert_eq!(why(&cache.after(16).get("")), "stale");
}

/// The member that `status` writes.
fn named(status: &CacheStatus, name: &str) -> String {
    let mut out = Vec::new();
    status.write(name, &mut out);
    String::from_utf8(out).unwrap()
}

/// RFC 9211, section 2.
#[test]
fn what_cache_status_says() {
    let says = |cache: &Cache, request: &str| {
        let decision = cache.get(request);
        named(&CacheStatus::of(&decision, cache.held.first(), cache.now), "penstock")
    };
    let cache = Cache::holding("Cache-Control: max-age=100, stale-while-revalidate=10\nETag: \"a\"");
    assert_eq!(says(&cache, ""), "penstock; hit; ttl=100");
    let cache = cache.after(105);
    assert_eq!(says(&cache, ""), "penstock; hit; ttl=-5; detail=stale-while-revalidate");
    let cache = cache.after(120);
    assert_eq!(says(&cache, ""), "penstock; fwd=stale");
    assert_eq!(says(&cache, "Cache-Control: max-stale"), "penstock; hit; ttl=-20; detail=max-stale");
    assert_eq!(says(&cache, "Cache-Control: only-if-cached"), "penstock; detail=only-if-cached");
    assert_eq!(says(&Cache::new(), ""), "penstock; fwd=uri-miss");
    let whole = CacheStatus {
        hit: false,
        forwarded: Some(Why::Partial),
        forwarded_status: Some(206),
        ttl: Some(3),
        stored: true,
        collapsed: true,
        detail: Some("x"),
    };
    let text = "fwd=partial; fwd-status=206; ttl=3; stored; collapsed; detail=x";
    assert_eq!(named(&whole, "media.test"), format!("media.test; {text}"));
    assert_eq!(named(&whole, "1 \"x\\\r\n"), format!("\"1 \\\"x\\\\\"; {text}"));
}

/// When the origin is asked: not at all, soon, or now.
fn reuse(control: &str, more: &str, request: &str, now: u64) -> u8 {
    let mut cache = Cache::with(|policy| policy.stale_if_error = seconds(5));
    cache.fetch(request, 200, &format!("Cache-Control: {control}\n{more}"));
    match cache.after(now).get("") {
        Decision::Hit { .. } => 2,
        Decision::HitStale { .. } => 1,
        _ => 0,
    }
}

proptest! {
    /// RFC 9111, section 4.2.1: of directives that contradict each other the most restrictive one holds.
    #[test]
    fn one_restriction_more_never_makes_a_response_live_longer(
        said in prop::sample::subsequence(
            vec!["s-maxage=20", "public", "must-understand", "no-cache=\"x\"", "stale-while-revalidate=30", "immutable"], 0..6),
        restriction in prop::sample::select(vec![
            "no-store", "private", "no-cache", "max-age=0", "max-age=x", "s-maxage=5", "s-maxage=", "must-revalidate",
            "proxy-revalidate", "private=\"y z\"", "stale-while-revalidate=1",
        ]),
        first: bool,
        more in prop::sample::select(vec!["", "ETag: \"a\"", "Expires: {60}", "Age: 5", "Date: {-3}"]),
        now in 0u64..60,
    ) {
        let said = [vec!["max-age=10"], said].concat().join(", ");
        let restricted = if first { format!("{restriction}, {said}") } else { format!("{said}, {restriction}") };
        // A lifetime is no restriction where there was none of its kind.
        let lifetime = ["s-maxage", "stale-while-revalidate"].into_iter().find(|name| restriction.starts_with(name));
        prop_assume!(lifetime.is_none_or(|name| said.contains(name)));
        prop_assert!(reuse(&restricted, more, "", now) <= reuse(&said, more, "", now));
    }
}

#[test]
fn the_fields_that_say_something_by_themselves_are_those_that_change_what_is_read() {
    let names = "Accept Accept-Charset Accept-Encoding Accept-Language Age Authorization Cache-Control Connection \
                 Content-Length Content-Type Cookie Date Early-Data ETag Expect Expires Forwarded From Host If-Match \
                 If-Modified-Since If-None-Match If-Range If-Unmodified-Since Keep-Alive Last-Modified Max-Forwards \
                 Origin Pragma Prefer Priority Proxy-Authorization Range Referer Surrogate-Control TE Upgrade \
                 User-Agent Vary Via Warning X-Forwarded-For";
    // Each changes the decision in some case.
    let values = ["no-cache", "\"a\"", "bytes=0-1", "Sun, 06 Nov 1994 08:49:37 GMT"];
    let read = |lines: &Lines<'_>| {
        let Request { control, authorized, conditions, ranges, is_ranged, if_range, .. } =
            Request::read("GET", TARGET, lines);
        format!("{control:?} {authorized} {conditions:?} {ranges:?} {is_ranged} {if_range:?}")
    };
    let silent = read(&[]);
    for name in names.split_whitespace() {
        let says = values.iter().any(|value| read(&[(name.as_bytes(), value.as_bytes())]) != silent);
        assert_eq!(is_read(name.to_lowercase().as_bytes()), says, "{name}");
    }
}
