"""Revocations reach the other process of an upgrade: both send what they have let in until the one before ends."""

import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from .upgrade_messages import Revoke, fits, send

__all__ = ["tell_others", "telling"]

_log: Final = logging.getLogger("penstock.serve")

_lock: Final = threading.Lock()
# By its link, what a process is told by. A line of upgrades may have two, one before and one after this one.
_others: Final[dict[socket.socket, socket.socket]] = {}


@contextmanager
def telling(link: socket.socket) -> Iterator[None]:
    """Meanwhile have the process at the other end of `link` be told of what is revoked here."""
    # An object of its own: the time-out of `link` is its other user's.
    with socket.socket(fileno=os.dup(link.fileno())) as other:
        with _lock:
            _others[link] = other
        try:
            yield
        finally:
            with _lock:
                del _others[link]


def tell_others(revocation: Revoke, said_by: socket.socket | None = None) -> None:
    """Tell the other process of each upgrade that is under way, but the one at the other end of `said_by`.

    Does not wait. From any thread.
    """
    with _lock:
        for link, other in _others.items():
            if link is not said_by:
                _tell(other, revocation)


def _tell(other: socket.socket, revocation: Revoke) -> None:
    why = "it is too long for a message"
    if fits(revocation):
        try:
            send(other, revocation, flags=socket.MSG_DONTWAIT)
        except (BrokenPipeError, ConnectionResetError):
            # It has ended, and sends nothing.
            return
        except OSError as error:
            # Some hundred wait already: it is stopped, or has no processor.
            why = f"it reads none: {error}"
        else:
            return
    _log.warning(
        "upgrade: the other process is not told of a revocation (%s): what it sends ends with --drain", why
    )
