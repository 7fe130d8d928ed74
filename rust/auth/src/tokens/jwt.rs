//! JSON Web Tokens: three parts in Base64url with dots between them (RFC 7515, section 3.1; RFC 7519, section 3).

use std::borrow::Cow;
use std::task::Waker;

use super::claims::Claims;
use super::decode::{base64url, base64url_vec};
use super::denial;
use super::header::{self, Header};
use super::key::Keys;
use super::place::Places;
use crate::access::{Asked, Decision, Grant, Verifier};
use penstock_error::{Code, Error, Result};
use penstock_memory::sync::{Arc, Mutex, lock};

/// Bytes of a signature: that of an RSA key of 8192 bits.
const LONGEST_SIGNATURE: usize = 1024;

/// Verifies JSON Web Tokens that one of the keys has signed.
#[derive(Debug)]
pub struct Jwt {
    ring: Mutex<Ring>,
    claims: Claims,
    places: Places,
    /// Bytes of a token at most.
    longest: usize,
    /// For a request without a token, and for a bad token (RFC 6750, section 3).
    denials: [Arc<Decision>; 2],
}

/// The current keys, and when to fetch others. Times are seconds since 1970.
#[derive(Debug)]
struct Ring {
    keys: Arc<Keys>,
    /// When to fetch them again.
    refresh: u64,
    /// When they expire, unless they are fetched again.
    expires: u64,
    /// The earliest next fetch, however many tokens name an unknown key.
    quiet: u64,
    /// Seconds between two fetches at least.
    pause: u64,
    /// Wakes the fetcher.
    fetcher: Option<Waker>,
}

impl Ring {
    /// The fetcher to wake, if a fetch is due.
    fn ask(&mut self, now: u64) -> Option<Waker> {
        let fetcher = self.fetcher.as_ref().filter(|_| now >= self.quiet)?.clone();
        self.quiet = now.saturating_add(self.pause);
        Some(fetcher)
    }
}

impl Jwt {
    /// For tokens of at most `longest` bytes, signed by one of `keys`, which do not expire.
    pub fn new(keys: Keys, claims: Claims, places: Places, longest: usize) -> Self {
        let ring = Ring {
            keys: Arc::new(keys),
            refresh: u64::MAX,
            expires: u64::MAX,
            quiet: 0,
            pause: 0,
            fetcher: None,
        };
        let denials = [denial(401, Some("Bearer")), denial(401, Some("Bearer error=\"invalid_token\""))];
        Self { ring: Mutex::new(ring), claims, places, longest, denials }
    }

    /// Wakes `fetcher`, at most once in `pause` seconds, when a token names an unknown key, when it is time to fetch keys
    /// again, and when there are no keys.
    pub fn fetched_by(&self, fetcher: Waker, pause: u64) {
        let mut ring = lock(&self.ring);
        (ring.pause, ring.quiet) = (pause, 0);
        let before = ring.fetcher.replace(fetcher);
        drop(ring);
        drop(before);
    }

    /// Replaces the keys. They are to be fetched again at `refresh`, and expire at `expires`.
    pub fn set_keys(&self, keys: Keys, refresh: u64, expires: u64) {
        let keys = Arc::new(keys);
        let mut ring = lock(&self.ring);
        (ring.refresh, ring.expires) = (refresh, expires);
        let before = std::mem::replace(&mut ring.keys, keys);
        drop(ring);
        drop(before);
    }

    /// The keys that have not expired.
    fn keys(&self, now: u64) -> Result<Arc<Keys>> {
        let mut ring = lock(&self.ring);
        let keys = Some(Arc::clone(&ring.keys)).filter(|keys| !keys.is_empty() && now < ring.expires);
        let fetcher = if keys.is_none() || now >= ring.refresh { ring.ask(now) } else { None };
        drop(ring);
        wake(fetcher);
        keys.ok_or_else(|| Code::KeysUnavailable.error("there are no keys to verify tokens with"))
    }

    fn miss(&self, now: u64) {
        let fetcher = lock(&self.ring).ask(now);
        wake(fetcher);
    }

    /// The grant of a token for a path, which is given in pieces.
    ///
    /// # Errors
    /// The code says what is wrong with the token.
    pub fn verify_token(&self, token: &[u8], path: &[&str], now: u64) -> Result<Grant> {
        let keys = self.keys(now)?;
        let token = Some(token).filter(|token| token.len() <= self.longest).ok_or_else(malformed)?;
        let payload = authentic(&keys, &self.claims, token).inspect_err(|error| {
            if error.code() == Code::TokenUnknownKey {
                self.miss(now);
            }
        })?;
        let payload = base64url_vec(payload).ok_or_else(malformed)?;
        self.claims.grant(&payload, now, path)
    }
}

impl Verifier for Jwt {
    fn remembered_by<'a>(&self, asked: &Asked<'a>) -> Option<&'a [u8]> {
        let is_dear = lock(&self.ring).keys.are_dear();
        is_dear.then(|| self.places.token(asked).ok()).flatten().filter(|token| token.len() <= self.longest)
    }

    fn verify(&self, asked: &Asked<'_>, now: u64) -> Result<Grant> {
        self.verify_token(self.places.token(asked)?, &self.places.path(asked), now)
    }

    fn stripped(&self, asked: &Asked<'_>) -> Option<String> {
        self.places.stripped(asked)
    }

    fn forwarded<'a>(&self, name: &[u8], value: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        self.places.forwarded(name, value)
    }

    fn denial(&self, error: &Error) -> Option<Arc<Decision>> {
        let code = error.code();
        let [missing, bad] = &self.denials;
        (code.status() == 401).then(|| Arc::clone(if code == Code::TokenMissing { missing } else { bad }))
    }
}

/// The encoded payload of a token that one of `keys` has signed. Allocates nothing itself.
///
/// # Errors
/// The code says what is wrong with its form, its header or its signature.
pub(super) fn authentic<'a>(keys: &Keys, claims: &Claims, token: &'a [u8]) -> Result<&'a [u8]> {
    let parts = Parts::of(token).ok_or_else(malformed)?;
    let mut room = [0; header::LONGEST];
    let header = Header::read(parts.header, &mut room)?;
    let mut room = [0; LONGEST_SIGNATURE];
    let signature = base64url(parts.signature, &mut room).ok_or_else(malformed)?;
    keys.verify(&header.key, parts.signed, signature)?;
    claims.check_kind(header.kind.as_ref())?;
    Ok(parts.payload)
}

fn wake(fetcher: Option<Waker>) {
    if let Some(fetcher) = fetcher {
        fetcher.wake();
    }
}

/// The parts of a token.
struct Parts<'a> {
    /// The signed text: the first two parts and the dot between them.
    signed: &'a [u8],
    header: &'a [u8],
    payload: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(token: &'a [u8]) -> Option<Self> {
        let last = memchr::memrchr(b'.', token)?;
        let (signed, signature) = (&token[..last], &token[last + 1..]);
        let first = memchr::memchr(b'.', signed)?;
        let (header, payload) = (&signed[..first], &signed[first + 1..]);
        memchr::memchr(b'.', payload).is_none().then_some(Self { signed, header, payload, signature })
    }
}

fn malformed() -> Error {
    Code::TokenMalformed.error("the token is no JSON Web Signature of three parts")
}
