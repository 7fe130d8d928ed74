"""A log in Redis: a stream for each topic, and a channel on which each entry is announced to its readers.

A stream alone would have each node name all its topics again for every event that comes (XREAD). The channel costs
Redis one message for each event and node that follows the topic, and may lose some where a connection breaks: that
shows, because each entry names the one before it, and then the stream is read. Both are written by one script, so that
their order is one. An event is a line of JSON, which has its type, id, key and retry, and behind that its data as it
is.
"""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any, Final

from redis.exceptions import ResponseError

from penstock.config import History as Kept
from penstock.config import RedisLog
from penstock.exceptions import PenstockError, make_error

from . import redis_scripts as scripts
from .interface import NOTHING, Entry, Event, Feed, History, Page, order, unavailable
from .redis_link import Commands, Messages, connections

__all__ = ["RedisStreams"]

# As Redis writes them. What is no number of 64 bits has more digits.
_POSITION: Final = re.compile(rb"(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,18})")

# Entries of a history that are read at a time. Arbitrary.
_PAGE: Final = 200

# What an event takes on the wire beside its own parts.
_LINES: Final = 64

_NAMES: Final = ("type", "id", "key", "retry")


class RedisStreams:
    """The `Log` of a hub that keeps `kept` of each topic."""

    def __init__(self, settings: RedisLog, kept: Kept) -> None:
        self._pool = connections(settings.url)
        self._prefix = settings.prefix.encode()
        # All databases of a server share its channels.
        self._channel = b"%d:%b" % (self._pool.connection_kwargs.get("db", 0), self._prefix)
        self._timeout = settings.timeout
        self._idle = round(settings.idle * 1000)
        self._lease = settings.lease
        # No topic's name has a control character.
        self._feeds = [self._prefix + b"\0feeds", self._prefix + b"\0limits"]
        self._kept = kept
        self._commands: Commands | None = None
        self._messages: Messages | None = None

    async def open(self) -> None:
        """See `Source.open`."""
        messages = Messages(self._pool, self._timeout, self._channel)
        commands = Commands(self._pool, self._timeout, messages.fail)
        self._messages, self._commands = messages, commands
        # One after the other: where one fails, none is left half open.
        await messages.open()
        await commands.open()
        # One that is still loading its data answers with an error.
        await self._call("PING")

    async def close(self) -> None:
        """See `Source.close`."""
        for link in (self._commands, self._messages):
            if link is not None:
                await link.close()
        self._commands = self._messages = None

    def may_have(self, topic: str) -> bool:  # noqa: ARG002 (whatever is published to)
        """See `Source.may_have`."""
        return True

    @property
    def lease(self) -> float:
        """See `Log.lease`."""
        return self._lease

    async def publish(self, topic: str, event: Event | None) -> str:
        """See `Log.publish`."""
        position = await self._call(
            "EVAL", scripts.PUBLISH, 1, self._key(topic), *self._appended(topic, event)
        )
        return str(position.decode())

    async def has(self, topic: str) -> bool:
        """See `Log.has`."""
        there, fed = await asyncio.gather(
            self._call("EXISTS", self._key(topic)), self._call("HEXISTS", self._feeds[0], topic.encode())
        )
        return bool(there or fed)

    async def claim(self, feed: Feed) -> None:
        """See `Log.claim`."""
        await self._feed(scripts.CLAIM, feed, encode(feed.farewell))

    async def append(self, feed: Feed, number: int, event: Event | None) -> None:
        """See `Log.append`."""
        await self._feed(scripts.APPEND, feed, number, *self._appended(feed.topic, event))

    async def renew(self, feed: Feed) -> None:
        """See `Log.renew`."""
        await self._feed(scripts.APPEND, feed, 0)

    async def bury(self, feed: Feed | None = None) -> list[str]:
        """See `Log.bury`."""
        one: tuple[bytes, ...] = ()
        if feed is not None:
            one = (feed.topic.encode(), feed.owner.encode(), encode(feed.farewell))
        limits = (self._kept.events, self._idle, self._ended())
        # Of the streams that it writes to the server knows by itself; a user who may have none but ours is let in.
        keys = (self._prefix, *self._feeds)
        names = await self._call(
            "EVAL", scripts.BURY, len(keys), *keys, self._prefix, self._channel, *limits, *one
        )
        return [name.decode(errors="replace") for name in names]

    async def watch(self, topics: Sequence[str]) -> None:
        """See `Source.watch`."""
        await self._channels().subscribe([self._channel + topic.encode() for topic in topics])

    async def unwatch(self, topics: Sequence[str]) -> None:
        """See `Source.unwatch`."""
        await self._channels().unsubscribe([self._channel + topic.encode() for topic in topics])

    async def receive(self) -> list[tuple[str, Entry]]:
        """See `Source.receive`."""
        entries = []
        for channel, message in await self._channels().receive():
            entry = read_message(message)
            if entry is not None:
                entries.append((channel[len(self._channel) :].decode(), entry))
        return entries

    async def history(self, topic: str) -> History:
        """See `Source.history`."""
        key = self._key(topic)
        oldest = await self._oldest()
        entries: list[Entry] = []
        floor: str | None = None
        size, last = 0, "+"
        while floor is None:
            rows = await self._call("XREVRANGE", key, last, "-", "COUNT", _PAGE)
            for row in rows:
                entry = read_row(row)
                size += _LINES + (len(entry.event.data) if entry.event is not None else 0)
                is_beyond = len(entries) >= self._kept.events or size > int(self._kept.bytes)
                is_old = order(entry.position)[0] < oldest
                follows = not entries or entries[-1].before == entry.position
                if is_beyond or is_old or not follows or entry.before is None:
                    floor = entries[-1].before if entries else entry.position
                    break
                entries.append(entry)
            if len(rows) < _PAGE:
                floor = floor or (entries[-1].before if entries else NOTHING)
            elif entries:
                last = f"({entries[-1].position}"
        return History(floor, entries[::-1])

    async def read(self, topic: str, after: str, count: int) -> Page:
        """See `Source.read`."""
        rows = await self._call("XRANGE", self._key(topic), f"({after}", "+", "COUNT", count)
        return Page([read_row(row) for row in rows], len(rows) < count)

    async def newest(self, topic: str) -> str:
        """See `Source.newest`."""
        rows = await self._call("XREVRANGE", self._key(topic), "+", "-", "COUNT", 1)
        return rows[0][0].decode() if rows else NOTHING

    async def _oldest(self) -> int:
        """Milliseconds since the epoch, by Redis' clock, before which nothing is kept."""
        if self._kept.age is None:
            return 0
        seconds, microseconds = await self._call("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000 - round(self._kept.age * 1000)

    def _appended(self, topic: str, event: Event | None) -> tuple[str | bytes | int, ...]:
        """What the scripts append."""
        kind, blob, idle = (
            ("end", b"", self._ended()) if event is None else ("event", encode(event), self._idle)
        )
        return self._kept.events, idle, kind, blob, self._channel + topic.encode()

    def _ended(self) -> int:
        """Milliseconds for which it is known of a topic that it has ended."""
        return max(1, round(self._kept.finished_age * 1000))

    async def _feed(self, script: str, feed: Feed, *more: str | bytes | int) -> None:
        keys = (self._key(feed.topic), *self._feeds)
        lease = max(1, round(self._lease * 1000))
        await self._call("EVAL", script, len(keys), *keys, feed.topic.encode(), feed.owner, lease, *more)

    def _key(self, topic: str) -> bytes:
        return self._prefix + topic.encode()

    def _channels(self) -> Messages:
        if self._messages is None:
            raise _closed()
        return self._messages

    async def _call(self, *command: str | bytes | int) -> Any:
        if self._commands is None:
            raise _closed()
        try:
            return await self._commands.call(*command)
        except ResponseError as error:
            if str(error).startswith("FINISHED"):
                raise make_error("TOPIC_FINISHED", "the topic has been finished") from None
            if str(error).startswith("FED"):
                raise make_error(
                    "BUSY", "a stream feeds the topic already, or this one was given up"
                ) from None
            raise unavailable("Redis refused it", error) from None


def encode(event: Event) -> bytes:
    """How an event is kept."""
    head = {name: value for name in _NAMES if (value := getattr(event, name)) is not None}
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + event.data.encode()


def decode(blob: bytes) -> Event | None:
    """What `encode` has made `blob` of; None if it has not."""
    head, found, data = blob.partition(b"\n")
    try:
        event = Event(data.decode(), **json.loads(head))
        for text in (event.type, event.id, event.key):
            if text is not None:
                # JSON can have what UTF-8 has not.
                text.encode()
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    is_number = type(event.retry) is int and 0 <= event.retry < 1 << 63
    return event if found and (event.retry is None or is_number) else None


def read_row(row: Sequence[Any]) -> Entry:
    """An entry of a stream."""
    position, fields = row
    match fields:
        case [b"before", before, kind, blob]:
            return _entry(position.decode(), before, kind, blob)
        case _:
            # Another feeder's.
            return Entry(position.decode(), None, None)


def read_message(message: bytes) -> Entry | None:
    """A message of a channel; None if it is not of `_PUBLISH`: the stream shows what is there."""
    match message.split(b" ", 3):
        case [position, before, kind, blob] if _POSITION.fullmatch(position):
            return _entry(position.decode(), before, kind, blob)
        case _:
            return None


def _entry(position: str, before: bytes, kind: bytes, blob: bytes) -> Entry:
    known = before.decode() if _POSITION.fullmatch(before) else None
    return Entry(position, known, decode(blob) if kind == b"event" else None, kind == b"end")


def _closed() -> PenstockError:
    return make_error("HUB_UNAVAILABLE", "the log is closed")
