"""Workers that are killed and replaced while streams flow and requests come: what was decided never notices.

Two kills and two reloads by default, twelve of each with PENSTOCK_LONG=1. Counts alone: how long anything takes is
measured by `benchmarks/workers.py`.
"""

import asyncio
import itertools
import json
import os
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from conftest import until
from gateway.client import RawClient, answer
from penstock.testing import Peer, ScriptedOrigin

from .serving import Serving, workers
from .test_serving import APP

ROUNDS = 12 if os.environ.get("PENSTOCK_LONG") == "1" else 2
STREAMS = 50
# The pace of each stream.
GAP_SECONDS = 0.02
SEGMENT = b"0123456789abcdef" * 4096

RELAYS = """
gateway = penstock.web.Gateway("ORIGIN")

def told(end):
    with open("told", "a") as log:
        log.write(f"{os.getpid()} {end.path} {end.bytes}\\n")

async def relay(request):
    return await gateway.relay(request, on_complete=told)

async def posted(request):
    with open("posted", "a") as log:
        log.write(await request.text() + "\\n")
    return web.Response(text="posted")

async def backwards(request):
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        await socket.send_str(message.data[::-1])
    return socket

plain = app

def app():
    app = plain()
    app.add_routes([gateway.native("/stored/", rewrite="/", caching=config.Caching())])
    app.router.add_get("/relayed/{path:.*}", relay)
    app.router.add_post("/posted", posted)
    app.router.add_get("/backwards", backwards)
    # Held here, a process that starts has imported what it needs and serves nothing yet.
    while os.path.exists("wait"):
        time.sleep(0.01)
    return app
"""


class Origin:
    """Event streams that number their events, for as long as they are read; a segment; and one that is slow to come."""

    def __init__(self) -> None:
        self.slow: list[Peer] = []
        self.go_on = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.target.endswith("/events"):
                break
            if request.target.endswith("/slow"):
                self.slow.append(peer)
                await self.go_on.wait()
            fields = (f"Content-Length: {len(SEGMENT)}", "Cache-Control: max-age=60")
            await peer.send(answer(*fields, body=SEGMENT))
        await peer.send(answer("Content-Type: text/event-stream", "Cache-Control: no-store"))
        for number in itertools.count():
            await peer.send(b"data: %d\n\n" % number)
            await asyncio.sleep(GAP_SECONDS)


class Stream:
    """A reader of events, which ends only if they do not come as they were sent."""

    def __init__(self, client: RawClient) -> None:
        self.events = 0
        self.ended = asyncio.create_task(self._follow(client))

    async def _follow(self, client: RawClient) -> None:
        await client.get("/relayed/events")
        assert (await client.head()).status == 200
        had = b""
        while piece := await client.chunk():
            *whole, had = (had + piece).split(b"\n\n")
            for event in whole:
                assert event == b"data: %d" % self.events, "an event is missing, or has come twice"
                self.events += 1
        pytest.fail(f"a stream has ended behind {self.events} events")


class Fire(Serving):
    """Workers with streams and requests, which are asked for until the block ends."""

    def __init__(self, serving: Serving, origin: Origin) -> None:
        super().__init__(serving.running, serving.directory)
        self.origin = origin
        self.clients = serving.clients
        self.streams: list[Stream] = []
        self.asked: Counter[str] = Counter()
        self.lost: set[str] = set()
        self.accepted: set[str] = set()
        self._asking: list[asyncio.Task[None]] = []
        self._over = False

    async def begin_streams(self, count: int) -> None:
        self.streams = [Stream(await self.connect()) for _ in range(count)]
        await self.flowing()

    async def flowing(self) -> None:
        """Wait until each stream has had events that it did not have."""
        before = [stream.events for stream in self.streams]

        def have_more() -> bool:
            for stream in self.streams:
                if stream.ended.done():
                    stream.ended.result()
            return all(stream.events > had + 1 for stream, had in zip(self.streams, before, strict=True))

        await until(have_more, "every stream goes on")

    def begin_requests(self) -> None:
        for each in (self._get_page, self._get_relayed, self._get_stored, self._post):
            self._asking += [asyncio.create_task(each()) for _ in range(2)]

    async def answered(self) -> None:
        """Wait until requests of each kind have been answered that began since; raise what one has failed with."""
        before = self.asked.copy()

        def have_more() -> bool:
            for task in self._asking:
                if task.done():
                    task.result()
            # Two connections ask for each kind, and each has one request at most that began before.
            return all(self.asked[kind] > before[kind] + 2 for kind in ("page", "relayed", "stored", "post"))

        await until(have_more, "requests are answered")

    async def _ask(self, kind: str, target: str, body: bytes) -> None:
        client = await self.connect()
        while not self._over:
            reply = await client.ask(target)
            assert reply.head.status == 200, (kind, reply)
            assert not body or reply.body == body, kind
            self.asked[kind] += 1

    async def _get_page(self) -> None:
        await self._ask("page", "/who", b"")

    async def _get_relayed(self) -> None:
        await self._ask("relayed", "/relayed/segment", SEGMENT)

    async def _get_stored(self) -> None:
        await self._ask("stored", "/stored/segment", SEGMENT)

    async def _post(self) -> None:
        client = await self.connect()
        while not self._over:
            name = f"{id(client)}-{self.asked['post']}"
            await client.get("/posted", f"Content-Length: {len(name)}", method="POST")
            await client.send(name.encode())
            head = await client.head()
            text = await client.body(head)
            if head.status == 200:
                self.accepted.add(name)
            else:
                assert (head.status, json.loads(text)["name"]) == (502, "WORKER_GONE")
                self.lost.add(name)
                client = await self.connect()
            self.asked["post"] += 1

    async def end_requests(self) -> None:
        self._over = True
        await asyncio.gather(*self._asking)

    def kill_all(self) -> None:
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)

    def ready(self) -> list[int]:
        """The processes of the newest workers."""
        return [int(pid) for pid in re.findall(r"process (\d+)\) is ready", self.running.log())[-2:]]

    async def close(self) -> None:
        tasks = [*self._asking, *(stream.ended for stream in self.streams)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def fire(directory: Path, *options: str) -> AsyncIterator[Fire]:
    origin = Origin()
    async with ScriptedOrigin(origin) as upstream:
        app = (
            "import penstock.web\nfrom penstock import config\n"
            + APP
            + RELAYS.replace("ORIGIN", upstream.url)
        )
        options = ("--no-access-log", "--cache", "8MiB", *options)
        async with workers(directory, *options, app=app) as serving:
            burning = Fire(serving, origin)
            try:
                yield burning
            finally:
                await burning.close()


async def test_streams_and_safe_requests_notice_no_death(directory: Path) -> None:
    async with fire(directory) as burning:
        await burning.begin_streams(STREAMS)
        burning.begin_requests()
        await burning.answered()
        for number in range(ROUNDS):
            killed = burning.ready()[number % 2]
            os.kill(killed, signal.SIGKILL)
            await burning.logged(rf"process {killed}\) was killed by SIGKILL")
            await burning.answered()
            await burning.flowing()
            await burning.logged("is ready")
            burning.running.process.send_signal(signal.SIGHUP)
            await burning.logged(f"generation {number + 2} serves")
            await burning.answered()
            await burning.flowing()
        await until(lambda: burning.alive() == set(burning.ready()), "the others have ended")
        await burning.end_requests()
        posted = (directory / "posted").read_text().split()
        assert len(posted) == len(set(posted)), "none was repeated"
        assert burning.accepted <= set(posted) <= burning.accepted | burning.lost
    assert "Traceback" not in burning.running.log()


async def test_without_any_worker_streams_flow_and_requests_wait(directory: Path) -> None:
    async with fire(directory) as burning:
        await burning.begin_streams(STREAMS)
        (directory / "wait").touch()
        before = burning.alive()
        burning.kill_all()
        for _ in before:
            await burning.logged("was killed by SIGKILL")
        page, relayed = await burning.begin("/who"), await burning.begin("/relayed/segment")
        await until(lambda: len(burning.alive() - before) == 2, "others have been started")
        await burning.flowing()
        client = await burning.connect()
        assert (await client.ask("/stored/segment")).body == SEGMENT, "native routes need no worker"
        assert not page.done()
        assert not relayed.done()
        (directory / "wait").unlink()
        status, text = await page
        assert status == 200
        assert int(text.split()[0]) not in before
        assert (await relayed)[0] == 200
        await burning.flowing()


async def test_what_a_worker_has_read_of_dies_with_it_and_is_not_repeated(directory: Path) -> None:
    async with fire(directory) as burning:
        client = await burning.connect()
        await client.get("/held", "Content-Length: 3", method="POST")
        await client.send(b"abc")
        await until(burning.held, "a worker has it")
        os.kill(burning.holding().pop(), signal.SIGKILL)
        head = await client.head()
        problem = json.loads(await client.body(head))
        assert (head.status, head.one("Content-Type")) == (502, "application/problem+json")
        assert problem["name"] == "WORKER_GONE"
        assert (await burning.ask("/who")).endswith("one")
        assert len(burning.held()) == 1, "it was not repeated"


async def test_a_relay_without_a_head_is_repeated(directory: Path) -> None:
    async with fire(directory) as burning:
        asked = await burning.begin("/relayed/slow")
        await until(lambda: len(burning.origin.slow) == 1, "the origin is asked")
        burning.kill_all()
        await until(lambda: len(burning.origin.slow) == 2, "the origin is asked anew")
        await burning.origin.slow[0].wait_left()
        burning.origin.go_on.set()
        assert await asked == (200, SEGMENT.decode())


async def test_half_an_answer_is_no_whole_one(directory: Path) -> None:
    async with fire(directory) as burning:
        client = await burning.connect()
        await client.get("/half")
        assert (await client.head()).status == 200
        assert await client.chunk() == b"half"
        burning.kill_all()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await client.chunk()


async def test_the_end_of_a_stream_is_told_in_another_worker(directory: Path) -> None:
    async with fire(directory) as burning:
        await burning.begin_streams(1)
        before = burning.alive()
        burning.kill_all()
        await burning.flowing()
        for client in burning.clients:
            client.abort()
        told = directory / "told"
        await until(lambda: told.exists() and told.read_text().endswith("\n"), "it is told")
        pid, path, sent = told.read_text().split()
        assert int(pid) in burning.alive() - before
        assert path == "/relayed/events"
        assert int(sent) > 0


async def test_a_worker_that_stands_still_is_killed_and_others_answer(directory: Path) -> None:
    async with fire(directory, "--worker-hang", "1") as burning:
        await burning.begin_streams(STREAMS)
        asked = [await burning.hold() for _ in range(4)]
        stopped = min(burning.holding())
        had = len([path for path in burning.held() if path.name.endswith(f"-{stopped}")])
        os.kill(stopped, signal.SIGSTOP)
        await burning.logged(rf"process {stopped}\) hangs: its event loop has given no sign for")
        await burning.logged(rf"process {stopped}\) was killed by SIGKILL")
        await until(lambda: len(burning.held()) == 4 + had, "those that it had are with others")
        await burning.logged("is ready")
        burning.release()
        for each in asked:
            status, text = await each
            assert status == 200, text
            assert int(text.split()[0]) != stopped
        await burning.flowing()


async def test_a_websocket_ends_with_its_worker(directory: Path) -> None:
    async with (
        fire(directory) as burning,
        aiohttp.ClientSession(burning.running.url) as session,
        session.ws_connect("/backwards") as socket,
    ):
        await socket.send_str("abc")
        assert await socket.receive_str() == "cba"
        burning.kill_all()
        message = await socket.receive(timeout=20)
        assert message.type in {aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR}
        assert socket.close_code == aiohttp.WSCloseCode.ABNORMAL_CLOSURE


async def _stop_one(burning: Fire) -> None:
    os.kill(min(burning.alive()), signal.SIGSTOP)


async def _reload(burning: Fire) -> None:
    (burning.directory / "wait").touch()
    burning.running.process.send_signal(signal.SIGHUP)
    await until(lambda: len(burning.alive()) == 4, "the new ones start")


async def _load(burning: Fire) -> None:
    await burning.begin_streams(STREAMS)
    await burning.hold()


@pytest.mark.parametrize("state", [_stop_one, _reload, _load])
async def test_no_worker_outlives_its_parent(
    directory: Path, state: Callable[[Fire], Coroutine[object, object, None]]
) -> None:
    async with fire(directory) as burning:
        await state(burning)
        assert len(burning.alive()) >= 2
        burning.running.process.kill()
        await burning.running.process.wait()
        await until(lambda: not burning.alive(), "the workers are gone")
