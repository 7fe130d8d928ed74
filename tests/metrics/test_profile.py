"""Where time and memory go, as the page and the command tell it of traffic whose kinds are known."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import penstock
from penstock.config import Cache, Caching
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import Gateway
from support.client import RawClient, answer
from support.command import asked
from support.leaks import engine_under_test
from support.origins import Recorder
from support.scraping import Pages
from support.waiting import in_time

from .conftest import Serve, Served

BODY = b"x" * 200_000
ROUNDS = 5
KINDS = {
    *("scheduler", "client", "origin", "cache", "hub", "application"),
    *("inspection", "http2", "tls", "sockets", "log"),
}


async def profiled(pages: Pages, seconds: float = 0.5) -> dict[str, Any]:
    reply = await pages.get(f"/penstock/profile?seconds={seconds}")
    assert reply.head.status == 200, reply
    assert reply.head.one("Content-Type") == "application/json"
    return dict(json.loads(reply.body))


def spent(profile: dict[str, Any]) -> dict[str, float]:
    """Seconds by kind of work, of all engine threads."""
    works = [thread["work"] for thread in profile["threads"] if "work" in thread]
    assert works
    assert all(set(work) == KINDS for work in works)
    assert all(sum(work.values()) <= profile["seconds"] for work in works)
    return {kind: sum(work[kind] for work in works) for kind in KINDS}


def holder(profile: dict[str, Any], lane: str | None, route: str | None) -> dict[str, Any]:
    (row,) = (row for row in profile["memory"] if (row["lane"], row["route"]) == (lane, route))
    return dict(row)


def covers(profile: dict[str, Any], responses: dict[tuple[str, str], int]) -> bool:
    """Whether memory for so many responses was taken while the profile ran, by lane and route: a slab of 64 KiB each."""
    taken = {(row["lane"], row["route"]): row["taken_bytes"] for row in profile["memory"]}
    return all(taken.get(route, 0) >= count * 65_536 for route, count in responses.items())


async def whole(peer: Peer) -> None:
    while await peer.request():
        await peer.send(answer(f"Content-Length: {len(BODY)}", "Cache-Control: max-age=60", body=BODY))


async def requests(served: Served, *targets: str) -> None:
    """Asks for the targets until it is cancelled."""
    client = await served.connect()
    try:
        while True:
            for target in targets:
                assert (await client.ask(target)).head.status == 200
    finally:
        client.abort()


async def during(served: Served, *targets: str, seconds: float = 0.5) -> dict[str, Any]:
    """A profile while the targets are asked for."""
    traffic = asyncio.ensure_future(requests(served, *targets))
    try:
        return await profiled(served.pages, seconds)
    finally:
        traffic.cancel()
        await asyncio.gather(traffic, return_exceptions=True)


@pytest.fixture
async def caching(request: pytest.FixtureRequest) -> AsyncIterator[penstock.Engine]:
    async with engine_under_test(request, threads=1, cache=Cache(memory="4MiB")) as engine:
        yield engine


async def test_time_is_told_by_kind_of_work(caching: penstock.Engine, serve: Serve) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    engine = caching
    async with ScriptedOrigin(whole) as origin:
        kept = Gateway(origin.url, engine=engine, caching=Caching())
        app = web.Application()
        app.add_routes(
            [
                Gateway(origin.url, engine=engine).native("/vod/", name="vod"),
                kept.native("/kept/", name="kept"),
                web.get("/handler", handler),
            ]
        )
        served = await serve(engine, app)
        relayed = spent(await during(served, "/vod/a"))
        assert all(relayed[kind] > 0 for kind in ("client", "origin", "sockets", "scheduler")), relayed
        assert relayed["cache"] == relayed["hub"] == relayed["tls"] == relayed["application"] == 0, relayed
        hits = spent(await during(served, "/kept/a"))
        assert hits["cache"] > 0
        assert hits["origin"] < relayed["origin"]
        answered = spent(await during(served, "/handler"))
        assert answered["application"] > 0
        assert answered["origin"] == 0
        idle = spent(await profiled(served.pages, 0.1))
        assert sum(idle.values()) < 0.1


async def test_memory_is_told_by_route(engine: penstock.Engine, serve: Serve) -> None:
    stalls = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        # The kernel would move a longer one.
        await peer.send(answer("Content-Length: 130000", body=b"x" * 100_000))
        await stalls.wait()

    async with ScriptedOrigin(script) as origin:
        gateway = Gateway(origin.url, engine=engine)
        app = web.Application()
        app.add_routes([gateway.native("/slow/", name="slow"), web.get("/app/{path}", gateway.relay)])
        served = await serve(engine, app)
        before = await profiled(served.pages, 0.1)
        assert all(row["route"] is None for row in before["memory"])
        clients: list[RawClient] = []
        # On a machine that is busy enough, a profile ends before the responses have begun: then the next one has them.
        for _ in range(ROUNDS):
            profile = asyncio.ensure_future(profiled(served.pages, 2.0))
            for target in ("/slow/a", "/slow/b", "/app/a"):
                client = await served.connect()
                clients.append(client)
                await client.get(target)
                await in_time(client.head(), "the response has begun")
                await in_time(client.reader.readexactly(100_000), "all that there is")
            told = await in_time(profile, "the profile")
            if covers(told, {("native", "slow"): 2, ("app", "application"): 1}):
                break
        else:
            pytest.fail(f"{ROUNDS} profiles, each without a part of what was sent: {told['memory']}")
        slow, relayed = holder(told, "native", "slow"), holder(told, "app", "application")
        for row, count in ((slow, 2), (relayed, 1)):
            assert row["taken"] >= count, told["memory"]
            assert 0 <= row["bytes"] <= row["taken_bytes"]
        stalls.set()
        for client in clients:
            client.abort()


async def test_one_profile_is_made_at_a_time(engine: penstock.Engine, serve: Serve) -> None:
    pages = (await serve(engine, web.Application())).pages
    leaving = await pages.connect()
    await leaving.get("/penstock/profile?seconds=300")
    while (refused := await pages.get("/penstock/profile?seconds=0.1")).head.status == 200:
        # It has come first.
        head = await leaving.head()
        assert head.status == 429
        await leaving.body(head)
        await leaving.get("/penstock/profile?seconds=300")
    assert refused.head.status == 429
    assert b"another profile is being made" in refused.body
    leaving.abort()
    # The place is free when the pages know that the client has left.
    while (reply := await pages.get("/penstock/profile?seconds=0.1")).head.status == 429:
        pass
    assert reply.head.status == 200


@pytest.mark.parametrize("query", ["seconds=0", "seconds=301", "seconds=x", "second=1", "seconds=nan"])
async def test_a_bad_length_says_which_are_good(engine: penstock.Engine, serve: Serve, query: str) -> None:
    served = await serve(engine, web.Application())
    reply = await served.pages.get(f"/penstock/profile?{query}")
    assert reply.head.status == 400
    assert "?seconds=0.1 to 300" in reply.body.decode()


async def test_the_command_shows_threads_and_memory(engine: penstock.Engine, serve: Serve) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        app = web.Application()
        app.add_routes([Gateway(origin.url, engine=engine).native("/vod/", name="vod")])
        served = await serve(engine, app)
        traffic = asyncio.ensure_future(requests(served, "/vod/a"))
        url = served.site.status_url
        assert url is not None
        status, shown, error = await asked("profile", url, "--seconds", "0.3", "--no-python")
        json_status, as_json, _ = await asked("profile", url, "--seconds", "0.3", "--no-python", "--json")
        traffic.cancel()
        await asyncio.gather(traffic, return_exceptions=True)
    assert (status, json_status, error) == (0, 0, "")
    lines = shown.splitlines()
    assert lines[0].startswith(f"penstock {penstock.__version__}, process ")
    (thread,) = (line for line in lines if line.startswith("penstock-engine-0"))
    assert "sockets" in thread
    assert any(line.startswith("native vod ") for line in lines)
    assert holder(json.loads(as_json), "native", "vod")["taken"] > 0


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="py-spy 0.4 does not know the interpreter")
async def test_the_command_samples_python(engine: penstock.Engine, serve: Serve) -> None:
    def spin(count: int) -> int:
        return sum(number * number for number in range(count))

    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text=str(spin(20_000)))

    app = web.Application()
    app.add_routes([web.get("/spin", handler)])
    served = await serve(engine, app)
    traffic = asyncio.ensure_future(requests(served, "/spin"))
    url = served.site.status_url
    assert url is not None
    status, shown, error = await asked("profile", url, "--seconds", "1", "--python")
    traffic.cancel()
    await asyncio.gather(traffic, return_exceptions=True)
    assert (status, error) == (0, ""), error
    assert "FUNCTION" in shown
    assert "spin" in shown.partition("FUNCTION")[2]


async def test_a_sampler_that_fails_leaves_the_rest(
    engine: penstock.Engine, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = tmp_path / "py-spy"
    sampler.write_text("#!/bin/sh\necho 'Permission denied' >&2\nexit 1\n")
    sampler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    url = (await serve(engine, web.Application())).site.status_url
    assert url is not None
    status, shown, error = await asked("profile", url, "--seconds", "0.1")
    assert status == 0
    assert "penstock-engine-0" in shown
    assert "FUNCTION" not in shown
    assert "Python is left out. py-spy: Permission denied" in error
    status, _, error = await asked("profile", url, "--seconds", "0.1", "--python")
    assert status == 1
    assert "CAP_SYS_PTRACE" in error


async def test_python_is_sampled_on_this_machine_only() -> None:
    status, _, error = await asked("profile", "http://192.0.2.1:9145", "--python")
    assert status == 2
    assert "--python samples a process of this machine" in error


async def test_another_server_has_no_profile() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 2", body=b"{}"))

    async with ScriptedOrigin(script) as server:
        status, _, error = await asked("profile", server.url, "--no-python", "--seconds", "0.1")
    assert status == 1
    assert "is no profile of an engine" in error
