"""Listening sockets that this process was started with: those of the service manager (sd_listen_fds(3)), or by number.

The service manager keeps such a socket open while no process accepts from it, so that clients wait in its backlog while
the server is restarted. All threads of the engine share it. After an upgrade they are those of the process before, which
tells their names and numbers.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from penstock import _native
from penstock.config.listen import Inherited
from penstock.exceptions import make_error

__all__ = ["inherited_places", "open_inherited", "place_of", "take_inherited", "take_passed"]

# The first descriptor that a service manager passes: after standard input, output and error.
_FIRST: Final = 3
# Of sockets, against a number that is wrong (arbitrary).
_MOST: Final = 1024

_names: Final[dict[int, str]] = {}
# Where the sockets in use here listen, and the sockets that the process before has given.
_used: Final[dict[int, str]] = {}
_given: Final[dict[int, str]] = {}


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


def inherited_places() -> list[tuple[int, str, str]]:
    """The sockets that are in use: numbers, names, and where they listen."""
    return [(number, _names.get(number, ""), place) for number, place in _used.items()]


def take_inherited(number: int, name: str, place: str) -> None:
    """Take over a socket that the process before was started with: it is what listens at `place`."""
    _given[number] = place
    if name:
        _names[number] = name


def place_of(listener: socket.socket) -> str | None:
    """Where a socket listens: an address with its port, or `unix:` and a path; None if that has no text."""
    name = listener.getsockname()
    if isinstance(name, tuple):
        host, port = name[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"unix:{name}" if isinstance(name, str) and name else None


def _socket(inherited: Inherited, number: int) -> socket.socket:
    found = _open(inherited, number)
    if (place := place_of(found)) is not None:
        _used[number] = place
    return found


def _open(inherited: Inherited, number: int) -> socket.socket:
    if number in _given:
        descriptor = _native.claim_listener(_given[number])
        if descriptor is None:
            detail = f"{inherited}: the process before has not handed over {_given[number]}"
            raise make_error("LISTEN_FAILED", detail)
        return socket.socket(fileno=descriptor)
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
