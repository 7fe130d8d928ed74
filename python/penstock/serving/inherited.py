"""Listening sockets that this process was started with: those of the service manager (sd_listen_fds(3)), or by number.

The service manager keeps such a socket open while no process accepts from it, so that clients wait in its backlog while
the server is restarted. All threads of the engine share it.
"""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from penstock.exceptions import make_error

__all__ = ["Inherited", "Listen", "take_passed"]

# The first descriptor that a service manager passes: after standard input, output and error.
_FIRST: Final = 3
# Of sockets, against a number that is wrong (arbitrary).
_MOST: Final = 1024

_names: Final[dict[int, str]] = {}


@dataclass(frozen=True, slots=True)
class Inherited:
    """Sockets to listen to that were opened before this process began."""

    name: str
    """The name that the service manager has given them (`FileDescriptorName=`), or the number of a descriptor."""

    def __str__(self) -> str:
        return f"fd:{self.name}"

    def open(self) -> tuple[socket.socket, ...]:
        """The sockets: one for a number, and for a name all that have it.

        Raises:
            SystemFailureError: it is missing, or is not a stream socket (LISTEN_FAILED).
        """
        if self.name.isascii() and self.name.isdigit():
            numbers = [int(self.name)]
        else:
            numbers = [number for number, name in _names.items() if name == self.name]
            if not numbers:
                passed = ", ".join(f"{name!r} ({number})" for number, name in _names.items())
                seen = f"it has passed {passed}" if passed else "it has passed none (LISTEN_FDS)"
                raise make_error(
                    "LISTEN_FAILED", f"{self}: the service manager has passed no such socket; {seen}"
                )
        return tuple(self._socket(number) for number in numbers)

    def _socket(self, number: int) -> socket.socket:
        try:
            found = socket.socket(fileno=number)
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise make_error("LISTEN_FAILED", f"{self}: descriptor {number} is no socket: {why}") from None
        if found.type != socket.SOCK_STREAM:
            found.detach()
            raise make_error("LISTEN_FAILED", f"{self}: descriptor {number} is not a stream socket")
        # A child process would keep it open.
        found.set_inheritable(False)
        return found


Listen = tuple[str, int] | str | Inherited
"""Where to listen: host and port, the path of a Unix socket, or a socket that is there already."""


def take_passed() -> list[str]:
    """The names of the sockets that the service manager has passed to this process, one for each descriptor.

    From now on no child process inherits them; the variables that tell of them are removed.
    """
    process, count, names = (os.environ.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES"))
    if process == str(os.getpid()) and count.isascii() and count.isdigit():
        given = names.split(":") if names else []
        for at in range(min(int(count), _MOST)):
            # The name that systemd gives to a socket without one.
            _names[_FIRST + at] = given[at] if at < len(given) else "unknown"
            # A number that is wrong is reported by `Inherited.open`.
            with suppress(OSError):
                os.set_inheritable(_FIRST + at, False)
    return list(_names.values())
