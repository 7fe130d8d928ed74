"""Notices that a client has left, also while nothing is being sent to it.

aiohttp does not cancel a handler whose client is gone, and a handler that waits for a quiet origin would
never find out by writing. So a `ClientLink` is put between the transport and aiohttp's protocol, once per
connection and by public means (`get_protocol`, `set_protocol`), that leads every call on. It cancels the
task of the relay that is under way when the connection is lost: one attribute set per request, and no task,
timer or future.
"""

import asyncio
from typing import cast

__all__ = ["ClientLink"]


class ClientLink(asyncio.Protocol):
    """Leads every call on to `protocol`, and cancels `task`, unless it is None, when the connection is lost.

    aiohttp runs one handler at a time on a connection, so one place for a task is enough. All calls but one are
    the protocol's own methods, taken over as attributes: a transport that looks them up calls them directly.
    """

    __slots__ = (
        "_protocol",
        "begin_request",
        "connection_made",
        "data_received",
        "eof_received",
        "loop",
        "lost",
        "pause_writing",
        "resume_writing",
        "task",
    )

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        self.loop = asyncio.get_running_loop()
        self.task: asyncio.Task[object] | None = None
        self.lost = False
        for name in ("connection_made", "data_received", "eof_received", "pause_writing", "resume_writing"):
            setattr(self, name, getattr(protocol, name))
        # A protocol on the engine's transport has it.
        self.begin_request: object = getattr(protocol, "begin_request", None)

    @classmethod
    def of(cls, transport: asyncio.Transport) -> "ClientLink":
        """The link of a connection; made at the first call for it."""
        protocol = transport.get_protocol()
        if isinstance(protocol, cls):
            return protocol
        link = cls(cast("asyncio.Protocol", protocol))
        transport.set_protocol(link)
        return link

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on, and cancel what the client was waiting for."""
        self.lost = True
        self._protocol.connection_lost(exc)
        if self.task is not None:
            self.task.cancel()
