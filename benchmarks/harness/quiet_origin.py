"""An origin of small responses, and of event streams that are quiet after their first event."""

from __future__ import annotations

import asyncio


async def origin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers /ok, and sends one event in answer to any other request."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET /ok "):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                continue
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: hello\n\n")
            await reader.read()
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        # The last is the end of the run, which asyncio would log for each client.
        writer.close()
