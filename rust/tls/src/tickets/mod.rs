//! Session tickets (RFC 8446, section 4.6.1; RFC 5077): all that a session needs, sealed, and kept by the client.
//!
//! Keys are derived from the secrets of a [`Ring`](keys::Ring) for one [policy](Policy) each. So a session that was made
//! on another site, or where clients had to show less or something else, cannot be opened (CVE-2025-23419).
//! rustls itself resumes whatever opens, if the host name is the same.
//!
//! A ticket is: the name of its key (16 bytes), a salt (16), and sealed: when it was made (8), and the session.

pub(crate) mod file;
pub(crate) mod keys;

use std::fmt;
use std::time::{Duration, SystemTime};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::server::ProducesTickets;

use keys::Ring;

/// The form of tickets is part of the derivation, so that another form has other keys.
const FORM: &[u8] = b"penstock session tickets 1";
const NAME: usize = 16;
const SALT: usize = 16;
const TIME: usize = 8;
const KEY: usize = 32;
/// A client may hold no ticket longer than seven days (RFC 8446, section 4.6.1).
const LONGEST: Duration = Duration::from_secs(604_800);
/// A ticket is accepted for so many periods of a key.
pub(crate) const PERIODS: u32 = 3;

/// What sessions have in common that may be resumed in one another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy<'a> {
    pub(crate) site: &'a str,
    /// Of what clients have to show.
    pub(crate) clients: &'a [u8; 32],
}

/// The tickets of one policy, with the keys that a ring had when it was made.
pub(crate) struct Ticketer {
    /// The first one seals.
    keys: Vec<Key>,
    period: Duration,
}

/// What a secret is for one policy.
struct Key {
    name: [u8; NAME],
    prk: Prk,
    until: Option<SystemTime>,
}

impl Key {
    fn is_accepted(&self, now: SystemTime) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// The key of one ticket. A salt of its own for each key and nonce lets all nodes make as many tickets as they
    /// like: a random nonce of 12 bytes under one key would be repeated too early (2^32 tickets, NIST SP 800-38D, section 8.3).
    fn of_ticket(&self, salt: &[u8]) -> Option<(LessSafeKey, Nonce)> {
        let mut material = [0; KEY + NONCE_LEN];
        expand(&self.prk, &[salt], &mut material)?;
        let (key, nonce) = material.split_at(KEY);
        let key = UnboundKey::new(&AES_256_GCM, key).ok()?;
        Some((LessSafeKey::new(key), Nonce::try_assume_unique_for_key(nonce).ok()?))
    }
}

impl Ticketer {
    /// The tickets of `policy`, under keys derived from `ring`.
    pub(crate) fn new(ring: &Ring, policy: Policy<'_>, period: Duration) -> Self {
        let keys = ring.secrets().iter().filter_map(|secret| {
            let root = Salt::new(HKDF_SHA256, FORM).extract(secret.bytes());
            let mut material = [0; NAME + KEY];
            expand(&root, &[policy.clients, policy.site.as_bytes()], &mut material)?;
            let (name, key) = material.split_at(NAME);
            let prk = Prk::new_less_safe(HKDF_SHA256, key);
            Some(Key { name: name.try_into().ok()?, prk, until: secret.until() })
        });
        Self { keys: keys.collect(), period }
    }

    /// A ticket that holds `session`. None: the key is out of date.
    pub(crate) fn seal(&self, session: &[u8], now: SystemTime) -> Option<Vec<u8>> {
        let key = self.keys.first().filter(|key| key.is_accepted(now))?;
        let mut salt = [0; SALT];
        SystemRandom::new().fill(&mut salt).ok()?;
        let (sealing, nonce) = key.of_ticket(&salt)?;
        let mut content = Vec::with_capacity(TIME + session.len() + AES_256_GCM.tag_len());
        content.extend(seconds(now).to_be_bytes());
        content.extend(session);
        sealing.seal_in_place_append_tag(nonce, Aad::from(key.name), &mut content).ok()?;
        Some([&key.name, &salt, &*content].concat())
    }

    /// The session that `ticket` holds, if it was sealed under one of the keys and is not too old.
    pub(crate) fn open(&self, ticket: &[u8], now: SystemTime) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME>()?;
        let (salt, sealed) = rest.split_first_chunk::<SALT>()?;
        // Names are no secret: each ticket shows one.
        let key = self.keys.iter().find(|key| key.name == *name && key.is_accepted(now))?;
        let (opening, nonce) = key.of_ticket(salt)?;
        let mut content = sealed.to_vec();
        let content = opening.open_in_place(nonce, Aad::from(key.name), &mut content).ok()?;
        let (made, session) = content.split_first_chunk::<TIME>()?;
        // Keys of a file may stay for as long as they like.
        let age = seconds(now).saturating_sub(u64::from_be_bytes(*made));
        (age <= self.period.saturating_mul(PERIODS).min(LONGEST).as_secs()).then(|| session.to_vec())
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    /// For so long a ticket is accepted whenever it was made: the period of a key, at whose end it may be made, is over.
    fn lifetime(&self) -> u32 {
        let lifetime = self.period.saturating_mul(PERIODS - 1).min(LONGEST);
        u32::try_from(lifetime.as_secs()).unwrap_or_default()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, SystemTime::now())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.open(cipher, SystemTime::now())
    }
}

impl fmt::Debug for Ticketer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticketer").field("keys", &self.keys.len()).field("period", &self.period).finish()
    }
}

/// How many bytes HKDF gives.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// RFC 5869, section 2.3. Only the last part of `info` may have any length.
fn expand(prk: &Prk, info: &[&[u8]], material: &mut [u8]) -> Option<()> {
    prk.expand(info, Length(material.len())).ok()?.fill(material).ok()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
