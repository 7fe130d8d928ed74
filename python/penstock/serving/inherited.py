"""Listening sockets that this process was started with: those of the service manager (sd_listen_fds(3)), or by number.

The service manager keeps such a socket open while no process accepts from it, so that clients wait in its backlog while
the server is restarted. All threads of the engine share it.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from penstock.config.listen import Inherited
from penstock.exceptions import make_error

__all__ = ["open_inherited", "take_passed"]

# The first descriptor that a service manager passes: after standard input, output and error.
_FIRST: Final = 3
# Of sockets, against a number that is wrong (arbitrary).
_MOST: Final = 1024

_names: Final[dict[int, str]] = {}


def open_inherited(inherited: Inherited) -> tuple[socket.socket, ...]:
    """The sockets: one for a number, and for a name all that have it.

    Raises:
        SystemFailureError: it is missing, or is not a stream socket (LISTEN_FAILED).
    """
    name = inherited.name
    if name.isascii() and name.isdigit():
        return (_socket(inherited, int(name)),)
    numbers = [number for number, known in _names.items() if known == name]
    if not numbers:
        passed = ", ".join(f"{known!r} ({number})" for number, known in _names.items())
        seen = f"it has passed {passed}" if passed else "it has passed none (LISTEN_FDS)"
        raise make_error(
            "LISTEN_FAILED", f"{inherited}: the service manager has passed no such socket; {seen}"
        )
    return tuple(_socket(inherited, number) for number in numbers)


def _socket(inherited: Inherited, number: int) -> socket.socket:
    try:
        found = socket.socket(fileno=number)
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise make_error("LISTEN_FAILED", f"{inherited}: descriptor {number} is no socket: {why}") from None
    if found.type != socket.SOCK_STREAM:
        found.detach()
        raise make_error("LISTEN_FAILED", f"{inherited}: descriptor {number} is not a stream socket")
    # A child process would keep it open.
    found.set_inheritable(False)
    return found


def take_passed() -> Mapping[int, str]:
    """The descriptors of the sockets that the service manager has passed to this process, with their names.

    From now on no child process inherits them; the variables that tell of them are removed.
    """
    process, count, names = (os.environ.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES"))
    if process == str(os.getpid()) and count.isascii() and count.isdigit():
        given = names.split(":") if names else []
        for at in range(min(int(count), _MOST)):
            # The name that systemd gives to a socket without one.
            _names[_FIRST + at] = given[at] if at < len(given) else "unknown"
            # A number that is wrong is reported by `open_inherited`.
            with suppress(OSError):
                os.set_inheritable(_FIRST + at, False)
    return _names
