//! The format of a file with a stored response or a part of one: a head of whole pages, the body, and a checksum for
//! each block of the body.
//!
//! ```text
//!   prefix │ encoded head │ zeros to the page │ body … │ sum of block 0 │ sum of block 1 │ …
//! ```
//!
//! Pure functions over bytes. The invariant: a head with any byte changed, or of another file, is not accepted; a block
//! with any byte changed, or in another place, does not have its sum. Sums have 64 bits: random damage goes undetected
//! once in 10^19 times. They do not protect against a process that can write to the directory.

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::cache::{Content, Key, Reading, Stored, Writing};

/// Bytes of a block, the unit of verification: one slab, so that it is read in one piece. A small range costs the read
/// of one block.
pub const BLOCK: u64 = 64 * 1024;
/// Bytes of a sum.
pub const SUM: u64 = 8;
/// Heads are multiples of this.
const PAGE: usize = 4096;
/// The largest head: more than any response that the origin's client accepts.
const MAX_HEAD: usize = 1 << 20;
/// The room for an update of the head in its place. Arbitrary; most updates change a date.
const HEAD_SPARE: usize = 256;

/// The first bytes of a file. Other versions of the format are not read.
pub const MAGIC: &[u8; 8] = b"penstock";
/// The version of the format.
pub const VERSION: u64 = 3;
/// Magic, version, bytes of the encoded head, of the head with padding, of a block and of the body, name, sum.
pub const PREFIX: usize = 64;

/// The decoded head of a file.
#[derive(Debug)]
pub struct Head {
    /// The key.
    pub key: Key,
    /// The response without its body. Of a part its content is that part.
    pub stored: Stored,
    /// The reason phrase of the origin.
    pub reason: Box<[u8]>,
    /// Tags besides those of its fields.
    pub tags: Box<[Box<str>]>,
    /// The trailers.
    pub trailers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The layout of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The name of the file, which is unique. All of its sums depend on it.
    pub name: u64,
    /// Bytes of the head.
    pub room: u32,
    /// Bytes of the body.
    pub length: u64,
}

/// The parts of a response that are encoded.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The key.
    pub key: &'a Key,
    /// The response without its body. Of a part its content is that part.
    pub stored: &'a Stored,
    /// The reason phrase of the origin.
    pub reason: &'a [u8],
    /// Tags besides those of its fields.
    pub tags: &'a [Box<str>],
    /// The trailers.
    pub trailers: &'a [(Vec<u8>, Vec<u8>)],
}

impl Layout {
    /// The number of blocks.
    pub fn blocks(self) -> u64 {
        self.length.div_ceil(BLOCK)
    }

    /// Bytes of a block.
    pub fn block_length(self, block: u64) -> usize {
        let length = self.length.saturating_sub(block * BLOCK).min(BLOCK);
        usize::try_from(length).unwrap_or_default()
    }

    /// The offset of a block in the file.
    pub fn block_place(self, block: u64) -> u64 {
        u64::from(self.room) + block * BLOCK
    }

    /// The offset of the sums in the file.
    pub fn sums_place(self) -> u64 {
        u64::from(self.room) + self.length
    }

    /// Bytes of the file; `None` if that is too large for a number.
    pub fn size(self) -> Option<u64> {
        u64::from(self.room).checked_add(self.length)?.checked_add(self.blocks().checked_mul(SUM)?)
    }

    /// The sum of a block with these bytes.
    pub fn sum(self, block: u64, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, self.seed(block))
    }

    /// The same sum, of bytes in pieces.
    pub fn summing(self, block: u64) -> Xxh3 {
        Xxh3::with_seed(self.seed(block))
    }

    /// Seeded by its place: a block that was written to a wrong place has a wrong sum there.
    fn seed(self, block: u64) -> u64 {
        self.name.wrapping_add(block)
    }
}

/// Encodes the head of a file, in `room` bytes or in as many pages as it needs. `None` if it does not fit, or has
/// several parts.
pub fn encode(known: Known<'_>, name: u64, length: u64, room: Option<u32>) -> Option<(Layout, Vec<u8>)> {
    let mut body = Writing::default();
    body.text(known.key.as_str().as_bytes());
    body.text(known.reason);
    body.number(known.tags.len() as u64);
    for tag in known.tags {
        body.text(tag.as_bytes());
    }
    body.number(known.trailers.len() as u64);
    for (name, value) in known.trailers {
        body.text(name);
        body.text(value);
    }
    known.stored.encode(&mut body)?;
    let needed = PREFIX + body.0.len();
    let room = match room {
        Some(room) => usize::try_from(room).ok()?,
        None => (needed + HEAD_SPARE).next_multiple_of(PAGE),
    };
    if needed > room || room > MAX_HEAD {
        return None;
    }
    let mut head = Writing(MAGIC.to_vec());
    for number in [VERSION, body.0.len() as u64, room as u64, BLOCK, length, name] {
        head.number(number);
    }
    let mut head = head.0;
    head.resize(PREFIX, 0);
    head.append(&mut body.0);
    head.resize(room, 0);
    seal(&mut head);
    Some((Layout { name, room: u32::try_from(room).ok()?, length }, head))
}

/// The bytes of the head with this `prefix`; `None` if it is not valid.
pub fn room(prefix: &[u8; PREFIX]) -> Option<usize> {
    let mut numbers = Reading(prefix.strip_prefix(MAGIC)?);
    let (version, size, room) = (numbers.number()?, numbers.number()?, numbers.number()?);
    let (size, room) = (usize::try_from(size).ok()?, usize::try_from(room).ok()?);
    let fits = room <= MAX_HEAD && room.checked_sub(PREFIX).is_some_and(|most| size <= most);
    (version == VERSION && fits && numbers.number()? == BLOCK).then_some(room)
}

/// The layout that the head with this `prefix` has, if it is valid.
pub fn layout(prefix: &[u8; PREFIX]) -> Option<Layout> {
    let room = u32::try_from(room(prefix)?).ok()?;
    let mut numbers = Reading(&prefix[MAGIC.len() + 4 * 8..]);
    let (length, name) = (numbers.number()?, numbers.number()?);
    Some(Layout { name, room, length })
}

/// Writes the sum of a head into it.
pub fn seal(head: &mut [u8]) {
    let sum = head_sum(head);
    head[PREFIX - 8..PREFIX].copy_from_slice(&sum.to_le_bytes());
}

/// Decodes a head of [`encode`] for the file `name` of `size` bytes; `None` if a byte has changed, or the file is of
/// another size than the head says.
pub fn decode(name: u64, head: &[u8], size: u64) -> Option<(Layout, Head)> {
    let prefix: &[u8; PREFIX] = head.first_chunk()?;
    if room(prefix)? != head.len() {
        return None;
    }
    let mut numbers = Reading(&prefix[MAGIC.len() + 8..]);
    let (known, room, _) = (numbers.number()?, numbers.number()?, numbers.number()?);
    let (length, named, sum) = (numbers.number()?, numbers.number()?, numbers.number()?);
    if named != name || head_sum(head) != sum {
        return None;
    }
    let layout = Layout { name, room: u32::try_from(room).ok()?, length };
    if layout.size()? != size {
        return None;
    }
    let mut from = Reading(head[PREFIX..].get(..usize::try_from(known).ok()?)?);
    let key = Key::of_url(std::str::from_utf8(from.text()?).ok()?);
    let reason = from.text()?.into();
    let count = from.number()?;
    let tag = |_| Some(std::str::from_utf8(from.text()?).ok()?.into());
    let tags = (0..count).map(tag).collect::<Option<_>>()?;
    let mut trailers = Vec::new();
    for _ in 0..from.number()? {
        trailers.push((from.text()?.to_vec(), from.text()?.to_vec()));
    }
    let stored = Stored::decode(&mut from)?;
    if let Content::Parts(spans, _) = &stored.content {
        if spans.total() != length {
            return None;
        }
    }
    from.0.is_empty().then_some((layout, Head { key, stored, reason, tags, trailers }))
}

/// The sum of all but the sum itself.
fn head_sum(head: &[u8]) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(&head[..PREFIX - 8]);
    sum.update(&head[PREFIX..]);
    sum.digest()
}
