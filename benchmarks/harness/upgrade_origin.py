"""An origin of segments and of event streams that never end: `python upgrade_origin.py PORT`.

GET /events sends ten numbered events a second in chunks; any other path is a segment of 16 KiB.
"""

import asyncio
import sys
from contextlib import suppress

HOST = "127.0.0.1"
SEGMENT = b"s" * 16384
PAUSE_SECONDS = 0.1
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: video/iso.segment\r\nContent-Length: 16384\r\n\r\n" + SEGMENT


async def stream(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD)
    number = 0
    while not writer.is_closing():
        number += 1
        event = b"id: %d\ndata: %s\n\n" % (number, b"x" * 180)
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        await writer.drain()
        await asyncio.sleep(PAUSE_SECONDS)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(EOFError, OSError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if b" /events " in head:
                await stream(writer)
                break
            writer.write(ANSWER)
            await writer.drain()
    writer.close()


async def run(port: int) -> None:
    server = await asyncio.start_server(serve, HOST, port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1])))
