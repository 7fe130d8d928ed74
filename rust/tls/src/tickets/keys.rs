//! The secrets that keys of tickets are derived from: random ones that take turns, or those of a file.
//!
//! A random secret seals for one period, and opens for three. Then nothing is left of it: what was sent in a session
//! cannot be read by who takes this process's memory later (RFC 8446, section 8.1).
//!
//! All sites of a process with one period have the same random secrets, because keys are derived for each site. The process that
//! takes the place of this one is given them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use penstock_error::{Code, Result};
use ring::rand::{SecureRandom, SystemRandom};

use super::PERIODS;

/// As many bytes as a line of a file has.
const LENGTH: usize = 48;

/// A secret, and how long it opens tickets.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret {
    bytes: Vec<u8>,
    /// When it was made, and until when it opens. None: for as long as it is in its file.
    life: Option<(SystemTime, SystemTime)>,
}

impl Secret {
    fn random(now: SystemTime, period: Duration) -> Result<Self> {
        let mut bytes = vec![0; LENGTH];
        SystemRandom::new().fill(&mut bytes).map_err(|_| {
            Code::BadConfiguration.error("TLS: the system gives no random numbers for session tickets")
        })?;
        // More than the clock can count: a century.
        let until =
            now.checked_add(period.saturating_mul(PERIODS)).unwrap_or(now + Duration::from_secs(1 << 32));
        Ok(Self { bytes, life: Some((now, until)) })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn until(&self) -> Option<SystemTime> {
        self.life.map(|(_, until)| until)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("life", &self.life).finish_non_exhaustive()
    }
}

/// The random secrets of this process, by their periods.
static OWN: Mutex<BTreeMap<Duration, Ring>> = Mutex::new(BTreeMap::new());

/// A random secret, as one process gives it to another.
#[derive(Clone, PartialEq, Eq)]
pub struct GivenSecret {
    /// How long it seals.
    pub period: Duration,
    /// The secret.
    pub bytes: Vec<u8>,
    /// When it was made.
    pub made: SystemTime,
    /// Until when it opens.
    pub until: SystemTime,
}

impl fmt::Debug for GivenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenSecret").field("period", &self.period).finish_non_exhaustive()
    }
}

/// The random secrets of this process, of each period those first that are newer.
pub fn own_secrets() -> Vec<GivenSecret> {
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let given = |(period, ring): (&Duration, &Ring)| {
        let period = *period;
        ring.secrets.clone().into_iter().filter_map(move |Secret { bytes, life }| {
            life.map(|(made, until)| GivenSecret { period, bytes, made, until })
        })
    };
    own.iter().flat_map(given).collect()
}

/// Begins with the random secrets of another process, in the order of [`own_secrets`]. What cannot be a secret is dropped.
pub fn take_secrets(given: Vec<GivenSecret>) {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    for GivenSecret { period, bytes, made, until } in given {
        if bytes.len() == LENGTH {
            let ring = own.entry(period).or_insert_with(|| Ring { secrets: Vec::new() });
            ring.secrets.push(Secret { bytes, life: Some((made, until)) });
        }
    }
}

/// Secrets, of which the first one seals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ring {
    secrets: Vec<Secret>,
}

impl Ring {
    /// The random secrets of this process that have a `period`, as they are now.
    ///
    /// # Errors
    /// `BAD_CONFIGURATION` if the system gives no random numbers.
    pub(crate) fn own(now: SystemTime, period: Duration) -> Result<Self> {
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        let ring = own.entry(period).or_insert_with(|| Self { secrets: Vec::new() });
        ring.turn(now, period)?;
        Ok(ring.clone())
    }

    /// One random secret.
    ///
    /// # Errors
    /// `BAD_CONFIGURATION` if the system gives no random numbers.
    #[cfg(test)]
    pub(crate) fn random(now: SystemTime, period: Duration) -> Result<Self> {
        Ok(Self { secrets: vec![Secret::random(now, period)?] })
    }

    /// Secrets of a file, which stay until the file has others.
    pub(crate) fn of_file(secrets: Vec<Vec<u8>>) -> Self {
        Self { secrets: secrets.into_iter().map(|bytes| Secret { bytes, life: None }).collect() }
    }

    /// Puts a new secret first if the first one has had its period, and drops the secrets that open no ticket any more. Says
    /// whether anything changed.
    ///
    /// # Errors
    /// `BAD_CONFIGURATION` if the system gives no random numbers.
    pub(crate) fn turn(&mut self, now: SystemTime, period: Duration) -> Result<bool> {
        let before = self.secrets.len();
        self.secrets.retain(|secret| secret.life.is_none_or(|(_, until)| now < until));
        // If the clock was set back, `since` has an error: the secret stays until the clock is there again.
        let is_due =
            |&(from, _): &(SystemTime, SystemTime)| now.duration_since(from).is_ok_and(|age| age >= period);
        let is_due = match self.secrets.first() {
            Some(first) => first.life.as_ref().is_some_and(is_due),
            None => true,
        };
        if is_due {
            self.secrets.insert(0, Secret::random(now, period)?);
        }
        Ok(is_due || self.secrets.len() != before)
    }

    pub(crate) fn secrets(&self) -> &[Secret] {
        &self.secrets
    }
}
