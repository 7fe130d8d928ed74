"""The process that takes the place of this one: see `upgrade_messages` for what they say to each other.

What is here blocks, and runs beside the event loop.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from typing import Final

from penstock import _native
from penstock.exceptions import PenstockError, make_error

from .inherited import inherited_places, place_of
from .predecessor import VARIABLE
from .upgrade_messages import (
    DESCRIPTORS,
    PROTOCOL,
    Abort,
    Clients,
    Done,
    Hello,
    InheritedPlace,
    Message,
    Offer,
    Ready,
    Take,
    Taken,
    UnreadableError,
    receive,
    send,
)

__all__ = ["Successor"]

# Seconds between two looks at whether there are to be more connections to give (arbitrary).
_LOOK: Final = 0.1

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
        if not lowest <= PROTOCOL <= highest:
            detail = (
                f"it speaks protocols {lowest} to {highest}, and this process {PROTOCOL}: restart instead"
            )
            raise self._failure(detail)
        with ExitStack() as stack:
            found = [socket.socket(fileno=number) for number in _native.listeners()]
            for each in found:
                stack.callback(each.close)
            self._offer([*found, *others])
        self._receive(Ready)

    def _offer(self, listeners: Sequence[socket.socket]) -> None:
        places = [(each, place_of(each)) for each in listeners]
        known = [(each, place) for each, place in places if place is not None]
        rows = tuple(InheritedPlace(*row) for row in inherited_places())
        for at in range(0, max(1, len(known)), DESCRIPTORS):
            batch = known[at : at + DESCRIPTORS]
            is_last = at + DESCRIPTORS >= len(known)
            offer = Offer(
                PROTOCOL,
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
        self._receive(Taken)

    def give_clients(self, is_over: Callable[[], bool]) -> None:
        """Tell it that the service manager knows, and give it the connections that are given away.

        Args:
            is_over: whether no more are; what is left then is given as well.
        """
        # This process does not wait for it.
        self._process.returncode = 0
        with closing(self._link), suppress(PenstockError):
            # It serves, or has ended: nothing here can mend that.
            self._send(Done())
            while True:
                ends = is_over()
                given = _native.clients_given_away(DESCRIPTORS, 0 if ends else _LOOK)
                if not given and ends:
                    return
                try:
                    if given:
                        self._send(Clients(len(given)), tuple(given))
                finally:
                    for each in given:
                        socket.close(each)

    def abort(self, reason: str) -> None:
        """Tell it that there is no upgrade, and end it."""
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
        """Have what waits for it fail. From another thread."""
        self._link.shutdown(socket.SHUT_RDWR)

    def _send(self, message: Message, descriptors: tuple[int, ...] = ()) -> None:
        self._link.settimeout(_PATIENCE)
        try:
            send(self._link, message, descriptors)
        except (BrokenPipeError, ConnectionResetError):
            raise self._failure(self._end()) from None
        except (OSError, ValueError) as error:
            raise self._failure(f"it cannot be told {type(message).__name__.lower()}: {error}") from error

    def _receive(self, wanted: type[Message]) -> Message:
        self._link.settimeout(max(0.001, self._deadline - time.monotonic()))
        try:
            message, _ = receive(self._link)
        except (EOFError, ConnectionResetError):
            raise self._failure(self._end()) from None
        except TimeoutError:
            raise self._failure(f"it was not ready within {self._timeout:g} s (--upgrade-timeout)") from None
        except UnreadableError as error:
            raise self._failure(f"it sent what is no message: {error}") from None
        except OSError as error:
            raise self._failure(str(error)) from None
        if isinstance(message, Abort):
            raise self._failure(message.reason)
        if not isinstance(message, wanted):
            raise self._failure(
                f"it said {type(message).__name__.lower()} in place of {wanted.__name__.lower()}"
            )
        return message

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
