"""Clients that read slowly, or not at all: `slow_readers.py PORT PATH COUNT BYTES_A_SECOND`. Of tests of memory.

Each asks for the path again and again. "ready" is printed once each has the head of its first response. They end with
standard input.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

PIECES_A_SECOND = 10


async def client(port: int, path: str, rate: int, begun: asyncio.Semaphore) -> None:
    # What asyncio reads ahead of its reader would be memory of this process, and not of the kernel.
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
    request = f"GET {path} HTTP/1.1\r\nHost: slow\r\n\r\n".encode()
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    begun.release()
    fields = dict(line.lower().partition(b": ")[::2] for line in head.split(b"\r\n"))
    size = left = int(fields[b"content-length"])
    if not rate:
        await asyncio.Event().wait()
    while True:
        await asyncio.sleep(1 / PIECES_A_SECOND)
        piece = min(left, rate // PIECES_A_SECOND)
        await reader.readexactly(piece)
        left -= piece
        if not left:
            writer.write(request)
            await reader.readuntil(b"\r\n\r\n")
            left = size


async def main() -> None:
    port, path, count, rate = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    begun = asyncio.Semaphore(0)
    clients = [asyncio.create_task(client(port, path, rate, begun)) for _ in range(count)]
    for _ in clients:
        await begun.acquire()
    print("ready", flush=True)
    end = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    done, _ = await asyncio.wait([end, *clients], return_when=asyncio.FIRST_COMPLETED)
    for each in clients:
        each.cancel()
    with suppress(asyncio.CancelledError):
        for each in done:
            each.result()


if __name__ == "__main__":
    asyncio.run(main())
