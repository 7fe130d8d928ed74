"""POST: a response that says for how long it is fresh and that it is what a GET would get answers later GETs."""

import asyncio

import pytest

from penstock.config import Caching
from penstock.testing import Peer, RecordedRequest, ScriptedOrigin
from support.client import answer
from support.edges import Edges
from support.origins import FRESH, NumberedOrigin
from support.ranges import Origin
from support.waiting import in_time

HERE = "Content-Location: /a"


def says(*fields: str, status: str = "200 OK") -> Origin:
    """The body is the method and the request's number; `fields` are those of the answer to POST."""

    def response(number: int, request: RecordedRequest) -> bytes:
        body = f"{request.method} {number}".encode()
        own = fields if request.method == "POST" else (FRESH,)
        return answer(
            *own, f"Content-Length: {len(body)}", status=status if request.method == "POST" else "200 OK"
        ) + (b"" if request.method == "HEAD" else body)

    return NumberedOrigin(response)


async def test_a_post_that_says_so_answers_later_gets_in_place_of_what_was_stored(caching: Edges) -> None:
    script = says(FRESH, HERE)
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching(tags=("t",))))
        assert (await client.ask("/a")).body == b"GET 1"
        for number in (2, 3):
            posted = await client.ask("/a", "Content-Length: 0", method="POST")
            assert posted.body == f"POST {number}".encode()
            assert posted.head.one("Cache-Status") == "penstock; fwd=method; fwd-status=200; stored"
            for _ in range(2):
                got = await client.ask("/a")
                assert (got.head.status, got.body) == (200, f"POST {number}".encode())
            assert (await client.ask("/a", method="HEAD")).head.one("Content-Length") == "6"
        assert [request.method for request in script.requests] == ["GET", "POST", "POST"]
        assert caching.engine.cache is not None
        assert caching.engine.cache.purge(tag="t") == 1


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ((FRESH,), "200 OK"),
        ((HERE,), "200 OK"),
        ((FRESH, "Content-Location: /b"), "200 OK"),
        (("Cache-Control: no-store, max-age=60", HERE), "200 OK"),
        ((FRESH, HERE), "201 Created"),
        ((FRESH, HERE), "404 Not Found"),
    ],
    ids=["nowhere", "for no time", "elsewhere", "no-store", "created", "failed"],
)
async def test_any_other_post_is_not_stored(caching: Edges, fields: tuple[str, ...], status: str) -> None:
    script = says(*fields, status=status)
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        posted = await client.ask("/a", "Content-Length: 0", method="POST")
        said = posted.head.one("Cache-Status")
        assert said == f"penstock; fwd=method; fwd-status={status[:3]}"
        assert (await client.ask("/a")).body == b"GET 2"


class Slow:
    """Answers POST with a head and a half of its body, and the rest once `go` is set; GET with its number."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.requests = 0
        self.is_whole = True

    async def __call__(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.read_body()
            self.requests += 1
            if request.method == "POST":
                await peer.send(answer(FRESH, HERE, "Content-Length: 4") + b"po")
                await self.go.wait()
                if not self.is_whole:
                    return
                await peer.send(b"st")
            else:
                await peer.send(answer(FRESH, "Content-Length: 1") + str(self.requests).encode())


async def test_what_was_purged_while_it_was_posted_is_not_stored(caching: Edges) -> None:
    script = Slow()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        client = await caching.connect(served)
        await client.get("/a", "Content-Length: 0", method="POST")
        head = await in_time(client.head())
        assert caching.engine.cache is not None
        caching.engine.cache.purge(url=f"{origin.url}/a")
        script.go.set()
        assert await in_time(client.body(head)) == b"post"
        assert (await in_time(client.ask("/a"))).body == b"2"


async def test_what_a_get_has_brought_meanwhile_is_newer(caching: Edges) -> None:
    script = Slow()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        client, other = await caching.connect(served), await caching.connect(served)
        await client.get("/a", "Content-Length: 0", method="POST")
        head = await in_time(client.head())
        # No request follows a response that is not whole.
        assert (await in_time(other.ask("/a"))).body == b"2"
        script.go.set()
        assert await in_time(client.body(head)) == b"post"
        assert (await in_time(other.ask("/a"))).body == b"2"


async def test_half_a_posted_body_is_not_stored(caching: Edges) -> None:
    script = Slow()
    script.is_whole = False
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        client, other = await caching.connect(served), await caching.connect(served)
        await client.get("/a", "Content-Length: 0", method="POST")
        await in_time(client.head())
        script.go.set()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await in_time(client.reader.readexactly(4))
        assert (await in_time(other.ask("/a"))).body == b"2"


async def test_a_posted_body_that_is_too_large_passes_and_is_not_kept(caching: Edges) -> None:
    script = says(FRESH, HERE)
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching(max_object=1)))
        posted = await client.ask("/a", "Content-Length: 0", method="POST")
        assert posted.head.one("Cache-Status") == "penstock; fwd=method; fwd-status=200"
        assert (await client.ask("/a")).body == b"GET 2"
