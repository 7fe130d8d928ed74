//! The reference of each framing, as simple as possible, over the whole text at once. It shares no code with the
//! engine, so that fuzz targets can include it too.

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Clean,
    TooLarge,
    Truncated,
}

/// The frames that were delivered, and the end after them.
pub(super) type Outcome = (Vec<Vec<u8>>, End);

pub(super) fn fixed(text: &[u8], size: usize) -> Outcome {
    let chunks = text.chunks_exact(size);
    let end = if chunks.remainder().is_empty() { End::Clean } else { End::Truncated };
    (chunks.map(<[u8]>::to_vec).collect(), end)
}

pub(super) fn length_prefixed(mut text: &[u8], width: usize, little_endian: bool, max: usize) -> Outcome {
    let mut frames = Vec::new();
    while !text.is_empty() {
        let Some((prefix, rest)) = text.split_at_checked(width) else { return (frames, End::Truncated) };
        let mut digits = prefix.to_vec();
        if little_endian {
            digits.reverse();
        }
        let length = digits.iter().fold(0_u128, |value, &digit| value * 256 + u128::from(digit));
        if length > max as u128 {
            return (frames, End::TooLarge);
        }
        let Some((frame, rest)) = rest.split_at_checked(length as usize) else {
            return (frames, End::Truncated);
        };
        frames.push(frame.to_vec());
        text = rest;
    }
    (frames, End::Clean)
}

pub(super) fn lines(text: &[u8], max: usize) -> Outcome {
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    let tail = lines.pop().expect("a split has at least one part");
    let mut whole: Vec<&[u8]> =
        lines.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
    if !tail.is_empty() {
        whole.push(tail);
    }
    limited(&whole, |line| line.len() > max)
}

fn limited(frames: &[&[u8]], too_large: impl Fn(&[u8]) -> bool) -> Outcome {
    let count = frames.iter().position(|frame| too_large(frame)).unwrap_or(frames.len());
    let end = if count < frames.len() { End::TooLarge } else { End::Clean };
    (frames[..count].iter().map(|frame| frame.to_vec()).collect(), end)
}

/// The event that a page gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dispatched {
    pub(crate) event: String,
    pub(crate) data: String,
    pub(crate) id: Option<String>,
    pub(crate) retry: Option<u64>,
}

/// HTML Living Standard 9.2.6 over a whole stream, except that the ID and the reconnection time are those given in
/// the event's own block.
pub(crate) fn dispatched(text: &[u8]) -> Vec<Dispatched> {
    dispatched_after_mark(text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text))
}

fn dispatched_after_mark(text: &[u8]) -> Vec<Dispatched> {
    let text = String::from_utf8_lossy(text).replace("\r\n", "\n").replace('\r', "\n");
    let mut events = Vec::new();
    let (mut event, mut data, mut id, mut retry) = (String::new(), String::new(), None, None);
    // What follows the last end of a line is not a line.
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        if line.is_empty() {
            let name = std::mem::take(&mut event);
            let mut text = std::mem::take(&mut data);
            let (id, retry) = (id.take(), retry.take());
            if text.pop().is_some() {
                let event = if name.is_empty() { "message".to_owned() } else { name };
                events.push(Dispatched { event, data: text, id, retry });
            }
            continue;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut event),
            "data" => data.extend([value, "\n"]),
            "id" if !value.contains('\0') => id = Some(value.to_owned()),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                retry = value.parse().ok().or(retry);
            }
            _ => {}
        }
    }
    events
}

/// The blocks of a whole stream: every byte of it, in order. Blank lines before a block are blocks of their own, and
/// so are comment lines there, if they are to be `aside`.
pub(super) fn blocks(text: &[u8], aside: bool) -> Vec<&[u8]> {
    let (mark, mut rest) = text.split_at(if text.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 });
    let mut blocks = vec![mark];
    let mut line_end: &[u8] = b"";
    while !rest.is_empty() {
        let (length, end) = first_block(rest, line_end, aside);
        let (block, after) = rest.split_at(length);
        blocks.push(block);
        (rest, line_end) = (after, end);
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

/// Its length and the end of its last line, where `before` is the end of the line before it.
fn first_block<'a>(text: &'a [u8], mut before: &'a [u8], aside: bool) -> (usize, &'a [u8]) {
    let mut start = 0;
    loop {
        let line = &text[start..];
        let Some(length) = line.iter().position(|byte| b"\r\n".contains(byte)) else {
            return (text.len(), b"");
        };
        let last = length == 0 || (aside && start == 0 && line[0] == b':');
        let mut end = &line[length..length + if line[length..].starts_with(b"\r\n") { 2 } else { 1 }];
        if last && before == b"\r" {
            end = &end[..1];
        }
        start += length + end.len();
        if last {
            return (start, end);
        }
        before = end;
    }
}

/// Whether a block is one that a blank line has ended.
pub(super) fn is_finished(block: &[u8]) -> bool {
    [&b"\n\n"[..], b"\r\r", b"\n\r", b"\n\r\n", b"\r\r\n"].iter().any(|end| block.ends_with(end))
        && !is_blank(block)
}

fn is_blank(block: &[u8]) -> bool {
    block.iter().all(|byte| b"\r\n".contains(byte))
}

/// The frames of [`blocks`] under a maximum. A byte order mark is not a frame.
pub(super) fn events(text: &[u8], max: usize, all: bool) -> Outcome {
    let mut blocks = blocks(text, all);
    let mark = if text.starts_with(b"\xEF\xBB\xBF") { Some(blocks.remove(0)) } else { None };
    if !all {
        blocks.retain(|block| !is_blank(block));
    }
    let (mut frames, end) = limited(&blocks, |block| block.len() > max);
    if all {
        frames.splice(0..0, mark.map(<[u8]>::to_vec));
    } else {
        frames.retain(|block| is_finished(block) && !dispatched_after_mark(block).is_empty());
    }
    (frames, end)
}
