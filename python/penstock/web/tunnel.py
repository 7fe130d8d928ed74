"""WebSockets that a handler relays: the handshake is the origin's to accept, and then bytes pass both ways.

The engine offers the upgrade to the origin, checks what that answers, and sends on what the client sends after its
offer once the origin has switched. What the client sends comes by aiohttp's protocol, which leaves bytes after an
upgrade to a parser of the application's, as for its own WebSockets; so this works on every server that aiohttp has.
"""

from typing import Any, Final

from aiohttp import StreamReader, hdrs, web
from multidict import CIMultiDict

from penstock import _native

from .disconnect import ClientLink
from .relay_response import Relayed
from .upload import Pieces

__all__ = ["Tunnel", "offers_websocket", "switched"]

_WINDOW: Final = 64 * 1024
"""Bytes of a client's that wait here, twice, before its connection is read no further: a piece that the engine takes."""


def offers_websocket(request: web.BaseRequest) -> bool:
    """Whether `request` asks for WebSocket by all that this takes (RFC 6455, section 4.2.1)."""
    # The first test is true of few requests, and 20 times cheaper than the second.
    return hdrs.UPGRADE in request.headers and _native.offers_websocket(
        request.method, request.version, request.raw_headers
    )


class Tunnel:
    """What a client sends after its offer: as aiohttp's protocol gives it here, and as the engine takes it."""

    def __init__(self, request: web.BaseRequest, link: ClientLink) -> None:
        self._content = StreamReader(request.protocol, _WINDOW, loop=link.loop)
        self.body = Pieces(self._content, link)

    def begin(self, request: web.BaseRequest) -> None:
        """Take what the client sends from now on: the origin has switched."""
        parser: Any = self
        request.protocol.set_parser(parser)
        request.protocol.keep_alive(False)

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take bytes. The protocol calls it."""
        self._content.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        """Take the end of the connection. The protocol calls it."""
        self._content.feed_eof()


def switched(reason: str, fields: CIMultiDict[str]) -> Relayed:
    """The head of a response that opens a tunnel, with these end-to-end fields; it has not been prepared."""
    fields[hdrs.CONNECTION], fields[hdrs.UPGRADE] = "Upgrade", "websocket"
    response = Relayed(status=101, reason=reason, headers=fields)
    response.force_close()
    return response
