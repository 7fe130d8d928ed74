"""Workers that relay event streams and answer requests while they are killed, and the clients that would notice."""

import asyncio
import itertools
import json
import os
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.waiting import until

from .serving import APP, Serving, workers

# The pace of each stream.
GAP_SECONDS = 0.02
SEGMENT = b"0123456789abcdef" * 4096
# Of a body that no buffer holds.
SEGMENTS = 400

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
    app.router.add_route("*", "/relayed/{path:.*}", relay)
    app.router.add_post("/posted", posted)
    app.router.add_get("/backwards", backwards)
    # Held here, a process that starts has imported what it needs and serves nothing yet.
    while os.path.exists("wait"):
        time.sleep(0.01)
    return app
"""


class Origin:
    """Event streams that number their events for as long as they are read; a segment, at once, slowly, and many times
    over; and what takes uploads.
    """

    def __init__(self) -> None:
        self.slow: list[Peer] = []
        self.uploads: list[Peer] = []
        self.go_on = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.target.endswith("/events"):
                break
            if request.target.endswith("/upload"):
                self.uploads.append(peer)
                await peer.read_body()
            if request.target.endswith("/slow"):
                self.slow.append(peer)
                await self.go_on.wait()
            count = SEGMENTS if request.target.endswith("/long") else 1
            fields = (f"Content-Length: {len(SEGMENT) * count}", "Cache-Control: max-age=60")
            await peer.send(answer(*fields, body=SEGMENT))
            for _ in range(count - 1):
                await peer.send(SEGMENT)
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
