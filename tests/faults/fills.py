"""Ways on which the fault stands between the edge and the origin: a miss, followers of a fill, slices, relays."""

import asyncio

from penstock.config import Caching, EventRelay, Timeouts
from penstock.testing import Peer, RecordedRequest, ScriptedOrigin
from support.client import answer, client_of
from support.edges import Edges
from support.fault_relay import FaultRelay
from support.films import Film
from support.origins import EVENT_STREAM, FRESH, chunk
from support.waiting import until

from . import places
from .cells import Cell
from .rules import check_events, check_next, check_seen, meanings
from .seen import Message, see

SIZE = 9600
SLICE = 4096
BEGINS = 4096
"""The slice in which the fault is: the second of a film of three."""
ASKED = f"Range: bytes=100-{SIZE - 101}"
PIECE = 700
TYPE = "Content-Type: video/mp4"
TOKENS = 20
SHORT = Timeouts(first_byte=0.5, between_bytes=0.5)
"""Where a connection may stall."""
AMPLE = Timeouts(first_byte=60.0, between_bytes=60.0)


def body_of(cell: Cell) -> bytes:
    """Bytes unlike those of another cell, and of another place."""
    return b"".join(b"%04d%09d" % (cell.number, place) + places.EURO for place in range(SIZE // 16))


def tokens_of(cell: Cell) -> list[bytes]:
    return [f"id: {cell.number}-{n}\ndata: größe € {n}".encode() for n in range(TOKENS)]


def framed(cell: Cell, *fields: str) -> bytes:
    """The response, in the framing that the place needs."""
    body = body_of(cell)
    if not places.is_chunked(cell.place):
        return answer(*fields, f"Content-Length: {len(body)}", body=body)
    pieces = [chunk(body[at : at + PIECE]) for at in range(0, len(body), PIECE)]
    return answer(*fields, "Transfer-Encoding: chunked", body=b"".join(pieces) + b"0\r\n\r\n")


def times(cell: Cell) -> Timeouts:
    return AMPLE if cell.is_harmless else SHORT


class CellOrigin:
    """Answers the path of a cell with one response, once `go` is set, and nothing else."""

    def __init__(self, cell: Cell, response: bytes) -> None:
        self.path = cell.path
        self.response = response
        self.go = asyncio.Event()
        self.go.set()
        self.requests: list[RecordedRequest] = []

    async def __call__(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            self.requests.append(request)
            await peer.read_body()
            await self.go.wait()
            is_known = request.target == self.path
            await peer.send(
                self.response if is_known else answer("Content-Length: 0", status="404 Not Found")
            )


async def ask(port: int, path: str, *fields: str, within: float) -> Message:
    """What a client sees that asks once."""
    async with client_of(port) as client:
        await client.get(path, *fields)
        return await see(client, within=within)


async def miss(edges: Edges, cell: Cell) -> None:
    """One client asks for what the cache does not have."""
    script, truth = CellOrigin(cell, framed(cell, TYPE, FRESH)), body_of(cell)
    async with ScriptedOrigin(script) as origin, FaultRelay(origin.port, cell.fault) as relay:
        served = await edges.relay(relay.url, caching=Caching(stale_if_error=0), timeouts=times(cell))
        seen = await ask(served.port, cell.path, within=cell.patience)
        assert relay.fired.is_set(), "the place did not come"
        sent = meanings(relay)
        check_seen(cell, seen, truth, sent)
        check_next(cell, await ask(served.port, cell.path, within=30), truth, sent)


async def follower(edges: Edges, cell: Cell) -> None:
    """Four clients wait for one fill."""
    script, truth = CellOrigin(cell, framed(cell, TYPE, FRESH)), body_of(cell)
    async with ScriptedOrigin(script) as origin, FaultRelay(origin.port, cell.fault) as relay:
        served = await edges.relay(relay.url, caching=Caching(stale_if_error=0), timeouts=times(cell))
        script.go.clear()
        waiting = [asyncio.create_task(ask(served.port, cell.path, within=cell.patience)) for _ in range(4)]
        await until(lambda: served.requests == len(waiting) and script.requests, "all have asked")
        assert len(script.requests) == 1, "there is one fill"
        script.go.set()
        seen = await asyncio.gather(*waiting)
        assert relay.fired.is_set(), "the place did not come"
        sent = meanings(relay)
        for one in seen:
            check_seen(cell, one, truth, sent)
        check_next(cell, await ask(served.port, cell.path, within=30), truth, sent)


async def slices(edges: Edges, cell: Cell) -> None:
    """A client asks for a range over three slices, of which the second has the fault."""
    film, truth = Film(body_of(cell)), body_of(cell)
    caching = Caching(range_fill="slices", slice=SLICE, stale_if_error=0)
    async with ScriptedOrigin(film) as origin, FaultRelay(origin.port, cell.fault) as relay:
        served = await edges.relay(relay.url, caching=caching, timeouts=times(cell))
        seen = await ask(served.port, cell.path, ASKED, within=cell.patience)
        assert relay.fired.is_set(), "the place did not come"
        for one, whole in ((seen, False), (await ask(served.port, cell.path, within=30), True)):
            check_slices(cell, one, truth, whole=whole)


def check_slices(cell: Cell, seen: Message, truth: bytes, *, whole: bool) -> None:
    """As `check_seen` and `check_next`, for a body that is put together."""
    expected = truth if whole else truth[100 : SIZE - 100]
    status = 200 if whole else 206
    if cell.is_harmless or (whole and not cell.alters):
        assert (seen.status, seen.whole) == (status, True), f"{seen.status} {len(seen.body)} {seen.whole}"
        assert (seen.body == expected) is True
    elif not cell.alters and seen.status == status:
        assert expected.startswith(seen.body), "bytes that the origin did not send"
        assert not seen.whole or seen.body == expected, "a truncated body looks whole"
    elif seen.status == status and seen.whole:
        # No other slice than the one that came altered is another than it was.
        assert len(seen.body) == len(expected)
        begins = BEGINS if whole else BEGINS - 100
        assert seen.body[:begins] == expected[:begins]
        assert seen.body[begins + SLICE :] == expected[begins + SLICE :]


async def relay(edges: Edges, cell: Cell) -> None:
    """A route without a cache."""
    script, truth = CellOrigin(cell, framed(cell, TYPE, FRESH)), body_of(cell)
    async with ScriptedOrigin(script) as origin, FaultRelay(origin.port, cell.fault) as relay:
        served = await edges.relay(relay.url, timeouts=times(cell))
        seen = await ask(served.port, cell.path, within=cell.patience)
        assert relay.fired.is_set(), "the place did not come"
        sent = meanings(relay)
        check_seen(cell, seen, truth, sent)
        check_next(cell, await ask(served.port, cell.path, within=30), truth, [])


async def stream(edges: Edges, cell: Cell) -> None:
    """An event stream that is relayed."""
    truth = tokens_of(cell)
    chunks = b"".join(chunk(token + b"\n\n") for token in truth)
    script = CellOrigin(cell, answer(EVENT_STREAM, "Transfer-Encoding: chunked", body=chunks + b"0\r\n\r\n"))
    async with ScriptedOrigin(script) as origin, FaultRelay(origin.port, cell.fault) as relay:
        served = await edges.relay(relay.url, events=EventRelay(heartbeat=None), timeouts=times(cell))
        seen = await ask(served.port, cell.path, within=cell.patience)
        assert relay.fired.is_set(), "the place did not come"
        check_events(cell, seen, truth, meanings(relay))
        again = await ask(served.port, cell.path, within=30)
        assert again.whole, "the next stream does not end"
        assert again.status == 200
        assert [block for block in again.body.split(b"\n\n") if block] == truth
