"""What hooks have decided in one process of an upgrade holds in the next one, and totals of tenants go on."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.testing import ScriptedOrigin
from support.short_film import FILM, HeldFilm, films
from support.upgrading import Line, serving
from support.waiting import in_time

APP = """
import os
from pathlib import Path
from aiohttp import web
from penstock.config import TenantLimits
from penstock.web import Allow, Deny, Gateway

def may(request):
    with Path("asked").open("a") as asked:
        print(request.headers["Authorization"], file=asked)
    name = request.headers["Authorization"].split()[-1]
    if name.startswith("un"):
        return Deny(detail="not this one", lifetime=600)
    return Allow(tenant=name, lifetime=600, limits=TenantLimits(total=10))

gateway = Gateway("ORIGIN")
live = gateway.native("/live/", name="live", authorise=may, decision_key=["header:Authorization"])
app = web.Application()
app.add_routes([live])

async def state(request):
    stats = live.decisions.stats()
    totals = {name: tenant.bytes for name, tenant in live.decisions.tenants().items()}
    return web.json_response({"allowed": stats.allowed, "denied": stats.denied, "totals": totals})

app.router.add_get("/state", state)
"""

WORKERS = pytest.mark.parametrize("workers", [(), ("--workers", "1")], ids=["app", "workers"])


@asynccontextmanager
async def gated(directory: Path, *workers: str) -> AsyncIterator[Line]:
    """Processes with the route, and an origin."""
    async with ScriptedOrigin(films) as origin:
        (directory / "mine.py").write_text(APP.replace("ORIGIN", origin.url))
        async with serving("mine:app", *workers, directory=directory) as line:
            yield line


async def status(line: Line, name: str) -> int:
    """What a client of that name is answered."""
    client = await line.connect()
    await client.get("/live/film", f"Authorization: Bearer {name}")
    head = await in_time(client.head(), "an answer")
    await in_time(client.body(head), "all of it")
    client.abort()
    return head.status


async def has(line: Line, **wanted: object) -> None:
    """Wait until the newest process has these decisions and totals."""

    async def look() -> None:
        while {**(state := json.loads(await line.ask("/state"))), **wanted} != state:
            await asyncio.sleep(0.01)

    await in_time(look(), f"the new process has {wanted}")


def asked(directory: Path) -> list[str]:
    return (directory / "asked").read_text().splitlines()


@WORKERS
async def test_a_hook_is_not_asked_again(tmp_path: Path, workers: tuple[str, ...]) -> None:
    async with gated(tmp_path, *workers) as line:
        for _ in range(2):
            assert [await status(line, name) for name in ("one", "unknown")] == [200, 403]
            await line.upgrade()
            await line.ended(line.processes[-2])
            await has(line, allowed=1, denied=1)
        assert await status(line, "unknown") == 403
        assert asked(tmp_path) == ["Bearer one", "Bearer unknown"]


@WORKERS
async def test_totals_of_tenants_go_on(tmp_path: Path, workers: tuple[str, ...]) -> None:
    async with gated(tmp_path, *workers) as line:
        for sent in (1, 2, 3):
            assert await status(line, "one") == 200
            await line.upgrade()
            await line.ended(line.processes[-2])
            await has(line, totals={"one": sent * len(FILM)})
        assert await status(line, "one") == 403


async def test_what_a_tenant_has_of_a_process_that_drains_is_counted_at_its_end(tmp_path: Path) -> None:
    held = HeldFilm()
    async with ScriptedOrigin(held) as origin:
        (tmp_path / "mine.py").write_text(APP.replace("ORIGIN", origin.url))
        async with serving("mine:app", directory=tmp_path) as line:
            client = await line.connect()
            await client.get("/live/film", "Authorization: Bearer one", "Connection: close")
            assert (await in_time(client.head(), "the response has begun")).status == 200
            await line.upgrade()
            await has(line, allowed=1, totals={"one": 0})
            held.release.set()
            assert await in_time(client.rest(), "the film") == FILM
            client.abort()
            await line.ended(line.processes[0])
            await has(line, totals={"one": len(FILM)})


@pytest.mark.parametrize(
    "change",
    [
        ('["header:Authorization"]', '["header:Authorization", "address"]'),
        ("app.add_routes([live])", "app.add_routes([live]); live.decisions.revoke(everybody=True)"),
        ('name="live"', 'name="other"'),
    ],
    ids=["another key", "a revocation at its start", "another route"],
)
async def test_a_process_that_decides_otherwise_asks_anew(tmp_path: Path, change: tuple[str, str]) -> None:
    async with gated(tmp_path) as line:
        assert await status(line, "one") == 200
        path = tmp_path / "mine.py"
        text = path.read_text()
        assert text.count(change[0]) == 1
        path.write_text(text.replace(*change))
        await line.upgrade()
        await line.ended(line.processes[0])
        assert await status(line, "one") == 200
        assert asked(tmp_path) == ["Bearer one"] * 2


async def test_a_decision_holds_for_no_longer_than_it_did(tmp_path: Path) -> None:
    app = APP.replace("lifetime=600, limits=TenantLimits(total=10)", "lifetime=0.5")
    async with ScriptedOrigin(films) as origin:
        (tmp_path / "mine.py").write_text(app.replace("ORIGIN", origin.url))
        async with serving("mine:app", directory=tmp_path) as line:
            assert await status(line, "one") == 200
            await line.upgrade()

            async def is_asked_again() -> None:
                while len(asked(tmp_path)) < 2:
                    assert await status(line, "one") == 200

            await in_time(is_asked_again(), "the decision of the process before does not hold any more")
