"""Keeps the topics of an engine's hub as a source has them that processes share.

One task holds the connection: it catches up with what was published meanwhile, then appends what comes. Another one
gives the engine what it wants: the history of a topic that a client subscribes to, or word that all is there. The
invariant: what the engine is given of a topic is the log's order, and where an entry does not name the one that was
given before it, the engine is told of the gap first.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from penstock import _native
from penstock._limited_log import LimitedLog
from penstock.exceptions import PenstockError, make_error
from penstock.stream import FrameStream

from .feeder import Feeder, begin_feed
from .interface import NOTHING, Entry, Event, Log, LogStats, Source, order

__all__ = ["Reader"]

_LOG: Final = logging.getLogger("penstock.hub")
# For what others that publish to the log can cause.
_LIMITED: Final = LimitedLog(_LOG)

# Of a topic that was opened while nothing could be learnt of it. No log has this position, and it is not that of a topic
# that was never published to.
_UNKNOWN: Final = "0-1"

# Entries that are read at a time while a topic catches up. Arbitrary.
_PAGE: Final = 500

# Topics that are asked about at a time.
_AT_ONCE: Final = 256

# Seconds between two checks for topics without subscribers, and for room after a refusal. Arbitrary.
_TURN: Final = 1.0

# The first wait before a log is tried again; each is twice the last, up to what is configured.
_SOONEST: Final = 0.05


class _Topic:
    """What the engine has been given of a topic."""

    __slots__ = ("is_alone", "is_behind", "lock", "position")

    def __init__(self) -> None:
        # None: its history has not been given.
        self.position: str | None = None
        # Something came that did not follow, or could not be taken.
        self.is_behind = False
        # Its subscribers have events that the log does not have.
        self.is_alone = False
        # The task that asks the log gives the engine its answer, one at a time.
        self.lock = asyncio.Lock()


class Reader:
    """Follows a source on behalf of one hub, and publishes to it if it is a log."""

    def __init__(self, hub: _native.Hub, source: Source, log: Log | None, *, longest_wait: float) -> None:
        """`log`: the source, if it is one."""
        self._hub = hub
        self._source = source
        self._log = log
        self._longest_wait = longest_wait
        self._topics: dict[str, _Topic] = {}
        self._ready = asyncio.Event()
        # Since when it has been so, on the loop's clock.
        self._since = 0.0
        self._error: str | None = "it has not been reached yet"
        # Whether it has been tried to reach it.
        self._tried = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._feeders: set[asyncio.Task[None]] = set()
        self._published = self._refused = self._delivered = 0
        self._received = self._gaps = self._connections = 0
        self._tell()

    async def start(self) -> None:
        """Begin, on the running loop, and wait until it is known whether the log is there."""
        for work in (self._follow(), self._provide(), self._tend()):
            self._tasks.append(asyncio.create_task(work))
        await self._tried.wait()

    async def stop(self) -> None:
        """End. Topics that are fed from here end with an event that says so."""
        for tasks in (self._feeders, self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        self._tell()

    async def publish(self, topic: str, event: Event | None) -> str:
        """Append to the log; see `Log.publish`.

        Raises:
            ConnectionFailedError: the log is away (HUB_UNAVAILABLE): then nothing was appended; or it did not confirm
                the event, and then it may have been.
            ConfigurationError: the source is not valid.
        """
        try:
            position = await (await self._there()).publish(topic, event)
        except PenstockError as error:
            self._refused += error.name == "HUB_UNAVAILABLE"
            raise
        self._published += 1
        return position

    async def has(self, topic: str) -> bool:
        """Whether the log has a topic; see `Log.has`. Raises as `publish`."""
        return await (await self._there()).has(topic)

    async def feed(
        self, topic: str, response: FrameStream, framing: _native.Framing, error_event: str
    ) -> None:
        """Claim a topic, and go on to append to it what `response` brings, cut into events by `framing`.

        Raises as `publish`, and:
            StateError: another stream feeds the topic (BUSY), or it has been finished (TOPIC_FINISHED).
        """
        log = await self._there()
        feed = begin_feed(topic, error_event)
        await log.claim(feed)
        try:
            stream = FrameStream(self._hub.take_over(response, framing))
        except PenstockError:
            await log.bury(feed)
            raise
        feeder = Feeder(log, feed, stream, check=self._check, ready=self._ready)
        task = asyncio.create_task(feeder.run())
        self._feeders.add(task)
        task.add_done_callback(self._feeders.discard)

    def _check(self, topic: str, event: Event) -> None:
        self._hub.check(topic, event.data, event.type, event.id, event.key, event.retry)

    async def _there(self) -> Log:
        # No task waits for the start before workers run: their first question may come before the log is reached.
        await self._tried.wait()
        if self._log is None:
            raise make_error(
                "BAD_CONFIGURATION", "the hub follows what others publish, and publishes nothing"
            )
        if not self._ready.is_set():
            raise make_error("HUB_UNAVAILABLE", f"the log is away: {self._error}")
        return self._log

    @property
    def is_ready(self) -> bool:
        """Whether the log can be published to."""
        return self._ready.is_set()

    def deliver(self, topic: str, event: Event) -> None:
        """Give subscribers of this hub alone an event that the log cannot be given."""
        if self._hub.deliver(topic, event.data, event.type, event.key, event.retry):
            self._topics.setdefault(topic, _Topic()).is_alone = True
        self._delivered += 1

    def stats(self) -> LogStats:
        """How it fares."""
        return LogStats(
            "ready" if self.is_ready else "away",
            self._error,
            len(self._topics),
            sum(topic.is_behind for topic in self._topics.values()),
            self._published,
            self._refused,
            self._delivered,
            self._received,
            self._gaps,
            self._connections,
        )

    def _tell(self) -> None:
        """Tell the engine how it fares, whose metrics are there while this loop is not."""
        self._hub.set_log(self.stats())

    # What the log says.

    async def _follow(self) -> None:
        wait = _SOONEST
        while True:
            try:
                await self._source.open()
                self._connections += 1
                await self._come_back()
                wait = _SOONEST
                await self._receive()
            except PenstockError as error:
                if error.name == "HUB_CLOSED":
                    return
                self._leave(error.detail)
            except Exception as error:  # noqa: BLE001 (one topic's bug is not all topics' end)
                _LOG.exception("a bug in penstock; the hub's log is opened again")
                self._leave(str(error))
            finally:
                self._ready.clear()
                self._tell()
                await self._source.close()
            # Chance keeps nodes apart that lost it in one moment.
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 (nothing secret)
            wait = min(wait * 2, self._longest_wait)

    def _leave(self, why: str) -> None:
        # Once for each time that it goes.
        if self._error is None or not self._tried.is_set():
            _LOG.warning("the hub's log is away: %s", why)
        self._error = why
        self._tried.set()

    async def _come_back(self) -> None:
        names = list(self._topics)
        await self._source.watch(names)
        self._error, self._since = None, asyncio.get_running_loop().time()
        self._ready.set()
        self._tell()
        self._tried.set()
        await self._for_each(names, self._catch_up)
        _LOG.info("the hub's log is ready: %d topics followed", len(names))

    async def _receive(self) -> None:
        while True:
            runs: dict[str, list[Entry]] = {}
            for name, entry in await self._source.receive():
                runs.setdefault(name, []).append(entry)
            behind = []
            for name, entries in runs.items():
                topic = self._topics.get(name)
                if topic is None:
                    continue
                # Who holds the lock asks the log itself, which may not have had these yet.
                if topic.lock.locked() or topic.position is None or not self._continue(name, topic, entries):
                    topic.is_behind = True
                    behind.append(name)
            await self._for_each(behind, self._catch_up)

    def _continue(self, name: str, topic: _Topic, entries: Sequence[Entry]) -> bool:
        """Append what follows on what is there. False: it does not, or there is no room for it."""
        if topic.is_behind:
            return False
        end = topic.position
        # Who has asked meanwhile may have got the first of them.
        entries = entries[next((at for at, entry in enumerate(entries, 1) if entry.position == end), 0) :]
        for count, entry in enumerate(entries):
            if entry.before != end:
                self._take(name, topic, entries[:count])
                return False
            end = entry.position
        return self._take(name, topic, entries)

    async def _catch_up(self, name: str) -> None:
        """Ask the log for what it has behind what is here."""
        topic = self._topics.get(name)
        if topic is None:
            return
        async with topic.lock:
            position = topic.position
            if position is None:
                # The task that loads it asks.
                return
            topic.is_behind = False
            newest = await self._source.newest(name)
            if topic.is_alone or position == _UNKNOWN:
                topic.is_alone = False
                self._interrupt(name, topic, newest if position == _UNKNOWN else position)
            if order(newest) < order(topic.position or NOTHING):
                # The log has lost the entries that are here, and perhaps others with them.
                floor, entries = await self._source.history(name)
                self._interrupt(name, topic, floor)
                self._take(name, topic, entries)
                return
            # What comes meanwhile is no reason to stop: the caller waits for what the log has now.
            while topic.position is not None:
                page = await self._source.read(name, topic.position, _PAGE)
                if not self._take_all(name, topic, page.entries) or page.is_last:
                    return

    def _take_all(self, name: str, topic: _Topic, entries: Sequence[Entry]) -> bool:
        """Append what the log has next, gaps and all."""
        begin = 0
        end = topic.position
        for at, entry in enumerate(entries):
            if entry.before is not None and entry.before != end:
                if not self._take(name, topic, entries[begin:at]):
                    return False
                self._interrupt(name, topic, entry.before)
                begin = at
            end = entry.position
        return self._take(name, topic, entries[begin:])

    def _take(self, name: str, topic: _Topic, entries: Sequence[Entry]) -> bool:
        """Append entries that follow on what is there. False: not all could be."""
        begin = 0
        for at, entry in enumerate(entries):
            if entry.event is None and not entry.is_end:
                if not self._append(name, topic, entries[begin:at]):
                    return False
                _skipped(name, entry)
                self._interrupt(name, topic, entry.position)
                begin = at + 1
        return self._append(name, topic, entries[begin:])

    def _append(self, name: str, topic: _Topic, entries: Sequence[Entry]) -> bool:
        if not entries:
            return True
        taken = self._hub.take(name, entries)
        if taken is None:
            # It has gone, or is a new one that is wanted.
            topic.position = None
            return False
        count, full, refused = taken
        self._received += count
        self._note_refused(name, *refused)
        if count:
            topic.position = entries[count - 1].position
        if full is not None:
            topic.is_behind = True
            _LOG.warning("topic %r waits for room: %s", name, full)
        return full is None

    def _note_refused(self, name: str, count: int, why: str | None) -> None:
        """Tell of entries that the engine has refused, of which it has told subscribers by a gap."""
        if count:
            self._gaps += count
            _LIMITED.log(
                logging.WARNING,
                "refused",
                "topic %r lacks %d events of the log, and its subscribers are told of a gap: %s",
                name,
                count,
                why,
            )

    def _interrupt(self, name: str, topic: _Topic, floor: str) -> None:
        self._gaps += 1
        if self._hub.interrupt(name, floor):
            topic.position = floor
        else:
            topic.position = None

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(_TURN)
            there = set(self._hub.topics())
            gone = [
                name for name, topic in self._topics.items() if name not in there and not topic.lock.locked()
            ]
            for name in gone:
                del self._topics[name]
            self._tell()
            if not self.is_ready:
                continue
            behind = [name for name, topic in self._topics.items() if topic.is_behind]
            # If the log cannot be reached, its receiver knows it too.
            with contextlib.suppress(PenstockError):
                await self._source.unwatch(gone)
                await self._for_each(behind, self._catch_up)
                await self._bury()

    async def _bury(self) -> None:
        """End the topics of dead feeders."""
        log = self._log
        # While the log was away no feeder was heard of.
        if log is None or asyncio.get_running_loop().time() - self._since < log.lease:
            return
        for name in await log.bury():
            _LOG.warning("topic %r has been ended: its feeder has not been heard of", name)

    # What the engine wants.

    async def _provide(self) -> None:
        while True:
            names, more = self._hub.wanted()
            # A client that comes and goes may have had it wanted twice.
            await self._for_each(dict.fromkeys(names), self._give)
            await more

    async def _give(self, name: str) -> None:
        if not self._source.may_have(name):
            with contextlib.suppress(PenstockError):
                self._hub.load(name, NOTHING, [])
                self._hub.checked(name)
            return
        topic = self._topics.setdefault(name, _Topic())
        await self._tried.wait()
        try:
            if self.is_ready:
                # It may be a new topic of the same name.
                if topic.position is None or self._hub.take(name, []) is None:
                    await self._load(name, topic)
                await self._catch_up(name)
        except PenstockError as error:
            # What it lacks it gets when the log is back.
            _LOG.debug("topic %r is not loaded: %s", name, error.detail)
        except Exception:  # noqa: BLE001 (no waiter is left)
            _LOG.exception("a bug in penstock; topic %r is opened without its history", name)
        with contextlib.suppress(PenstockError):
            if self._hub.load(name, _UNKNOWN, []) is not None:
                topic.position = _UNKNOWN
            self._hub.checked(name)

    async def _load(self, name: str, topic: _Topic) -> None:
        async with topic.lock:
            await self._source.watch([name])
            floor, entries = await self._source.history(name)
            readable = entries
            for at, entry in enumerate(entries, 1):
                if entry.event is None and not entry.is_end:
                    # Its content is unknown: the history begins after it, and a subscriber that had less gets a gap.
                    _skipped(name, entry)
                    floor, readable = entry.position, entries[at:]
            refused = self._hub.load(name, floor, readable)
            if refused is not None:
                topic.position = entries[-1].position if entries else floor
                topic.is_alone = False
                self._received += len(readable)
                self._note_refused(name, *refused)

    async def _for_each(self, names: Iterable[str], work: Callable[[str], Awaitable[None]]) -> None:
        names = list(names)
        for begin in range(0, len(names), _AT_ONCE):
            await asyncio.gather(*(work(name) for name in names[begin : begin + _AT_ONCE]))


def _skipped(name: str, entry: Entry) -> None:
    _LIMITED.log(
        logging.WARNING,
        "skipped",
        "BAD_EVENT: what the log has at %s of topic %r is no event, and is skipped",
        entry.position,
        name,
    )
