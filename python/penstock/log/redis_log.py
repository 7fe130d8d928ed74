"""A log in Redis: a stream for each topic, and a channel on which what is added to it is told to whoever follows.

A stream alone would have each node name all its topics again for every event that comes (XREAD). The channel costs
Redis one message for each event and node that follows the topic, and may lose some where a connection breaks: that
shows, because each entry names the one before it, and then the stream is read. Both are written by one script, so that
their order is one. An event is a line of JSON, which has its type, id, key and retry, and behind that its data as it
is.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from redis.exceptions import ResponseError

from penstock.config import History as Kept
from penstock.config import RedisLog
from penstock.exceptions import PenstockError, make_error

from .interface import NOTHING, Entry, Event, History, order
from .redis_link import Commands, Messages, connections, unavailable

__all__ = ["RedisStreams"]

# Sent whole each time: a server that was restarted, or another one in its place, knows no script by its hash.
_PUBLISH: Final = """\
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local before = '0-0'
if last then
  if last[2][3] == 'end' then return redis.error_reply('FINISHED') end
  before = last[1]
end
local id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'before', before, ARGV[3], ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[5], id .. ' ' .. before .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
return id
"""

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
        self._kept = kept
        self._commands: Commands | None = None
        self._messages: Messages | None = None

    async def open(self) -> None:
        """See `Log.open`."""
        messages = Messages(self._pool, self._timeout, self._channel)
        commands = Commands(self._pool, self._timeout, messages.fail)
        self._messages, self._commands = messages, commands
        # One after the other: where one fails, none is left half open.
        await messages.open()
        await commands.open()
        # One that is still loading its data answers with an error.
        await self._call("PING")

    async def close(self) -> None:
        """See `Log.close`."""
        for link in (self._commands, self._messages):
            if link is not None:
                await link.close()
        self._commands = self._messages = None

    async def publish(self, topic: str, event: Event | None) -> str:
        """See `Log.publish`."""
        kind, blob, idle = "event", b"", self._idle
        if event is None:
            kind, idle = "end", max(1, round(self._kept.finished_age * 1000))
        else:
            blob = encode(event)
        key, channel = self._key(topic), self._channel + topic.encode()
        position = await self._call("EVAL", _PUBLISH, 1, key, self._kept.events, idle, kind, blob, channel)
        return str(position.decode())

    async def watch(self, topics: Sequence[str]) -> None:
        """See `Log.watch`."""
        await self._channels().subscribe([self._channel + topic.encode() for topic in topics])

    async def unwatch(self, topics: Sequence[str]) -> None:
        """See `Log.unwatch`."""
        await self._channels().unsubscribe([self._channel + topic.encode() for topic in topics])

    async def receive(self) -> list[tuple[str, Entry]]:
        """See `Log.receive`."""
        entries = []
        for channel, message in await self._channels().receive():
            entry = read_message(message)
            if entry is not None:
                entries.append((channel[len(self._channel) :].decode(), entry))
        return entries

    async def history(self, topic: str) -> History:
        """See `Log.history`."""
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

    async def read(self, topic: str, after: str, count: int) -> list[Entry]:
        """See `Log.read`."""
        rows = await self._call("XRANGE", self._key(topic), f"({after}", "+", "COUNT", count)
        return [read_row(row) for row in rows]

    async def newest(self, topic: str) -> str:
        """See `Log.newest`."""
        rows = await self._call("XREVRANGE", self._key(topic), "+", "-", "COUNT", 1)
        return rows[0][0].decode() if rows else NOTHING

    async def _oldest(self) -> int:
        """Milliseconds since the epoch, by Redis' clock, before which nothing is kept."""
        if self._kept.age is None:
            return 0
        seconds, microseconds = await self._call("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000 - round(self._kept.age * 1000)

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
            # Somebody else's.
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
