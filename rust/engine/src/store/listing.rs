//! Lists stored responses for operators.

use std::collections::BTreeMap;

use super::cache::Cache;
use super::object::Object;
use super::purge::normalised;
use crate::cache::{Key, State};
use crate::error::Result;
use crate::sync::Arc;

/// A stored response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its key, as a URL of its origin.
    pub url: String,
    /// Its status.
    pub status: u16,
    /// Bytes of the body that are stored.
    pub size: u64,
    /// Seconds since the origin made it.
    pub age: u64,
    /// Seconds for which it remains fresh; negative: for which it has been stale.
    pub ttl: i64,
    /// Hits since it was fetched.
    pub hits: u32,
    /// Its tags.
    pub tags: Vec<String>,
}

impl Cache {
    /// The responses under the first `limit` keys that begin with `prefix` and come after `after`, in order. All
    /// variants of a key are listed, or none.
    ///
    /// # Errors
    /// `BAD_REQUEST`: the prefix does not begin with scheme and authority.
    pub fn list(&self, prefix: Option<&str>, after: Option<&str>, limit: usize) -> Result<Vec<Listed>> {
        let prefix = prefix.map(normalised).transpose()?.unwrap_or_default();
        let mut first: BTreeMap<Key, Vec<Arc<Object>>> = BTreeMap::new();
        self.index.each(|key, objects| {
            let text = key.as_str();
            if objects.is_empty() || !text.starts_with(&*prefix) || after.is_some_and(|after| text <= after) {
                return;
            }
            if first.len() >= limit {
                match first.last_key_value() {
                    Some((last, _)) if key < last => {}
                    _ => return,
                }
                first.pop_last();
            }
            first.insert(key.clone(), objects.to_vec());
        });
        let rows = first.iter().flat_map(|(key, objects)| objects.iter().map(|object| row(key, object)));
        Ok(rows.collect())
    }
}

fn row(key: &Key, object: &Object) -> Listed {
    let (freshness, now) = (&object.stored.freshness, Cache::now());
    let seconds = |span: std::time::Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    Listed {
        url: key.as_str().to_owned(),
        status: object.stored.status,
        size: object.size(),
        age: freshness.age(now).as_secs(),
        ttl: match freshness.state(now) {
            State::Fresh(left) => seconds(left),
            State::Stale(span) => -seconds(span),
        },
        hits: object.item.hits(),
        tags: object.tags().map(|tag| String::from_utf8_lossy(tag).into_owned()).collect(),
    }
}
