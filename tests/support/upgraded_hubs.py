"""An application with a hub that is upgraded, and clients of its topic `news`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from .client import RawClient
from .subscribers import Event, parse
from .upgrading import Line, serving
from .waiting import in_time

APP = """
import asyncio
from aiohttp import web
from penstock import Hub, default_engine
from penstock.config import History, Subscriptions

hub = Hub(history=History(memory="8MiB"))
app = web.Application()
app.add_routes([hub.native("/events/", subscriptions=Subscriptions(heartbeat=None))])
go = asyncio.Event()

async def publish(request):
    return web.Response(text=await hub.publish(request.match_info["topic"], await request.text(), key="k"))

async def finish(request):
    return web.Response(text=str(await hub.finish(request.match_info["topic"])))

async def stream(request):
    return await hub.stream(request, request.match_info["topic"], subscriptions=Subscriptions(heartbeat=None))

async def feed(request):
    answer = await default_engine().get(request.query["origin"])
    await hub.feed(request.match_info["topic"], answer)
    return web.Response(text="fed")

# Each publishes when its request is complete, which may be long after it began.
app.router.add_post("/publish/{topic}", publish)
app.router.add_post("/finish/{topic}", finish)
app.router.add_post("/feed/{topic}", feed)
app.router.add_get("/stream/{topic}", stream)
"""


@asynccontextmanager
async def serving_hub(directory: Path, *more: str, app: str = APP) -> AsyncIterator[Line]:
    (directory / "mine.py").write_text(app)
    async with serving("mine:app", *more, directory=directory) as line:
        yield line


class Following:
    """A client of the topic `news`, which checks that each event comes once and in order."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.ids: list[str] = []
        self.texts: list[str] = []
        self._rest = b""

    @classmethod
    async def of(cls, port: int, *fields: str, path: str = "/events/news") -> "Following":
        client = await RawClient.connect(port)
        await client.get(path, "Accept: text/event-stream", *fields)
        head = await in_time(client.head())
        assert head.status == 200, head
        assert head.one("Penstock-Resume") in {None, "full"}
        return cls(client)

    async def event(self) -> Event | None:
        """The next event; None at the end, before which it is told when to come back."""
        while (event := await self._block()) is not None and event.retry is not None:
            pass
        if event is None:
            return None
        assert event.type == "message", event
        assert event.id is not None
        assert not self.ids or key_of(event.id) > key_of(self.ids[-1])
        self.ids.append(event.id)
        self.texts.append(event.data)
        return event

    async def _block(self) -> Event | None:
        while b"\n\n" not in self._rest:
            piece = await in_time(self.client.chunk())
            if not piece:
                assert not self._rest
                return None
            self._rest += piece
        block, _, self._rest = self._rest.partition(b"\n\n")
        return parse(block + b"\n\n")

    async def until(self, text: str) -> None:
        while (event := await self.event()) is not None and event.data != text:
            pass
        assert event is not None


def key_of(name: str) -> tuple[int, int]:
    milliseconds, _, sequence = name.partition("-")
    return int(milliseconds), int(sequence)


async def post(port: int, target: str, body: bytes = b"") -> str:
    client = await RawClient.connect(port)
    try:
        await client.get(target, f"Content-Length: {len(body)}", method="POST")
        await client.send(body)
        head = await in_time(client.head())
        text = (await in_time(client.body(head))).decode()
        assert head.status == 200, text
        return text
    finally:
        client.abort()


async def publish(port: int, text: str, topic: str = "news") -> str:
    return await post(port, f"/publish/{topic}", text.encode())
