"""Clients of each kind, at an even pace, over TLS: HTTP/1.1, HTTP/2, subscribers, and clients that do it wrong."""

import asyncio
import itertools
import math
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import aiohttp
import trustme

from support.certificates import connect, trust
from support.client import RawClient
from support.http2 import Http2Client

Step = Callable[[], Awaitable[None]]

# A server that is being stopped, and a client that leaves, are part of it.
_EXPECTED = (aiohttp.ClientError, ConnectionError, EOFError, TimeoutError, ssl.SSLError)


class Load:
    """Requests to one site with TLS, and to a plain gateway, until the block of `running` ends."""

    def __init__(self, secure: int, plain: int, authority: trustme.CA) -> None:
        self.secure, self.plain, self.authority = secure, plain, authority
        self.requests = 0
        self._began = time.monotonic()
        self._chance = random.Random(3)
        self._numbers = itertools.count()
        # A session is resumed with the context that it began with.
        self._context = trust(authority)
        self._session: ssl.SSLSession | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Load"]:
        connector = aiohttp.TCPConnector(ssl=trust(self.authority), limit=0)
        timeout = aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            self._client = session
            kinds: list[tuple[Step, float]] = [
                (self._vod, 0.03),
                (self._live, 0.05),
                (self._relayed, 0.08),
                (self._small, 0.04),
                (self._asked, 0.04),
                (self._media, 0.08),
                (self._uploaded, 0.2),
                (self._tokens, 0.3),
                (self._tokens, 0.3),
                (self._published, 0.05),
                *((self._subscribed, 0.3),) * 8,
                (self._spare, 0.1),
                (self._left, 0.5),
                (self._resumed, 0.5),
                (self._plain_to_tls, 1.0),
                (self._http2, 0.5),
                (self._plain, 0.05),
                (self._slow, 0.05),
            ]
            tasks = [asyncio.create_task(self._repeat(*kind)) for kind in kinds]
            try:
                yield self
                for task in tasks:
                    # One that has failed says why.
                    if task.done():
                        await task
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(self, step: Step, pause: float) -> None:
        while True:
            with suppress(*_EXPECTED):
                await step()
                self.requests += 1
            # The traffic of a day, in a minute.
            wave = 1.3 - math.sin((time.monotonic() - self._began) / 60 * 2 * math.pi)
            await asyncio.sleep(pause * wave * self._chance.uniform(0.5, 1.5))

    def _url(self, path: str) -> str:
        return f"https://localhost:{self.secure}{path}"

    async def _get(self, path: str, **headers: str) -> None:
        async with self._client.get(self._url(path), headers=headers) as response:
            await response.read()

    async def _vod(self) -> None:
        # Some are asked for again and again, and others hardly ever.
        await self._get(f"/vod/{int(self._chance.expovariate(1 / 40))}")

    async def _live(self) -> None:
        await self._get(f"/live/{next(self._numbers)}")

    async def _relayed(self) -> None:
        await self._get(f"/relay/{next(self._numbers)}")

    async def _small(self) -> None:
        await self._get("/small")

    async def _asked(self) -> None:
        number = self._chance.randrange(40)
        kind = "broken" if number == 0 else "bad" if number < 5 else f"tenant{number % 3}"
        await self._get(f"/asked/{number}", Token=f"{kind}-{number}")

    async def _media(self) -> None:
        await self._get(f"/media/{next(self._numbers)}")

    async def _spare(self) -> None:
        await self._get(f"/spare/{next(self._numbers)}")

    async def _uploaded(self) -> None:
        async with self._client.post(self._url("/upload"), data=bytes(200_000)) as response:
            await response.read()

    async def _tokens(self) -> None:
        await self._get(f"/chat/{next(self._numbers)}")

    async def _published(self) -> None:
        data = f"score {next(self._numbers)}"
        async with self._client.post(self._url(f"/publish/{self._topic()}"), data=data) as response:
            await response.read()

    def _topic(self) -> str:
        return f"match-{self._chance.randrange(3)}"

    async def _subscribed(self) -> None:
        """A subscriber that comes back once, with the id of its last event."""
        last: dict[str, str] = {}
        for _ in range(2):
            async with self._client.get(self._url(f"/events/{self._topic()}"), headers=last) as response:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._chance.uniform(0.5, 6)):
                        async for line in response.content:
                            if line.startswith(b"id: "):
                                last = {"Last-Event-ID": line[4:].decode().strip()}

    async def _left(self) -> None:
        """A client that leaves in the middle of an answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1), self._client.get(self._url("/chat/left")) as response:
                await response.read()

    async def _resumed(self) -> None:
        """A new connection that resumes the session of the one before it."""
        self._session = await asyncio.to_thread(self._connect)

    def _connect(self) -> ssl.SSLSession | None:
        with connect(self._context, self.secure, "localhost", self._session) as connection:
            connection.sendall(b"GET /small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            while connection.recv(65536):
                pass
            return connection.session

    async def _plain_to_tls(self) -> None:
        client = await RawClient.connect(self.secure)
        try:
            await client.get("/")
            await client.reader.read()
        finally:
            client.abort()

    async def _http2(self) -> None:
        client = await Http2Client.connect(self.secure, self.authority)
        try:
            for path in ("/live/http2", "/vod/1", "/small"):
                await client.ask(path)
        finally:
            await client.close()

    async def _plain(self) -> None:
        path = f"/vod/{int(self._chance.expovariate(1 / 10))}"
        async with self._client.get(f"http://127.0.0.1:{self.plain}{path}") as response:
            await response.read()

    async def _slow(self) -> None:
        """A client that sets the pace: of the others the kernel may not be able to tell how much they could take."""
        client = await RawClient.connect(self.plain, receive_buffer=16 * 1024)
        try:
            for _ in range(8):
                await client.get("/vod/297")
                await client.body(await client.head())
        finally:
            client.abort()
