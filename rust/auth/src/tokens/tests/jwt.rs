//! JSON Web Tokens: claims, keys, and whom to ask for others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use super::*;

fn refused(payload: &str) -> Code {
    code(check(claims(), &token(payload)))
}

#[test]
fn a_token_is_right_from_the_beginning_to_the_end_of_its_time() {
    let grant = |payload: &str, leeway| check(Claims { leeway, ..claims() }, &token(payload));
    let at = |claim: &str, time: u64| format!(r#"{{"exp":{},"{claim}":{time}}}"#, NOW + 100);
    assert_eq!(grant(&format!(r#"{{"exp":{}}}"#, NOW + 1), 0).unwrap().expires, Some(NOW + 1));
    assert_eq!(code(grant(&format!(r#"{{"exp":{NOW}}}"#), 0)), Code::TokenExpired);
    assert_eq!(grant(&format!(r#"{{"exp":{NOW}}}"#), 60).unwrap().expires, Some(NOW + 60));
    assert_eq!(code(grant(&format!(r#"{{"exp":{}}}"#, NOW - 60), 60)), Code::TokenExpired);
    for claim in ["nbf", "iat"] {
        grant(&at(claim, NOW), 0).unwrap();
        assert_eq!(code(grant(&at(claim, NOW + 1), 0)), Code::TokenNotYetValid);
        grant(&at(claim, NOW + 60), 60).unwrap();
        assert_eq!(code(grant(&at(claim, NOW + 61), 60)), Code::TokenNotYetValid);
    }
}

#[test]
fn times_may_have_fractions_and_be_as_late_as_there_are_dates() {
    let expires = |time: &str| check(claims(), &token(&format!(r#"{{"exp":{time}}}"#))).unwrap().expires;
    assert_eq!(expires("1764000000.5"), Some(NOW + 1));
    assert_eq!(expires("1.7640001e9"), Some(NOW + 100));
    for last in ["253402300799", "2.53402300799e11"] {
        assert_eq!(expires(last), Some(END), "{last}");
    }
    for past in ["0", "-0", "1e-300", "1763999999.9"] {
        assert_eq!(refused(&format!(r#"{{"exp":{past}}}"#)), Code::TokenExpired, "{past}");
    }
    for none in ["\"1764000100\"", "null", "true", "[1764000100]", "{}"] {
        assert_eq!(refused(&format!(r#"{{"exp":{none}}}"#)), Code::TokenMalformed, "{none}");
    }
}

#[test]
fn a_time_that_is_no_sane_date_is_refused_whichever_claim_it_is() {
    let insane = [
        "-1",
        "-1e999",
        "-0.5",
        "1e300",
        "1e308",
        "1e999",
        "253402300800",
        "253402300799.5",
        "99999999999999999999999999",
        "9007199254740993",
        "NaN",
        "Infinity",
        "inf",
        "\"1764000100\"",
        "\"\"",
        "true",
        "false",
        "null",
        "[]",
        "[1764000100]",
        "{}",
        "{\"exp\":1764000100}",
        "[[1764000100]]",
    ];
    for time in insane {
        let exp = format!(r#"{{"exp":{time}}}"#);
        assert_eq!(refused(&exp), Code::TokenMalformed, "{exp}");
        for claim in ["nbf", "iat"] {
            let other = format!(r#"{{"exp":{},"{claim}":{time}}}"#, NOW + 100);
            assert_eq!(refused(&other), Code::TokenMalformed, "{other}");
        }
    }
    // The largest leeway does not make another date of the last one.
    let rules = Claims { leeway: u64::MAX, ..claims() };
    assert_eq!(check(rules, &token(r#"{"exp":253402300799}"#)).unwrap().expires, Some(u64::MAX));
}

#[test]
fn what_is_asked_for_must_be_there() {
    assert_eq!(refused("{}"), Code::TokenClaimMissing);
    let rules = Claims { required: Vec::new(), ..claims() };
    let grant = check(rules, &token("{}")).unwrap();
    assert_eq!((grant.tenant, grant.expires, grant.paths.len()), (None, None, 0));
}

#[test]
fn issuers_and_audiences_are_those_that_are_asked_for() {
    let both = |issuers: &[&str], audiences: &[&str], payload: &str| {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let rules =
            Claims { issuers: owned(issuers), audiences: owned(audiences), required: Vec::new(), ..claims() };
        check(rules, &token(payload)).map_err(|error| error.code()).map(drop)
    };
    assert_eq!(both(&["a", "b"], &[], r#"{"iss":"b"}"#), Ok(()));
    assert_eq!(both(&["a"], &[], r#"{"iss":"A"}"#), Err(Code::TokenWrongIssuer));
    assert_eq!(both(&["a"], &[], r#"{"iss":["a"]}"#), Err(Code::TokenWrongIssuer));
    assert_eq!(both(&["a"], &[], "{}"), Err(Code::TokenWrongIssuer));
    assert_eq!(both(&[], &["x"], r#"{"aud":"x"}"#), Ok(()));
    assert_eq!(both(&[], &["x"], r#"{"aud":["y","\u0078"]}"#), Ok(()));
    for wrong in [r#"{"aud":"y"}"#, r#"{"aud":["y"]}"#, r#"{"aud":[]}"#, r#"{"aud":{"x":"x"}}"#, "{}"] {
        assert_eq!(both(&[], &["x"], wrong), Err(Code::TokenWrongAudience), "{wrong}");
    }
    // RFC 7519, section 4.1.3: a recipient that is not named refuses it.
    assert_eq!(both(&[], &[], r#"{"aud":"x"}"#), Err(Code::TokenWrongAudience));
}

#[test]
fn the_type_is_the_one_that_is_asked_for() {
    let typed = |header: &str| {
        let rules = Claims { kind: Some("at+jwt".to_owned()), required: Vec::new(), ..claims() };
        check(rules, &token_of(header, "{}")).map_err(|error| error.code()).map(drop)
    };
    for right in ["at+jwt", "AT+JWT", "application/at+jwt"] {
        assert_eq!(typed(&format!(r#"{{"alg":"HS256","typ":"{right}"}}"#)), Ok(()));
    }
    for wrong in [r#"{"alg":"HS256","typ":"JWT"}"#, r#"{"alg":"HS256"}"#] {
        assert_eq!(typed(wrong), Err(Code::TokenClaimMissing));
    }
}

#[test]
fn a_header_that_is_none_is_refused() {
    for (header, expected) in [
        ("{}", Code::TokenMalformed),
        ("[]", Code::TokenMalformed),
        ("null", Code::TokenMalformed),
        ("", Code::TokenMalformed),
        (r#"{"alg":256}"#, Code::TokenMalformed),
        (r#"{"alg":"HS256","alg":"HS256"}"#, Code::TokenMalformed),
        (r#"{"alg":"HS256","\u0061lg":"HS256"}"#, Code::TokenMalformed),
        (r#"{"alg":"HS256","kid":7}"#, Code::TokenMalformed),
        (r#"{"alg":"HS256","typ":null}"#, Code::TokenMalformed),
        (r#"{"alg":"HS256","crit":["exp"]}"#, Code::TokenMalformed),
        (r#"{"alg":"HS256","crit":[]}"#, Code::TokenMalformed),
        (r#"{"alg":"HS256","b64":false,"crit":["b64"]}"#, Code::TokenMalformed),
        (r#"{"alg":"HS256","zip":"DEF"}"#, Code::TokenMalformed),
        (r#"{"alg":"dir","enc":"A128GCM"}"#, Code::TokenMalformed),
        (r#"{"alg":"HS256"}x"#, Code::TokenMalformed),
        ("{\"alg\":\"HS256\",\"a\":\"\u{0}\"}", Code::TokenMalformed),
        (r#"{"alg":"none"}"#, Code::TokenWrongAlgorithm),
        (r#"{"alg":"None"}"#, Code::TokenWrongAlgorithm),
        (r#"{"alg":"hs256"}"#, Code::TokenWrongAlgorithm),
        (r#"{"alg":"ES512"}"#, Code::TokenWrongAlgorithm),
        (r#"{"alg":"HS384"}"#, Code::TokenWrongAlgorithm),
        (r#"{"alg":"RS256"}"#, Code::TokenWrongAlgorithm),
    ] {
        let payload = format!(r#"{{"exp":{}}}"#, NOW + 1);
        assert_eq!(code(check(claims(), &token_of(header, payload))), expected, "{header}");
    }
    let many = (0..16).map(|index| format!(r#","m{index}":0"#)).collect::<Vec<_>>().concat();
    assert_eq!(
        code(check(claims(), &token_of(&format!(r#"{{"alg":"HS256"{many}}}"#), "{}"))),
        Code::TokenMalformed
    );
    let long = format!(r#"{{"alg":"HS256","a":"{}"}}"#, "a".repeat(1024));
    assert_eq!(code(check(claims(), &token_of(&long, "{}"))), Code::TokenMalformed);
}

#[test]
fn a_payload_that_is_none_is_refused() {
    let exp = NOW + 1;
    for payload in [
        String::new(),
        "[]".to_owned(),
        format!(r#"{{"exp":{exp},"exp":{exp}}}"#),
        format!(r#"{{"exp":{exp},"e\u0078p":{}}}"#, exp + 1),
        format!(r#"{{"exp":{exp}}},"#),
    ] {
        assert_eq!(refused(&payload), Code::TokenMalformed, "{payload}");
    }
    assert_eq!(
        code(check(claims(), &token_of(r#"{"alg":"HS256"}"#, b"{\"exp\":9999999999,\"a\":\"\xff\"}"))),
        Code::TokenMalformed
    );
}

#[test]
fn a_token_that_is_too_long_is_not_looked_at() {
    let padded = format!(r#"{{"exp":{},"pad":"{}"}}"#, NOW + 1, "x".repeat(6000));
    let jwt = |longest| Jwt::new(secret_keys(), claims(), places(), longest);
    let long = token(&padded);
    jwt(long.len()).verify_token(long.as_bytes(), &["/"], NOW).unwrap();
    assert_eq!(code(jwt(long.len() - 1).verify_token(long.as_bytes(), &["/"], NOW)), Code::TokenMalformed);
}

#[test]
fn a_key_that_a_token_names_is_the_only_one_that_it_is_tried_with() {
    let key = |id: Option<&str>, secret: &[u8]| {
        Key::secret(id.map(str::to_owned), Algorithm::Hs256, secret).unwrap()
    };
    let other = [7; 32];
    let payload = format!(r#"{{"exp":{}}}"#, NOW + 1);
    let verify = |keys, header: &str| {
        Jwt::new(Keys::new(keys), claims(), places(), 8192)
            .verify_token(token_of(header, &payload).as_bytes(), &["/"], NOW)
            .map_err(|error| error.code())
            .map(drop)
    };
    let named = r#"{"alg":"HS256","kid":"a"}"#;
    assert_eq!(verify(vec![key(Some("b"), &other), key(Some("a"), SECRET)], named), Ok(()));
    assert_eq!(
        verify(vec![key(Some("a"), &other), key(Some("b"), SECRET)], named),
        Err(Code::TokenWrongSignature)
    );
    assert_eq!(verify(vec![key(Some("b"), SECRET)], named), Err(Code::TokenUnknownKey));
    // A key without an id is for all tokens, and a token that names none is tried with each.
    assert_eq!(verify(vec![key(None, SECRET)], named), Ok(()));
    let unnamed = r#"{"alg":"HS256"}"#;
    assert_eq!(verify(vec![key(Some("b"), &other), key(Some("a"), SECRET)], unnamed), Ok(()));
    // A token cannot make us try many keys.
    let several = (0..4).map(|_| key(None, &other)).chain([key(None, SECRET)]).collect();
    assert_eq!(verify(several, unnamed), Err(Code::TokenWrongSignature));
}

#[test]
fn a_public_key_is_no_secret_of_hmac() {
    // RFC 8725, section 2.1: signed with HMAC, with the text of the public key as its secret.
    let text = include_str!("keys/p256.pem");
    let key = Key::pem(None, Algorithm::Es256, text).unwrap();
    let jwt = Jwt::new(Keys::new(vec![key]), claims(), places(), 8192);
    let signed = format!("{}.{}", encode(r#"{"alg":"HS256"}"#), encode(format!(r#"{{"exp":{}}}"#, NOW + 1)));
    for secret in [text, text.trim()] {
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), signed.as_bytes());
        let token = format!("{signed}.{}", encode(signature));
        assert_eq!(code(jwt.verify_token(token.as_bytes(), &["/"], NOW)), Code::TokenWrongAlgorithm);
    }
}

#[test]
fn a_claim_names_the_tenant() {
    let named = |payload: &str| {
        let rules =
            Claims { tenant: Some("https://a.example/org".to_owned()), required: Vec::new(), ..claims() };
        check(rules, &token(payload))
            .map_err(|error| error.code())
            .map(|grant| grant.tenant.unwrap().into_string())
    };
    assert_eq!(named(r#"{"https://a.example/org":"acme"}"#), Ok("acme".to_owned()));
    assert_eq!(named(r#"{"https:\/\/a.example\/org":"\u0061cme"}"#), Ok("acme".to_owned()));
    assert_eq!(named(r#"{"https://a.example/org":42}"#), Ok("42".to_owned()));
    for missing in [
        "{}",
        r#"{"https://a.example/org":null}"#,
        r#"{"https://a.example/org":""}"#,
        r#"{"https://a.example/org":"a\nb"}"#,
    ] {
        assert_eq!(named(missing), Err(Code::TokenClaimMissing), "{missing}");
    }
}

#[test]
fn a_claim_or_a_template_names_the_paths() {
    let on = |paths: PathRule, payload: &str| {
        let rules = Claims { paths, required: Vec::new(), ..claims() };
        check(rules, &token(payload)).map_err(|error| error.code()).map(|grant| grant.paths)
    };
    let claim = || PathRule::Claim("paths".to_owned());
    let template = |text| PathRule::Template(Pattern::parse(text).unwrap());
    assert_eq!(on(claim(), r#"{"paths":"/vod/7/*"}"#).unwrap(), ["/vod/7/*".into()]);
    assert_eq!(on(claim(), r#"{"paths":["/live/*","\/vod\/7\/a.m4s"]}"#).unwrap().len(), 2);
    for other in [r#"{"paths":"/vod/8/*"}"#, r#"{"paths":["/vod/7/"]}"#, r#"{"paths":"/vod/7/b*"}"#] {
        assert_eq!(on(claim(), other), Err(Code::TokenPathNotCovered), "{other}");
    }
    for none in [
        "{}",
        r#"{"paths":[]}"#,
        r#"{"paths":"*"}"#,
        r#"{"paths":["vod"]}"#,
        r#"{"paths":["/vod/*",7]}"#,
        r#"{"paths":{}}"#,
    ] {
        assert_eq!(on(claim(), none), Err(Code::TokenClaimMissing), "{none}");
    }
    let many = format!(r#"{{"paths":[{}"/vod/*"]}}"#, r#""/a","#.repeat(64));
    assert_eq!(on(claim(), &many), Err(Code::TokenMalformed));
    assert_eq!(on(template("/vod/{sub}/*"), r#"{"sub":"7"}"#).unwrap(), ["/vod/7/*".into()]);
    assert_eq!(on(template("/vod/{sub}/*"), r#"{"sub":7}"#).unwrap(), ["/vod/7/*".into()]);
    assert_eq!(on(template("/vod/{sub}/*"), r#"{"sub":"8"}"#), Err(Code::TokenPathNotCovered));
    for escape in ["", ".", "..", "7/..", "*", "7*", "%2e%2e", "7?", "7\\\\", "7 "] {
        let payload = format!(r#"{{"sub":"{escape}"}}"#);
        assert_eq!(on(template("/vod/{sub}/*"), &payload), Err(Code::TokenClaimMissing), "{escape}");
    }
}

#[derive(Default)]
struct Fetcher(AtomicUsize);

impl Wake for Fetcher {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn keys_are_asked_for_when_there_are_none_when_they_are_old_and_for_those_that_are_not_known() {
    let fetcher = Arc::new(Fetcher::default());
    let jwt = Jwt::new(Keys::default(), claims(), places(), 8192);
    jwt.fetched_by(Waker::from(Arc::clone(&fetcher)), 30);
    let asked = || fetcher.0.swap(0, Ordering::Relaxed);
    let payload = format!(r#"{{"exp":{}}}"#, NOW + 10_000);
    let verify = |header: &str, now| {
        let token = token_of(header, &payload);
        jwt.verify_token(token.as_bytes(), &["/"], now).map_err(|error| error.code()).map(drop)
    };
    let (known, unknown) = (r#"{"alg":"HS256","kid":"a"}"#, r#"{"alg":"HS256","kid":"b"}"#);
    // None: once in thirty seconds, however many tokens come.
    for now in [NOW, NOW, NOW + 29] {
        assert_eq!(verify(known, now), Err(Code::KeysUnavailable));
    }
    assert_eq!(asked(), 1);
    assert_eq!(verify(known, NOW + 30), Err(Code::KeysUnavailable));
    assert_eq!(asked(), 1);
    let keys = || Keys::new(vec![Key::secret(Some("a".to_owned()), Algorithm::Hs256, SECRET).unwrap()]);
    jwt.set_keys(keys(), NOW + 300, NOW + 1000);
    assert_eq!(verify(known, NOW + 299), Ok(()));
    assert_eq!(asked(), 0);
    // One that is not known.
    assert_eq!(verify(unknown, NOW + 100), Err(Code::TokenUnknownKey));
    assert_eq!(verify(unknown, NOW + 129), Err(Code::TokenUnknownKey));
    assert_eq!(asked(), 1);
    // Old ones serve as long as they may.
    assert_eq!(verify(known, NOW + 300), Ok(()));
    assert_eq!(asked(), 1);
    assert_eq!(verify(known, NOW + 999), Ok(()));
    assert_eq!(asked(), 1);
    assert_eq!(verify(known, NOW + 1000), Err(Code::KeysUnavailable));
}

#[test]
fn what_is_dear_to_verify_is_remembered_by_the_whole_token() {
    let cheap = Jwt::new(secret_keys(), claims(), places(), 8192);
    let key = Key::pem(None, Algorithm::Es256, include_str!("keys/p256.pem")).unwrap();
    let dear = Jwt::new(Keys::new(vec![key]), claims(), places(), 8);
    let headers: Fields = [("Authorization", "Bearer a.b.c")].into_iter().collect();
    let asked = Asked {
        method: "GET",
        target: "/vod/1",
        prefix: "/vod/",
        authority: "a.example",
        remote: None,
        headers: &headers,
    };
    assert_eq!(cheap.remembered_by(&asked), None);
    assert_eq!(dear.remembered_by(&asked), Some(&b"a.b.c"[..]));
    let long: Fields = [("Authorization", "Bearer aaa.bbb.ccc")].into_iter().collect();
    assert_eq!(dear.remembered_by(&Asked { headers: &long, ..asked }), None);
}
