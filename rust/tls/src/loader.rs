//! Reads what a site's TLS is made of, again and again, and keeps of each part the last that was good.
//!
//! It blocks on files, and is used by one thread at a time. What it gives to connections is complete and does not change.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use penstock_error::{Error, Result};

use crate::clients::Clients;
use crate::directory;
use crate::files::Mark;
use crate::pair::{Pair, Place};
use crate::settings::TlsSettings;
use crate::tickets::file;
use crate::tickets::keys::Ring;

/// How often files are read again that changed while they were read: a link may be moved between two of them.
const ATTEMPTS: usize = 3;

/// Something that is made of files: the last that was good, and what is wrong with what is there now.
#[derive(Debug)]
struct Kept<T> {
    good: Option<T>,
    marks: Vec<Mark>,
    /// What was told about the files with these marks.
    told: Vec<Error>,
    is_stale: bool,
    /// When it is read again though nothing has changed.
    until: Option<SystemTime>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { good: None, marks: Vec::new(), told: Vec::new(), is_stale: false, until: None }
    }
}

/// What reading gives: something good, what is wrong beside it, and until when it holds.
struct Read<T> {
    good: T,
    problem: Option<Error>,
    until: Option<SystemTime>,
}

impl<T> Kept<T> {
    /// Reads the files at `paths` if they changed, if `all`, or if what is there was bad: a permission, a clock or a disk
    /// may be right again. Says whether there is something new. An error is told once for each change of the files.
    fn refresh(&mut self, paths: &[&Path], look: &mut Look, read: impl Fn() -> Result<Read<T>>) -> bool {
        let marks = |paths: &[&Path]| paths.iter().map(|path| Mark::of(path)).collect::<Vec<_>>();
        let mut before = marks(paths);
        let is_over = self.until.is_some_and(|until| until <= look.now);
        if !look.all && !self.is_stale && !is_over && self.told.is_empty() && before == self.marks {
            return false;
        }
        let mut result = read();
        for _ in 1..ATTEMPTS {
            let after = marks(paths);
            if after == before {
                break;
            }
            before = after;
            result = read();
        }
        let (read, errors) = match result {
            Ok(read) => (Some(read.good).zip(Some(read.until)), Vec::from_iter(read.problem)),
            Err(error) => (None, vec![error]),
        };
        if look.all || self.marks != before || self.told != errors {
            look.errors.extend(errors.iter().cloned());
        }
        let is_same = self.marks == before && !is_over && !look.all && self.told == errors;
        self.marks = before;
        self.told = errors;
        self.is_stale = read.is_none();
        match read {
            Some((good, until)) => {
                self.good = Some(good);
                self.until = until;
                !is_same
            }
            None => false,
        }
    }
}

/// One look at all files.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) now: SystemTime,
    /// Whether files are read again that have not changed.
    pub(crate) all: bool,
    /// What is wrong, and was not told before.
    pub(crate) errors: Vec<Error>,
}

/// Reads what a site's TLS is made of.
#[derive(Debug)]
pub(crate) struct Loader {
    settings: Arc<TlsSettings>,
    declared: Vec<(Place, Kept<Arc<Pair>>)>,
    /// The pairs of the directory, by name.
    found: Vec<(Place, Kept<Arc<Pair>>)>,
    /// What is wrong with the directory itself.
    directory_told: Option<Error>,
    clients: Kept<Clients>,
    /// Secrets of the file of ticket keys, if there is one.
    shared: Kept<Ring>,
    /// Secrets of this process, if there is no file.
    own: Option<Ring>,
}

impl Loader {
    pub(crate) fn new(settings: Arc<TlsSettings>) -> Self {
        let declared = settings.pairs.iter().map(|files| (Place::of(files), Kept::default())).collect();
        let (clients, shared) = (Kept::default(), Kept::default());
        Self { settings, declared, found: Vec::new(), directory_told: None, clients, shared, own: None }
    }

    /// Reads what changed. Says whether there is anything new to serve.
    pub(crate) fn refresh(&mut self, look: &mut Look) -> bool {
        let mut is_new = self.list(look);
        // One error is enough for a directory that has gone.
        let found = if self.directory_told.is_none() { &mut self.found[..] } else { &mut [] };
        for (place, kept) in self.declared.iter_mut().chain(found) {
            let now = look.now;
            is_new |= kept.refresh(&place.paths(), look, || {
                let (pair, problem) = Pair::load(place, now)?;
                Ok(Read { until: pair.until(), good: Arc::new(pair), problem })
            });
        }
        is_new |= self.refresh_clients(look);
        is_new | self.refresh_tickets(look)
    }

    /// Lists the directory. A directory that cannot be read, or has become empty, leaves what was there.
    fn list(&mut self, look: &mut Look) -> bool {
        let Some(directory) = &self.settings.directory else { return false };
        let listed = directory::places(directory).and_then(|places| {
            let needs_one = self.declared.is_empty();
            if places.is_empty() && needs_one { Err(directory::is_empty(directory)) } else { Ok(places) }
        });
        let places = match listed {
            Ok(places) => places,
            Err(error) => {
                if look.all || self.directory_told.as_ref() != Some(&error) {
                    look.errors.push(error.clone());
                }
                self.directory_told = Some(error);
                return false;
            }
        };
        self.directory_told = None;
        let before = self.found.len();
        let mut kept: HashMap<_, _> = std::mem::take(&mut self.found)
            .into_iter()
            .map(|(place, kept)| (place.name.clone(), (place, kept)))
            .collect();
        let mut same = 0;
        for place in places {
            let found = kept.remove(&place.name);
            same += usize::from(found.is_some());
            let (was, mut found) = found.unwrap_or_else(|| (place.clone(), Kept::default()));
            if was != place {
                found.marks.clear();
            }
            self.found.push((place, found));
        }
        same != before
    }

    fn refresh_clients(&mut self, look: &mut Look) -> bool {
        let settings = Arc::clone(&self.settings);
        let paths: Vec<&Path> =
            settings.clients.authorities().into_iter().chain(&settings.revoked).map(AsRef::as_ref).collect();
        let now = look.now;
        if paths.is_empty() && self.clients.good.is_some() {
            return false;
        }
        self.clients.refresh(&paths, look, || {
            Clients::load(&settings, now).map(|good| Read { until: good.until, good, problem: None })
        })
    }

    fn refresh_tickets(&mut self, look: &mut Look) -> bool {
        if let Some(path) = &self.settings.ticket_keys {
            return self.shared.refresh(&[path], look, || {
                file::load(path).map(|keys| Read { good: Ring::of_file(keys), problem: None, until: None })
            });
        }
        let period = self.settings.ticket_period;
        match Ring::own(look.now, period) {
            Ok(ring) => {
                let is_new = self.own.as_ref() != Some(&ring);
                self.own = Some(ring);
                is_new
            }
            Err(error) => {
                look.errors.push(error);
                false
            }
        }
    }

    /// The pairs that are served, in the order of preference.
    pub(crate) fn pairs(&self) -> Vec<Arc<Pair>> {
        let good = |kept: &Kept<Arc<Pair>>| kept.good.clone();
        let declared = self.declared.iter().filter_map(|(_, kept)| good(kept));
        let mut found: Vec<_> = self.found.iter().filter_map(|(_, kept)| good(kept)).collect();
        // Without declared ones the first by name stays the first, because it is the default.
        let sorted = usize::from(self.declared.is_empty()).min(found.len());
        found[sorted..].sort_by_key(|pair| std::cmp::Reverse(pair.certificate.not_after));
        declared.chain(found).collect()
    }

    /// Every pair with the name of its place, and whether what is in its files now is bad.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Place, Option<&Arc<Pair>>, bool)> {
        let is_gone = self.directory_told.is_some();
        let declared = self.declared.iter().map(|(place, kept)| (place, kept, kept.is_stale));
        let found = self.found.iter().map(move |(place, kept)| (place, kept, kept.is_stale || is_gone));
        declared.chain(found).map(|(place, kept, is_stale)| (place, kept.good.as_ref(), is_stale))
    }

    pub(crate) fn clients(&self) -> Option<&Clients> {
        self.clients.good.as_ref()
    }

    pub(crate) fn ring(&self) -> Option<&Ring> {
        self.shared.good.as_ref().or(self.own.as_ref())
    }
}
