//! The reference: the same rules implemented a second time, slowly and plainly, over the whole input, without
//! state and without the scanner. Tests and fuzz targets compare the wire with it.

/// How an input ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// More bytes are needed.
    Open,
    /// At the position that the rules give.
    Done,
    /// With the error of this name.
    Fault(&'static str),
}

pub(crate) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) payload: Vec<u8>,
    pub(crate) trailers: Fields,
    pub(crate) end: End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParsedHead {
    pub(crate) length: usize,
    pub(crate) minor_version: u8,
    pub(crate) status: u16,
    pub(crate) reason: Vec<u8>,
    pub(crate) fields: Fields,
}

type Faulty<T> = Result<T, End>;

pub(crate) fn fault<T>(name: &'static str) -> Faulty<T> {
    Err(End::Fault(name))
}

/// The lines before the empty one, and the length of all of it.
pub(crate) fn lines<'a>(
    bytes: &'a [u8],
    max_bytes: usize,
    max_fields: usize,
    start_line: bool,
    names: [&'static str; 2],
) -> Faulty<(Vec<&'a [u8]>, usize)> {
    let [malformed, too_large] = names;
    let mut found = Vec::new();
    let mut start = 0;
    for at in 0..bytes.len().min(max_bytes) {
        let previous = if at == 0 { None } else { Some(bytes[at - 1]) };
        if previous == Some(b'\r') && bytes[at] != b'\n' || previous != Some(b'\r') && bytes[at] == b'\n' {
            return fault("BARE_LINE_FEED");
        }
        if at == start && at > 0 && (bytes[at] == b' ' || bytes[at] == b'\t') {
            return fault("FOLDED_HEADER");
        }
        if bytes[at] == 0 {
            return fault(malformed);
        }
        if bytes[at] == b'\n' {
            let line = &bytes[start..at - 1];
            start = at + 1;
            if line.is_empty() && start_line && found.is_empty() {
                return fault(malformed);
            }
            if line.is_empty() {
                return Ok((found, start));
            }
            found.push(line);
            if found.len() > max_fields.saturating_add(usize::from(start_line)) {
                return fault(too_large);
            }
        }
    }
    if bytes.len() >= max_bytes { fault(too_large) } else { Err(End::Open) }
}

fn text(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e | 0x80..=0xff))
}

fn closes_its_quotes(mut extension: &[u8]) -> bool {
    while let Some(open) = extension.iter().position(|byte| *byte == b'"') {
        extension = &extension[open + 1..];
        loop {
            match extension {
                [] | [b'\\'] => return false,
                [b'"', rest @ ..] => {
                    extension = rest;
                    break;
                }
                [b'\\', _, rest @ ..] | [_, rest @ ..] => extension = rest,
            }
        }
    }
    true
}

pub(crate) fn token(bytes: &[u8]) -> bool {
    let separators = b"\"(),/:;<=>?@[\\]{}";
    !bytes.is_empty() && bytes.iter().all(|byte| matches!(byte, 0x21..=0x7e) && !separators.contains(byte))
}

pub(crate) fn field(line: &[u8], malformed: &'static str) -> Faulty<(Vec<u8>, Vec<u8>)> {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else { return fault(malformed) };
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if !token(name) || !text(value) {
        return fault(malformed);
    }
    let blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let front = value.iter().take_while(|byte| blank(byte)).count();
    let back = value[front..].iter().rev().take_while(|byte| blank(byte)).count();
    Ok((name.to_vec(), value[front..value.len() - back].to_vec()))
}

pub(crate) fn head(bytes: &[u8], max_bytes: usize, max_fields: usize) -> Result<ParsedHead, End> {
    let version = b"HTTP/1.";
    for at in 0..bytes.len().min(max_bytes).min(version.len()) {
        if bytes[at] != version[at] {
            return fault("BAD_HEAD");
        }
    }
    let (lines, length) = lines(bytes, max_bytes, max_fields, true, ["BAD_HEAD", "HEAD_TOO_LARGE"])?;
    let status_line = lines[0];
    let shape = b"HTTP/1.v ddd";
    let fits = status_line.len() >= shape.len()
        && shape.iter().zip(status_line).all(|(shape, byte)| match shape {
            b'v' => *byte == b'0' || *byte == b'1',
            b'd' => byte.is_ascii_digit(),
            _ => shape == byte,
        });
    let reason = status_line.get(shape.len()..).unwrap_or_default();
    if !fits || status_line[9] == b'0' || !(reason.is_empty() || reason[0] == b' ') || !text(reason) {
        return fault("BAD_HEAD");
    }
    Ok(ParsedHead {
        length,
        minor_version: status_line[7] - b'0',
        status: std::str::from_utf8(&status_line[9..12]).unwrap().parse().unwrap(),
        reason: reason.get(1..).unwrap_or_default().to_vec(),
        fields: lines[1..].iter().map(|line| field(line, "BAD_HEAD")).collect::<Result<_, _>>()?,
    })
}

pub(crate) fn chunked(bytes: &[u8], max_extensions: usize, max_trailer: usize) -> Decoded {
    let mut decoded = Decoded { payload: Vec::new(), trailers: Vec::new(), end: End::Done };
    decoded.end = match body(bytes, max_extensions, max_trailer, &mut decoded) {
        Ok([]) => End::Done,
        Ok(_) => End::Fault("EXCESS_BYTES"),
        Err(end) => end,
    };
    if decoded.end != End::Done {
        decoded.trailers.clear();
    }
    decoded
}

/// Payload and trailers of the chunked body at the beginning of `bytes`, and what follows it.
pub(crate) fn chunked_prefix(
    bytes: &[u8],
    max_extensions: usize,
    max_trailer: usize,
) -> Result<(Vec<u8>, Fields, &[u8]), End> {
    let mut decoded = Decoded { payload: Vec::new(), trailers: Vec::new(), end: End::Done };
    let rest = body(bytes, max_extensions, max_trailer, &mut decoded)?;
    Ok((decoded.payload, decoded.trailers, rest))
}

/// The bytes after the body.
fn body<'a>(
    mut bytes: &'a [u8],
    mut extension_room: usize,
    max_trailer: usize,
    decoded: &mut Decoded,
) -> Faulty<&'a [u8]> {
    loop {
        let digits = bytes.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if digits > 16 {
            return fault("BAD_CHUNK");
        }
        let size = u128::from_str_radix(std::str::from_utf8(&bytes[..digits]).unwrap(), 16);
        bytes = &bytes[digits..];
        match bytes.first() {
            None => return Err(End::Open),
            Some(_) if digits == 0 => return fault("BAD_CHUNK"),
            Some(b'\r' | b'\n' | b';') => {}
            Some(_) => return fault("BAD_CHUNK"),
        }
        let extension = bytes.iter().take_while(|byte| text(&[**byte])).count();
        if extension > extension_room {
            return fault("CHUNK_EXTENSION_TOO_LARGE");
        }
        extension_room -= extension;
        let quoted = !closes_its_quotes(&bytes[..extension]);
        bytes = &bytes[extension..];
        if quoted && bytes.starts_with(b"\r") {
            return fault("BAD_CHUNK");
        }
        match bytes {
            [] | [b'\r'] => return Err(End::Open),
            [b'\r', b'\n', rest @ ..] => bytes = rest,
            [b'\r' | b'\n', ..] => return fault("BARE_LINE_FEED"),
            _ => return fault("BAD_CHUNK"),
        }
        let size = size.unwrap();
        if size == 0 {
            break;
        }
        let there = usize::try_from(size).unwrap_or(usize::MAX).min(bytes.len());
        decoded.payload.extend_from_slice(&bytes[..there]);
        bytes = &bytes[there..];
        match bytes {
            [] | [b'\r'] => return Err(End::Open),
            [b'\r', b'\n', rest @ ..] => bytes = rest,
            _ => return fault("BAD_CHUNK"),
        }
    }
    let (lines, length) =
        lines(bytes, max_trailer.saturating_add(2), usize::MAX, false, ["BAD_TRAILER", "BAD_TRAILER"])?;
    for line in lines {
        decoded.trailers.push(field(line, "BAD_TRAILER")?);
    }
    let forbidden =
        "transfer-encoding content-length host connection te trailer upgrade content-encoding keep-alive";
    for (name, _) in &decoded.trailers {
        if forbidden.split(' ').any(|other| name.eq_ignore_ascii_case(other.as_bytes())) {
            return fault("BAD_TRAILER");
        }
    }
    Ok(&bytes[length..])
}
