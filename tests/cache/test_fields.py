"""What the gateway writes itself stands once in each answer, also where the stored response had it; and cookies of one
client are not given to others."""

import pytest

from penstock.config import Caching
from penstock.testing import ScriptedOrigin, respond
from support.client import Reply, answer, client_of
from support.edges import Edges, app_of, serving
from support.ranges import Kind, Origin, differs
from support.waiting import in_time

ONCE = (
    *(
        "Age",
        "Content-Length",
        "Date",
        "Via",
        "Cache-Status",
        "Accept-Ranges",
        "Content-Type",
        "Content-Range",
    ),
    *("ETag", "Last-Modified", "Cache-Control", "Content-Encoding"),
)
FIELDS = (
    "Content-Range: bytes 0-4/5",
    "Age: 3",
    "Via: 1.0 first, 1.1 second",
    "Via: 1.1 third",
    "Cache-Status: first; hit",
    "Cache-Status: second; fwd=miss",
    "Accept-Ranges: bytes",
    "Date: Sun, 22 Nov 2026 10:00:05 GMT",
)
ANSWERS = {
    "200": ({}, "GET", 200),
    "206": ({"Range": "bytes=0-9"}, "GET", 206),
    "206 of two parts": ({"Range": "bytes=0-9,100-109"}, "GET", 206),
    "416": ({"Range": "bytes=999999-"}, "GET", 416),
    "304": ({"If-None-Match": '"1"'}, "GET", 304),
    "HEAD": ({}, "HEAD", 200),
}


def assert_once(reply: Reply, what: str) -> None:
    for name in ONCE:
        assert len(reply.head.all(name)) <= 1, f"{what}: {name} came as {reply.head.all(name)}"


@pytest.mark.parametrize("lane", ["native", "site", "stock"])
async def test_what_the_gateway_writes_stands_once(caching: Edges, lane: str) -> None:
    policy = Caching(lifetime=60)
    origin = Origin(Kind(size=1000, fields=FIELDS))
    async with ScriptedOrigin(origin) as scripted:
        app = app_of(("/{path:.*}", caching.gateway(scripted.url, caching=policy).relay))
        if lane == "native":
            app = app_of()
            app.add_routes([caching.gateway(scripted.url).native("/", caching=policy)])
        server = "stock" if lane == "stock" else "site"
        async with serving(caching, server, app) as port, client_of(port) as client:
            for turn in ("miss", "hit", "stale"):
                for what, (asked, method, status) in ANSWERS.items():
                    if turn == "stale":
                        assert caching.engine.cache is not None
                        caching.engine.cache.purge(prefix=f"{scripted.url}/", soft=True)
                    fields = [f"{name}: {value}" for name, value in asked.items()]
                    reply = await in_time(client.ask("/film", *fields, method=method))
                    assert_once(reply, f"{turn}, {what}")
                    assert reply.head.status == status, f"{turn}, {what}"
                    # A list that others have begun is kept, in order, with ours at its end.
                    status_list = reply.head.one("Cache-Status") or ""
                    assert status_list.startswith("first; hit, second; fwd=miss, penstock; "), (
                        f"{turn}, {what}"
                    )
                    assert reply.head.one("Via") == "1.0 first, 1.1 second, 1.1 third, 1.1 penstock"
                    if status in {200, 206, 416} and method == "GET":
                        assert reply.head.one("Content-Length") == str(len(reply.body))
                    if what == "206":
                        assert reply.head.one("Content-Range") == "bytes 0-9/1000"
                    if what == "416":
                        assert reply.head.one("Content-Range") == "bytes */1000"
                    if what == "206 of two parts":
                        assert reply.head.one("Content-Range") is None
                        assert differs(reply, asked, "GET", origin, {1}) is None


COOKIE = answer(
    "Cache-Control: max-age=60", "Set-Cookie: user=1", 'ETag: "a"', "Content-Length: 4", body=b"film"
)


@pytest.mark.parametrize("fill", ["auto", "whole", "asked", "slices"])
async def test_a_cookie_is_for_the_client_whose_answer_it_came_with(caching: Edges, fill: str) -> None:
    async with ScriptedOrigin(respond(COOKIE)) as origin:
        served = await caching.relay(origin.url, caching=Caching(range_fill=fill))  # type: ignore[arg-type]
        client = await caching.connect(served)
        for _ in range(3):
            reply = await in_time(client.ask("/film"))
            assert (reply.body, reply.head.one("Set-Cookie")) == (b"film", "user=1")
            assert "stored" not in (reply.head.one("Cache-Status") or "")
        requests = sum(len(connection.requests) for connection in origin.connections)
        assert requests == 3
        assert caching.engine.cache is not None
        assert caching.engine.cache.stats().objects == 0


async def test_cookies_are_stored_for_who_asks_for_it(caching: Edges) -> None:
    async with ScriptedOrigin(respond(COOKIE)) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching(store_cookies=True)))
        for _ in range(3):
            assert (await in_time(client.ask("/film"))).head.one("Set-Cookie") == "user=1"
        assert len(origin.connections[0].requests) == 1


async def test_what_says_that_the_cookie_is_not_to_be_stored_is_stored_without_it(caching: Edges) -> None:
    says = COOKIE.replace(b"max-age=60", b'max-age=60, no-cache="Set-Cookie"')
    async with ScriptedOrigin(respond(says)) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        cookies = [(await in_time(client.ask("/film"))).head.one("Set-Cookie") for _ in range(3)]
        assert cookies == ["user=1", None, None]
        assert len(origin.connections[0].requests) == 1
