"""Counters of metrics go on in the next process."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from penstock.testing import ScriptedOrigin
from support.scraping import Metrics, Pages
from support.short_film import FILM, HeldFilm, films
from support.upgrading import Line, serving
from support.waiting import in_time

STATUS = re.compile(r"status on (\S+)/penstock/")


@asynccontextmanager
async def scraped(directory: Path, origin: str) -> AsyncIterator[tuple[Line, Pages]]:
    """Processes that relay `origin`, and the pages about the newest one."""
    options = ("--origin", origin, "--cache", "4MiB", "--status-listen", "127.0.0.1:0")
    async with serving(*options, directory=directory) as line:
        yield line, Pages((await line.first.wait_for(STATUS))[1])


def counters(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    kinds = {"counter", "histogram"}
    names = {name for name, family in metrics.families.items() if family.type in kinds}
    belongs = re.compile(rf"({'|'.join(names)})(_total|_bucket|_sum|_count)?")
    return {key: value for key, value in metrics.samples.items() if belongs.fullmatch(key[0])}


async def test_no_counter_steps_back(tmp_path: Path) -> None:
    async with ScriptedOrigin(films) as origin, scraped(tmp_path, origin.url) as (line, pages):
        before = counters(await pages.metrics())
        assert len(before) > 100
        for asked in (3, 6):
            for number in range(3):
                assert await line.ask(f"/{number % 2}") == FILM
            seen = counters(await pages.until(partial(has, asked), "all are counted"))
            await line.upgrade()
            # The first scrape of the next process: what the one before counts at its end is not among it yet.
            metrics = await pages.metrics()
            after = counters(metrics)
            missing = [key for key in seen if key not in after]
            assert not missing
            less = {key: (seen[key], after[key]) for key in after if after[key] < seen.get(key, 0.0)}
            assert not less
            await line.ended(line.processes[-2])
            assert total(await pages.metrics()) == asked


def has(asked: int, metrics: Metrics) -> bool:
    """Whether so many requests are counted."""
    return total(metrics) == asked


def total(metrics: Metrics) -> float:
    return sum(value for (name, _), value in metrics.samples.items() if name == "penstock_requests_total")


async def test_what_is_counted_while_a_process_drains_is_added_at_its_end(tmp_path: Path) -> None:
    held = HeldFilm()
    async with ScriptedOrigin(held) as origin, scraped(tmp_path, origin.url) as (line, pages):
        client = await line.connect()
        await client.get("/film", "Connection: close")
        assert (await in_time(client.head(), "the response has begun")).status == 200
        await line.upgrade()
        assert total(await pages.metrics()) == 0
        held.release.set()
        assert await in_time(client.rest(), "the film") == FILM
        client.abort()
        await line.ended(line.processes[0])
        await pages.until(partial(has, 1), "the request of the process before is counted")
