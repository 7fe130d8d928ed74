//! How events get their order: this process gives it, or during an upgrade another one that has the same hub.
//!
//! Publishers hold the order for reading, and what changes who gives it holds it for writing. So no event is given a place by
//! two processes, and none falls between them.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use super::{Claim, Hub, check_name, milliseconds};
use crate::error::{Code, Error, Result};
use crate::hub::answer::Answer;
use crate::hub::clock::now;
use crate::hub::link::{Asked, Deed, Draft, Link, Stage, Wish};
use crate::hub::log::Log;
use crate::hub::topic::{Gone, Topic};
use crate::hub::{Event, Id};
use crate::sync::Arc;
use crate::takeover;

/// Who gives the events of a hub their order.
#[derive(Debug)]
pub(in crate::hub) enum Order {
    /// This process. The links are to the processes that follow.
    Here(Vec<Arc<Link>>),
    /// The process at the other end of the link.
    There(Arc<Link>),
}

impl Default for Order {
    fn default() -> Self {
        Self::Here(Vec::new())
    }
}

fn read(order: &RwLock<Order>) -> RwLockReadGuard<'_, Order> {
    order.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(order: &RwLock<Order>) -> RwLockWriteGuard<'_, Order> {
    order.write().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// Publishes `event`, and returns its place in the order of all of the hub's.
    ///
    /// # Errors
    /// `BAD_EVENT`, `BAD_TOPIC`, `TOPIC_FINISHED`, `TOO_MANY_TOPICS`, `POOL_FULL`, `HUB_CLOSED`.
    pub fn publish(&self, topic: &str, event: &Event<'_>) -> Result<Answer<Id>> {
        event.check()?;
        match &*read(&self.order) {
            Order::Here(links) => self.append(topic, event, links, |_| {}).map(Answer::Now),
            Order::There(link) => self.ask(link, topic, Deed::Publish(Draft::new(event)), |given| {
                given.ok_or_else(|| Code::Internal.error("an event that was published has no id"))
            }),
        }
    }

    /// Ends `topic`: its subscribers are told when they have all of it. Whether it had not ended.
    ///
    /// # Errors
    /// `BAD_TOPIC`, `TOO_MANY_TOPICS`, `HUB_CLOSED`.
    pub fn finish(&self, topic: &str) -> Result<Answer<bool>> {
        match &*read(&self.order) {
            Order::Here(links) => self.finish_here(topic, links).map(Answer::Now),
            Order::There(link) => self.ask(link, topic, Deed::Finish, |given| Ok(given.is_some())),
        }
    }

    /// Claims `topic` for a stream that publishes to it alone, until what is returned is dropped. It stays until then.
    ///
    /// # Errors
    /// `BUSY` where one does already, of this process or of the other of an upgrade; `BAD_TOPIC`, `TOO_MANY_TOPICS`,
    /// `HUB_CLOSED`.
    pub fn begin_feed(self: &Arc<Self>, topic: &str) -> Result<Answer<Claim>> {
        let order = read(&self.order);
        let link = match &*order {
            Order::Here(links) => {
                let claim = self.claim(topic)?;
                note_all(links, &claim.topic);
                return Ok(Answer::Now(claim));
            }
            Order::There(link) => Arc::clone(link),
        };
        let (hub, name) = (Arc::clone(self), topic.to_owned());
        self.ask(&link, topic, Deed::BeginFeed, move |given| {
            given.ok_or_else(|| busy(&name))?;
            let claim = hub.claim(&name)?;
            // This process may lead by now.
            hub.note(&claim.topic);
            Ok(claim)
        })
    }

    fn claim(self: &Arc<Self>, topic: &str) -> Result<Claim> {
        let claimed = |topic: &Arc<Topic>| Ok((topic.begin_feed()?, Arc::clone(topic)));
        match self.with(topic, true, claimed)? {
            (true, topic) => Ok(Claim { hub: Arc::clone(self), topic }),
            (false, _) => Err(busy(topic)),
        }
    }

    /// A stream of this process publishes to `topic` no more.
    pub(super) fn end_feed(&self, topic: &Arc<Topic>) {
        topic.end_feed();
        match &*read(&self.order) {
            Order::Here(links) => note_all(links, topic),
            Order::There(link) => {
                link.put(Wish { topic: topic.name.clone().into(), deed: Deed::EndFeed }, None);
            }
        }
    }

    /// Drops `topic` in all processes that have it.
    pub(super) fn drop_topic(&self, topic: &Arc<Topic>) {
        topic.close();
        self.forget(topic);
        match &*read(&self.order) {
            Order::Here(links) => links.iter().for_each(|link| link.note_abandoned(&topic.name)),
            Order::There(link) => {
                link.put(Wish { topic: topic.name.clone().into(), deed: Deed::Abandon }, None);
            }
        }
    }

    /// There is `topic`: a process that follows is to know where it begins.
    pub(super) fn note(&self, topic: &Arc<Topic>) {
        if let Order::Here(links) = &*read(&self.order) {
            note_all(links, topic);
        }
    }

    fn ask<T: Send + 'static>(
        &self,
        link: &Link,
        topic: &str,
        deed: Deed,
        make: impl FnOnce(Option<Id>) -> Result<T> + Send + 'static,
    ) -> Result<Answer<T>> {
        check_name(topic)?;
        self.find(topic)?;
        Ok(link.ask(Wish { topic: topic.to_owned(), deed }, make))
    }

    /// Publishes an event here. `placed` is called with its id before anything can read it.
    fn append(&self, topic: &str, event: &Event<'_>, links: &[Arc<Link>], placed: impl Fn(Id)) -> Result<Id> {
        let choose = |log: &Log| {
            let id = self.ids.next(milliseconds(), log.newest());
            placed(id);
            Ok(Some(id))
        };
        let id = self.with(topic, true, |topic| {
            let id = topic.append(event, now(), choose)?;
            note_all(links, topic);
            Ok(id)
        })??;
        id.ok_or_else(|| Code::Internal.error("an event that was published has no id"))
    }

    fn finish_here(&self, topic: &str, links: &[Arc<Link>]) -> Result<bool> {
        self.with(topic, true, |topic| {
            let is_news = topic.finish(now())?;
            note_all(links, topic);
            Ok(is_news)
        })
    }

    /// Has `link` to a process that is to follow, and is told all that there is.
    pub(in crate::hub) fn lead(&self, link: &Arc<Link>) {
        if let Order::Here(links) = &mut *write(&self.order) {
            links.push(Arc::clone(link));
            link.tell_all(self.all().into_iter());
        } else {
            link.end();
        }
    }

    /// Follows the process of `link`. What was published here before is published there.
    pub(in crate::hub) fn follow(&self, link: &Arc<Link>) {
        let mut order = write(&self.order);
        for topic in self.all().into_iter().filter(|topic| !topic.is_fed()) {
            topic.each_kept(|kept| {
                if let Some(draft) = Draft::of(&kept) {
                    link.put(Wish { topic: topic.name.clone().into(), deed: Deed::Publish(draft) }, None);
                }
            });
            topic.close();
            self.forget(&topic);
        }
        *order = Order::There(Arc::clone(link));
    }

    /// Whether the process of `link` gives the order.
    pub(in crate::hub) fn follows(&self, link: &Arc<Link>) -> bool {
        matches!(&*read(&self.order), Order::There(leader) if Arc::ptr_eq(leader, link))
    }

    /// Has the last process that follows lead, if there is one that has all.
    pub(in crate::hub) fn hand_over(&self) -> Option<Arc<Link>> {
        let mut order = write(&self.order);
        let Order::Here(links) = &mut *order else { return None };
        let at = links.iter().position(|link| link.stage() == Stage::InStep)?;
        let next = links.swap_remove(at);
        for link in links.drain(..) {
            // A process that has ended its part: it cannot follow the next one.
            link.end();
        }
        next.turn(self.ids.last());
        *order = Order::There(Arc::clone(&next));
        Some(next)
    }

    /// The process of `link` has given the order, up to the id `last`: this one does from now on.
    pub(in crate::hub) fn begin_to_lead(&self, link: &Arc<Link>, last: Id) {
        let mut order = write(&self.order);
        self.ids.raise(last);
        for topic in self.all() {
            topic.note_told(link.number());
        }
        let links = vec![Arc::clone(link)];
        for asked in link.begin_to_lead() {
            self.fulfil_own(asked, &links);
        }
        *order = Order::Here(links);
    }

    /// The process of `link` has ended, or is to be heard no more.
    pub(in crate::hub) fn end_link(&self, link: &Arc<Link>) {
        let mut order = write(&self.order);
        let left = link.end();
        let followed = match &mut *order {
            Order::Here(links) => {
                links.retain(|other| !Arc::ptr_eq(other, link));
                false
            }
            Order::There(leader) if Arc::ptr_eq(leader, link) => {
                *order = Order::default();
                true
            }
            Order::There(_) => false,
        };
        for asked in left {
            self.fulfil_own(asked, &[]);
        }
        drop(order);
        // Once this process drains, what is published elsewhere does not come here any more: subscribers are to come back.
        let ends_all = followed && takeover::gives_away();
        for topic in self.all().into_iter().filter(|topic| ends_all || topic.is_fed_afar()) {
            topic.close();
            self.forget(&topic);
        }
    }

    /// Does what another process asks for; `None` if this one does not lead.
    pub(in crate::hub) fn fulfil_for(
        &self,
        link: &Arc<Link>,
        wish: &Wish,
        placed: impl Fn(Id),
    ) -> Option<Result<Option<Id>>> {
        let order = read(&self.order);
        let Order::Here(links) = &*order else { return None };
        if !links.iter().any(|other| Arc::ptr_eq(other, link)) {
            return None;
        }
        let topic = wish.topic.as_str();
        let set_fed = |is_fed| self.with(topic, true, |topic| topic.set_fed_afar(is_fed));
        let some = Some(Id::default());
        Some(match &wish.deed {
            Deed::BeginFeed => set_fed(true).map(|is_given| some.filter(|_| is_given)),
            Deed::EndFeed => set_fed(false).map(|_| some),
            Deed::Abandon => {
                self.abandon(topic);
                Ok(some)
            }
            _ => self.fulfil(wish, links, placed),
        })
    }

    /// Does what this process has asked another one for.
    fn fulfil_own(&self, asked: Asked, links: &[Arc<Link>]) {
        let answer = self.fulfil(&asked.wish, links, |_| {});
        asked.answer(answer);
    }

    fn fulfil(&self, wish: &Wish, links: &[Arc<Link>], placed: impl Fn(Id)) -> Result<Option<Id>> {
        let some = Some(Id::default());
        match &wish.deed {
            Deed::Publish(draft) => {
                let event = draft.event();
                event.check().and_then(|()| self.append(&wish.topic, &event, links, placed)).map(Some)
            }
            Deed::Finish => self.finish_here(&wish.topic, links).map(|is_news| some.filter(|_| is_news)),
            // A feed of this process claims its topic itself.
            Deed::BeginFeed | Deed::EndFeed | Deed::Abandon => Ok(some),
        }
    }

    /// Has `work` done with the topic of a process that leads.
    pub(in crate::hub) fn mirror(
        &self,
        topic: &str,
        work: impl FnMut(&Arc<Topic>) -> std::result::Result<(), Gone>,
    ) {
        // Without room for one more topic, or after the hub's end, there is no subscriber that would lack it.
        let _ = self.with(topic, true, work);
    }

    /// Takes an event of a process that leads: the ids of the one before it and its own.
    pub(in crate::hub) fn mirror_event(&self, topic: &str, ids: (Id, Id), event: &Event<'_>, at: Duration) {
        let (after, id) = ids;
        self.ids.raise(id);
        self.mirror(topic, |topic| topic.append_behind(after, id, event, at));
    }

    /// The topic was dropped by the process that had it fed.
    pub(in crate::hub) fn abandon(&self, topic: &str) {
        if let Ok(Some(topic)) = self.find(topic) {
            topic.close();
            self.forget(&topic);
        }
    }

    /// Ends all links: the hub is closed.
    pub(super) fn end_links(&self) {
        match &*read(&self.order) {
            Order::Here(links) => links.iter().for_each(|link| drop(link.end())),
            Order::There(link) => link.end().into_iter().for_each(|asked| asked.answer(Err(super::closed()))),
        }
    }
}

#[cfg(test)]
impl Hub {
    /// The events of `topic`: the id of each, and its lines.
    pub(in crate::hub) fn kept(&self, topic: &str) -> Vec<(Id, String)> {
        let mut kept = Vec::new();
        if let Ok(Some(topic)) = self.find(topic) {
            topic.each_kept(|event| kept.push((event.id, String::from_utf8_lossy(event.lines).into_owned())));
        }
        kept
    }
}

fn note_all(links: &[Arc<Link>], topic: &Arc<Topic>) {
    for link in links {
        link.note(topic);
    }
}

fn busy(topic: &str) -> Error {
    Code::Busy.error(format!("a stream feeds the topic {topic:?} already"))
}
