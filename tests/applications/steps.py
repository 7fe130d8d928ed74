"""What a client does with a program, and which parts of the answers must be the same on every server."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import WSMsgType

# Said by the server or the moment, not by the application.
_PASSING = {"date", "server", "set-cookie", "last-modified", "etag", "connection"}


@dataclass(frozen=True)
class Ask:
    """A request. `keeps`: the part of the answer that is looked for if the whole differs from time to time."""

    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    status: int | None = None
    keeps: str | None = None

    async def carry_out(self, client: aiohttp.ClientSession, *, varies: bool) -> dict[str, Any]:
        """Ask; what was answered."""
        options: dict[str, Any] = {"headers": self.headers, "data": self.body, "allow_redirects": False}
        async with client.request(self.method, self.target, **options) as answer:
            body = await answer.text(errors="replace")
            expected = (200, 201, 202, 204, 302, 303) if self.status is None else (self.status,)
            assert answer.status in expected, f"{self} was answered {answer.status}: {body}"
            names = sorted(name.lower() for name in answer.headers if name.lower() not in _PASSING)
            said: dict[str, Any] = {"status": answer.status, "fields": names, "type": answer.content_type}
            if self.keeps is not None:
                assert re.search(self.keeps, body), f"{self.keeps} is not in {body}"
            elif not varies:
                said["headers"] = {
                    name: answer.headers[name] for name in answer.headers if name.lower() in names
                }
            if not varies:
                said["body"] = body
            return said


@dataclass(frozen=True)
class Socket:
    """A WebSocket on which messages are sent, and as many are received as are awaited."""

    target: str
    messages: list[str | bytes]
    answers: int
    keeps: str | None = None

    async def carry_out(self, client: aiohttp.ClientSession, *, varies: bool) -> dict[str, Any]:
        """Talk; what was answered."""
        received = []
        async with client.ws_connect(self.target, protocols=("chat",)) as socket:
            for message in self.messages:
                await (socket.send_str(message) if isinstance(message, str) else socket.send_bytes(message))
            for _ in range(self.answers):
                message = await socket.receive(timeout=10)
                assert message.type in {WSMsgType.TEXT, WSMsgType.BINARY}, message
                received.append(message.data if isinstance(message.data, str) else message.data.decode())
            if "close" in self.messages:
                message = await socket.receive(timeout=10)
                received.append(str((message.type, message.data, message.extra)))
        if self.keeps is not None:
            assert any(re.search(self.keeps, text) for text in received), received
        return {"protocol": socket.protocol, "received": len(received) if varies else received}


def Chat(target: str, *messages: str) -> Socket:  # noqa: N802 (it stands for a class)
    """A WebSocket with an answer to each message."""
    return Socket(target, list(messages), len(messages))


@dataclass(frozen=True)
class Program:
    """An application, and what is asked of it in turn. `expects` is in the body of an answer.

    `varies`: bodies are not the same twice, as they have times or random names.
    """

    names: tuple[str, ...]
    make: Callable[[], Any]
    asks: list[Ask | Socket]
    expects: str | None
    varies: bool


PROGRAMS: dict[str, Program] = {}


def program(
    *names: str, asks: list[Any], expects: str | None = None, varies: bool = False
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Keep what makes an application as the program of these distributions."""

    def keep(make: Callable[[], Any]) -> Callable[[], Any]:
        PROGRAMS[names[0]] = Program(names, make, asks, expects, varies)
        return make

    return keep
