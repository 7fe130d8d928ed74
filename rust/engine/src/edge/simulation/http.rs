//! Reads HTTP/1.1 in the plainest way, as a model: nothing of the engine's is in it.

/// A message as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// The line before the fields.
    pub(super) line: String,
    fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// How far a message has come.
#[derive(Debug)]
pub(super) enum Parsed {
    /// A part of its head.
    Nothing,
    Part(Message),
    /// All of it, and how many bytes it takes.
    Whole(Message, usize),
}

impl Message {
    /// The value of the field `name`, in lower case.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| &**value)
    }

    /// The second word of a response's first line.
    pub(super) fn status(&self) -> u16 {
        self.line.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default()
    }
}

/// The head at the front of `bytes`, if all of it is there, and its length.
pub(super) fn head(bytes: &[u8]) -> Option<(Message, usize)> {
    let length = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..length - 4]).into_owned();
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default().to_owned();
    let fields = lines.filter_map(|line| line.split_once(':'));
    let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    Some((Message { line, fields, body: Vec::new() }, length))
}

/// The response at the front of `bytes`, after interim ones; `has_ended`: the connection has come to an orderly end.
pub(super) fn response(bytes: &[u8], has_body: bool, has_ended: bool) -> Result<Parsed, String> {
    let mut begun = 0;
    let (mut message, length) = loop {
        let Some((message, length)) = head(&bytes[begun..]) else { return Ok(Parsed::Nothing) };
        begun += length;
        if !(100..200).contains(&message.status()) {
            break (message, begun);
        }
    };
    let rest = &bytes[length..];
    if !has_body || matches!(message.status(), 204 | 304) {
        return Ok(Parsed::Whole(message, length));
    }
    if message.field("transfer-encoding").is_some() {
        let (body, used) = chunked(rest)?;
        message.body = body;
        return Ok(match used {
            Some(used) => Parsed::Whole(message, length + used),
            None => Parsed::Part(message),
        });
    }
    if let Some(value) = message.field("content-length") {
        let wanted: usize = value.parse().map_err(|_| format!("{value:?} is no length"))?;
        message.body = rest[..wanted.min(rest.len())].to_vec();
        return Ok(if rest.len() >= wanted {
            Parsed::Whole(message, length + wanted)
        } else {
            Parsed::Part(message)
        });
    }
    message.body = rest.to_vec();
    Ok(if has_ended { Parsed::Whole(message, bytes.len()) } else { Parsed::Part(message) })
}

/// The payload of chunks, and how many bytes they take if all are there.
fn chunked(mut bytes: &[u8]) -> Result<(Vec<u8>, Option<usize>), String> {
    let (mut body, all) = (Vec::new(), bytes.len());
    loop {
        let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else { return Ok((body, None)) };
        let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let size = usize::from_str_radix(&line, 16).map_err(|_| format!("{line:?} is no size of a chunk"))?;
        bytes = &bytes[end + 2..];
        body.extend(&bytes[..size.min(bytes.len())]);
        if bytes.len() < size + 2 {
            return Ok((body, None));
        }
        if &bytes[size..size + 2] != b"\r\n" {
            return Err(format!("no end of a line follows a chunk of {size} bytes"));
        }
        bytes = &bytes[size + 2..];
        if size == 0 {
            return Ok((body, Some(all - bytes.len())));
        }
    }
}

/// The first byte of `bytes=first-last`, and the one after the last.
pub(super) fn span(range: &str, length: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().unwrap_or(usize::MAX));
    (first < length && first <= last).then(|| (first, last.saturating_add(1).min(length)))
}
