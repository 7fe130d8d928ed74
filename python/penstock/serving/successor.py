"""The process that takes the place of this one: see `upgrade_messages` for what they say to each other.

What is here blocks, and runs beside the event loop.
"""

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Final

from penstock import _native
from penstock.exceptions import PenstockError, make_error

from .background import background
from .gates import revoke_here, write_decided
from .inherited import inherited_places, place_of
from .predecessor import VARIABLE
from .revocations import telling
from .upgrade_messages import (
    DECISIONS,
    DESCRIPTORS,
    HUBS,
    OLDEST,
    PROTOCOL,
    REVOCATIONS,
    Abort,
    Begun,
    Clients,
    Counters,
    Done,
    Go,
    Have,
    Hello,
    Hub,
    InheritedPlace,
    Keys,
    Message,
    Offer,
    Ready,
    Records,
    Refuse,
    Revoke,
    Room,
    Secret,
    Stream,
    Subscriber,
    Take,
    Taken,
    TicketKey,
    UnreadableError,
    closing_all,
    fits,
    receive,
    send,
)

__all__ = ["Successor"]

_log: Final = logging.getLogger("penstock.serve")

# Seconds between two looks at whether there are to be more connections to give (arbitrary).
_LOOK: Final = 0.1

# Seconds in which a process that has clients at rest gives the first of them (arbitrary).
_BEGINS: Final = 1.0

# Seconds between two messages of connections. Where both processes share a core, that leaves time for requests: without
# it they and events waited for 150 ms.
_PAUSE: Final = 0.01

# Seconds in which an event stream has to come to rest, and how many move at a time (arbitrary): each stands still for as
# long as those take that move with it, some 0.2 ms each.
_REST: Final = 5.0
_STREAMS: Final = 16

# Seconds for what a cache has in memory, and bytes of it that are written at a time, which take memory besides (both
# arbitrary).
_MOVE: Final = 5.0
_RECORDS: Final = 16 << 20

# Seconds for an answer of a process that has started, and for the end of one that is killed (arbitrary): milliseconds.
_PATIENCE: Final = 5.0


class Successor:
    """A process of the command line of this one.

    Args:
        environment: variables that it has besides those of this one.
        timeout: seconds until it must be ready.
        version: of this penstock.

    Raises:
        PenstockError: it cannot be started (PROCESS_FAILED).
    """

    def __init__(self, environment: Mapping[str, str], timeout: float, version: str) -> None:
        self._version = version
        self._deadline = time.monotonic() + timeout
        self._timeout = timeout
        self._protocol = PROTOCOL
        # The number of the last stream, and the streams that are neither read nor written anywhere.
        self._number = 0
        self._frozen: list[_native.MovingStream] = []
        # Tells it of what is revoked here.
        self._telling = ExitStack()
        # Whether streams move. An end of the socket would then have both processes go on with some.
        self._lock = threading.Lock()
        self._moves = False
        self._link, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        variables = {**os.environ, **environment, VARIABLE: str(other.fileno())}
        try:
            # The same command, with the code that is there now.
            self._process = subprocess.Popen(  # noqa: S603 (this interpreter, and its own arguments)
                [sys.executable, *sys.orig_argv[1:]], env=variables, pass_fds=(other.fileno(),)
            )
        except OSError as error:
            self._link.close()
            raise make_error("PROCESS_FAILED", f"the next process cannot be started: {error}") from error
        finally:
            other.close()

    @property
    def number(self) -> int:
        """The number of the process."""
        return self._process.pid

    def prepare(self, others: Sequence[socket.socket]) -> None:
        """Give it what this process listens to, and wait until it is ready.

        Args:
            others: sockets that Python listens to.

        Raises:
            PenstockError: it has ended, or is not ready in time (PROCESS_FAILED).
        """
        hello = self._receive(Hello)
        assert isinstance(hello, Hello)  # noqa: S101 (said to mypy)
        lowest, highest = hello.protocols
        self._protocol = min(PROTOCOL, highest)
        if self._protocol < max(OLDEST, lowest):
            detail = (
                f"it speaks protocols {lowest} to {highest}, and this process {OLDEST} to {PROTOCOL}:"
                " restart instead"
            )
            raise self._failure(detail)
        with ExitStack() as stack:
            found = [socket.socket(fileno=number) for number in _native.listeners()]
            for each in found:
                stack.callback(each.close)
            self._offer([*found, *others])
        secrets = _native.ticket_secrets()
        self._send(
            Keys(tuple(TicketKey(each.period, each.secret, each.made, each.until) for each in secrets))
        )
        if self._protocol >= DECISIONS:
            self._send(Secret(_native.decision_secret()))
        while True:
            message, descriptors = self._receive_all(Hub, Ready)
            with closing_all(descriptors):
                if not isinstance(message, Hub):
                    return
                # Without a hub of that name here, the end of its socket says so.
                _native.lead_hub(message.name, *descriptors)

    def _offer(self, listeners: Sequence[socket.socket]) -> None:
        places = [(each, place_of(each)) for each in listeners]
        known = [(each, place) for each, place in places if place is not None]
        rows = tuple(InheritedPlace(*row) for row in inherited_places())
        for at in range(0, max(1, len(known)), DESCRIPTORS):
            batch = known[at : at + DESCRIPTORS]
            is_last = at + DESCRIPTORS >= len(known)
            offer = Offer(
                self._protocol,
                self._version,
                tuple(place for _, place in batch),
                rows if is_last else (),
                not is_last,
            )
            self._send(offer, tuple(each.fileno() for each, _ in batch))

    def take(self) -> None:
        """Have it accept; this process accepts no more.

        Raises:
            PenstockError: it has ended, or does not answer (PROCESS_FAILED).
        """
        self._deadline = time.monotonic() + _PATIENCE
        self._send(Take())
        if self._protocol >= REVOCATIONS:
            self._telling.enter_context(telling(self._link))
        self._receive(Taken)

    def give_counters(self, engine: _native.Engine, *, growth: bool = False) -> None:
        """Give it what the metrics of `engine` have counted, so that its own go on from there.

        Args:
            engine: whose.
            growth: what they have counted since it was given that.

        Raises:
            PenstockError: it has ended (PROCESS_FAILED).
        """
        if self._protocol < DECISIONS:
            return
        try:
            descriptor = os.memfd_create("penstock-counters", os.MFD_CLOEXEC)
        except OSError as error:
            _log.warning("upgrade: counters of metrics stay here, for there is no file for them: %s", error)
            return
        try:
            count = engine.write_counters(descriptor, not growth)
        except OSError as error:
            _log.warning("upgrade: counters of metrics stay here: %s", error)
        else:
            if count:
                self._send(Counters(count), (descriptor,))
        finally:
            os.close(descriptor)

    def give_decisions(self, *, growth: bool = False) -> int:
        """Give it what hooks have decided here, and what tenants have had. It accepts already.

        Args:
            growth: what tenants have had since it was given that, and no decisions.

        Returns:
            How many decisions it was given.

        Raises:
            PenstockError: it has ended (PROCESS_FAILED).
        """
        given = 0
        if self._protocol >= DECISIONS:
            for decided, descriptor in write_decided(growth=growth):
                if not fits(decided):
                    routes = len(decided.routes)
                    _log.warning(
                        "upgrade: decisions of %d routes stay here: their names fill a message", routes
                    )
                    continue
                self._send(decided, (descriptor,))
                given += decided.decisions
        return given

    def give_hubs(self) -> int:
        """Have its hubs give the events their order. It accepts already.

        Returns:
            How many hubs it has.

        Raises:
            PenstockError: it has ended, or does not answer (PROCESS_FAILED).
        """
        return _native.hand_over_hubs(_PATIENCE)

    def give_cache(self, cache: _native.Cache) -> int:
        """Give it what `cache` has in memory, what is asked for most first. It accepts already.

        Returns:
            How many responses it was given.

        Raises:
            PenstockError: it has ended, or does not answer (PROCESS_FAILED).
        """
        until = time.monotonic() + _MOVE
        moving = cache.begin_moving()
        given = 0
        has_room = True
        with background() as writer:
            while has_room and time.monotonic() < until:
                descriptor = os.memfd_create("penstock-cache", os.MFD_CLOEXEC)
                try:
                    count = writer.submit(moving.write, descriptor, _RECORDS).result()
                    if not count:
                        break
                    self._send(Records(count), (descriptor,))
                except OSError as error:
                    # The machine has no memory for it: what is not moved is fetched again.
                    _log.warning("upgrade: the rest of the cache stays behind: %s", error)
                    break
                finally:
                    os.close(descriptor)
                given += count
                self._deadline = time.monotonic() + _PATIENCE
                answer = self._receive(Room)
                has_room = isinstance(answer, Room) and answer.is_left
        return given

    def give_streams(self) -> tuple[int, int]:
        """Give it the event streams that are at rest, or come to rest in time. It accepts already.

        Returns:
            How many it has, and how many it could not go on with.

        Raises:
            PenstockError: it has ended, or does not answer (PROCESS_FAILED).
        """
        with self._lock:
            self._moves = True
        until = time.monotonic() + _REST
        given = refused = 0
        _native.begin_moving_streams()
        try:
            while time.monotonic() < until:
                streams = _native.streams_to_move(_STREAMS, _LOOK)
                if streams is None:
                    break
                taken = self._give_streams(streams)
                given += taken
                refused += len(streams) - taken
        finally:
            _native.end_moving_streams()
        return given, refused

    def _give_streams(self, streams: Sequence[_native.MovingStream]) -> int:
        """Give it `streams`; the streams that it refuses go on here. How many it has.

        Raises:
            PenstockError: it has ended, or does not answer (PROCESS_FAILED).
        """
        self._deadline = time.monotonic() + _PATIENCE
        self._frozen.extend(streams)
        sent: dict[int, _native.MovingStream] = {}
        for stream in streams:
            self._offer_stream(stream, sent)
        for _ in list(sent):
            answer = self._receive(Have, Refuse)
            if isinstance(answer, Refuse):
                sent.pop(answer.number, None)
        if sent:
            self._send(Go(tuple(sent)))
            # From now on it may have read or written: what it had is lost with it.
            for stream in sent.values():
                stream.give()
            self._receive(Begun)
        self._keep_frozen()
        return len(sent)

    def _keep_frozen(self) -> None:
        """Have go on here what was not given."""
        for stream in self._frozen:
            stream.keep()
        self._frozen.clear()

    def _offer_stream(self, stream: _native.MovingStream, sent: dict[int, _native.MovingStream]) -> None:
        """Tell it of `stream`, and note it in `sent`."""
        self._number += 1
        sizes = (stream.sent, stream.payload, stream.elapsed, stream.first_byte)
        message: Stream | Subscriber
        descriptors: tuple[int, ...]
        if stream.origin is not None:
            message = Stream(self._number, stream.request, stream.response, *sizes)
            descriptors = (stream.client, stream.origin)
        elif stream.place is not None and self._protocol >= HUBS:
            after, has_had = stream.place
            message = Subscriber(self._number, stream.request, after, has_had, *sizes)
            descriptors = (stream.client,)
        else:
            return
        if fits(message):
            self._send(message, descriptors)
            sent[self._number] = stream

    def finish(self) -> None:
        """Tell it that it serves, whatever becomes of this process.

        Raises:
            PenstockError: it has ended (PROCESS_FAILED).
        """
        self._send(Done())

    def give_clients(
        self, is_over: Callable[[], bool], at_rest: Callable[[], None], engine: _native.Engine
    ) -> None:
        """Give it the connections that are given away, and at the end what was counted since it serves.

        Args:
            is_over: whether no more are; what is left then is given as well.
            at_rest: called once, when the connections are given on which no request was under way.
            engine: whose metrics are given.
        """
        # This process does not wait for it.
        self._process.returncode = 0
        with closing(self._link), self._telling, self._hearing(), suppress(PenstockError):
            # It serves, or has ended: nothing here can mend that.
            # This process may be busy with other things before it begins to part from its clients.
            begins, is_at_rest = time.monotonic() + _BEGINS, False
            while True:
                ends = is_over()
                given = _native.clients_given_away(DESCRIPTORS, 0 if ends else _LOOK)
                if given:
                    begins = 0.0
                elif not is_at_rest and time.monotonic() > begins:
                    is_at_rest = True
                    at_rest()
                if not given and ends:
                    self.give_decisions(growth=True)
                    self.give_counters(engine, growth=True)
                    return
                try:
                    if given:
                        self._send(Clients(len(given)), tuple(given))
                finally:
                    for each in given:
                        socket.close(each)
                if given:
                    time.sleep(_PAUSE)

    @contextmanager
    def _hearing(self) -> Iterator[None]:
        """Meanwhile take the revocations that are made there."""
        thread = threading.Thread(target=self._take_revocations, name="penstock-revocations", daemon=True)
        thread.start()
        try:
            yield
        finally:
            # An end of a socket with messages that are not read would lose what is on its way to the next process: no
            # more come, and the thread reads the ones that have.
            with suppress(OSError):
                self._link.shutdown(socket.SHUT_RD)
            thread.join()

    def _take_revocations(self) -> None:
        while True:
            try:
                message, descriptors = receive(self._link)
            except TimeoutError:
                continue
            except (EOFError, OSError):
                return
            except UnreadableError as error:
                _log.warning("the process that serves sent what is no message: %s", error)
                continue
            with closing_all(descriptors):
                if isinstance(message, Revoke):
                    revoke_here(message, self._link)

    def abort(self, reason: str) -> None:
        """Tell it that there is no upgrade, and end it."""
        self._telling.close()
        if self._frozen:
            # It would go on with these when the socket ends.
            self._process.kill()
            self._process.wait()
            self._keep_frozen()
        with suppress(PenstockError):
            self._send(Abort(reason[:1000]))
        self._link.close()
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def interrupt(self) -> None:
        """Have what waits for it fail, unless streams move: then it is to serve. From another thread."""
        with self._lock:
            if not self._moves:
                self._link.shutdown(socket.SHUT_RDWR)

    def _send(self, message: Message, descriptors: tuple[int, ...] = ()) -> None:
        self._link.settimeout(_PATIENCE)
        try:
            send(self._link, message, descriptors)
        except (BrokenPipeError, ConnectionResetError):
            raise self._failure(self._end()) from None
        except (OSError, ValueError) as error:
            raise self._failure(f"it cannot be told {type(message).__name__.lower()}: {error}") from error

    def _receive(self, *wanted: type[Message]) -> Message:
        message, descriptors = self._receive_all(*wanted)
        with closing_all(descriptors):
            return message

    def _receive_all(self, *wanted: type[Message]) -> tuple[Message, list[int]]:
        """Receive one of `wanted`, and the descriptors beside it, which are the caller's."""
        self._link.settimeout(max(0.001, self._deadline - time.monotonic()))
        try:
            message, descriptors = receive(self._link)
            while isinstance(message, Revoke):
                revoke_here(message, self._link)
                message, descriptors = receive(self._link)
        except (EOFError, ConnectionResetError):
            raise self._failure(self._end()) from None
        except TimeoutError:
            is_late = Hello in wanted or Ready in wanted
            what = f"it was not ready within {self._timeout:g} s (--upgrade-timeout)"
            raise self._failure(what if is_late else f"it has not answered within {_PATIENCE:g} s") from None
        except UnreadableError as error:
            raise self._failure(f"it sent what is no message: {error}") from None
        except OSError as error:
            raise self._failure(str(error)) from None
        if isinstance(message, wanted):
            return message, descriptors
        with closing_all(descriptors):
            if isinstance(message, Abort):
                raise self._failure(message.reason)
            names = " or ".join(each.__name__.lower() for each in wanted)
            raise self._failure(f"it said {type(message).__name__.lower()} in place of {names}")

    def _end(self) -> str:
        """How it has ended, or is about to."""
        try:
            status = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return "it has closed its socket"
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"it {how} before it was ready; it has said why on standard error"

    def _failure(self, what: str) -> PenstockError:
        return make_error("PROCESS_FAILED", f"process {self.number}, which was to take over: {what}")
