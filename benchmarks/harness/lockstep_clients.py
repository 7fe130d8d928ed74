"""The clients of a load in lockstep: each is one connection to the gateway, plain or over TLS, by HTTP/1.1 or HTTP/2.

What they send is the same for each request, so that a gateway does the same for each. They speak no more of HTTP/2 than
that needs: fields are kept in the table that both sides have of them, as browsers do, and windows are so large that none
is opened meanwhile.
"""

from __future__ import annotations

import socket
import ssl
import struct

from harness.http2_floods import DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, UPDATE, frame
from harness.load import LoadError
from harness.processes import HOST
from harness.secured import NAME

# Of the whole step: valgrind takes fifty times as long as the processor, and a machine may be busy besides.
STEP_SECONDS = 60.0
RECEIVE = 1 << 20
HEAD_END = b"\r\n\r\n"
HTTP_1, HTTP_2 = "http/1.1", "h2"
# Counts depend on it.
CIPHER = "TLS_AES_128_GCM_SHA256"

ACK, FRAME_HEAD = 1, 9
INITIAL_WINDOW, WINDOW = 4, (1 << 31) - 1
# Of a connection, before it is opened.
FIRST_WINDOW = 65_535
# Fields that HPACK knows from the start, and how many those are.
GET, HTTPS, AUTHORITY, PATH, KNOWN = 2, 7, 1, 4, 61
OK = bytes([0x80 | 8])


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


class Client:
    """HTTP/1.1 without TLS."""

    authority = HOST

    def __init__(self, port: int) -> None:
        self.socket = self._connect(port)
        self.received = bytearray()

    def _connect(self, port: int) -> socket.socket:
        connection = socket.create_connection((HOST, port), timeout=STEP_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def ask(self, path: bytes, method: bytes = b"GET", body: bytes = b"") -> None:
        length = b"Content-Length: %d\r\n" % len(body) if body else b""
        head = b"%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (method, path, self.authority.encode(), length)
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

    def has_begun(self) -> bool:
        """Remove the head of an answer, if it has come."""
        return self.has(HEAD_END)

    def has(self, event: bytes) -> bool:
        """Remove what has come up to and with `event`, if it has come."""
        at = self.received.find(event)
        if at < 0:
            return False
        # What is left is the end of its chunk, which may come later.
        del self.received[: at + len(event)]
        return True


class SecuredClient(Client):
    """HTTP/1.1 over TLS."""

    authority = NAME
    protocol = HTTP_1

    def _connect(self, port: int) -> socket.socket:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols([self.protocol])
        secured = context.wrap_socket(super()._connect(port), server_hostname=NAME)
        cipher, protocol = secured.cipher(), secured.selected_alpn_protocol()
        if cipher is None or cipher[0] != CIPHER or protocol != self.protocol:
            raise LoadError(f"the handshake has settled on {cipher} and {protocol}")
        # What has come may be a ticket, after which a read would wait for what the origin is still to send.
        secured.setblocking(False)
        return secured

    def receive(self) -> None:
        try:
            super().receive()
        except ssl.SSLWantReadError:
            return


class Http2Client(SecuredClient):
    """HTTP/2 over TLS."""

    protocol = HTTP_2

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._next = 1
        self._kept: list[tuple[int, bytes]] = []
        # What has come of the responses that are asked for, and the numbers of the whole ones.
        self._bodies: dict[int, bytearray] = {}
        self._begun: set[int] = set()
        self._ended: list[int] = []
        windows = frame(SETTINGS, 0, struct.pack(">HI", INITIAL_WINDOW, WINDOW))
        windows += frame(UPDATE, 0, struct.pack(">I", WINDOW - FIRST_WINDOW))
        self.socket.sendall(PREFACE + windows)

    def ask(self, path: bytes, method: bytes = b"GET", body: bytes = b"") -> None:
        if method != b"GET" or body:
            raise LoadError("this client sends no bodies")
        self.ask_several(path, 1)

    def ask_several(self, path: bytes, streams: int) -> None:
        """Ask for the same on so many streams at once."""
        requests = b""
        for _ in range(streams):
            fields = bytes([0x80 | GET, 0x80 | HTTPS])
            fields += self._field(AUTHORITY, self.authority.encode())
            fields += self._field(PATH, path)
            requests += frame(HEADERS, self._next, fields, END_HEADERS | END_STREAM)
            self._bodies[self._next] = bytearray()
            self._next += 2
        self.socket.sendall(requests)

    def _field(self, name: int, value: bytes) -> bytes:
        """Return a field as it is sent: by its number in the table if it was sent before."""
        if (name, value) in self._kept:
            return bytes([0x80 | KNOWN + 1 + self._kept.index((name, value))])
        self._kept.insert(0, (name, value))
        return bytes([0x40 | name, len(value)]) + value

    def receive(self) -> None:
        super().receive()
        while len(self.received) >= FRAME_HEAD:
            length, kind, flags = int.from_bytes(self.received[:3], "big"), *self.received[3:5]
            stream = int.from_bytes(self.received[5:FRAME_HEAD], "big")
            if len(self.received) < FRAME_HEAD + length:
                return
            payload = bytes(self.received[FRAME_HEAD : FRAME_HEAD + length])
            del self.received[: FRAME_HEAD + length]
            self._take(kind, flags, stream, payload)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        """Take a frame. Raises LoadError for one that has no place in what is counted."""
        if kind == DATA and stream in self._begun:
            self._bodies[stream] += payload
            if flags & END_STREAM:
                self._ended.append(stream)
        elif kind == HEADERS and stream in self._bodies and payload.lstrip(b"\x20").startswith(OK):
            self._begun.add(stream)
        elif kind == SETTINGS:
            if not flags & ACK:
                self.socket.sendall(frame(SETTINGS, 0, flags=ACK))
        elif kind != UPDATE:
            raise LoadError(f"no answer to count: a frame of kind {kind} of stream {stream}, {payload!r}")

    def answer(self) -> bytes | None:
        if not self._ended:
            return None
        stream = self._ended.pop(0)
        self._begun.discard(stream)
        return bytes(self._bodies.pop(stream))

    def has_begun(self) -> bool:
        return self._bodies.keys() == self._begun

    def has(self, event: bytes) -> bool:
        for body in self._bodies.values():
            at = body.find(event)
            if at >= 0:
                del body[: at + len(event)]
                return True
        return False


CLIENTS = {"": Client, HTTP_1: SecuredClient, HTTP_2: Http2Client}
"""By what a row of counts.py says of its connections."""
