"""What one address may take, where the operator says so."""

import asyncio
import json

from penstock.config import Edge
from penstock.testing import ScriptedOrigin
from support.client import RawClient, answer
from support.origins import Recorder, Steps
from support.waiting import until

from .conftest import Overloaded


async def test_one_connection_more_is_answered_with_429_and_others_stay(edge: Overloaded) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url, edge=Edge(client_connections=2))
        clients = [await edge.connect(served) for _ in range(2)]
        for client in clients:
            assert (await client.ask()).body == b"ok"
        one_more = await edge.connect(served)
        head = await one_more.head()
        body = json.loads(await one_more.body(head))
        assert (head.status, head.one("Retry-After"), body["name"]) == (429, "1", "ADDRESS_LIMITED")
        assert await one_more.rest() == b""
        assert edge.count("client_connections_refused_total") == 1
        clients[0].abort()
        await until(lambda: served.connections == 1, "it has left")
        assert (await (await edge.connect(served)).ask()).body == b"ok"
        # Another address has its own.
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, local_addr=("127.0.0.2", 0))
        other = RawClient(reader, writer)
        edge.keep(other)
        assert (await other.ask()).body == b"ok"


async def test_one_request_more_at_a_time_is_answered_with_429(edge: Overloaded) -> None:
    steps = Steps(answer("Content-Length: 4"))
    async with ScriptedOrigin(steps) as origin:
        served = await edge.relay(origin.url, edge=Edge(client_requests=1))
        client = await edge.connect(served)
        await client.get()
        head = await client.head()
        reply = await (await edge.connect(served)).ask()
        assert (reply.head.status, json.loads(reply.body)["name"]) == (429, "ADDRESS_LIMITED")
        steps.pieces.put_nowait(b"done")
        assert await client.body(head) == b"done"
        steps.pieces.put_nowait(None)
        again = await edge.connect(served)
        await again.get()
        assert (await again.head()).status == 200
        steps.pieces.put_nowait(None)
