"""An origin of segments and of event streams that never end: `python upgrade_origin.py PORT`.

GET /events/ sends ten numbered events a second in chunks, each with the time at which it was sent; any other path is a
segment of 16 KiB that may be kept for an hour.
"""

import asyncio
import sys
import time
from typing import cast

import uvloop

HOST = "127.0.0.1"
SEGMENT = b"s" * 16384
PAUSE_SECONDS = 0.1
# The streams are served in so many parts, one after the other.
PARTS = 20
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: video/iso.segment\r\nCache-Control: max-age=3600\r\n"
    b"Content-Length: 16384\r\n\r\n" + SEGMENT
)


class Connection(asyncio.Protocol):
    """One connection of a gateway's."""

    def __init__(self, streams: list[set["Connection"]]) -> None:
        self._streams = streams
        self._number = 0
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is not of asyncio's class.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._head += data
        while b"\r\n\r\n" in self._head:
            head, _, self._head = self._head.partition(b"\r\n\r\n")
            if b" /events/ " in head:
                self._transport.write(HEAD)
                min(self._streams, key=len).add(self)
            else:
                self._transport.write(ANSWER)

    def connection_lost(self, _: Exception | None) -> None:
        for part in self._streams:
            part.discard(self)

    def send(self, now: int) -> None:
        """The next event."""
        self._number += 1
        event = b"id: %d\ndata: %d %s\n\n" % (self._number, now, b"x" * 160)
        self._transport.write(b"%x\r\n%b\r\n" % (len(event), event))


async def run(port: int) -> None:
    streams: list[set[Connection]] = [set() for _ in range(PARTS)]
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: Connection(streams), HOST, port, backlog=4096)
    due = loop.time()
    while True:
        for part in streams:
            due += PAUSE_SECONDS / PARTS
            await asyncio.sleep(due - loop.time())
            for connection in tuple(part):
                connection.send(time.monotonic_ns())


if __name__ == "__main__":
    uvloop.run(run(int(sys.argv[1])))
