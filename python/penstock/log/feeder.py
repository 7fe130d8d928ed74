"""Has one stream feed a topic of a log: each of its events is appended once, in order, whatever happens to the log.

The stream is read no faster than the log confirms: what was read is appended before more is. Events have numbers, so
that an event whose confirmation was lost is appended again without being there twice. The feeding process renews its
claim now and then; if it stops, or the log has lost what it had confirmed, the topic ends with an event that says so,
and never as if it were whole.
"""

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Callable, Sequence
from typing import Final

from penstock.exceptions import PenstockError, error_codes, make_error
from penstock.stream import Frame, FrameStream

from .interface import Event, Feed, Log

__all__ = ["Feeder", "begin_feed"]

_LOG: Final = logging.getLogger("penstock.hub")

# Events that wait for their confirmation at most.
_AT_ONCE: Final = 64

# Seconds before a log that is there and refuses is asked again. Arbitrary.
_AGAIN: Final = 0.1

# Subscribers that come back must be able to send it; as the engine's.
_LONGEST_ID: Final = 1024


class _OverError(Exception):
    """The feed has ended, and not by its owner."""


def begin_feed(topic: str, error_event: str) -> Feed:
    """A feed that no process has claimed yet. `error_event`: the type of its farewell."""
    gone = make_error("FEEDER_GONE", "the process that fed the topic has gone")
    return Feed(topic, os.urandom(16).hex(), _failure(gone, error_event))


class Feeder:
    """Appends the events of one stream, on behalf of a feed that has been claimed."""

    def __init__(
        self,
        log: Log,
        feed: Feed,
        stream: FrameStream,
        *,
        check: Callable[[str, Event], None],
        ready: asyncio.Event,
    ) -> None:
        """`check` raises where an event cannot be published; `ready`: the log can be reached."""
        self._log = log
        self._feed = feed
        self._stream = stream
        self._check = check
        self._ready = ready
        self._number = 0

    async def run(self) -> None:
        """Go on to the end of the stream, and end the topic."""
        passing = asyncio.create_task(self._pass_on())
        staying = asyncio.create_task(self._stay())
        try:
            await asyncio.wait((passing, staying), return_when=asyncio.FIRST_COMPLETED)
        finally:
            passing.cancel()
            staying.cancel()
            failure, lost = await asyncio.gather(passing, staying, return_exceptions=True)
            await self._stream.aclose()
            if failure is not None:
                await self._give_up(lost if isinstance(failure, asyncio.CancelledError) else failure)

    async def _pass_on(self) -> None:
        failure: PenstockError | None = None
        try:
            async for frames in self._stream.batches(_AT_ONCE):
                await self._append([_event(frame) for frame in frames])
        except PenstockError as error:
            failure = error
        if failure is not None:
            await self._append_all([_failure(failure, self._feed.farewell.type)])
        await self._append_all([None])

    async def _append(self, events: Sequence[Event]) -> None:
        """Append them, up to the first that cannot be published."""
        for at, event in enumerate(events):
            try:
                self._check(self._feed.topic, event)
            except PenstockError:
                await self._append_all(events[:at])
                raise
        await self._append_all(events)

    async def _append_all(self, events: Sequence[Event | None]) -> None:
        first = self._number + 1
        self._number += len(events)
        while events:
            await self._ready.wait()
            numbered = enumerate(events, first)
            answers = await asyncio.gather(
                *(self._log.append(self._feed, number, event) for number, event in numbered),
                return_exceptions=True,
            )
            # An entry after a refused one does not follow the last stored one.
            error = next((answer for answer in answers if answer is not None), None)
            if error is None:
                return
            _raise_if_over(error)
            await asyncio.sleep(_AGAIN)

    async def _stay(self) -> None:
        while True:
            await asyncio.sleep(self._log.lease / 3)
            try:
                await self._log.renew(self._feed)
            except PenstockError as error:
                _raise_if_over(error)

    async def _give_up(self, why: BaseException | None) -> None:
        if isinstance(why, _OverError):
            _LOG.warning("topic %r is fed no more: %s", self._feed.topic, why)
        elif isinstance(why, Exception):
            _LOG.error("a bug in penstock; topic %r is fed no more", self._feed.topic, exc_info=why)
        # Where the log cannot be reached, another process does it, once this one has not been heard of.
        with contextlib.suppress(PenstockError):
            await self._log.bury(self._feed)


def _raise_if_over(error: BaseException) -> None:
    if not isinstance(error, PenstockError):
        raise error
    if error.name != "HUB_UNAVAILABLE":
        raise _OverError(error.detail)


def _event(frame: Frame) -> Event:
    # Browsers read what is not UTF-8 so as well.
    kind, name = frame.event, frame.id
    usable = None if name is None or not 0 < len(name) <= _LONGEST_ID else _utf8(name)
    return Event(
        bytes(frame.data).decode(errors="replace"),
        type=None if kind is None else bytes(kind).decode(errors="replace") or None,
        id=usable,
        retry=frame.retry,
    )


def _utf8(text: memoryview) -> str | None:
    try:
        return bytes(text).decode()
    except UnicodeDecodeError:
        return None


def _failure(error: PenstockError, kind: str | None) -> Event:
    """What the engine makes of a failure."""
    row = next(row for row in error_codes() if row.name == error.name)
    said = {
        "code": f"0x{row.number:03X}",
        "name": row.name,
        "message": row.meaning,
        "retryable": row.retryable,
    }
    return Event(json.dumps({"error": said}, separators=(",", ":")), type=kind)
