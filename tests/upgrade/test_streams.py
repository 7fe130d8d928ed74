"""Event streams move to the next process between two events, with their clients' and origins' connections."""

import asyncio
import itertools
import os
import re
import signal
from pathlib import Path

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient
from support.command import LISTENING
from support.feeds import HEADS, Feed, begin, goes_on
from support.origins import chunk
from support.upgrading import MOVED, Line, serving
from support.waiting import in_time, until


async def upgrade(line: Line) -> tuple[int, int]:
    """Upgrade; how many streams have moved, and how many could not."""
    os.kill(line.newest, signal.SIGUSR2)
    found = await line.first.wait_for(MOVED)
    await line.upgraded()
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("framing", HEADS)
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("options", [(), ("--cache", "8MiB")], ids=["no cache", "cache"])
async def test_a_stream_goes_on_in_the_next_process(
    framing: str, method: str, options: tuple[str, ...]
) -> None:
    feed = Feed(framing)
    async with ScriptedOrigin(feed) as origin, serving("--origin", origin.url, *options) as line:
        client = await begin(line.port, feed, method)
        for number in itertools.count(2):
            before = line.newest
            assert await upgrade(line) == (1, 0)
            await line.ended(before)
            event = f"id: {number}\ndata: {number}\n\n".encode()
            await feed.put(0, event)
            assert await in_time(client.chunk()) == event
            if number == 3:
                break
        await feed.end(0)
        assert await in_time(client.chunk()) == b""
        if framing == "chunked":
            # The client's connection serves again: its end was the stream's own.
            await client.get("/live")
            assert (await in_time(client.head())).status == 200
        client.abort()
        assert len(feed.peers) == (2 if framing == "chunked" else 1)


async def test_each_event_comes_once_and_in_order_while_processes_follow_each_other() -> None:
    over = asyncio.Event()
    streams, last = 20, 100_000

    async def count(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEADS["chunked"])
        for number in range(last):
            await peer.send(chunk(b"id: %d\ndata: %d\n\n" % (number, number)))
            await asyncio.sleep(0.005)
            if over.is_set():
                await peer.send(b"0\r\n\r\n")
                return

    async def follow(line: Line) -> int:
        client = await line.connect()
        await client.get("/live")
        assert (await in_time(client.head())).status == 200
        found = b""
        while piece := await in_time(client.chunk()):
            found += piece
        client.abort()
        numbers = [int(number) for number in re.findall(rb"id: (\d+)\ndata: \1\n\n", found)]
        assert b"".join(b"id: %d\ndata: %d\n\n" % (each, each) for each in numbers) == found
        assert numbers == list(range(len(numbers)))
        return len(numbers)

    async with ScriptedOrigin(count) as origin, serving("--origin", origin.url) as line:
        clients = [asyncio.create_task(follow(line)) for _ in range(streams)]
        for _ in range(4):
            before = line.newest
            assert await upgrade(line) == (streams, 0)
            await line.ended(before)
        over.set()
        assert min(await in_time(asyncio.gather(*clients))) > 0
        assert len(origin.requests) == streams


async def test_a_stream_moves_when_it_comes_to_rest() -> None:
    """Half an event is with this process, and half a chunk: the next one could not know."""
    feed = Feed()
    async with ScriptedOrigin(feed) as origin, serving("--origin", origin.url) as line:
        client = await begin(line.port, feed)
        await feed.peers[0].send(b"f\r\ndata: 2\ndata")
        resting = await begin(line.port, feed)
        os.kill(line.newest, signal.SIGUSR2)
        await line.first.wait_for(LISTENING)
        await feed.peers[0].send(b": 3\r\n2\r\n\n\n\r\n")
        assert (await line.first.wait_for(MOVED))[1] == "2"
        await line.upgraded()
        await line.ended(line.processes[0])
        await feed.put(0, b"data: 4\n\n")
        found = b""
        while len(found) < len(b"data: 2\ndata: 3\n\ndata: 4\n\n"):
            found += await in_time(client.chunk())
        assert found == b"data: 2\ndata: 3\n\ndata: 4\n\n"
        client.abort()
        resting.abort()


async def test_a_stream_that_does_not_come_to_rest_ends_where_it_began() -> None:
    feed = Feed()
    async with ScriptedOrigin(feed) as origin, serving("--origin", origin.url) as line:
        client = await begin(line.port, feed, "POST")
        await feed.put(0, b"data: 2\n")
        first = line.newest
        await line.upgrade()
        assert "have moved" not in line.first.log()
        await feed.put(0, b"data: 3\n\n")
        assert await in_time(client.chunk()) == b"data: 2\ndata: 3\n\n"
        await feed.end(0)
        assert await in_time(client.chunk()) == b""
        client.abort()
        await line.ended(first)


async def test_a_client_that_has_sent_its_next_request_already_stays() -> None:
    feed = Feed()
    async with ScriptedOrigin(feed) as origin, serving("--origin", origin.url) as line:
        client = await begin(line.port, feed, "POST")
        await client.get("/next")
        await client.send(b"")
        first = line.newest
        # Both are read before the upgrade asks: the answer to another request comes after them.
        (await begin(line.port, feed)).abort()
        await line.upgrade()
        await goes_on(client, feed)
        await line.ended(first)


async def test_a_stream_of_one_of_several_origins_moves(tmp_path: Path) -> None:
    feed, path = Feed(), tmp_path / "penstock.toml"
    async with ScriptedOrigin(feed) as one, ScriptedOrigin(feed) as other:
        path.write_text(
            'listen = "127.0.0.1:0"\n[[routes]]\nprefix = "/"\norigin = "pool"\n'
            f'[origins.pool]\nurls = ["{one.url}", "{other.url}"]\n'
        )
        async with serving("--config", str(path)) as line:
            clients = [await begin(line.port, feed) for _ in range(4)]
            first = line.newest
            assert await upgrade(line) == (4, 0)
            await line.ended(first)
            for at, client in enumerate(clients):
                await feed.put(at, b"data: 2\n\n")
                assert await in_time(client.chunk()) == b"data: 2\n\n"
                client.abort()
        assert one.requests
        assert other.requests


_GATE = """
[gates.tokens]
kind = "signed-url"
[gates.tokens.keys]
one = "0123456789abcdef0123456789abcdef"
"""


async def test_a_stream_that_the_next_process_would_not_let_in_goes_on_where_it_is(tmp_path: Path) -> None:
    feed, path = Feed(), tmp_path / "penstock.toml"
    async with ScriptedOrigin(feed) as origin:
        text = f'listen = "127.0.0.1:0"\n[[routes]]\nprefix = "/"\norigin = "{origin.url}"\n'
        path.write_text(text)
        async with serving("--config", str(path)) as line:
            client = await begin(line.port, feed, "POST")
            path.write_text(f'{text}gate = "tokens"\n{_GATE}')
            first = line.newest
            assert await upgrade(line) == (0, 1)
            await goes_on(client, feed)
            await line.ended(first)


async def test_the_process_that_ends_it_logs_all_of_it(tmp_path: Path) -> None:
    feed, log = Feed(), tmp_path / "access.log"
    options = ("--access-log-file", str(log), "--access-log-format", "{status} {bytes} {target} {seconds}")
    async with ScriptedOrigin(feed) as origin, serving("--origin", origin.url, *options) as line:
        client = await begin(line.port, feed)
        time = asyncio.get_running_loop().time
        begun = time()
        await feed.put(0, b"data: 2\n\n")
        assert await in_time(client.chunk()) == b"data: 2\n\n"
        # Without the milliseconds in which it moves, which neither process counts.
        least, first = time() - begun, line.newest
        assert await upgrade(line) == (1, 0)
        await line.ended(first)
        assert log.read_text() == ""
        begun = time()
        await feed.put(0, b"data: 3\n\n")
        assert await in_time(client.chunk()) == b"data: 3\n\n"
        least += time() - begun
        await feed.end(0)
        assert await in_time(client.chunk()) == b""
        client.abort()
        await until(lambda: "\n" in log.read_text(), "the line is written")
        status, sent, target, seconds = log.read_text().split()
        # Three chunks of nine bytes, and the last one.
        assert (status, int(sent), target) == ("200", 3 * len(chunk(b"data: 1\n\n")) + 5, "/live")
        assert float(seconds) > least


async def test_heartbeats_go_on_and_a_quiet_client_is_watched(tmp_path: Path) -> None:
    feed, path = Feed(), tmp_path / "penstock.toml"
    async with ScriptedOrigin(feed) as origin:
        path.write_text(
            f'listen = "127.0.0.1:0"\n[[sites]]\nlisten = "unix:{tmp_path}/web.sock"\n'
            f'[[routes]]\nprefix = "/"\norigin = "{origin.url}"\nevents.heartbeat = 0.05\n'
        )
        async with serving("--config", str(path)) as line:
            client = RawClient(*await asyncio.open_unix_connection(f"{tmp_path}/web.sock"))
            await client.get("/live")
            assert (await in_time(client.head())).status == 200
            first = line.newest
            assert await upgrade(line) == (1, 0)
            await line.ended(first)
            assert await in_time(client.chunk()) == b":\n\n"
            client.abort()
            # Its end is seen here, and closes the origin's connection.
            await in_time(feed.peers[0].wait_left())
