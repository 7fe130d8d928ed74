"""Clients that begin a request and do not end it: what they may hold, and that others are served meanwhile."""

import asyncio
import json

import pytest

from penstock.config import Edge
from penstock.testing import ScriptedOrigin
from support.client import RawClient, answer
from support.origins import Recorder, Steps
from support.waiting import until

from .conftest import Overloaded

ATTACKERS = 150


async def refusal(client: RawClient) -> tuple[int, str]:
    head = await client.head()
    return head.status, json.loads(await client.body(head))["name"]


@pytest.mark.parametrize("size", [200, 30_000])
async def test_unfinished_heads_take_no_more_than_their_own_budget(edge: Overloaded, size: int) -> None:
    """150 of 30 KB would be 9 MiB of slabs, in a pool of 4."""
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url)
        honest = await edge.connect(served)
        attackers = []
        for _ in range(ATTACKERS):
            client = await edge.connect(served)
            await client.send(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * size)
            attackers.append(client)
            assert (await honest.ask()).body == b"ok", "no other client is refused"
        budget = 256 << 10
        most = budget // (4096 if size < 4096 else 65536)
        await until(
            lambda: edge.count("client_evictions_total", reason="head") == ATTACKERS - most,
            "as many are evicted as are too many",
        )
        assert edge.engine.stats().pool.state == "open"
        assert edge.engine.stats().pool.live_bytes <= budget + (64 << 10)
        # The oldest went.
        assert await refusal(attackers[0]) == (503, "HEADS_FULL")
        await attackers[-1].send(b"\r\n\r\n")
        assert (await attackers[-1].head()).status == 200


async def test_empty_lines_that_no_request_follows_are_evicted_without_an_answer(edge: Overloaded) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url)
        clients = [await edge.connect(served) for _ in range(100)]
        for client in clients:
            await client.send(b"\r\n")
        await until(lambda: edge.count("client_evictions_total", reason="head") == 36, "they are 64 slabs")
        await until(lambda: served.connections == 64, "they are closed")
        # The threads have read them in an order of their own.
        done, waiting = await asyncio.wait(
            [asyncio.ensure_future(client.rest()) for client in clients], timeout=0.1
        )
        assert [task.result() for task in done] == [b""] * 36
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_bytes_that_follow_a_request_may_be_evicted_and_its_response_is_whole(edge: Overloaded) -> None:
    steps = Steps(answer("Content-Length: 4"))
    async with ScriptedOrigin(steps) as slow, ScriptedOrigin(Recorder()) as other:
        served = await edge.relay(slow.url)
        client = await edge.connect(served)
        await client.get()
        head = await client.head()
        await client.send(b"GET /next HTTP/1.1\r\nHost: a\r\nX: ")
        # It has one slab; the others push it out.
        crowd = await edge.relay(other.url)
        for _ in range(100):
            await (await edge.connect(crowd)).send(b"GET / HTTP/1.1\r\n")
        await until(lambda: edge.count("client_evictions_total", reason="head") >= 37, "many are evicted")
        await client.send(b"x" * 10_000)
        steps.pieces.put_nowait(b"done")
        assert await client.body(head) == b"done"
        assert await client.rest() == b"", (
            "the connection ends, and the next request is to be sent on another one"
        )
        steps.pieces.put_nowait(None)


@pytest.mark.parametrize("settings", [{"least_rate": 1000, "head_patience": 0.05}, {"head_timeout": 0.05}])
async def test_a_head_that_comes_too_slowly_is_refused(edge: Overloaded, settings: dict[str, float]) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url, edge=Edge(**settings))  # type: ignore[arg-type]
        client = await edge.connect(served)
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\nX: ")
        name = "REQUEST_TOO_SLOW" if "least_rate" in settings else "REQUEST_TIMEOUT"
        assert await refusal(client) == (408, name)
        # One that is whole is not held to it, however long it is.
        whole = await edge.connect(served)
        assert (await whole.ask("/", "X: " + "x" * 20_000)).body == b"ok"


async def test_a_large_head_that_keeps_the_least_rate_is_served(edge: Overloaded) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url, edge=Edge(least_rate=1, head_patience=0.01))
        client = await edge.connect(served)
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\nX: ")
        for _ in range(20):
            # Each byte is worth a second.
            await client.send(b"x")
            assert (await (await edge.connect(served)).ask()).body == b"ok"
        await client.send(b"\r\n\r\n")
        assert (await client.head()).status == 200
