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

/// Bytes of a signature: those of an RSA key of 8192 bits.
const LONGEST_SIGNATURE: usize = 1024;

/// Lets in whoever has a token that one of the keys has signed.
#[derive(Debug)]
pub struct Jwt {
    ring: Mutex<Ring>,
    claims: Claims,
    places: Places,
    /// Bytes of a token.
    longest: usize,
    /// Of a request without a token, and of one with a bad one (RFC 6750, section 3).
    denials: [Arc<Decision>; 2],
}

/// The keys of the moment, and when others are wanted. Times are seconds since 1970.
#[derive(Debug)]
struct Ring {
    keys: Arc<Keys>,
    /// When they are to be fetched anew.
    refresh: u64,
    /// When they are no longer right, if nobody has said that they still are.
    expires: u64,
    /// Before which nobody is asked to fetch them, however many tokens name a key that is not known.
    quiet: u64,
    /// How long it is quiet between two times.
    pause: u64,
    /// Who fetches them.
    fetcher: Option<Waker>,
}

impl Ring {
    /// Whom to wake, if they are to be fetched.
    fn ask(&mut self, now: u64) -> Option<Waker> {
        let fetcher = self.fetcher.as_ref().filter(|_| now >= self.quiet)?.clone();
        self.quiet = now.saturating_add(self.pause);
        Some(fetcher)
    }
}

impl Jwt {
    /// Tokens of at most `longest` bytes, signed by one of `keys`, which are right for ever.
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

    /// Has `fetcher` woken, no more than once in `pause` seconds, when a token names a key that is not known, when keys are
    /// to be fetched anew, and when there are none.
    pub fn fetched_by(&self, fetcher: Waker, pause: u64) {
        let mut ring = lock(&self.ring);
        (ring.pause, ring.quiet) = (pause, 0);
        let before = ring.fetcher.replace(fetcher);
        drop(ring);
        drop(before);
    }

    /// Has keys in place of those that there were. They are to be fetched anew when it is `refresh`, and are not right any
    /// more when it is `expires`.
    pub fn set_keys(&self, keys: Keys, refresh: u64, expires: u64) {
        let keys = Arc::new(keys);
        let mut ring = lock(&self.ring);
        (ring.refresh, ring.expires) = (refresh, expires);
        let before = std::mem::replace(&mut ring.keys, keys);
        drop(ring);
        drop(before);
    }

    /// The keys; none that are not right any more.
    fn keys(&self, now: u64) -> Result<Arc<Keys>> {
        let mut ring = lock(&self.ring);
        let keys = Some(Arc::clone(&ring.keys)).filter(|keys| !keys.is_empty() && now < ring.expires);
        let fetcher = if keys.is_none() || now >= ring.refresh { ring.ask(now) } else { None };
        drop(ring);
        wake(fetcher);
        keys.ok_or_else(|| {
            Code::KeysUnavailable.error("there are no keys that tokens could be verified with")
        })
    }

    fn miss(&self, now: u64) {
        let fetcher = lock(&self.ring).ask(now);
        wake(fetcher);
    }

    /// What a token grants on a path that is given in pieces.
    ///
    /// # Errors
    /// The code of what is wrong with it.
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

/// The payload of a token that one of `keys` has signed, still encoded. Allocates nothing of its own.
///
/// # Errors
/// What is wrong with its form, its header or its signature.
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

/// A token, taken apart.
struct Parts<'a> {
    /// What the signature is of: the first two parts and the dot between them.
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
