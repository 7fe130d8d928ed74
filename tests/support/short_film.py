"""Origins with one short film, for tests of what is counted of it."""

import asyncio

from penstock.testing import Peer

from .client import answer

FILM = b"film"


async def films(peer: Peer) -> None:
    """Answers each request with the film."""
    while True:
        await peer.request()
        await peer.send(answer(f"Content-Length: {len(FILM)}", body=FILM))


class HeldFilm:
    """Answers one request, with the film once `release` is set."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(f"Content-Length: {len(FILM)}"))
        await self.release.wait()
        await peer.send(FILM)
        await peer.stall()
