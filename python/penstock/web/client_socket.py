"""What `transport.get_extra_info("socket")` returns where the engine owns the client's socket."""

import socket
from typing import Any, Final

__all__ = ["ClientSocket"]

# What the engine has set for every client already; aiohttp asks for both.
_SET: Final = {(socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.SOL_SOCKET, socket.SO_KEEPALIVE)}
# What can be set beside that: numbers that the kernel takes from anybody, and that neither delay nor cut off
# what others have written.
_SETTABLE: Final = _SET | {
    (socket.SOL_SOCKET, socket.SO_SNDBUF),
    (socket.SOL_SOCKET, socket.SO_RCVBUF),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
    (socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT),
    (socket.IPPROTO_TCP, socket.TCP_QUICKACK),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
}


class ClientSocket:
    """The addresses and the kind of a client's socket.

    Nothing of it reads, writes or closes, because the socket serves other requests behind this one, and there is no
    descriptor to be had.
    """

    __slots__ = ("_transport",)

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    @property
    def family(self) -> socket.AddressFamily:
        """Of addresses."""
        name = self.getsockname()
        if isinstance(name, str):
            return socket.AF_UNIX
        return socket.AF_INET if len(name) == 2 else socket.AF_INET6  # noqa: PLR2004 (host and port)

    @property
    def type(self) -> socket.SocketKind:
        """Always a stream."""
        return socket.SOCK_STREAM

    @property
    def proto(self) -> int:
        """TCP, or 0 for a Unix socket."""
        return 0 if self.family is socket.AF_UNIX else socket.IPPROTO_TCP

    def getsockname(self) -> Any:
        """Where the client has connected to."""
        return self._transport.get_extra_info("sockname")

    def getpeername(self) -> Any:
        """Where the client is."""
        return self._transport.get_extra_info("peername")

    def getsockopt(self, level: int, option: int) -> int:
        """Say that TCP_NODELAY and SO_KEEPALIVE are set.

        Raises:
            OSError: it is another option.
        """
        if (level, option) in _SET:
            return 1
        raise _not_ours()

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Set sizes of buffers and times of TCP, behind what was written before.

        Raises:
            OSError: it is another option.
        """
        if (level, option) not in _SETTABLE:
            raise _not_ours()
        if not ((level, option) in _SET and value):
            self._transport._set_option(level, option, int(value))  # noqa: SLF001

    def __repr__(self) -> str:
        return f"<penstock.ClientSocket of {self.getpeername()!r} at {self.getsockname()!r}>"


def _not_ours() -> OSError:
    return OSError("the socket is the engine's, and this option is not to be had there")
