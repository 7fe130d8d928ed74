"""A load in lockstep: origin and clients in one thread, and never more than one request or event under way.

So each request takes the same path through a gateway as the one before, however slow the gateway is: what it counts
does not depend on who was faster. Every answer is compared with what the origin sent.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from email.utils import formatdate
from types import TracebackType
from typing import Self

from harness.fan_out import SIZE as PUBLISHED_SIZE
from harness.load import LoadError
from harness.lockstep_clients import CLIENTS, RECEIVE, STEP_SECONDS, Client, Http2Client
from harness.processes import HOST

# What compare.py's streams have: 200 bytes, with the field's name and the blank line.
EVENT_SIZE = 200
EVENT_STREAM = b"/events"
PUBLISH = b"/publish"
TOPIC = b"/events/topic"


def _event() -> bytes:
    """Return an event of EVENT_SIZE bytes that differs from all others."""
    text = os.urandom(EVENT_SIZE).hex().encode()[: EVENT_SIZE - len(b"data: \n\n")]
    return b"data: " + text + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _head(*fields: str) -> bytes:
    """Return a head as long as nginx writes one for a file."""
    lines = ["HTTP/1.1 200 OK", "Server: nginx/1.22.1", f"Date: {formatdate(usegmt=True)}", *fields]
    return ("\r\n".join([*lines, "Connection: keep-alive"]) + "\r\n\r\n").encode()


class Lockstep:
    """An origin and its clients. `step` puts one request or event through the gateway and waits for its end."""

    def __init__(self, size: int) -> None:
        self._body = os.urandom(size)
        self._listener = socket.create_server((HOST, 0), backlog=64)
        self._origin: dict[int, socket.socket] = {}
        self._clients: list[Client] = []
        self._stream: socket.socket | None = None
        self._poll = select.epoll()
        self._poll.register(self._listener.fileno(), select.EPOLLIN)
        self._port = 0
        self.asked = 0
        """Requests that the origin has had."""

    @property
    def origin(self) -> str:
        """The origin's HOST:PORT."""
        return f"{HOST}:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._poll.close()
        for open_socket in (
            *(self._listener, *self._origin.values()),
            *(client.socket for client in self._clients),
        ):
            open_socket.close()

    def connect(self, port: int, protocol: str) -> None:
        """Open the connection that asks, by what CLIENTS calls `protocol`."""
        self._port = port
        self._clients = [CLIENTS[protocol](port)]
        self._poll.register(self._clients[0].socket.fileno(), select.EPOLLIN)

    def fetch(self, path: bytes) -> None:
        """Ask for a path that the origin answers, or the gateway from what it has of the origin."""
        if self.get(path) != self._body:
            raise LoadError(f"{path!r}: not the origin's bytes")

    def get(self, path: bytes) -> bytes:
        """Ask for a path and return the body of the answer."""
        client = self._clients[0]
        client.ask(path)
        found = b""

        def answered() -> bool:
            nonlocal found
            body = client.answer()
            found = body or b""
            return body is not None

        self._until(answered)
        return found

    def fetch_several(self, path: bytes, streams: int) -> None:
        """Ask for a path on so many streams at once, as `fetch` does on one."""
        client, left = self._clients[0], streams
        assert isinstance(client, Http2Client), "only HTTP/2 has streams"
        client.ask_several(path, streams)

        def answered() -> bool:
            nonlocal left
            while (body := client.answer()) is not None:
                if body != self._body:
                    raise LoadError(f"{path!r}: not the origin's bytes")
                left -= 1
            return left == 0

        self._until(answered)

    def follow(self) -> None:
        """Open an event stream of the origin's through the gateway."""
        client = self._clients[0]
        client.ask(EVENT_STREAM)
        self._until(client.has_begun)

    def send_event(self) -> None:
        """Have the origin send an event, and wait until the client has it."""
        assert self._stream is not None, "no event stream was opened"
        client, event = self._clients[0], _event()
        self._stream.sendall(_chunk(event))
        self._until(lambda: client.has(event))

    def subscribe(self, count: int) -> None:
        """Open connections of that many subscribers of a hub's topic."""
        for _ in range(count):
            client = Client(self._port)
            self._clients.append(client)
            self._poll.register(client.socket.fileno(), select.EPOLLIN)
            client.ask(TOPIC)
            self._until(client.has_begun)

    def publish(self) -> None:
        """Publish an event, and wait until that is answered and each subscriber has it."""
        publisher, *subscribers = self._clients
        # A hub may encode an event in more than one way; its data is one line of each.
        data = os.urandom(PUBLISHED_SIZE).hex().encode()[:PUBLISHED_SIZE]
        publisher.ask(PUBLISH, b"POST", data)
        waiting = list(subscribers)

        def delivered() -> bool:
            waiting[:] = [client for client in waiting if not client.has(data)]
            return not waiting and publisher.answer() is not None

        self._until(delivered)

    def _until(self, done: Callable[[], bool]) -> None:
        """Serve the origin and take what comes for clients until `done`. Raises LoadError after STEP_SECONDS."""
        clients = {client.socket.fileno(): client for client in self._clients}
        deadline = time.monotonic() + STEP_SECONDS
        while not done():
            events = self._poll.poll(max(0.0, deadline - time.monotonic()))
            if not events:
                raise LoadError(f"nothing came for {STEP_SECONDS:g} s")
            for number, _ in events:
                if number in clients:
                    clients[number].receive()
                elif number == self._listener.fileno():
                    accepted, _ = self._listener.accept()
                    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._origin[accepted.fileno()] = accepted
                    self._poll.register(accepted.fileno(), select.EPOLLIN)
                else:
                    self._answer(number)

    def _answer(self, number: int) -> None:
        """Answer a request that has come from the gateway: whole, since none has a body."""
        connection = self._origin[number]
        request = connection.recv(RECEIVE)
        if not request:
            self._poll.unregister(number)
            self._origin.pop(number).close()
            return
        self.asked += 1
        if request.split(b" ", 2)[1] == EVENT_STREAM:
            head = _head(
                "Content-Type: text/event-stream", "Transfer-Encoding: chunked", "Cache-Control: no-cache"
            )
            self._stream = connection
            connection.sendall(head)
            return
        head = _head(
            "Content-Type: video/iso.segment",
            f"Content-Length: {len(self._body)}",
            "Last-Modified: Sat, 21 Nov 2026 10:00:00 GMT",
            'ETag: "65f0a1b2-4000"',
            "Cache-Control: max-age=3600",
            "Accept-Ranges: bytes",
        )
        self._send(connection, [head, self._body])

    @staticmethod
    def _send(connection: socket.socket, parts: list[bytes]) -> None:
        sent = connection.sendmsg(parts)
        whole = sum(map(len, parts))
        if sent < whole:
            connection.sendall(b"".join(parts)[sent:])
