"""Topics: what is published once, kept for a while, and sent by the engine to any number of subscribers.

A subscriber is a browser's EventSource, or any other client that reads text/event-stream. It is served by a native route
(`Hub.native`) without waking Python. After a disconnect it names the last event that it had by its id, and gets the
events that followed, once and in order; where the hub cannot show that, a `penstock-gap` event says so.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from . import _arguments, _native
from ._field_docs import document
from ._shared import Shared, shared
from .config import History, KafkaLog, RedisLog, Subscriptions, parse_size
from .engine import Engine, default_engine
from .exceptions import PenstockError, make_error
from .framing import Events, native_framing
from .log import Event, Log, LogStats, Source
from .stream import FrameStream, Response

if TYPE_CHECKING:
    from .log.reader import Reader

T = TypeVar("T")

__all__ = ["BaseHub", "HubCounts", "HubStats", "TopicStats"]

# What the hub says itself is longer than an event by some lines at most.
_SAID: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class HubCounts:
    """What a hub, or one of its topics, has counted so far."""

    events: int
    """Events that were published."""
    bytes: int
    """Bytes of them, as they stand on the wire."""
    delivered: int
    """Events that were given to subscribers to be sent, once for each."""
    subscribed: int
    """Subscriptions."""
    resumed: int
    """Those of them that had something before and got all that they lacked."""
    gaps: int
    """Gaps that were announced, to subscribers that came back and to subscribers that did not keep up."""
    slow: int
    """Subscribers that were cut off because they did not keep up."""
    dropped: int
    """Events that slow subscribers missed before they continued after a gap."""
    conflated: int
    """Events that subscribers were not sent because newer ones of their keys were there."""


@dataclass(frozen=True, slots=True)
class HubStats:
    """How full a hub is, and what it has counted."""

    topics: int
    """Topics that are there."""
    subscribers: int
    """Subscribers of all of them."""
    used: int
    """Bytes that their history takes: whole slabs of the engine's pool, and lists of the events, some 80 bytes each.
    What has left and is still being sent counts."""
    limit: int
    """Bytes that it may."""
    counts: HubCounts
    """Sums over all topics, also the ones that are gone."""
    log: LogStats | None = None
    """How it fares with the log that it shares with other processes, if it has one."""


@dataclass(frozen=True, slots=True)
class TopicStats:
    """How full a topic is, and what it has counted."""

    subscribers: int
    """Who listens."""
    events: int
    """Events that are there."""
    bytes: int
    """Bytes of them, as they stand on the wire."""
    newest: str
    """The id of the newest event so far, or the floor."""
    floor: str
    """The id that all events that are there are above."""
    finished: bool
    """Whether it has been finished."""
    counts: HubCounts
    """What it has counted."""


class BaseHub(Shared):
    """A hub without aiohttp: see `penstock.Hub`, which also answers requests."""

    _KIND = "hub"

    def __init__(
        self,
        *,
        engine: Engine | None = None,
        history: History | None = None,
        log: RedisLog | KafkaLog | None = None,
        name: str = "hub",
    ) -> None:
        _arguments.instance("engine", engine, Engine, "a penstock.Engine, or None for the shared one")
        _arguments.HISTORY("history", history)
        _arguments.instance(
            "log", log, (RedisLog, KafkaLog), "a penstock.RedisLog, a penstock.KafkaLog or None"
        )
        _arguments.text("name", name, "'hub'", optional=False)
        self._given_engine = engine
        self._engine = engine or default_engine()
        self._said: Final = {"history": history, "log": log, "name": name}
        history = history or History()
        if history.memory is None:
            history = replace(history, memory=self._engine.stats().pool.budget // 4)
        self._events = parse_size(history.bytes)
        self._reader: Reader | None = None
        self._delivers_alone = isinstance(log, RedisLog) and log.away == "deliver"
        # Topics that only others can begin begin with no subscriber.
        self._opens = not isinstance(log, KafkaLog)
        self._plans: Final = None if self._parent is None else self._parent.plans(self)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._entering: asyncio.Task[None] | None = None
        # The next process of an upgrade reads a shared log itself, and workers have nothing to hand over.
        moving = name if log is None and self._parent is None else None
        self.native_hub = _native.Hub(self._engine.native, history, log is not None, moving)
        if self._parent is not None:
            self._parent.keep(self)
        if log is not None and self._parent is None:
            self._reader = _reader(self.native_hub, log, history)

    def _declaration(self) -> dict[str, Any]:
        return self._said

    def _declared(self) -> None:
        if self._reader is not None:
            # At once: the worker's next message may be for one of its topics.
            self._loop = asyncio.get_running_loop()
            self._entering = self._loop.create_task(self._reader.start())

    async def _dismissed(self) -> None:
        if self._entering is not None:
            await self._entering
        await self.__aexit__()

    @shared
    async def publish(
        self,
        topic: str,
        data: str | bytes,
        *,
        event: str | None = None,
        id: str | None = None,  # noqa: A002 (the field's name)
        key: str | None = None,
        retry: float | None = None,
    ) -> str:
        """Publish an event. It is in the topic's history when this returns, and on its way to all subscribers.

        With a shared log: the log has it when this returns. After a cancellation, and after a failure that does not say
        that the log is away, it may have been published all the same.

        Args:
            topic: its name.
            data: UTF-8. Line ends of any kind make lines of it: a browser's `data` has LF for each.
            event: its type; browsers take one without for `message`.
            id: what it is called on the wire in place of its position; what subscribers come back with. Unique within
                the topic's history, or they go on behind the newest of that id.
            key: what it tells of the state of; with `Subscriptions(slow="newest-per-key")` a newer one of the same key
                takes its place for subscribers that lag. It is not sent.
            retry: seconds after which a client that was disconnected is to come back, from this event on.

        Returns:
            Its position, `milliseconds-sequence`: above all of the topic that were given out before. Empty if it was
            delivered without one (`RedisLog(away="deliver")`).

        Raises:
            ArgumentError: the event cannot be written so that it is read as it was meant (BAD_EVENT), or the topic
                has no valid name (BAD_TOPIC).
            StateError: the topic has been finished (TOPIC_FINISHED), or the hub closed (HUB_CLOSED).
            PoolError: there is no room for it (POOL_FULL), or for one more topic (TOO_MANY_TOPICS).
            ConnectionFailedError: the shared log is away, or has not confirmed it (HUB_UNAVAILABLE).
            ConfigurationError: the hub follows a Kafka.
        """
        check_topic(topic)
        given: object = data
        if not isinstance(given, str | bytes | bytearray | memoryview):
            rule = "a text or bytes: write json.dumps(...) for an object"
            raise _arguments.bad("data", given, rule, "BAD_EVENT")
        for name, value in (("event", event), ("id", id), ("key", key)):
            _arguments.text(name, value)
        _arguments.number("retry", retry, "seconds from 0 on")
        if retry is not None and retry < 0:
            raise _arguments.bad("retry", retry, "seconds from 0 on, or None", "BAD_EVENT")
        milliseconds = None if retry is None else round(retry * 1000)
        if self._reader is None:
            return await _given(self.native_hub.publish(topic, data, event, id, key, milliseconds))
        self.native_hub.check(topic, data, event, id, key, milliseconds)
        text = data if isinstance(data, str) else data.decode()
        return await self._on_loop(
            self._publish(self._reader, topic, Event(text, event, id, key, milliseconds))
        )

    async def _publish(self, reader: "Reader", topic: str, event: Event) -> str:
        if self._delivers_alone and not reader.is_ready:
            reader.deliver(topic, event)
            return ""
        return await reader.publish(topic, event)

    @shared
    async def finish(self, topic: str) -> bool:
        """End a topic: nothing is published to it any more.

        Its subscribers get what is left, then an event `penstock-end`, and the end of the response. Who comes back with
        all of it is answered with 204, which has an EventSource stay away; who comes anew with `join="start"` gets the
        transcript and `penstock-end`.

        Returns:
            Whether it had not been finished before.

        Raises:
            ArgumentError: the topic's name is not valid.
            StateError: the hub has been closed.
            PoolError: there is no room for one more topic.
            ConnectionFailedError: the shared log is away, or has not confirmed it (HUB_UNAVAILABLE).
            ConfigurationError: the hub follows a Kafka.
        """
        check_topic(topic)
        if self._reader is None:
            return await _given(self.native_hub.finish(topic))
        self.native_hub.check(topic, "", None, None, None, None)
        try:
            await self._on_loop(self._reader.publish(topic, None))
        except PenstockError as error:
            if error.name == "TOPIC_FINISHED":
                return False
            raise
        return True

    def subscribe(
        self, topic: str, *, after: str | None = None, subscriptions: Subscriptions | None = None
    ) -> Response:
        """Listen to a topic in Python.

        It is a stream of frames, one for each event: `frame.data`, `frame.event`, `frame.id`. Its head says in
        `Penstock-Resume` whether it goes on behind `after`; a status of 204 is that of a topic that has ended and of
        which nothing is missing. Who does not take what comes is dealt with as any subscriber that does not keep up;
        a few frames may wait.

        Args:
            topic: its name.
            after: the id of the last event that was had before.
            subscriptions: where it begins, and what happens if it is slow. There are no heartbeats.

        Raises:
            PenstockError: when it is awaited or iterated: the topic has no valid name (BAD_TOPIC), there is no such
                topic (UNKNOWN_TOPIC), there are too many subscribers (TOO_MANY_REQUESTS) or topics (TOO_MANY_TOPICS),
                or the hub is closed (HUB_CLOSED).
        """
        check_topic(topic)
        _arguments.text("after", after)
        terms = replace(self._terms(subscriptions), heartbeat=None)
        framing = _native.Framing.events(self._events + _SAID, False)
        if self._parent is None or self._plans is None:
            source = self.native_hub.subscribe(topic, after, terms, framing)
        else:
            plan = self._plans.describe(terms)
            source = self.native_hub.subscribe_afar(plan, topic, after, framing, self._parent.lines)
        response = Response(source)
        response.method, response.url = "GET", topic
        return response

    async def feed(self, topic: str, response: FrameStream, *, error_event: str = "error") -> None:
        """Have the events of a response, such as a token stream, published to a topic that nothing else feeds.

        Returns when the topic is the response's. Its own ids are kept; an event without one gets the hub's. It goes on
        with and without subscribers, so that a later one gets the transcript, as far as the history holds it. When the
        response has ended the topic is finished. If it failed, an event before that says so.

        With a shared log its events are there for all processes, each once: what the log has not confirmed holds up the
        reading of the response, also while the log is away. Where this process dies another one ends the topic, after
        `RedisLog(lease=)`, with an event that has the name FEEDER_GONE; one that leaves its hub does so at once.

        Args:
            topic: its name.
            response: an event stream, of which nothing has been taken. It is the hub's from now on.
            error_event: the type of the event that tells of a failure; its data is JSON with code, name and message.

        Raises:
            StateError: another response feeds the topic, of this or of another process (BUSY); the response is closed,
                or the hub is; with a shared log, also where the topic has been finished (TOPIC_FINISHED).
            ArgumentError: the topic has no valid name (BAD_TOPIC), or `error_event` no type (BAD_EVENT).
            PoolError: there is no room for one more topic (TOO_MANY_TOPICS).
            ConnectionFailedError: the shared log is away (HUB_UNAVAILABLE).
            ConfigurationError: the hub follows a Kafka.
        """
        check_topic(topic)
        _arguments.text("error_event", error_event, "'error'", optional=False)
        if not isinstance(response, FrameStream):
            raise _arguments.bad("response", response, "a response: write await engine.get(url)")
        await self._feed(topic, response, error_event, None)

    async def _feed(
        self, topic: str, response: FrameStream, error_event: str, near: _native.Transport | None
    ) -> None:
        """See `feed`. In a worker, `response` has been fetched by the parent for the request of `near`."""
        self.native_hub.check(topic, "", error_event, None, None, None)
        if self._parent is not None:
            number, lines = self._parent.number(self), self._parent.lines
            answer = self.native_hub.feed_afar(number, topic, response, error_event, lines, near)
            async with FrameStream(answer) as begun:
                await begun.bytes()
            return
        # Longer events would have no room in the history.
        cut = Events(max_frame=self._events)
        framing = native_framing(cut)
        if self._reader is None:
            claim = await _given(self.native_hub.claim(topic))
            self.native_hub.feed(claim, response, framing, error_event)
            return
        if response.closed:
            raise make_error("STREAM_CLOSED", "the response that is to feed the topic has been closed")
        response.frames(cut)
        await self._on_loop(self._reader.feed(topic, response, framing, error_event))

    @shared
    async def _has(self, topic: str) -> bool:
        """Whether there is anything of a topic, wherever it is kept."""
        if self._reader is None:
            return self.topic_stats(topic) is not None
        return await self._on_loop(self._reader.has(topic))

    @property
    def _is_shared(self) -> bool:
        """Whether topics can be there of which this process knows nothing."""
        return self._said["log"] is not None

    def _terms(self, subscriptions: Subscriptions | None) -> Subscriptions:
        _arguments.SUBSCRIPTIONS("subscriptions", subscriptions)
        terms = subscriptions or Subscriptions()
        return terms if self._opens else replace(terms, open=False)

    async def _admit(
        self,
        topic: str,
        after: str | None,
        terms: Subscriptions,
        guest: tuple[str | None, str | None],
        lease: _native.Lease | None,
        near: _native.Transport | None,
    ) -> _native.Admission:
        """Let a client subscribe, whose request is that of `near`: `guest` is its tenant and its address.

        `_read`, or the engine, serves it then, until `lease` has run out.
        """
        if self._parent is None or self._plans is None:
            admission = self.native_hub.admit(topic, after, terms, guest, lease)
        else:
            plan, lines = self._plans.describe(terms), self._parent.lines
            admission = self.native_hub.admit_afar(plan, topic, after, guest, lease, lines, near)
        try:
            while (decided := admission.step()) is not None:
                await decided
        except BaseException:
            admission.close()
            raise
        return admission

    def _read(self, admission: _native.Admission, near: _native.Transport | None) -> FrameStream:
        """The events of who has been let in, comments as well."""
        framing = _native.Framing.events(self._events + _SAID, True)
        return FrameStream(self.native_hub.read(admission, framing, near))

    @shared
    def stats(self) -> HubStats:
        """How full it is, and what it has counted."""
        stats = self.native_hub.stats()
        return stats if self._reader is None else replace(stats, log=self._reader.stats())

    @shared
    def topic_stats(self, topic: str) -> TopicStats | None:
        """The same of one topic; None if no topic has that name."""
        return self.native_hub.topic_stats(topic)

    @shared
    def topics(self) -> list[str]:
        """The names of all topics, in no order."""
        return self.native_hub.topics()

    def close(self) -> None:
        """End all subscriptions behind a whole event, and give the history's memory back. Idempotent.

        Clients come back, as after any disconnection; who is to stay away is told by `finish` before. A hub with a
        shared log releases that when it is left (`async with`). In a worker process nothing ends by that: the topics
        are those of all workers, and go with the last code that has the hub.
        """
        self.native_hub.close()

    async def __aenter__(self) -> Self:
        """Begin to follow the shared log, if there is one. It need not be there yet: see `stats().log`."""
        if self._parent is not None:
            self._parent.number(self)
        if self._reader is not None:
            if self._loop is not None:
                raise make_error("HUB_CLOSED", "a hub with a log can be entered once")
            self._loop = asyncio.get_running_loop()
            await self._reader.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        if self._reader is not None:
            await self._reader.stop()

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` where the log is used."""
        if self._loop is asyncio.get_running_loop():
            return await work
        if self._loop is None:
            work.close()
            raise make_error(
                "HUB_UNAVAILABLE", "the hub has not been entered (async with hub), and follows no log yet"
            )
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


async def _given(answer: "T | _native.HubAnswer[T]") -> T:
    """What a call gives. In an upgrade the other process has to answer it."""
    if not isinstance(answer, _native.HubAnswer):
        return answer
    while (waits := answer.step()) is not None:
        await waits
    return answer.result()


def _reader(hub: _native.Hub, log: RedisLog | KafkaLog, history: History) -> "Reader":
    from .log.reader import Reader  # noqa: PLC0415 (most hubs share nothing)

    return Reader(hub, *_open(log, history), longest_wait=log.longest_wait)


def _open(log: RedisLog | KafkaLog, history: History) -> tuple[Source, Log | None]:
    """What is followed, and the same if it is published to."""
    extra = "kafka" if isinstance(log, KafkaLog) else "redis"
    try:
        if isinstance(log, KafkaLog):
            from .log.kafka_source import KafkaPartitions  # noqa: PLC0415 (an extra)

            return KafkaPartitions(log, history), None
        from .log.redis_log import RedisStreams  # noqa: PLC0415 (an extra)

        streams = RedisStreams(log, history)
    except ImportError as error:
        name = type(log).__name__
        raise make_error(
            "BAD_CONFIGURATION", f"{name} needs `pip install penstock[{extra}]`: {error}"
        ) from None
    return streams, streams


def check_topic(topic: object) -> None:
    _arguments.text("topic", topic, "'chat/7'", optional=False)


document(globals()[name] for name in __all__)
