"""What `transport.get_extra_info("socket")` returns where the engine owns the client's socket."""

import errno
import socket
import sys
import weakref
from typing import Any, Final, NoReturn, overload

__all__ = ["ClientSocket"]

# What the engine has set for every client already; aiohttp asks for both.
_SET: Final = ((socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.SOL_SOCKET, socket.SO_KEEPALIVE))
_SO_MAX_PACING_RATE: Final = 47
# Numbers that can be set: they neither keep back nor cut off what others have written to the connection.
_SETTABLE: Final = {
    *_SET,
    (socket.SOL_SOCKET, socket.SO_SNDBUF),
    (socket.SOL_SOCKET, socket.SO_RCVBUF),
    (socket.SOL_SOCKET, socket.SO_PRIORITY),
    (socket.SOL_SOCKET, _SO_MAX_PACING_RATE),
    (socket.IPPROTO_IP, socket.IP_TOS),
    (socket.IPPROTO_IPV6, socket.IPV6_TCLASS),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
    (socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT),
    (socket.IPPROTO_TCP, socket.TCP_QUICKACK),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
    (socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP),
}
_INTEGER: Final = 4
_ORDER: Final = sys.byteorder


class ClientSocket:
    """A client's socket, as `asyncio.trsock.TransportSocket` has one of asyncio's: its addresses and its options.

    Options are those of the real socket; what could hold back or cut off what others have written is not set. The
    connection serves other requests after this one, so nothing here reads, writes or closes it: `fileno` is the
    descriptor of a stand-in, a socket of the same kind that is connected to nothing. In a worker process
    (`penstock serve --workers`), which does not have the client's socket, options are set on the real one a moment later
    and read from the stand-in.
    """

    __slots__ = ("__weakref__", "_stand_in", "_transport")

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._stand_in: socket.socket | None = None

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

    def getsockbyname(self) -> Any:
        """The same, by the name that asyncio has for it too."""
        return self.getsockname()

    def getpeername(self) -> Any:
        """Where the client is."""
        return self._transport.get_extra_info("peername")

    @overload
    def getsockopt(self, level: int, optname: int, /) -> int: ...
    @overload
    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...
    def getsockopt(self, level: int, optname: int, buflen: int = 0, /) -> int | bytes:
        """Read an option of the client's socket.

        Raises:
            OSError: the kernel's; EBADF after the response.
        """
        size = buflen or _INTEGER
        if (level, optname) == (socket.SOL_SOCKET, socket.SO_ERROR):
            # To read it is to take it from the engine. What has failed is told by `connection_lost`.
            value: bytes | None = bytes(_INTEGER)
        else:
            value = self._transport.get_option(level, optname, size)
        if value is None:
            value = self._stand().getsockopt(level, optname, size)
        return value if buflen else int.from_bytes(value, _ORDER, signed=True)

    def setsockopt(self, level: int, optname: int, value: Any, optlen: int = 0, /) -> None:
        """Set an option of the client's socket: a size, a time, a priority.

        Raises:
            OSError: the kernel's; EBADF after the response; EPERM for an option that could hold back or cut off what
                others have written, such as SO_LINGER.
        """
        if isinstance(value, (bytes, bytearray, memoryview)) and len(value) == _INTEGER:
            value = int.from_bytes(value, _ORDER, signed=True)
        if (level, optname) not in _SETTABLE or not isinstance(value, int) or optlen:
            message = "the socket is the engine's, which does not let this option be set"
            raise PermissionError(errno.EPERM, message)
        if (level, optname) in _SET and value:
            return
        if self._transport.get_option(level, optname, _INTEGER) is None:
            # A worker process: what the kernel refuses is told here, and what it takes is remembered.
            self._stand().setsockopt(level, optname, value)
        self._transport.set_option(level, optname, value)

    def fileno(self) -> int:
        """The descriptor of the stand-in; -1 after the response.

        It is valid for as long as this object is. What is read from or written to it fails, and polling says that it has
        hung up.
        """
        try:
            self._transport.get_option(socket.SOL_SOCKET, socket.SO_TYPE, _INTEGER)
        except OSError:
            return -1
        return self._stand().fileno()

    def dup(self) -> socket.socket:
        """Duplicate the stand-in."""
        return self._stand().dup()

    def get_inheritable(self) -> bool:
        """Whether child processes inherit it: no."""
        return False

    def shutdown(self, how: int) -> None:
        """Close the connection: with SHUT_WR after what was written, with SHUT_RDWR at once.

        Raises:
            OSError: EOPNOTSUPP for SHUT_RD.
        """
        if how == socket.SHUT_RDWR:
            self._transport.abort()
        elif how == socket.SHUT_WR:
            self._transport.close()
        else:
            message = "the engine reads what the client sends; pause_reading() holds it back"
            raise OSError(errno.EOPNOTSUPP, message)

    def settimeout(self, value: float | None) -> None:
        """Do nothing for 0, which is what it is.

        Raises:
            ValueError: it is not 0.
        """
        if value != 0:
            _refuse("settimeout(): only 0 timeout is allowed on transport sockets")

    def gettimeout(self) -> float:
        """0: nothing of it blocks."""
        return 0

    def setblocking(self, flag: bool) -> None:
        """Do nothing for False, which is what it is.

        Raises:
            ValueError: it is not False.
        """
        if flag:
            _refuse("setblocking(): transport sockets cannot be blocking")

    def _stand(self) -> socket.socket:
        if self._stand_in is None:
            self._stand_in = made = socket.socket(self.family, socket.SOCK_STREAM, self.proto)
            if self.proto:
                for level, option in _SET:
                    made.setsockopt(level, option, 1)
            weakref.finalize(self, made.close)
        return self._stand_in

    def __repr__(self) -> str:
        return f"<penstock.ClientSocket of {self.getpeername()!r} at {self.getsockname()!r}>"


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)
