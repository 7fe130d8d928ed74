"""Ten faults at twelve places on nine ways through the gateway: a cell each, and the rules hold in all of them.

No truncated body looks whole; no client gets the bytes of another; a failure is a right status or a clear end; an event
comes once, whole and in order; the cache keeps nothing damaged, so that the next request gets the exact body; nothing is
left: no slab, no stream, no descriptor. A cell that fails prints the command that runs it alone.

FAULT_SEED chooses the bytes within the places, and FAULT_CELL one cell.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from penstock import config
from penstock.config import OriginLimits
from support.edges import Edges, edges_of
from support.fault_relay import Action, Place

from . import clients, fills, places
from .cells import Cell, cells, run

Way = tuple[dict[str, Place], Callable[[Edges, Cell], Awaitable[None]]]

SIZE = fills.SIZE
ROWS: dict[str, Way] = {
    "miss": (places.segment(SIZE), fills.miss),
    "follower": (places.segment(SIZE), fills.follower),
    "hit": (places.hit(SIZE, clients.FIELD.encode()), clients.hit),
    "slice": (places.part(fills.BEGINS, fills.SLICE), fills.slices),
    "relay": (places.segment(SIZE), fills.relay),
    "upload": (places.upload(SIZE), clients.upload),
    "stream": (places.STREAM, fills.stream),
    "hub": (places.subscription(clients.FIELD.encode()), clients.subscriber),
    "worker": (places.channel(SIZE), clients.worker),
}


@pytest.fixture
async def edges(request: pytest.FixtureRequest) -> AsyncIterator[Edges]:
    limits, cache = OriginLimits(idle_timeout=2, upload_part=0), config.Cache(memory="16MiB")
    async with edges_of(request, threads=2, memory="64MiB", limits=limits, cache=cache) as edges:
        yield edges
        del edges


@pytest.mark.timeout(180)
@pytest.mark.parametrize("row", ROWS)
async def test_the_rules_hold_in_every_cell(edges: Edges, row: str) -> None:
    known, way = ROWS[row]
    seed = int(os.environ.get("FAULT_SEED", "1"))
    chosen = cells(row, known, seed, os.environ.get("FAULT_CELL"))
    await run(chosen, lambda cell: way(edges, cell))


def test_the_matrix_is_whole() -> None:
    counts = {row: len(known) * len(Action) for row, (known, _) in ROWS.items()}
    assert counts == dict.fromkeys(ROWS, 120)
