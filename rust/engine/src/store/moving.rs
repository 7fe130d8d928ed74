//! Moves what a cache has in memory to the cache of another process: records in the format of the disk tier, one after the other
//! in a file, each after its number of hits.
//!
//! What is asked for most for its size comes first, so that a move that ends early has moved what counts. The other cache takes
//! a record as it takes a file of its disk: not if it has purged the response, or has a later one.

use std::io::{self, Read, Write};

use super::body::Body;
use super::cache::{Cache, seconds, until};
use super::disk::format::{self, Head, Layout, PREFIX, encode};
use super::disk::{new_name, said_of, write_body};
use super::eviction::Item;
use super::object::{Object, Part, item};
use super::purge::RequestEpoch;
use crate::cache::{Content, Key};
use crate::pool::Purpose;
use crate::stream::Ending;
use crate::sync::Arc;

/// Hits of a record that count, as rounds in the order of eviction do.
const MOST_HITS: u32 = 3;

/// What is left to move of a cache.
#[derive(Debug)]
pub struct Moving {
    cache: Arc<Cache>,
    /// The last is written next.
    items: Vec<Arc<Item<Key>>>,
}

impl Cache {
    /// What can be moved of what is stored now: what is complete, and in memory alone.
    pub fn begin_moving(self: &Arc<Self>) -> Moving {
        let now = Self::now();
        let mut found = Vec::new();
        self.index.each(|_, objects| {
            for object in objects {
                let lasts = until(object, now).is_none_or(|until| until > seconds(now));
                if !object.stored.is_invalid && lasts {
                    found.extend(object.in_memory_alone().map(|(item, body)| (item.clone(), body.cost())));
                }
            }
        });
        #[expect(clippy::cast_precision_loss, reason = "an order")]
        let value =
            |(item, cost): &(Arc<Item<Key>>, usize)| f64::from(item.hits() + 1) / (*cost).max(1) as f64;
        found.sort_by(|one, other| value(one).total_cmp(&value(other)));
        Moving { cache: Arc::clone(self), items: found.into_iter().map(|(item, _)| item).collect() }
    }

    /// Takes records up to the end of `source`. False: there is no room for more, or what follows is no record.
    ///
    /// # Errors
    /// `source` cannot be read.
    pub fn take_records(&self, source: &mut impl Read) -> io::Result<bool> {
        while let Some(hits) = read_number(source)? {
            let record = match self.read_record(source) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
                record => record?,
            };
            let Some((layout, head, body)) = record else { return Ok(false) };
            self.take_record(head, body, layout, hits);
        }
        Ok(true)
    }

    /// The next record; `None` if there is no room for it, or a byte has changed.
    fn read_record(&self, source: &mut impl Read) -> io::Result<Option<(Layout, Head, Arc<Body>)>> {
        let Some((layout, head)) = read_head(source)? else { return Ok(None) };
        let body = self.read_body(source, layout, &head)?;
        Ok(body.map(|body| (layout, head, body)))
    }

    /// As [`Cache::read_record`], of its body.
    fn read_body(
        &self,
        source: &mut impl Read,
        layout: Layout,
        head: &Head,
    ) -> io::Result<Option<Arc<Body>>> {
        let (body, filler) = Body::new(&self.budget);
        let mut sums = Vec::new();
        for block in 0..layout.blocks() {
            let length = layout.block_length(block);
            if self.budget.used() + length > self.memory_limit() {
                return Ok(None);
            }
            let Ok(mut writer) = self.pool.writer(length, Purpose::Bulk) else { return Ok(None) };
            source.read_exact(&mut writer.spare()[..length])?;
            let slice = writer.commit(length);
            sums.push(layout.sum(block, &slice));
            filler.push(slice);
        }
        for sum in sums {
            if read_number(source)? != Some(sum) {
                return Ok(None);
            }
        }
        filler.finish(Ending { trailers: head.trailers.clone(), ..Ending::default() });
        Ok(Some(body))
    }

    /// Stores a record, unless it was purged or there is a later response.
    fn take_record(&self, head: Head, body: Arc<Body>, layout: Layout, hits: u64) {
        let Head { key, stored, reason, tags, .. } = head;
        let own = item(&key, 0);
        let (object, leaving) = if let Content::Parts(spans, _) = &stored.content {
            let span = spans.iter().next().unwrap_or_else(|| stored.content.first());
            let leaving = item(&key, span.start());
            (Object::part(stored, own, Arc::clone(&leaving), span, body), leaving)
        } else {
            let mut whole = Object::whole(stored, &reason, Arc::clone(&own), body);
            whole.measure(layout.length);
            (whole, own)
        };
        for _ in 0..hits.min(u64::from(MOST_HITS)) {
            leaving.hit(seconds(Self::now()));
        }
        let object = Arc::new(object.tagged(tags.iter()));
        let since = RequestEpoch { requested: object.stored.freshness.received(), purge: 0, own_purge: None };
        if let Some(added) = self.index.offer(&key, &object, since) {
            self.drop_replaced(added);
            self.admit(&key, &leaving);
        }
    }
}

impl Moving {
    /// Writes records of about `most` bytes in all, and returns their number: 0 when all have been written.
    ///
    /// # Errors
    /// `target` cannot be written.
    pub fn write(&mut self, target: &mut impl Write, most: u64) -> io::Result<usize> {
        let (mut written, mut records) = (0, 0);
        while written < most {
            let Some(item) = self.items.pop() else { break };
            if let Some(size) = self.write_record(target, &item)? {
                written += size;
                records += 1;
            }
        }
        Ok(records)
    }

    /// Writes the record of `item`, and returns its size; `None` if it has left memory, or its head is too large.
    fn write_record(&self, target: &mut impl Write, item: &Arc<Item<Key>>) -> io::Result<Option<u64>> {
        let is_meant = |part: &Part| part.leaves_by(item);
        let known = self.cache.index.look(item.value(), |entry| {
            let object = entry.having(item, is_meant)?;
            Some((object.known_of(item, is_meant)?, Arc::clone(object.alone_of(item)?)))
        });
        let Some((known, body)) = known.flatten() else { return Ok(None) };
        let Some(Ending { trailers, .. }) = body.ending() else { return Ok(None) };
        let encoded = encode(said_of(&known, &trailers), new_name(), body.length(), None);
        let Some((layout, head)) = encoded else { return Ok(None) };
        target.write_all(&u64::from(item.hits()).to_le_bytes())?;
        target.write_all(&head)?;
        let sums = write_body(target, layout, &body)?;
        target.write_all(&sums)?;
        Ok(layout.size())
    }
}

/// A number of eight bytes; `None` at the end.
fn read_number(source: &mut impl Read) -> io::Result<Option<u64>> {
    let mut bytes = [0; 8];
    match source.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(u64::from_le_bytes(bytes))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// The head of a record; `None` if it is not valid.
fn read_head(source: &mut impl Read) -> io::Result<Option<(Layout, Head)>> {
    let mut prefix = [0; PREFIX];
    source.read_exact(&mut prefix)?;
    let Some((layout, room)) = format::layout(&prefix).zip(format::room(&prefix)) else { return Ok(None) };
    let mut head = vec![0; room];
    head[..PREFIX].copy_from_slice(&prefix);
    source.read_exact(&mut head[PREFIX..])?;
    Ok(layout.size().and_then(|size| format::decode(layout.name, &head, size)))
}
