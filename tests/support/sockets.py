"""What the kernel says of the TCP connections of this machine (Linux, Documentation/networking/proc_net_tcp.rst)."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FIN_WAIT1 = 4
"""A state of a connection (include/net/tcp_states.h of Linux): this end has ended, and what it wrote is not
acknowledged."""


class Socket(NamedTuple):
    """One end of a connection over IPv4, or a listener."""

    port: int
    other: int
    """The port at the other end."""
    state: int
    unread: int
    """Bytes that have come, and that the program has not read."""


def sockets() -> Iterator[Socket]:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, queues, *_ = line.split()
        port, other, unread = (int(part.rpartition(":")[2], 16) for part in (local, remote, queues))
        yield Socket(port, other, int(state, 16), unread)


def is_ending(port: int, other: int) -> bool:
    """Whether the end at `port` of the connection to `other` has ended, and waits for acknowledgements."""
    return any(one[:3] == (port, other, FIN_WAIT1) for one in sockets())


def unread_from(port: int) -> int:
    """Bytes that a server at `port` has sent, and that its clients have not read."""
    return sum(one.unread for one in sockets() if one.other == port)
