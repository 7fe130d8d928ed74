"""The cells of the matrix: which there are, how they run side by side, and how one that fails is run again alone."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

import pytest

from support.fault_relay import ALTERING, HARMLESS, Action, Fault, Place

SIDE_BY_SIDE = 32
"""Cells that run at a time: most of them wait. Arbitrary."""
SHOWN = 20
"""Failures that are told. Where one rule breaks it is often broken in a whole row."""
LIMIT = 20.0
"""Seconds for one cell; far above what a busy machine needs."""


@dataclass(frozen=True)
class Cell:
    """One fault, at one place, on one way through the gateway."""

    row: str
    number: int
    """Of the cell within its row, from 1 on."""
    action: Action
    place: str
    where: Place
    seed: int

    @property
    def name(self) -> str:
        return f"{self.row}: {self.action}, {self.place}"

    @property
    def path(self) -> str:
        """What is asked for. The port of an origin may be that of an earlier cell, whose response is in the cache."""
        return f"/film-{self.number}"

    @property
    def fault(self) -> Fault:
        return Fault(self.action, self.where, self.place.startswith("up, "), f"{self.seed} {self.name}")

    @property
    def is_harmless(self) -> bool:
        return self.action in HARMLESS

    @property
    def alters(self) -> bool:
        return self.action in ALTERING

    @property
    def patience(self) -> float:
        """Seconds after which a client leaves that may have been left without an answer."""
        return LIMIT if self.is_harmless else 2.0

    @property
    def replay(self) -> str:
        """The command that runs it alone."""
        return (
            f'FAULT_SEED={self.seed} FAULT_CELL="{self.name}" python -m pytest -q tests/faults -k {self.row}'
        )


def cells(row: str, places: Mapping[str, Place], seed: int, only: str | None) -> list[Cell]:
    """All of a row, or the one with that name."""
    found = []
    for action in Action:
        for place, where in places.items():
            cell = Cell(row, len(found) + 1, action, place, where, seed)
            found.append(cell)
    return [cell for cell in found if only in {None, cell.name}]


def _waited(failure: BaseException) -> str:
    """Where the cell stood when its time was over."""
    cause = failure.__cause__ or failure.__context__ or failure
    frames = traceback.extract_tb(cause.__traceback__)
    return " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))


async def run(chosen: Iterable[Cell], work: Callable[[Cell], Awaitable[None]]) -> None:
    """Run all, and fail with each that broke a rule."""
    turns = asyncio.Semaphore(SIDE_BY_SIDE)
    failures: list[str] = []

    async def one(cell: Cell) -> None:
        async with turns:
            try:
                async with asyncio.timeout(LIMIT + 10):
                    await work(cell)
            except (Exception, pytest.fail.Exception) as failure:
                said = str(failure).strip() or f"{type(failure).__name__} {_waited(failure)}"
                failures.append(f"{cell.name}\n    {said[:1500]}\n    {cell.replay}")

    await asyncio.gather(*(one(cell) for cell in chosen))
    if failures:
        shown = "\n".join(sorted(failures)[:SHOWN])
        pytest.fail(f"{len(failures)} cells, of which the first:\n{shown}", pytrace=False)
