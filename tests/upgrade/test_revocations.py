"""What is revoked in one of the two processes of an upgrade is revoked in the other one."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.upgraded_hubs import post
from support.upgrading import Line, serving
from support.waiting import in_time

APP = """
from aiohttp import web
from penstock.web import Allow, Gateway

def may(request):
    return Allow(tenant=request.headers["X-Tenant"])

gateway = Gateway("ORIGIN")
live = gateway.native("/live/", name="live", authorise=may, decision_key=["header:Authorization", "header:X-Tenant"])
app = web.Application()
app.add_routes([live])

async def revoke(request):
    # Which may be long after its head has come.
    match (await request.text()).split():
        case ["key", key, tenant]:
            revoked = live.decisions.revoke(key=[key, tenant])
        case ["tenant", tenant]:
            revoked = live.decisions.revoke(tenant=tenant)
        case ["everybody"]:
            revoked = live.decisions.revoke(everybody=True)
    return web.Response(text=f"{revoked.decisions} {revoked.cut}")

app.router.add_post("/revoke", revoke)
"""

HALF = b"half"
WAYS = {"key": "key one acme", "tenant": "tenant acme", "everybody": "everybody"}


async def half_a_film(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(answer("Content-Length: 8", body=HALF))
        await peer.stall()


@asynccontextmanager
async def gated(directory: Path, *workers: str) -> AsyncIterator[Line]:
    """Processes with the route, and an origin that does not end its film."""
    async with ScriptedOrigin(half_a_film) as origin:
        (directory / "mine.py").write_text(APP.replace("ORIGIN", origin.url))
        async with serving("mine:app", *workers, directory=directory) as line:
            yield line


async def watch(line: Line, key: str, tenant: str) -> RawClient:
    """A client that has half of a film, which its origin does not end."""
    client = await line.connect()
    await client.get("/live/film", f"Authorization: {key}", f"X-Tenant: {tenant}")
    assert (await in_time(client.head(), "the response has begun")).status == 200
    assert await in_time(client.reader.readexactly(len(HALF)), "half of the film") == HALF
    return client


async def cut(client: RawClient) -> None:
    """Wait until the response ends before its end."""
    with suppress(ConnectionResetError):
        assert await in_time(client.rest(), "the response is cut") == b""
    client.abort()


async def replaced(line: Line) -> None:
    """Another process serves, and the one before still sends."""
    before = line.newest
    await line.upgrade()
    os.kill(before, 0)


@pytest.mark.parametrize("workers", [(), ("--workers", "1")], ids=["app", "workers"])
@pytest.mark.parametrize("way", WAYS)
async def test_what_the_process_before_still_sends_is_cut(
    tmp_path: Path, way: str, workers: tuple[str, ...]
) -> None:
    async with gated(tmp_path, *workers) as line:
        watching = await watch(line, "one", "acme")
        other = await watch(line, "two", "bolt")
        await replaced(line)
        # The new process sends nothing by what was decided: it has nothing to cut.
        assert (await post(line.port, "/revoke", WAYS[way].encode())).endswith(" 0")
        await cut(watching)
        if way == "everybody":
            await cut(other)
        else:
            other.abort()
        await line.ended(line.processes[0])


async def test_a_process_that_drains_since_two_upgrades_is_told(tmp_path: Path) -> None:
    async with gated(tmp_path) as line:
        watching = [await watch(line, "one", "acme")]
        await replaced(line)
        watching.append(await watch(line, "one", "acme"))
        await replaced(line)
        await post(line.port, "/revoke", WAYS["key"].encode())
        for client in watching:
            await cut(client)
        for process in line.processes[:-1]:
            await line.ended(process)


async def test_what_the_next_process_sends_is_cut_by_the_process_before(tmp_path: Path) -> None:
    async with gated(tmp_path) as line:
        body = WAYS["tenant"].encode()
        revoking = await line.connect()
        await revoking.get("/revoke", f"Content-Length: {len(body)}", method="POST")
        await revoking.send(body[:1])
        await replaced(line)
        watching, other = await watch(line, "one", "acme"), await watch(line, "two", "bolt")
        await revoking.send(body[1:])
        await cut(watching)
        head = await in_time(revoking.head(), "the process before has answered")
        assert await revoking.body(head) == b"0 0"
        revoking.abort()
        other.abort()
        await line.ended(line.processes[0])


async def test_revocations_that_wait_are_taken_before_the_process_before_ends(tmp_path: Path) -> None:
    """Connections at rest come over although the process before has not read all that it was told."""
    async with gated(tmp_path) as line:
        watching = await watch(line, "one", "acme")
        waiting = [await line.connect() for _ in range(200)]
        for client in waiting:
            await client.get("/none")
            assert (await in_time(client.head(), "an answer")).status == 404
        await replaced(line)
        for number in range(50):
            await post(line.port, "/revoke", f"tenant {number}".encode())
        await post(line.port, "/revoke", WAYS["tenant"].encode())
        await cut(watching)
        await line.ended(line.processes[0])
        for client in waiting:
            client.abort()
