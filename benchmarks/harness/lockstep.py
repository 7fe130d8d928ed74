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
from harness.processes import HOST

# Of the whole step: valgrind takes fifty times as long as the processor, and a machine may be busy besides.
STEP_SECONDS = 60.0
RECEIVE = 1 << 20
# What compare.py's streams have: 200 bytes, with the field's name and the blank line.
EVENT_SIZE = 200
HEAD_END = b"\r\n\r\n"
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


def _length(head: bytes) -> int:
    """Return the Content-Length of a response's head. Raises LoadError unless it is a whole answer with one."""
    first, *lines = head.decode("latin-1").split("\r\n")
    status = first.split()[1]
    if status == "204":
        return 0
    for line in lines:
        name, _, value = line.partition(":")
        if name.lower() == "content-length" and status.startswith("2"):
            return int(value)
    raise LoadError(f"no answer to count: {head!r}")


class _Client:
    """One connection to the gateway, and what has come on it."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=STEP_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()

    def ask(self, path: bytes, method: bytes = b"GET", body: bytes = b"") -> None:
        length = b"Content-Length: %d\r\n" % len(body) if body else b""
        head = b"%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n" % (method, path, length)
        self.socket.sendall(head + body)

    def receive(self) -> None:
        """Take what has come. Raises LoadError if the gateway has closed."""
        data = self.socket.recv(RECEIVE)
        if not data:
            raise LoadError(f"the gateway closed after {bytes(self.received[-200:])!r}")
        self.received += data

    def answer(self) -> bytes | None:
        """Remove and return a whole answer's body, or None if more has to come."""
        end = self.received.find(HEAD_END)
        if end < 0:
            return None
        start = end + len(HEAD_END)
        whole = start + _length(bytes(self.received[:end]))
        if len(self.received) < whole:
            return None
        body = bytes(self.received[start:whole])
        del self.received[:whole]
        return body

    def has(self, event: bytes) -> bool:
        """Remove what has come up to and with `event`, if it has come."""
        at = self.received.find(event)
        if at < 0:
            return False
        # What is left is the end of its chunk, which may come later.
        del self.received[: at + len(event)]
        return True


class Lockstep:
    """An origin and its clients. `step` puts one request or event through the gateway and waits for its end."""

    def __init__(self, size: int) -> None:
        self._body = os.urandom(size)
        self._listener = socket.create_server((HOST, 0), backlog=64)
        self._origin: dict[int, socket.socket] = {}
        self._clients: list[_Client] = []
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

    def connect(self, port: int) -> None:
        """Open the connection that asks."""
        self._port = port
        self._clients = [_Client(port)]
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

    def follow(self) -> None:
        """Open an event stream of the origin's through the gateway."""
        client = self._clients[0]
        client.ask(EVENT_STREAM)
        self._until(lambda: client.has(HEAD_END))

    def send_event(self) -> None:
        """Have the origin send an event, and wait until the client has it."""
        assert self._stream is not None, "no event stream was opened"
        client, event = self._clients[0], _event()
        self._stream.sendall(_chunk(event))
        self._until(lambda: client.has(event))

    def subscribe(self, count: int) -> None:
        """Open connections of that many subscribers of a hub's topic."""
        for _ in range(count):
            client = _Client(self._port)
            self._clients.append(client)
            self._poll.register(client.socket.fileno(), select.EPOLLIN)
            client.ask(TOPIC)
            self._until(lambda client=client: client.has(HEAD_END))  # type: ignore[misc]

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
