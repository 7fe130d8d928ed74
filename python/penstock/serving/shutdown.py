"""How a process that serves is stopped by signals, and what it does last.

The first SIGTERM or SIGINT asks for a stop. A second one ends the process at once, whatever it does: what is left is
cut off so that no client takes it for whole, and files that belong to the process go with it. SIGHUP asks for a stop
only where the process has a terminal, which is gone then. SIGUSR1 opens the files of access logs anew. SIGUSR2 has
another process take the place of this one, which then stops. The service manager is told of SIGHUP, SIGUSR2 and a stop.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from .access_lines import reopen_files
from .announcer import Announcer

__all__ = ["HOW_TO_END", "last_act", "say_waiting", "stop_signal"]

_log: Final = logging.getLogger("penstock.serve")

HOW_TO_END: Final = "a second SIGTERM or SIGINT (CTRL+C) ends at once"

_acts: Final[list[Callable[[], object]]] = []


@contextmanager
def last_act(act: Callable[[], object]) -> Iterator[None]:
    """Have `act` called if the process is ended at once within the block. It runs in a signal handler of the loop."""
    _acts.append(act)
    try:
        yield
    finally:
        _acts.remove(act)


def stop_signal(
    *,
    reload: Callable[[], None] | None = None,
    status: Callable[[int], int] = lambda number: 128 + number,
    announcer: Announcer | None = None,
) -> "asyncio.Future[str]":
    """A future of the name of the signal that asks for a stop. Signals are handled until the running loop is closed.

    Args:
        reload: called at SIGHUP, until a stop is asked for. None: there is nothing to reload, which SIGHUP says; if the
            process has a terminal SIGHUP asks for a stop, because the terminal is gone.
        status: the exit status after a second signal.
        announcer: told of the signals, and has the upgrades that SIGUSR2 asks for. `reload` tells it when it is done.
    """
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[str] = loop.create_future()
    has_terminal = any(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))

    has_asked = False

    def received(number: signal.Signals) -> None:
        nonlocal has_asked
        if has_asked:
            _exit(status(number))
        has_asked = True
        if stop.done():
            # By an upgrade: what stops a service stops both processes.
            _log.info("%s: already stopping; %s", number.name, HOW_TO_END)
            return
        stop.set_result(number.name)
        if announcer is not None:
            announcer.stopping()

    def hung_up() -> None:
        nonlocal has_asked
        if stop.done():
            _log.info("SIGHUP: already stopping; %s", HOW_TO_END)
        elif reload is not None:
            if announcer is not None:
                announcer.reloading()
            reload()
        elif has_terminal:
            has_asked = True
            stop.set_result(signal.SIGHUP.name)
            if announcer is not None:
                announcer.stopping()
        else:
            _log.warning("SIGHUP: nothing is reloaded; that takes worker processes. SIGTERM stops")
            if announcer is not None:
                # systemd with Type=notify-reload waits for both.
                announcer.reloading()
                announcer.reloaded()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)
    if announcer is not None:
        announcer.upgrades.watch(stop)
        loop.add_signal_handler(signal.SIGUSR2, announcer.upgrades.by_signal)
    # By default it would end the process. An application may have a handler of its own.
    if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL:
        loop.add_signal_handler(signal.SIGUSR1, reopen_files)
    # `nohup` has it ignored.
    if reload is not None or signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, hung_up)
    return stop


def say_waiting(announcer: Announcer) -> Callable[[str], None]:
    """What logs what a stop waits for, and how to end it, and tells `announcer`."""

    def say(what: str) -> None:
        _log.info("waiting for %s; %s", what, HOW_TO_END)
        announcer.waiting(what)

    return say


def _exit(status: int) -> None:
    """End the process. Nothing is flushed or waited for: a signal is repeated where the process is to be gone."""
    for act in reversed(_acts):
        with suppress(Exception):
            act()
    os._exit(status)
