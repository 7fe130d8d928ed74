"""Origins of WebSockets. Key and answer are those of RFC 6455, section 1.3."""

import asyncio
from collections.abc import Awaitable, Callable

from penstock.testing import Peer

ACCEPTING = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def echoes(accept: bytes) -> Callable[[Peer], Awaitable[None]]:
    """Accepts, and sends each byte back in capitals until the peer ends its side."""

    async def echo(peer: Peer) -> None:
        await peer.request()
        await peer.send(accept)
        while True:
            await peer.send((await peer.read(1)).upper())

    return echo


def moves_both_ways(accept: bytes, size: int) -> Callable[[Peer], Awaitable[None]]:
    """Accepts, sends `size` bytes while it reads as many, and then sends one more."""

    async def both(peer: Peer) -> None:
        await peer.request()
        await peer.send(accept)
        async with asyncio.TaskGroup() as group:
            group.create_task(peer.send(b"d" * size))
            group.create_task(peer.read(size))
        await peer.send(b"!")

    return both
