"""One connection to Redis: commands that share round trips, and messages of channels.

The invariant: if the next bytes of a connection cannot be foreseen, it is closed. Nothing is sent twice: whether a
command that was not answered has been carried out, only its caller can judge.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from penstock.exceptions import PenstockError, make_error

from .interface import unavailable
from .time_limit import loop_time, time_limit

__all__ = ["Commands", "Messages", "connections"]

Command = tuple[str | bytes | int, ...]

# The limit of commands in one round trip, and of commands that wait for the next ones. Arbitrary.
_AT_ONCE: Final = 256
_MOST: Final = 10_000

# Messages that wait to be taken, beyond which none are read.
_MOST_MESSAGES: Final = 10_000


def connections(url: str) -> ConnectionPool:
    """What makes connections to the Redis at `url`.

    Raises:
        ConfigurationError: it is no URL of a Redis.
    """
    try:
        # Protocol 2, where a connection with subscriptions is given nothing but messages. Limits on time are ours, and
        # so are second attempts: redis-py would send again what may have been carried out.
        return ConnectionPool.from_url(
            url, protocol=2, retry=Retry(NoBackoff(), 0), socket_timeout=None, socket_connect_timeout=None
        )
    except ValueError as error:
        raise make_error("BAD_CONFIGURATION", f"the URL of the log: {error}") from None


class _Link(ABC):
    """A connection, and the one task that reads it."""

    def __init__(self, pool: ConnectionPool, timeout: float) -> None:
        self._connection: Any = pool.make_connection()  # type: ignore[no-untyped-call]
        self._timeout = timeout
        self._task: asyncio.Task[None] | None = None
        self._ended: PenstockError | None = None

    async def open(self) -> None:
        try:
            async with time_limit(self._timeout):
                await self._connection.connect()
        except (RedisError, OSError) as error:
            await self._disconnect()
            raise unavailable("Redis cannot be reached", error) from None
        self._task = asyncio.create_task(self._work_until_it_breaks())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._disconnect()

    async def _work_until_it_breaks(self) -> None:
        error = make_error("HUB_UNAVAILABLE", "the connection to Redis has been closed")
        try:
            await self._work()
        except (RedisError, OSError) as caught:
            error = unavailable("the connection to Redis broke", caught)
        finally:
            self._ended = error
            self._end(error)
            await self._disconnect()

    async def _disconnect(self) -> None:
        # What comes of an orderly end is of no interest, and a Redis that hangs would not take part.
        with contextlib.suppress(RedisError, OSError):
            await self._connection.disconnect(nowait=True)

    async def _send(self, commands: Sequence[Command]) -> None:
        packed = self._connection.pack_commands(commands)
        await self._connection.send_packed_command(packed, check_health=False)

    @abstractmethod
    async def _work(self) -> None:
        """Read what comes, until that fails."""

    @abstractmethod
    def _end(self, error: PenstockError) -> None:
        """Tell all who wait for something that nothing will come."""


class Commands(_Link):
    """For commands that are answered."""

    def __init__(self, pool: ConnectionPool, timeout: float, broken: Callable[[PenstockError], None]) -> None:
        super().__init__(pool, timeout)
        self._waiting: deque[tuple[Command, asyncio.Future[Any]]] = deque()
        self._sent: list[tuple[Command, asyncio.Future[Any]]] = []
        self._more = asyncio.Event()
        self._broken = broken

    async def call(self, *command: str | bytes | int) -> Any:
        """Send a command, together with others that wait, and give its answer.

        Raises:
            ConnectionFailedError: it was not answered (HUB_UNAVAILABLE).
            ResponseError: Redis refused it.
        """
        if self._ended is not None:
            raise self._ended
        if len(self._waiting) >= _MOST:
            raise make_error("HUB_UNAVAILABLE", f"{_MOST} commands wait for Redis")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, future))
        self._more.set()
        return await future

    async def _work(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                await self._turn()

    async def _turn(self) -> None:
        while self._waiting and len(self._sent) < _AT_ONCE:
            waiting = self._waiting.popleft()
            # A call that was cancelled before has not published.
            if not waiting[1].cancelled():
                self._sent.append(waiting)
        if not self._sent:
            return
        async with time_limit(self._timeout):
            await self._send([command for command, _ in self._sent])
            for _, future in self._sent:
                answer: Any
                try:
                    answer = await self._connection.read_response(disconnect_on_error=False)
                except ResponseError as error:
                    if not future.done():
                        future.set_exception(error)
                else:
                    if not future.done():
                        future.set_result(answer)
        self._sent.clear()

    def _end(self, error: PenstockError) -> None:
        for _, future in (*self._sent, *self._waiting):
            if not future.done():
                future.set_exception(error)
        self._sent.clear()
        self._waiting.clear()
        self._broken(error)


class Messages(_Link):
    """For the messages of channels."""

    def __init__(self, pool: ConnectionPool, timeout: float, silent: bytes) -> None:
        """`silent`: a channel that nothing is published to."""
        super().__init__(pool, timeout)
        self._silent = silent
        self._messages: list[tuple[bytes, bytes]] = []
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._is_alive = False
        # Who waits until a channel is subscribed to.
        self._asked: dict[bytes, asyncio.Future[None]] = {}

    async def subscribe(self, channels: Sequence[bytes]) -> None:
        """Returns when all that is published to `channels` from then on comes."""
        self._check()
        loop = asyncio.get_running_loop()
        futures = [self._asked.setdefault(channel, loop.create_future()) for channel in channels]
        for begin in range(0, len(channels), _AT_ONCE):
            await self._try_to_send(("SUBSCRIBE", *channels[begin : begin + _AT_ONCE]))
        # One may be waited for by several, and no one's cancellation is the others'.
        await asyncio.gather(*(asyncio.shield(future) for future in futures))

    async def unsubscribe(self, channels: Sequence[bytes]) -> None:
        """Have them come no more."""
        self._check()
        for begin in range(0, len(channels), _AT_ONCE):
            await self._try_to_send(("UNSUBSCRIBE", *channels[begin : begin + _AT_ONCE]))

    async def receive(self) -> list[tuple[bytes, bytes]]:
        """Wait for messages, each with its channel."""
        while not self._messages:
            self._check()
            self._changed.clear()
            await self._changed.wait()
        messages, self._messages = self._messages, []
        self._taken.set()
        return messages

    def fail(self, error: PenstockError) -> None:
        """Have it end as if it had broken."""
        if self._ended is None:
            self._ended = error
            self._end(error)

    def _check(self) -> None:
        if self._ended is not None:
            raise self._ended

    async def _try_to_send(self, command: Command) -> None:
        try:
            async with time_limit(self._timeout):
                await self._send([command])
        except (RedisError, OSError) as error:
            self.fail(unavailable("the connection to Redis broke", error))
            self._check()

    async def _work(self) -> None:
        watcher = asyncio.create_task(self._watch())
        try:
            await self._read()
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)

    async def _read(self) -> None:
        while True:
            answer = await self._connection.read_response(disconnect_on_error=False)
            self._is_alive = True
            kind, channel = answer[0], answer[1]
            if kind == b"message":
                self._messages.append((channel, answer[2]))
                self._changed.set()
            elif kind == b"subscribe" and (future := self._asked.pop(channel, None)) is not None:
                future.set_result(None)
            while len(self._messages) >= _MOST_MESSAGES:
                self._taken.clear()
                await self._taken.wait()
                # Bytes that were not read, because no task took them, are not a silence of Redis.
                self._is_alive = True

    async def _watch(self) -> None:
        """Asks a Redis that says nothing whether it is there."""
        # Without a subscription the connection would be one for commands, whose answers look otherwise.
        await self._try_to_send(("SUBSCRIBE", self._silent))
        while self._ended is None:
            self._is_alive = False
            await loop_time(self._timeout / 2)
            if self._is_alive:
                continue
            await self._try_to_send(("PING",))
            await loop_time(self._timeout / 2)
            if not self._is_alive and len(self._messages) < _MOST_MESSAGES:
                self.fail(unavailable("the connection to Redis broke", TimeoutError()))

    def _end(self, error: PenstockError) -> None:
        for future in self._asked.values():
            if not future.done():
                future.set_exception(error)
                # The waiter may have been cancelled.
                future.exception()
        self._asked.clear()
        self._changed.set()
