"""Tells the state of a process that serves: its operator, on standard error, and the service manager (sd_notify(3)).

The service manager, systemd, says in NOTIFY_SOCKET where it is told: each datagram has lines `NAME=value`. With
WATCHDOG_USEC it wants a sign within each such time, and otherwise takes the process for hung and ends it. It gets the
sign while all engine threads turn, which is what the page `/penstock/health` says. The event loop has no part in it: a
handler that blocks it delays no stream, and ends none.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Self

from penstock.engine import Engine

from .predecessor import Predecessor
from .upgrade import Upgrades

__all__ = ["Announcer"]

_log: Final = logging.getLogger("penstock.serve")

# Seconds that a datagram may wait for room in the service manager's queue (arbitrary).
_PATIENCE: Final = 1.0
# Signs in the time of the watchdog: sd_watchdog_enabled(3) recommends two.
_SIGNS: Final = 2
# Seconds between two looks at an engine (arbitrary): a hang is reported soon, also if the watchdog has an hour.
_LOOK: Final = 5.0


class Announcer:
    """Tells the state of this process.

    Args:
        say: prints a line for the operator.
        address: the socket of the service manager; None without a service manager.
        watchdog: seconds in which it wants a sign; None if it wants none.
        upgrade_timeout: seconds in which a process that takes the place of this one must be ready.
        predecessor: what this process takes the place of; None without one.

    Attributes:
        upgrades: of this process.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        address: str | None = None,
        watchdog: float | None = None,
        *,
        upgrade_timeout: float,
        predecessor: Predecessor | None = None,
    ) -> None:
        self.upgrades: Final = Upgrades(self, upgrade_timeout, predecessor)
        self._say = say
        self._address = address
        self._watchdog = watchdog
        self._state = ""
        self._is_stopping = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._has_failed = False

    @classmethod
    def of_environment(
        cls, say: Callable[[str], None], upgrade_timeout: float, predecessor: Predecessor | None
    ) -> Self:
        """As the environment says, whose variables are removed: they are meant for this process alone."""
        address = os.environ.pop("NOTIFY_SOCKET", "") or None
        microseconds = os.environ.pop("WATCHDOG_USEC", "")
        process = os.environ.pop("WATCHDOG_PID", "")
        if address is not None and address[0] not in "/@":
            _log.warning(
                "NOTIFY_SOCKET is %r, which is no Unix socket: the service manager is not told", address
            )
            address = None
        is_number = microseconds.isascii() and microseconds.isdigit() and int(microseconds) > 0
        is_mine = process in {"", str(os.getpid())}
        watchdog = int(microseconds) / 1e6 if address is not None and is_number and is_mine else None
        return cls(say, address, watchdog, upgrade_timeout=upgrade_timeout, predecessor=predecessor)

    def ready(self, urls: Sequence[str], pages: str | None, engine: Engine, hung: float) -> None:
        """Connections are accepted; after the process before, if there is one, has said that it does no more.

        Args:
            urls: where, for each site.
            pages: where the pages about the engine are; None for nowhere.
            engine: what serves.
            hung: an engine thread without progress for so many seconds hangs.

        Raises:
            PenstockError: the process before does not hand over (PROCESS_FAILED).
        """
        self.upgrades.ready(engine.native)
        lines = [f"listening on {url}" for url in urls]
        if pages is not None:
            # They are of the first site.
            lines.insert(1, f"status on {pages}/penstock/")
        for line in lines:
            self._say(line)
        self._state = f"STATUS=listening on {', '.join(urls)}"
        self._tell("READY=1", self._state)
        if self._watchdog is not None:
            arguments = (engine, hung, min(self._watchdog / _SIGNS, _LOOK))
            self._thread = threading.Thread(
                target=self._watch, args=arguments, name="penstock-watchdog", daemon=True
            )
            self._thread.start()

    def environment(self) -> dict[str, str]:
        """The variables by which the service manager is told of a process that takes the place of this one."""
        if self._address is None:
            return {}
        found = {"NOTIFY_SOCKET": self._address}
        if self._watchdog is not None:
            found["WATCHDOG_USEC"] = str(round(self._watchdog * 1e6))
        return found

    def succeeded(self, number: int) -> None:
        """The process `number` serves in place of this one, which the service manager hears nothing of any more."""
        self._is_stopping = True
        self._tell(f"MAINPID={number}", "READY=1", self._state)
        self._sign_off()
        self._address = None

    def reloading(self) -> None:
        """SIGHUP or SIGUSR2 has come. `reloaded` or `succeeded` follows."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def reloaded(self, failure: str | None = None) -> None:
        """What the signal asked for is done, or has failed and changed nothing; `failure` says why."""
        # A stop that came meanwhile has been told.
        if not self._is_stopping:
            self._tell("READY=1", self._state if failure is None else f"{self._state}; {failure}")

    def stopping(self) -> None:
        """No connection is accepted any more."""
        self._is_stopping = True
        self._tell("STOPPING=1", "STATUS=stopping")

    def waiting(self, what: str) -> None:
        """The stop waits for `what`."""
        self._tell(f"STATUS=stopping: waiting for {what}")

    def close(self) -> None:
        """Give no more signs, and have the next process be given what is left for it. Idempotent."""
        self.upgrades.close()
        self._sign_off()

    def _sign_off(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _watch(self, engine: Engine, hung: float, interval: float) -> None:
        told = None
        while not self._stop.is_set():
            fault = engine.native.fault(hung)
            if fault is None:
                self._tell("WATCHDOG=1", *(() if told is None else (self._state,)))
            elif told is None:
                _log.error("%s: the watchdog gets no sign", fault)
                self._tell(f"STATUS={fault}")
            told = fault
            self._stop.wait(interval)

    def _tell(self, *lines: str) -> None:
        if self._address is None:
            return
        path = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(_PATIENCE)
                sender.sendto("\n".join(line.replace("\n", " ") for line in lines).encode(), path)
        except OSError as error:
            # Said once: the next sign would fail as well.
            if not self._has_failed:
                _log.warning("NOTIFY_SOCKET: %s cannot be told: %s", self._address, error.strerror or error)
            self._has_failed = True
