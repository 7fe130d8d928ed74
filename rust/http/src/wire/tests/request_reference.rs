//! The reference for requests: slow, over the whole input, without state, as `reference`.

use super::reference::{End, Fields, chunked_prefix, fault, field, lines, token};

/// A request with its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParsedRequest {
    pub(crate) method: String,
    /// In origin-form.
    pub(crate) target: String,
    pub(crate) authority: String,
    pub(crate) minor_version: u8,
    pub(crate) fields: Fields,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Fields,
    pub(crate) keeps_alive: bool,
    pub(crate) expects_continue: bool,
}

/// Bytes of a request line, bytes and fields of a head, bytes of chunk extensions and of trailers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Maxima {
    pub(crate) line: usize,
    pub(crate) head: usize,
    pub(crate) fields: usize,
    pub(crate) extensions: usize,
    pub(crate) trailer: usize,
}

/// All requests of a connection. The end is `Done` after a request that asks for the end of the
/// connection.
pub(crate) fn requests(mut bytes: &[u8], maxima: Maxima) -> (Vec<ParsedRequest>, End) {
    let mut found = Vec::new();
    loop {
        match request(bytes, maxima) {
            Ok((request, rest)) => {
                let last = !request.keeps_alive;
                found.push(request);
                if last {
                    return (found, End::Done);
                }
                bytes = rest;
            }
            Err(end) => return (found, end),
        }
    }
}

type Faulty<T> = Result<T, End>;

fn request(bytes: &[u8], maxima: Maxima) -> Faulty<(ParsedRequest, &[u8])> {
    if bytes == b"\r" {
        return Err(End::Open);
    }
    let bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    let (lines, length) = head_lines(bytes, maxima)?;
    let (method, target, minor_version) = request_line(lines[0])?;
    let of_url = authority_and_path(&method, &target)?;
    let fields =
        lines[1..].iter().map(|line| field(line, "BAD_REQUEST_HEAD")).collect::<Result<Fields, _>>()?;
    let host = host_of(&all(&fields, "host"), minor_version)?;
    let (authority, target) = of_url.unwrap_or((host, target));
    let framing = framing(&fields, minor_version)?;
    let expectations = members(&all(&fields, "expect"));
    if expectations.iter().any(|expectation| !expectation.eq_ignore_ascii_case("100-continue")) {
        return fault("EXPECTATION_FAILED");
    }
    let options = members(&all(&fields, "connection"));
    let option = |name: &str| options.iter().any(|option| option.eq_ignore_ascii_case(name));
    let rest = &bytes[length..];
    let (body, trailers, rest) = match framing {
        Some(length) if rest.len() as u128 >= length => {
            let (body, rest) = rest.split_at(usize::try_from(length).unwrap());
            (body.to_vec(), Vec::new(), rest)
        }
        Some(_) => return fault("REQUEST_TRUNCATED"),
        None => chunked_prefix(rest, maxima.extensions, maxima.trailer).map_err(|end| match end {
            End::Open => End::Fault("REQUEST_TRUNCATED"),
            _ => End::Fault("BAD_REQUEST_BODY"),
        })?,
    };
    let request = ParsedRequest {
        method,
        target,
        authority,
        minor_version,
        fields,
        body,
        trailers,
        keeps_alive: !option("close") && (minor_version == 1 || option("keep-alive")),
        expects_continue: minor_version == 1 && !expectations.is_empty(),
    };
    Ok((request, rest))
}

/// The lines of a head, with the error codes of requests.
fn head_lines(bytes: &[u8], maxima: Maxima) -> Faulty<(Vec<&[u8]>, usize)> {
    let named = |bytes| {
        lines(bytes, maxima.head, maxima.fields, true, ["BAD_HEAD", "HEAD_TOO_LARGE"]).map_err(
            |end| match end {
                End::Fault("HEAD_TOO_LARGE") => End::Fault("REQUEST_HEAD_TOO_LARGE"),
                End::Fault(_) => End::Fault("BAD_REQUEST_HEAD"),
                end => end,
            },
        )
    };
    let window = &bytes[..bytes.len().min(maxima.line + 2)];
    if window.len() == maxima.line + 2 && !window.windows(2).any(|pair| pair == b"\r\n") {
        return match named(window) {
            Err(End::Open) => fault("TARGET_TOO_LONG"),
            other => other,
        };
    }
    named(bytes)
}

fn request_line(line: &[u8]) -> Faulty<(String, String, u8)> {
    let parts: Vec<_> = line.split(|byte| *byte == b' ').collect();
    let (method, version) = (parts[0], parts[parts.len() - 1]);
    if parts.len() < 3 || !token(method) {
        return fault("BAD_REQUEST_HEAD");
    }
    let minor_version = match version {
        b"HTTP/1.0" => 0,
        b"HTTP/1.1" => 1,
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
            return fault("UNSUPPORTED_VERSION");
        }
        _ => return fault("BAD_REQUEST_HEAD"),
    };
    if parts.len() > 3 || !parts[1].iter().all(|byte| matches!(byte, 0x21..=0x7e) && *byte != b'#') {
        return fault("BAD_REQUEST_HEAD");
    }
    let rest = match parts[1] {
        target if target.starts_with(b"/") || target == b"*" => target,
        // Of an absolute URL, the part after its authority.
        url => {
            let from = url.windows(3).position(|three| three == b"://").map_or(url.len(), |place| place + 3);
            let slash = url[from..]
                .iter()
                .position(|byte| b"/?".contains(byte))
                .map_or(url.len(), |place| from + place);
            &url[slash..]
        }
    };
    let mut halves = rest.splitn(2, |byte| *byte == b'?');
    let (path, query) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
    let coded = path.split(|byte| *byte == b'%').skip(1);
    let is_sound =
        coded.into_iter().all(|after| after.len() >= 2 && after[..2].iter().all(u8::is_ascii_hexdigit));
    if method != b"CONNECT"
        && (!is_sound
            || path.iter().any(|byte| b"\"<>{}`".contains(byte))
            || query.iter().any(|byte| b"\"<>".contains(byte)))
    {
        return fault("BAD_REQUEST_HEAD");
    }
    if method == b"CONNECT" {
        return fault("UNSUPPORTED_METHOD");
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ok((text(method), text(parts[1]), minor_version))
}

/// The authority of a target in absolute-form, and the rest in origin-form.
fn authority_and_path(method: &str, target: &str) -> Faulty<Option<(String, String)>> {
    if target.starts_with('/') || target == "*" && method == "OPTIONS" {
        return Ok(None);
    }
    let lower = target.to_ascii_lowercase();
    let scheme = ["http://", "https://"].into_iter().find(|scheme| lower.starts_with(scheme));
    let Some(scheme) = scheme else { return fault("BAD_REQUEST_HEAD") };
    let rest = &target[scheme.len()..];
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    if !host(&rest[..end]) {
        return fault("BAD_REQUEST_HEAD");
    }
    let path = match &rest[end..] {
        "" if method == "OPTIONS" => "*".to_owned(),
        "" => "/".to_owned(),
        path if path.starts_with('?') => ["/", path].concat(),
        path => path.to_owned(),
    };
    Ok(Some((rest[..end].to_owned(), path)))
}

fn host_of(hosts: &[Vec<u8>], minor_version: u8) -> Faulty<String> {
    match hosts {
        [] if minor_version == 0 => Ok(String::new()),
        [value] => match std::str::from_utf8(value) {
            Ok(value) if host(value) => Ok(value.to_owned()),
            _ => fault("BAD_HOST"),
        },
        _ => fault("BAD_HOST"),
    }
}

fn host(value: &str) -> bool {
    let (name, rest) = match value.strip_prefix('[') {
        Some(bracketed) => match bracketed.split_once(']') {
            Some((address, rest)) if !address.is_empty() => {
                if !address.chars().all(|char| char.is_ascii_hexdigit() || char == ':' || char == '.') {
                    return false;
                }
                ("a", rest)
            }
            _ => return false,
        },
        None => value.split_at(value.find(':').unwrap_or(value.len())),
    };
    let valid_name = name.split('%').enumerate().all(|(at, part)| {
        let hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let after =
            if at == 0 { Some(part) } else { part.get(..2).filter(|two| hex(two)).map(|_| &part[2..]) };
        let allowed = |char: char| char.is_ascii_alphanumeric() || "-._~!$&'()*+,;=".contains(char);
        after.is_some_and(|rest| rest.chars().all(allowed))
    });
    let digits = |port: &str| port.len() <= 5 && port.chars().all(|char| char.is_ascii_digit());
    let valid_port = rest.is_empty()
        || rest
            .strip_prefix(':')
            .is_some_and(|port| port.is_empty() || digits(port) && port.parse::<u32>().unwrap() <= 65_535);
    !name.is_empty() && valid_name && valid_port
}

/// The length of the body, or `None` if it is chunked.
fn framing(fields: &Fields, minor_version: u8) -> Faulty<Option<u128>> {
    let lengths = members(&all(fields, "content-length"));
    let digits = |length: &String| !length.is_empty() && length.chars().all(|char| char.is_ascii_digit());
    if !lengths.iter().all(digits) || lengths.iter().any(|length| *length != lengths[0]) {
        return fault("BAD_REQUEST_FRAMING");
    }
    let length = match lengths.first().map(|length| length.trim_start_matches('0')) {
        None | Some("") => 0,
        Some(digits) if digits.len() > 20 => return fault("BAD_REQUEST_FRAMING"),
        Some(digits) => digits.parse::<u128>().unwrap(),
    };
    if length >= 1 << 63 {
        return fault("BAD_REQUEST_FRAMING");
    }
    let codings = all(fields, "transfer-encoding");
    if codings.is_empty() {
        return Ok(Some(length));
    }
    if codings.len() > 1 || !lengths.is_empty() || minor_version == 0 {
        return fault("BAD_REQUEST_FRAMING");
    }
    let codings = members(&codings);
    let (last, others) = codings.split_last().unwrap();
    let chunked = |coding: &String| coding.eq_ignore_ascii_case("chunked");
    if !chunked(last) || others.iter().any(|other| chunked(other) || !token(other.as_bytes())) {
        return fault("BAD_REQUEST_FRAMING");
    }
    if others.is_empty() { Ok(None) } else { fault("UNSUPPORTED_CODING") }
}

fn all(fields: &Fields, name: &str) -> Vec<Vec<u8>> {
    let same = |other: &[u8]| other.eq_ignore_ascii_case(name.as_bytes());
    fields.iter().filter(|(other, _)| same(other)).map(|(_, value)| value.clone()).collect()
}

/// The members of all lists; a byte above ASCII becomes the character of the same number.
fn members(values: &[Vec<u8>]) -> Vec<String> {
    let text = |value: &Vec<u8>| value.iter().copied().map(char::from).collect::<String>();
    let trimmed = |member: &str| member.trim_matches([' ', '\t']).to_owned();
    values.iter().flat_map(|value| text(value).split(',').map(trimmed).collect::<Vec<_>>()).collect()
}
