//! The key of a decision: parts of a request, under a cryptographic hash with a secret. A process has one, and gives it to
//! the process that takes its place, so that decisions can move.
//!
//! A client cannot find two different requests with the same hash, so it cannot get the decision of another. A hash has one
//! size, so that long tokens take no more memory than short ones, and a client cannot predict its place in a table. The
//! input of the hash is unambiguous: each value is followed by its length, each part by the number of its values.

use std::fmt;
use std::sync::OnceLock;

use ring::digest::{Context, SHA256};
use ring::rand::{SecureRandom, SystemRandom};

use super::asked::Asked;
use super::reading::{cookies, decoded, parameters};
use super::table::Key;
use penstock_error::{Code, Result};

/// A part of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// All fields of a name.
    Header(String),
    /// All cookies of a name.
    Cookie(String),
    /// All query parameters of a name, decoded.
    Query(String),
    /// The first segments of the path after the route's prefix: this many, or all if there are
    /// fewer.
    Path(usize),
    /// The client's address.
    Address,
    /// The requested host, without its port, in lower case.
    Host,
    /// The method.
    Method,
}

/// A value of a part.
enum Value<'a> {
    Plain(&'a [u8]),
    Parameter(&'a str),
    Lower(&'a str),
}

/// Bytes that are decoded and hashed at a time. Arbitrary.
const PIECE: usize = 128;

impl Value<'_> {
    /// Calls `see` with the bytes, piece by piece.
    fn read(self, mut see: impl FnMut(&[u8])) {
        match self {
            Self::Plain(bytes) => see(bytes),
            Self::Parameter(text) => in_pieces(decoded(text), see),
            Self::Lower(text) => in_pieces(text.bytes().map(|byte| byte.to_ascii_lowercase()), see),
        }
    }
}

fn in_pieces(bytes: impl Iterator<Item = u8>, mut see: impl FnMut(&[u8])) {
    let mut piece = [0; PIECE];
    let mut length = 0;
    for byte in bytes {
        if length == PIECE {
            see(&piece);
            length = 0;
        }
        piece[length] = byte;
        length += 1;
    }
    see(&piece[..length]);
}

impl Part {
    /// The first value of this part of a request, if it has one.
    pub fn first(&self, asked: &Asked<'_>) -> Option<Vec<u8>> {
        let mut first = None;
        self.each(asked, &mut |value| {
            first.get_or_insert_with(|| {
                let mut bytes = Vec::new();
                value.read(|piece| bytes.extend_from_slice(piece));
                bytes
            });
        });
        first
    }

    /// Calls `see` with each value of this part of a request.
    fn each(&self, asked: &Asked<'_>, see: &mut dyn FnMut(Value<'_>)) {
        match self {
            Self::Header(name) => asked.headers.each(name, &mut |value| see(Value::Plain(value))),
            Self::Cookie(name) => asked.headers.each("cookie", &mut |line| {
                cookies(line, name.as_bytes(), &mut |value| see(Value::Plain(value)));
            }),
            Self::Query(name) => {
                parameters(asked.query(), name.as_bytes(), &mut |value| see(Value::Parameter(value)));
            }
            Self::Path(count) => see(Value::Plain(segments(asked.below(), *count).as_bytes())),
            Self::Address => {
                if let Some(address) = asked.remote {
                    see(Value::Plain(address.as_bytes()));
                }
            }
            Self::Host => see(Value::Lower(asked.host())),
            Self::Method => see(Value::Plain(asked.method.as_bytes())),
        }
    }
}

/// The first `count` segments of a path that does not begin with a slash.
fn segments(path: &str, count: usize) -> &str {
    let Some(last) = count.checked_sub(1) else { return "" };
    path.match_indices('/').nth(last).map_or(path, |(end, _)| &path[..end])
}

/// A hash that is being computed.
struct Hash(Context);

impl Hash {
    fn count(&mut self, count: usize) {
        self.0.update(&(count as u64).to_le_bytes());
    }

    fn value(&mut self, value: Value<'_>) {
        let mut length = 0;
        value.read(|piece| {
            self.0.update(piece);
            length += piece.len();
        });
        self.count(length);
    }

    fn end(self) -> Key {
        let mut key = [0; Key::LENGTH];
        key.copy_from_slice(self.0.finish().as_ref());
        Key::new(key)
    }
}

/// The bytes of a secret: a whole block of the hash, so that they are hashed once.
pub type SecretBytes = [u8; 64];

/// The secret of this process.
static OWN: OnceLock<SecretBytes> = OnceLock::new();

/// The secret of this process, which is random unless [`take_secret`] has set it.
///
/// # Errors
/// `INTERNAL`: the operating system gave no random bytes.
pub fn own_secret() -> Result<SecretBytes> {
    if let Some(own) = OWN.get() {
        return Ok(*own);
    }
    let mut bytes = [0; size_of::<SecretBytes>()];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Code::Internal.error("the operating system gave no random bytes"))?;
    Ok(*OWN.get_or_init(|| bytes))
}

/// Sets the secret of this process to that of another. False: this process has made keys already.
pub fn take_secret(bytes: SecretBytes) -> bool {
    OWN.set(bytes).is_ok()
}

/// Makes keys that clients cannot compute.
#[derive(Clone)]
pub struct Secret(Context);

impl Secret {
    /// The secret of these bytes.
    pub fn new(bytes: &SecretBytes) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(bytes);
        Self(context)
    }

    /// The key of the values of `parts` in a request of `route`.
    pub fn key(&self, route: &str, parts: &[Part], asked: &Asked<'_>) -> Key {
        let mut hash = Hash(self.0.clone());
        for part in parts {
            let mut count = 0;
            part.each(asked, &mut |value| {
                hash.value(value);
                count += 1;
            });
            hash.count(count);
        }
        hash.value(Value::Plain(route.as_bytes()));
        hash.end()
    }

    /// The key of a request with these values, at most one for each part.
    pub fn key_of(&self, route: &str, values: &[Option<Vec<u8>>]) -> Key {
        let mut hash = Hash(self.0.clone());
        for value in values {
            if let Some(value) = value {
                hash.value(Value::Plain(value));
            }
            hash.count(usize::from(value.is_some()));
        }
        hash.value(Value::Plain(route.as_bytes()));
        hash.end()
    }

    /// The key of a request that is decided by a token alone.
    pub fn key_of_token(&self, route: &str, token: &[u8]) -> Key {
        let mut hash = Hash(self.0.clone());
        for bytes in [token, route.as_bytes()] {
            hash.value(Value::Plain(bytes));
        }
        hash.end()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}
