"""What the tests of films on disk share: an engine that fetches in slices, and what it has written."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from penstock.testing import ScriptedOrigin
from support.films import Film, film

from .disk import BLOCK, HEAD, Gateway, files, gateway

PART = 2 * BLOCK + BLOCK // 2
"""Bytes of a slice: three blocks, the last one short."""
COUNT = 6
WHOLE = film(size=(COUNT - 1) * PART + 1000)
"""A film of so many slices, the last one short. All of it fits into memory."""


def slicing(
    origin: ScriptedOrigin, directory: Path, size: int = PART, **options: Any
) -> AbstractAsyncContextManager[Gateway]:
    return gateway(origin, directory, range_fill="slices", slice=size, **options)


def span(number: int, size: int = PART, body: bytes = WHOLE) -> str:
    """What the origin is asked for where a slice is missing of a film that is known."""
    return f"{number * size}-{min(len(body), (number + 1) * size) - 1}"


async def check(here: Gateway, body: bytes = WHOLE) -> None:
    """All of the film is what the origin has, and comes in one piece."""
    reply = await here.ask("/film")
    assert (reply.head.status, reply.head.one("Content-Length")) == (200, str(len(body)))
    # No explanation of what differs: pytest would take minutes for it.
    assert (reply.body == body) is True


async def check_slice(here: Gateway, number: int, size: int = PART, body: bytes = WHOLE) -> None:
    wanted = body[number * size : (number + 1) * size]
    reply = await here.ask("/film", f"Range: bytes={number * size}-{number * size + len(wanted) - 1}")
    assert reply.head.status == 206
    assert (reply.body == wanted) is True


async def store(origin: ScriptedOrigin, directory: Path, body: bytes = WHOLE, **options: Any) -> None:
    """Has an engine, which has ended then, keep all of the film."""
    async with slicing(origin, directory, **options) as here:
        await check(here, body)


def file_of(directory: Path, number: int, body: bytes = WHOLE, size: int = PART) -> Path:
    """The file that a slice is in."""
    start = body[number * size : number * size + 16]
    [path] = [path for path in files(directory) if path.read_bytes()[HEAD : HEAD + 16] == start]
    return path


def honest(*fields: str) -> Film:
    return Film(WHOLE, '"1"', *fields)
