"""What metrics say of the network, beside what was sent, and beside `ss`, which reads the same of the kernel."""

import asyncio
import re

import pytest
from aiohttp import web

import penstock
from penstock.testing import ScriptedOrigin
from penstock.web import Gateway
from support.client import RawClient
from support.origins import NumberedOrigin, Recorder, always
from support.programs import output_of, require

from .conftest import Serve

BODY = 300_000


async def test_each_class_of_responses_is_looked_at(engine: penstock.Engine, serve: Serve) -> None:
    async with (
        penstock.Hub(engine=engine) as hub,
        ScriptedOrigin(Recorder()) as origin,
    ):
        gateway = Gateway(origin.url, engine=engine)

        async def hello(_: web.Request) -> web.Response:
            return web.Response(text="hello")

        app = web.Application()
        app.add_routes([gateway.native("/vod/"), hub.native("/live/"), web.get("/app", hello)])
        served = await serve(engine, app)
        before = await served.pages.metrics()
        assert {before.get("tcp_looks_total", **{"class": name}) for name in ("events", "bulk", "app")} == {0}
        subscriber = await served.connect()
        await subscriber.get("/live/topic")
        assert (await subscriber.head()).status == 200
        for name, path in (("bulk", "/vod/a"), ("app", "/app")):

            async def looked(name: str = name, path: str = path) -> bool:
                client = await served.connect()
                await client.ask(path)
                client.abort()
                return (await served.pages.metrics()).get("tcp_looks_total", **{"class": name}) > 0

            # One response in 32 is looked at.
            while not await looked():
                pass
        metrics = await served.pages.until(
            lambda metrics: metrics.get("tcp_looks_total", **{"class": "events"}) > 0,
            "an event stream is looked at while it is open",
        )
        for name in ("events", "bulk", "app"):
            looks = metrics.get("tcp_looks_total", **{"class": name})
            assert metrics.get("tcp_rtt_seconds_count", **{"class": name}) == looks
            assert metrics.get("tcp_rtt_seconds_sum", **{"class": name}) > 0
            assert metrics.get("tcp_retransmitted_bytes_total", **{"class": name}) == 0
        subscriber.abort()


async def test_bytes_are_counted_once_for_each_connection(engine: penstock.Engine, serve: Serve) -> None:
    async with ScriptedOrigin(NumberedOrigin(always(body=b"x" * BODY))) as origin:
        app = web.Application()
        app.add_routes([Gateway(origin.url, engine=engine).native("/")])
        served = await serve(engine, app)
        client = await served.connect()
        sent = 0
        looks = 0.0
        while looks < 3:
            reply = await client.ask("/a")
            assert len(reply.body) == BODY
            sent += BODY
            metrics = await served.pages.metrics()
            looks = metrics.get("tcp_looks_total", **{"class": "bulk"})
        counted = metrics.get("tcp_sent_bytes_total", **{"class": "bulk"})
        # Heads too; what was sent again, and what the last look came too early for, is not.
        assert BODY <= counted <= sent + 4096 * (sent // BODY)
        client.abort()


async def test_the_time_is_counted_in_which_a_client_has_no_room(
    engine: penstock.Engine, serve: Serve
) -> None:
    # More than the kernel takes for a client that does not read: the response ends when that has read most of it.
    body = b"x" * 8_000_000
    async with ScriptedOrigin(NumberedOrigin(always(body=body))) as origin:
        app = web.Application()
        app.add_routes([Gateway(origin.url, engine=engine).native("/")])
        served = await serve(engine, app)
        client = await RawClient.connect(served.site.port, receive_buffer=4096)
        # The first of 32 is looked at.
        await client.get("/a")
        head = await client.head()
        # What the kernel counts, in its ticks of up to 10 ms.
        await asyncio.sleep(0.1)
        assert len(await client.body(head)) == len(body)
        client.abort()
        limited = {"class": "bulk"}
        metrics = await served.pages.until(
            lambda metrics: metrics.get("tcp_looks_total", **limited) == 1, "it is looked at"
        )
        seconds = metrics.get("tcp_receiver_limited_seconds_total", **limited)
        assert seconds > 0
        assert metrics.get("tcp_busy_seconds_total", **limited) >= seconds


async def test_round_trips_are_those_of_ss(engine: penstock.Engine, serve: Serve) -> None:
    ss = require("ss", package="iproute2")
    async with penstock.Hub(engine=engine) as hub:
        app = web.Application()
        app.add_routes([hub.native("/live/")])
        served = await serve(engine, app)
        subscriber = await served.connect()
        await subscriber.get("/live/topic")
        await subscriber.head()
        metrics = await served.pages.until(
            lambda metrics: metrics.get("tcp_looks_total", **{"class": "events"}) == 1, "it is looked at"
        )
        shown = await output_of(ss, "-tin", f"sport = :{served.site.port}")
        found = re.search(r" rtt:([0-9.]+)/.* bytes_sent:(\d+)", shown)
        assert found is not None, shown
        assert metrics.get("tcp_rtt_seconds_sum", **{"class": "events"}) == pytest.approx(
            float(found[1]) / 1000, abs=1e-6
        )
        assert metrics.get("tcp_sent_bytes_total", **{"class": "events"}) == int(found[2])
        subscriber.abort()
