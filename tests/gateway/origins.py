"""Scripts of origins that several tests need."""

from penstock.testing import Peer, Script


def says(data: bytes, *, then: str = "close") -> Script:
    """An origin that answers with `data` and then closes, resets or stalls."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(data)
        await end(peer, then)

    return script


async def end(peer: Peer, how: str) -> None:
    """End the connection of `peer`, or say nothing more until it leaves."""
    if how == "reset":
        peer.reset()
    elif how == "close":
        peer.close()
    else:
        assert how == "stall"
        await peer.stall()
