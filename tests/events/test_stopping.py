"""A server that stops ends event streams one after the other, and tells their clients when to come back."""

import asyncio
import re
import signal

from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.command import serve
from support.waiting import in_time

STREAMS = 30
RETRY = re.compile(rb"retry: (\d+)\n\n")


async def live(peer: Peer) -> None:
    await peer.request()
    await peer.send(answer("Content-Type: text/event-stream", body=b"data: 1\n\n"))
    await peer.stall()


async def begin(port: int, method: str = "GET") -> RawClient:
    """A client that has had the first event of a stream."""
    client = await RawClient.connect(port)
    await client.get("/live", "Content-Length: 0", method=method)
    assert (await client.head()).status == 200
    assert await in_time(client.chunk()) == b"data: 1\n\n"
    return client


async def rest(client: RawClient) -> bytes:
    """What comes until the end of the body, which is a clean one."""
    found = b""
    while chunk := await client.chunk():
        found += chunk
    client.abort()
    return found


async def test_event_streams_end_one_after_the_other_with_a_time_to_come_back() -> None:
    loop = asyncio.get_running_loop()
    ends = []

    async def end(client: RawClient) -> int:
        found = RETRY.fullmatch(await rest(client))
        assert found
        ends.append(loop.time())
        return int(found[1])

    async with ScriptedOrigin(live) as origin, serve("--origin", origin.url, "--drain", "2") as running:
        clients = [await begin(running.port) for _ in range(STREAMS)]
        running.process.send_signal(signal.SIGTERM)
        retries = await in_time(asyncio.gather(*(end(client) for client in clients)))
        assert await running.ended() == 0
    assert all(1 <= retry <= 5000 for retry in retries)
    # Of 30 at random within 5,000 ms and 2 s all are alike once in 10^35 times.
    assert len(set(retries)) > 1
    assert ends[-1] - ends[0] > 0.1


async def test_the_answer_to_a_post_is_given_the_time_there_is() -> None:
    go = asyncio.Event()

    async def model(peer: Peer) -> None:
        if (await peer.request()).method == "POST":
            await peer.send(answer("Content-Type: text/event-stream", body=b"data: 1\n\n"))
            await go.wait()
            await peer.send(b"data: [DONE]\n\n")
            return
        await peer.send(answer("Content-Type: text/event-stream", body=b"data: 1\n\n"))
        await peer.stall()

    async with ScriptedOrigin(model) as origin, serve("--origin", origin.url, "--drain", "20") as running:
        asking = await begin(running.port, "POST")
        clients = [await begin(running.port) for _ in range(STREAMS)]
        others = [asyncio.create_task(rest(client)) for client in clients]
        running.process.send_signal(signal.SIGTERM)
        done, _ = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED, timeout=30)
        assert done
        go.set()
        assert await in_time(rest(asking)) == b"data: [DONE]\n\n"
        for client in clients:
            client.abort()
        await asyncio.gather(*others, return_exceptions=True)
