"""The process that this one takes the place of: see `upgrade_messages` for what they say to each other.

What is here blocks, and nothing is served meanwhile: the process before serves.
"""

import logging
import os
import socket
import threading
from collections import Counter
from contextlib import ExitStack, closing, suppress
from typing import Final, Self

from penstock import _native
from penstock.exceptions import PenstockError, make_error

from .background import background
from .gates import revoke_here, take_decided
from .inherited import take_inherited
from .revocations import telling
from .upgrade_messages import (
    DECISIONS,
    HUBS,
    OLDEST,
    PROTOCOL,
    REVOCATIONS,
    Abort,
    Begun,
    Clients,
    Counters,
    Decided,
    Done,
    Go,
    Have,
    Hello,
    Hub,
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
    UnreadableError,
    closing_all,
    receive,
    send,
)

__all__ = ["VARIABLE", "Predecessor"]

_log: Final = logging.getLogger("penstock.serve")

VARIABLE: Final = "PENSTOCK_UPGRADE_SOCKET"
"""The variable of the environment with the descriptor of the socket to the process before."""

# Seconds for an answer (arbitrary): it takes milliseconds.
_PATIENCE: Final = 30.0


class Predecessor:
    """The process before, whose listeners are taken over when this is made.

    Args:
        link: to it.
        version: of this penstock.

    Raises:
        PenstockError: it does not hand over (PROCESS_FAILED).
    """

    def __init__(self, link: socket.socket, version: str) -> None:
        self._link = link
        self._cache: _native.Cache | None = None
        self._engine: _native.Engine | None = None
        # Of stored responses. It has a thread once there are some.
        self._reader = background()
        self._protocol = PROTOCOL
        self._has_died = False
        self._taken = self._unknown = self._streams = 0
        # Tells that process of what is revoked here.
        self._telling = ExitStack()
        # The numbers of streams that are taken up and not begun.
        self._held: set[int] = set()
        link.settimeout(_PATIENCE)
        # Before the first listener, and until that process accepts no more.
        _native.hold_clients()
        try:
            self._send(Hello((OLDEST, PROTOCOL), version, os.getpid()))
            while self._take_offer():
                pass
            self._take_keys()
            if self._protocol >= DECISIONS:
                self._take_secret()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            # What it has not given is opened anew.
            self._has_died = True

    def _take_offer(self) -> bool:
        """Take what is offered; whether more is."""
        message, descriptors = self._receive()
        if not isinstance(message, Offer) or not OLDEST <= message.protocol <= PROTOCOL:
            raise self._failure(f"it answered {type(message).__name__.lower()} to hello")
        self._protocol = message.protocol
        with closing_all(descriptors):
            _native.give_listeners(descriptors)
        for row in message.inherited:
            take_inherited(row.number, row.name, row.place)
        return message.more

    def _take_keys(self) -> None:
        """Take the secrets of session tickets, so that clients of TLS resume their sessions here."""
        message, _ = self._receive()
        if not isinstance(message, Keys):
            raise self._failure(f"it said {type(message).__name__.lower()} in place of keys")
        _native.take_ticket_secrets(message.keys)

    def _take_secret(self) -> None:
        """Have keys of decisions be made as there, before the first is made."""
        message, _ = self._receive()
        if not isinstance(message, Secret):
            raise self._failure(f"it said {type(message).__name__.lower()} in place of a secret")
        if not _native.take_decision_secret(message.secret):
            raise self._failure("the secret that it gave cannot be used here")

    @classmethod
    def of_environment(cls, version: str) -> Self | None:
        """As the environment says, whose variable is removed; None if this process takes over from none.

        Raises:
            PenstockError: as the constructor.
        """
        text = os.environ.pop(VARIABLE, "")
        if not text:
            return None
        try:
            link = socket.socket(fileno=int(text))
        except (OSError, ValueError, OverflowError):
            detail = f"{VARIABLE} is {text!r}, which is no socket: it is for upgrades alone, remove it"
            raise make_error("PROCESS_FAILED", detail) from None
        link.set_inheritable(False)
        return cls(link, version)

    def take_over(self, cache: _native.Cache | None, engine: _native.Engine) -> None:
        """Have that process accept no more, and this one accept.

        Args:
            cache: gets what the cache of that process has in memory.
            engine: its metrics go on from those of that process.

        Raises:
            PenstockError: it has given up (PROCESS_FAILED).
        """
        self._cache = cache
        self._engine = engine
        try:
            self._follow_hubs()
            self._wait_to_take()
            if not self._has_died and self._protocol >= REVOCATIONS:
                self._telling.enter_context(telling(self._link))
            _native.let_clients_in()
            _native.close_given_listeners()
            self._tell(Taken())
        except BaseException:
            self._telling.close()
            self._link.close()
            raise
        threading.Thread(target=self._take_clients, name="penstock-upgrade", daemon=True).start()

    def _follow_hubs(self) -> None:
        """Have the hubs here get what the hubs of those names have there, and what is published from now on."""
        names = Counter(_native.hub_names())
        if self._has_died or self._protocol < HUBS:
            return
        several = [name for name, count in names.items() if count > 1]
        if several:
            _log.warning(
                "more than one hub is called %s: their topics begin anew in this process; write Hub(name=...)",
                ", ".join(map(repr, several)),
            )
        for name, count in names.items():
            if count == 1:
                self._follow_hub(name)

    def _follow_hub(self, name: str) -> None:
        own, other = socket.socketpair()
        with own:
            with other:
                try:
                    self._send(Hub(name), (other.fileno(),))
                except (BrokenPipeError, ConnectionResetError):
                    self._has_died = True
                    return
            _native.follow_hub(name, own.fileno(), _PATIENCE)

    def _take_clients(self) -> None:
        """Serve what the process before gives away, until it ends."""
        self._link.settimeout(None)
        is_done = False
        with closing(self._link), self._telling, self._reader:
            while True:
                try:
                    message, descriptors = receive(self._link)
                except (EOFError, OSError):
                    break
                except UnreadableError as error:
                    # It lives, and goes on with the streams that have not been given.
                    _log.warning("the process before this one sent what is no message: %s", error)
                    return
                is_done = is_done or isinstance(message, Done)
                with closing_all(descriptors):
                    self._take_message(message, descriptors)
        # It has neither read nor written these since it has sent them.
        _native.begin_all_streams()
        self._streams += len(self._held)
        _log.info(
            "the process before has ended, and given %d connections and %d event streams",
            self._taken,
            self._streams,
        )
        if not is_done:
            _log.warning("the process before this one has died; this one serves in its place")
        if self._unknown:
            unknown = self._unknown
            _log.warning("%d connections were given to what is not listened to any more, and closed", unknown)

    def _take_message(self, message: Message, descriptors: list[int]) -> None:
        """Take what has come while this process serves. The descriptors stay the caller's."""
        match message:
            case Clients():
                taken = sum(map(_native.adopt_client, descriptors))
                self._taken += taken
                self._unknown += len(descriptors) - taken
            case Counters():
                self._take_counters(*descriptors)
            case Decided():
                take_decided(message, *descriptors)
            case Records():
                self._tell(Room(self._take_records(*descriptors)))
            case Stream() | Subscriber():
                self._answer(message, self._take_up(message, descriptors))
            case Go(numbers=numbers):
                known = self._held.intersection(numbers)
                self._held -= known
                self._streams += len(known)
                _native.begin_streams(sorted(known))
                self._tell(Begun(tuple(sorted(known))))
            case Revoke():
                revoke_here(message, self._link)
            case Done():
                pass
            case _:
                _log.warning(
                    "the process before this one said %s out of turn", type(message).__name__.lower()
                )

    def _take_records(self, descriptor: int) -> bool:
        """Take stored responses; whether there is room for more."""
        cache = self._cache
        try:
            return cache is not None and self._reader.submit(cache.take_records, descriptor).result()
        except OSError as error:
            _log.warning("what the process before had in its cache cannot be read: %s", error)
            return False

    def _take_up(self, stream: Stream | Subscriber, descriptors: list[int]) -> str | None:
        """Take a stream up; why this process cannot go on with it, if it cannot."""
        try:
            if isinstance(stream, Stream):
                refusal = _native.take_up_stream(stream, *descriptors)
            else:
                refusal = _native.take_up_subscriber(stream, *descriptors)
        except (OSError, OverflowError) as error:
            return str(error)
        if refusal is None:
            self._held.add(stream.number)
        return refusal

    def _answer(self, stream: Stream | Subscriber, refusal: str | None) -> None:
        answer = Have(stream.number) if refusal is None else Refuse(stream.number, refusal[:1000])
        self._tell(answer)

    def _wait_to_take(self) -> None:
        """Say that this process is ready, and wait for its turn, unless that process has ended."""
        if self._has_died:
            return
        try:
            self._send(Ready())
            answer, descriptors = self._receive()
            if isinstance(answer, Counters):
                with closing_all(descriptors):
                    # Before the first scrape.
                    self._take_counters(*descriptors)
                answer, _ = self._receive()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._has_died = True
            return
        if not isinstance(answer, Take):
            raise self._failure(f"it answered {type(answer).__name__.lower()}")

    def _take_counters(self, descriptor: int) -> None:
        assert self._engine is not None  # noqa: S101 (said to mypy)
        try:
            self._engine.take_counters(descriptor)
        except OSError as error:
            _log.warning("counters of the process before this one cannot be read: %s", error)

    def _tell(self, message: Message) -> None:
        """Say `message`. If that process has ended, the end of the socket says so."""
        with suppress(OSError):
            self._send(message)

    def _send(self, message: Message, descriptors: tuple[int, ...] = ()) -> None:
        send(self._link, message, descriptors)

    def _receive(self) -> tuple[Message, list[int]]:
        try:
            message, descriptors = receive(self._link)
        except TimeoutError:
            raise self._failure(f"it has not answered within {_PATIENCE:g} s") from None
        except UnreadableError as error:
            raise self._failure(f"it sent what is no message: {error}") from None
        if isinstance(message, Abort):
            raise self._failure(f"it has given up: {message.reason}")
        return message, descriptors

    def _failure(self, what: str) -> PenstockError:
        return make_error("PROCESS_FAILED", f"the process before this one does not hand over: {what}")
