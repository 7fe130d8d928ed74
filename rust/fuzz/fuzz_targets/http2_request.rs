//! A head of HTTP/2 that the h2 crate would pass on is, as HTTP/1.1, one request or none: it has the method, the target, the
//! host and the fields that the head has, in their order, and nothing else, whatever bytes they are made of.
#![no_main]

use arbitrary::Arbitrary;
use http::header::{HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, Method, Request, Uri};
use libfuzzer_sys::fuzz_target;
use penstock_engine::http2::request_text;
use penstock_engine::wire::{BodyFraming, IncomingLimits, parse_incoming};

const LIMITS: IncomingLimits =
    IncomingLimits { line_bytes: 1 << 20, head_bytes: 1 << 20, head_fields: 1 << 12 };
/// What the h2 crate refuses (RFC 9113, section 8.2.2).
const REFUSED: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te"];

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    method: &'a [u8],
    authority: Option<&'a [u8]>,
    path: &'a [u8],
    fields: Vec<(&'a [u8], &'a [u8])>,
    is_chunked: bool,
}

impl Input<'_> {
    /// What the h2 crate would make of it, if anything.
    fn head(&self) -> Option<Request<()>> {
        let mut uri = Uri::builder().path_and_query(PathAndQuery::try_from(self.path).ok()?);
        if let Some(authority) = self.authority {
            uri = uri.scheme("https").authority(Authority::try_from(authority).ok()?);
        }
        let mut fields = HeaderMap::new();
        for (name, value) in &self.fields {
            let name = HeaderName::from_lowercase(name).ok()?;
            if REFUSED.contains(&name.as_str()) {
                return None;
            }
            fields.append(name, HeaderValue::from_bytes(value).ok()?);
        }
        let mut request = Request::new(());
        *request.method_mut() = Method::from_bytes(self.method).ok()?;
        *request.uri_mut() = uri.build().ok()?;
        *request.headers_mut() = fields;
        Some(request)
    }
}

fuzz_target!(|input: Input<'_>| {
    let Some(request) = input.head() else { return };
    let has_length = request.headers().contains_key("content-length");
    let is_chunked = input.is_chunked && !has_length;
    let (head, ()) = request.into_parts();
    let Ok(text) = request_text(&head, is_chunked) else { return };
    let Ok(incoming) = parse_incoming(&text, &LIMITS) else { return };
    assert_eq!(incoming.method(), head.method.as_str());
    assert_eq!(incoming.minor_version, 1);
    let host = head.uri.authority().map(Authority::as_str);
    let host = host.or_else(|| head.headers.get("host").and_then(|host| host.to_str().ok())).expect("a host");
    assert_eq!(incoming.get_all("host").collect::<Vec<_>>(), [host.as_bytes()]);
    if head.method != Method::CONNECT {
        assert_eq!(incoming.target(), head.uri.path_and_query().map_or("/", PathAndQuery::as_str));
    }
    let came = |name: &[u8]| head.headers.get_all(std::str::from_utf8(name).expect("a token")).iter();
    let codings = incoming.get_all("transfer-encoding").count();
    assert_eq!(codings, usize::from(is_chunked));
    for (name, value) in incoming.headers() {
        match name {
            b"Host" | b"transfer-encoding" => {}
            b"cookie" => {
                let whole: Vec<_> = came(name).map(HeaderValue::as_bytes).collect();
                assert_eq!(value, whole.join(&b"; "[..]));
            }
            _ => assert!(came(name).any(|one| one.as_bytes() == value)),
        }
    }
    let others = head.headers.keys().filter(|name| *name != "host" && *name != "cookie");
    let expected: usize = others.map(|name| head.headers.get_all(name).iter().count()).sum();
    let more = 1 + codings + usize::from(head.headers.contains_key("cookie"));
    assert_eq!(incoming.headers().count(), expected + more);
    if is_chunked {
        assert_eq!(incoming.body().ok(), Some(BodyFraming::Chunked));
    }
});
