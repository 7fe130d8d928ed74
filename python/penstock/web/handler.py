"""aiohttp's protocol, as the engine's transport needs it: one that says when its response has ended.

The transport gives a protocol one request after the other, of whatever clients, as a reverse proxy does with a
connection to its upstream. So it must know when the one before is over, which aiohttp tells nobody.
"""

from typing import Any, Final

from aiohttp import web

__all__ = ["make_handler"]


class _Over:
    """What stands in the place of a protocol when a response has ended."""

    __slots__ = ()
    transport: Final = None


_OVER: Final = _Over()


class _SaysWhenItIsDone:
    """What is put in front of a `RequestHandler`. It has no state: the class of a handler is changed to it."""

    __slots__ = ()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the response and log it, as aiohttp does, and tell the transport."""
        finished: tuple[web.StreamResponse, bool] = await super().finish_response(  # type: ignore[misc]
            request, resp, start_time
        )
        transport: Any = self.transport  # type: ignore[attr-defined]
        if transport is not None and not finished[1]:
            # What makes aiohttp wait for another request; else it closes.
            keeps = finished[0].keep_alive and not self._close  # type: ignore[attr-defined]
            # Behind this the protocol is somebody else's: who keeps the request has no way to write through it.
            kept: Any = request
            kept._protocol = kept._payload_writer._protocol = _OVER  # noqa: SLF001
            transport._end_response(bool(keeps))  # noqa: SLF001
        return finished


_classes: Final[dict[type[web.RequestHandler], type[web.RequestHandler]]] = {}


def _saying(cls: type[web.RequestHandler]) -> type[web.RequestHandler]:
    known = _classes.get(cls)
    if known is None:
        members = {"__slots__": (), "__module__": __name__}
        known = _classes[cls] = type(cls.__name__, (_SaysWhenItIsDone, cls), members)
    return known


def make_handler(server: web.Server) -> web.RequestHandler:
    """What `server` makes for a connection, with all of its settings."""
    handler = server()
    # Not by a subclass of Server: it is the runner that makes one, with arguments that are its own business.
    handler.__class__ = _saying(type(handler))
    return handler
