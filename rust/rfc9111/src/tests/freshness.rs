//! Lifetimes, ages, and dates.

use super::*;

/// RFC 9110, section 5.6.7.
#[test]
fn dates_in_three_forms() {
    let start = Some(Time::from_secs(START));
    for text in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "SUN, 06 NOV 1994 08:49:37 gmt",
        "sunDAY, 06-nov-94 08:49:37 Gmt",
        "sun nov  6 08:49:37 1994",
        "Sun Nov 06 08:49:37 1994",
    ] {
        assert_eq!(Time::parse(text.as_bytes()), start, "{text}");
    }
    for text in [
        "",
        "0",
        "-1",
        "Thu, 18 Aug 2050 02:01:18 UTC",
        "Thu, 18 Aug 2050 02:01:18 AEST",
        "Thu, 18 Aug 50 02:01:18 GMT",
        "Thu 18 Aug 2050 02:01:18 GMT",
        "Thu, 18  Aug  2050 02:01:18 GMT",
        "Thu, 18-Aug-2050 02:01:18 GMT",
        "Thu, 18 Aug 2050 02.01.18 GMT",
        "Thu, 18 Aug 2050 2:01:18 GMT",
        "Thu, 18 Aug 2050 02:01:18",
        "Thu, 18 Aug 2050 02:01:18 GMT+1",
        "Foo, 18 Aug 2050 02:01:18 GMT",
        "Thu, 18 Foo 2050 02:01:18 GMT",
        "Thu, 31 Jun 2050 02:01:18 GMT",
        "Thu, 29 Feb 2050 02:01:18 GMT",
        "Thu, 00 Aug 2050 02:01:18 GMT",
        "Thu, 18 Aug 2050 24:01:18 GMT",
        "Thu, 18 Aug 2050 02:60:18 GMT",
        "Thu, 18 Aug 2050 02:60:00 GMT",
        "Thu, 18 Aug 2050 02:60:60 GMT",
        "Thu, 18 Aug 2050 02:01:61 GMT",
        "Mon, 18 Aug 2050 02:01:18 GMT",
        "Thu, 18 Aug 0000 02:01:18 GMT",
        "Thu, 18 Aug 2050 02:01:18 GMT, Thu, 18 Aug 2050 02:01:18 GMT",
        "Thu, 18 Aug +050 02:01:18 GMT",
        "Sunday, 00-Jan-94 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sun Nov   6 08:49:37 1994",
    ] {
        assert_eq!(Time::parse(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn a_year_of_two_digits_is_never_more_than_fifty_years_ahead() {
    for (day, text, year) in [
        ("Thursday", "50", 2050),
        ("Sunday", "69", 2069),
        ("Tuesday", "70", 1970),
        ("Thursday", "77", 1977),
        ("Friday", "00", 2000),
    ] {
        let written = format!("{day}, 18-Aug-{text} 02:01:18 GMT");
        let whole = format!("{}, 18 Aug {year} 02:01:18 GMT", &day[..3]);
        let expected = Time::parse(whole.as_bytes());
        assert!(expected.is_some(), "{whole}");
        assert_eq!(Time::parse(written.as_bytes()), expected, "{written}");
    }
    // 2070 is 44 years ahead of 2026, but the year may as well be 1970: the day of the week is not the one of 1970.
    assert_eq!(Time::parse(b"Monday, 18-Aug-70 02:01:18 GMT"), None);
}

#[test]
fn a_leap_second_is_the_second_before_it() {
    let before = Time::parse(b"Sat, 31 Dec 2016 23:59:59 GMT");
    assert!(before.is_some());
    for leap in
        ["Sat, 31 Dec 2016 23:59:60 GMT", "Saturday, 31-Dec-16 23:59:60 GMT", "Sat Dec 31 23:59:60 2016"]
    {
        assert_eq!(Time::parse(leap.as_bytes()), before, "{leap}");
    }
}

#[test]
fn what_lies_before_1970_is_no_date_and_has_expired() {
    for text in ["Wed, 31 Dec 1969 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT"] {
        assert_eq!(Time::parse(text.as_bytes()), None, "{text}");
        assert_eq!(lifetime(&format!("Expires: {text}\nDate: {{0}}")), (Basis::Explicit, 0), "{text}");
    }
    assert_eq!(Time::parse(b"Thu, 01 Jan 1970 00:00:00 GMT"), Some(Time::from_secs(0)));
}

#[test]
fn a_time_after_the_year_9999_is_displayed_as_its_end() {
    let end = "Fri, 31 Dec 9999 23:59:59 GMT";
    assert_eq!(Time::parse(end.as_bytes()).map(|time| time.to_string()).as_deref(), Some(end));
    assert_eq!(Time::from_secs(u64::MAX).to_string(), end);
}

#[test]
fn points_of_time() {
    assert_eq!(at(1).plus(seconds(2)), at(3));
    assert_eq!(at(1).plus(Duration::MAX).as_millis(), u64::MAX);
    assert_eq!((at(3).since(at(1)), at(1).since(at(3))), (seconds(2), Duration::ZERO));
    assert_eq!(Time::from_millis(1999).as_secs(), 1);
}

fn freshness(status: u16, response: &str, policy: &Policy) -> Freshness {
    let text = Text::new(response);
    let lines = text.lines();
    let control = response_control(&lines, &policy.targets);
    Freshness::of(status, &lines, &control, Timing { requested: at(0), received: at(0) }, policy)
}

fn lifetime(response: &str) -> (Basis, u64) {
    let freshness = freshness(200, response, &policy());
    (freshness.basis, freshness.lifetime.as_secs())
}

/// RFC 9111, section 4.2.1; RFC 9213, section 2.2.
#[test]
fn where_a_lifetime_comes_from() {
    use Basis::{Explicit, Nothing};
    for (response, expected) in [
        ("Cache-Control: max-age=3600, s-maxage=1", (Explicit, 1)),
        ("Cache-Control: max-age=0, s-maxage=3600\nExpires: {-10}", (Explicit, 3600)),
        ("Cache-Control: max-age=3600\nExpires: {-7200}\nDate: {0}", (Explicit, 3600)),
        ("Cache-Control: max-age=3600\nExpires: 0\nDate: {0}", (Explicit, 3600)),
        ("Cache-Control: max-age=0\nExpires: {3600}\nDate: {0}", (Explicit, 0)),
        ("Expires: {100}\nDate: {0}", (Explicit, 100)),
        ("Expires: {100}\nDate: {40}", (Explicit, 60)),
        ("Expires: {300}\nDate: {400}", (Explicit, 0)),
        ("Expires: {10}\nDate: foo", (Explicit, 10)),
        ("Expires: {10}", (Explicit, 10)),
        ("Expires: 0\nDate: {0}", (Explicit, 0)),
        ("Expires: {100}\nExpires: {50}\nDate: {0}", (Explicit, 50)),
        ("Expires: {100}\nExpires: 0\nDate: {0}", (Explicit, 0)),
        ("Expires: Sun, 21 Nov 9999 04:46:39 GMT\nDate: {0}", (Explicit, 1 << 31)),
        ("CDN-Cache-Control: max-age=1\nCache-Control: max-age=60\nExpires: {100}", (Explicit, 1)),
        ("CDN-Cache-Control: public\nCache-Control: max-age=60\nExpires: {100}", (Nothing, 0)),
        ("CDN-Cache-Control: &&\nCache-Control: max-age=60", (Explicit, 60)),
        ("Date: {0}", (Nothing, 0)),
        ("Date: {0}\nLast-Modified: foo", (Nothing, 0)),
    ] {
        assert_eq!(lifetime(response), expected, "{response}");
    }
}

/// RFC 9111, section 4.2.2; RFC 9110, section 15.1.
#[test]
fn a_guess_is_a_share_of_the_time_without_change() {
    let modified = "Date: {0}\nLast-Modified: {-1000}";
    for status in [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501] {
        let guess = freshness(status, modified, &policy());
        assert_eq!((guess.basis, guess.lifetime), (Basis::Heuristic, seconds(100)), "{status}");
    }
    for status in [201, 202, 302, 303, 307, 400, 403, 500, 502, 503, 504, 599] {
        assert_eq!(freshness(status, modified, &policy()).basis, Basis::Nothing, "{status}");
        let public = format!("{modified}\nCache-Control: public");
        assert_eq!(freshness(status, &public, &policy()).basis, Basis::Heuristic, "{status}");
    }
    assert_eq!(lifetime("Date: {0}\nLast-Modified: {-100000000}"), (Basis::Heuristic, 86_400));
    assert_eq!(lifetime("Date: {0}\nLast-Modified: {10}"), (Basis::Heuristic, 0));
}

#[test]
fn what_the_operator_says() {
    let with = |change: fn(&mut Policy), status, response| {
        let mut policy = policy();
        change(&mut policy);
        let freshness = freshness(status, response, &policy);
        (freshness.basis, freshness.lifetime.as_secs())
    };
    let fixed: fn(&mut Policy) = |policy| policy.lifetime = Some(seconds(7));
    let negative: fn(&mut Policy) = |policy| policy.negative = seconds(2);
    assert_eq!(with(fixed, 200, "Cache-Control: max-age=60"), (Basis::Policy, 7));
    assert_eq!(with(negative, 404, ""), (Basis::Policy, 2));
    assert_eq!(with(negative, 404, "Cache-Control: max-age=60"), (Basis::Explicit, 60));
    assert_eq!(with(negative, 200, ""), (Basis::Nothing, 0));
    assert_eq!(with(negative, 500, ""), (Basis::Nothing, 0));
}

fn age(response: &str, requested: u64, received: u64, now: u64) -> u64 {
    let text = Text::new(response);
    let lines = text.lines();
    let control = response_control(&lines, &[]);
    let timing = Timing { requested: at(requested), received: at(received) };
    Freshness::of(200, &lines, &control, timing, &policy()).age(at(now)).as_secs()
}

/// RFC 9111, sections 4.2.3 and 5.1.
#[test]
fn how_old_a_response_is() {
    for (response, (requested, received, now), expected) in [
        ("Date: {0}", (0, 0, 0), 0),
        ("Date: {0}", (0, 0, 5), 5),
        ("Date: {0}\nAge: 30", (0, 0, 3), 33),
        ("Date: {-7200}", (0, 0, 0), 7200),
        ("Date: {-10}\nAge: 25", (0, 0, 0), 25),
        ("Date: {10}\nAge: 15", (0, 0, 0), 15),
        ("Date: {2}", (0, 2, 2), 2),
        ("Date: {2}\nAge: 10", (0, 2, 3), 13),
        ("Date: foo", (0, 0, 1), 1),
        ("", (0, 0, 1), 1),
        ("Age: 7200, 0", (0, 0, 0), 7200),
        ("Age: 0, 7200", (0, 0, 0), 0),
        ("Age: 7200\nAge: 0", (0, 0, 0), 7200),
        ("Age: 0\nAge: 7200", (0, 0, 0), 0),
        ("Age: 2147483647", (0, 0, 0), 2_147_483_647),
        ("Age: 2147483648", (0, 0, 9), 1 << 31),
        ("Age: 99999999999999999999999", (0, 0, 9), 1 << 31),
        ("Age: abc", (0, 0, 0), 0),
        ("Age: -7200", (0, 0, 0), 0),
        ("Age: 7200.0", (0, 0, 0), 0),
        ("Age: 7200;foo=bar", (0, 0, 0), 0),
        ("Age:", (0, 0, 0), 0),
        // A clock that was set back makes no response younger.
        ("Age: 5", (9, 9, 0), 5),
    ] {
        assert_eq!(age(response, requested, received, now), expected, "{response:?}");
    }
}

#[test]
fn fresh_up_to_but_not_at_the_end_of_the_lifetime() {
    let mut freshness = freshness(200, "Cache-Control: max-age=10\nDate: {0}", &policy());
    assert_eq!(freshness.state(at(0)), State::Fresh(seconds(10)));
    assert_eq!(
        freshness.state(Time::from_millis(at(10).as_millis() - 1)),
        State::Fresh(Duration::from_millis(1))
    );
    assert_eq!(freshness.state(at(10)), State::Stale(Duration::ZERO));
    assert_eq!(freshness.state(at(12)), State::Stale(seconds(2)));
    freshness.expire(at(3));
    assert_eq!(freshness.state(at(4)), State::Stale(seconds(1)));
    freshness.expire(at(9));
    assert_eq!(freshness.state(at(9)), State::Stale(seconds(6)), "to expire twice does not make it fresher");
}
