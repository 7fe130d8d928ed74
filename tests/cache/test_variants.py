"""What is stored for others, validated for a request that selects none of it (RFC 9111, section 4.3.1)."""

import asyncio
import time
from email.utils import formatdate
from pathlib import Path

import penstock
from penstock import config
from penstock.config import Caching
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.edges import Edges
from support.waiting import in_time, until

from .disk import gateway

FRESH = "Cache-Control: max-age=3600"

OF = {"tv": "large", "wall": "large", "phone": "small", "watch": "small"}
"""Which of two representations a device gets."""


class Devices:
    """Varies by X-Device, and counts the bodies that it sends."""

    def __init__(self) -> None:
        self.bodies = 0
        self.asked: list[str | None] = []
        self.version = 1
        self.says_which = True

    async def __call__(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            tags = request.get("If-None-Match")
            self.asked.append(tags)
            size = OF[request.get("X-Device") or "watch"]
            tag = f'"{size}-{self.version}"'
            fields = (FRESH, "Vary: X-Device", f"ETag: {tag}")
            if tags is not None and tag in tags.split(", "):
                await peer.send(answer(*(fields if self.says_which else ()), status="304 Not Modified"))
                continue
            self.bodies += 1
            body = f"{size} {self.version}".encode()
            await peer.send(answer(*fields, f"Content-Length: {len(body)}") + body)


async def ask(client: RawClient, device: str) -> tuple[bytes, str | None]:
    reply = await client.ask("/a", f"X-Device: {device}")
    return reply.body, reply.head.one("Cache-Status")


async def test_the_tag_of_a_304_selects_what_is_served_and_no_body_is_sent(caching: Edges) -> None:
    script = Devices()
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        assert (await ask(client, "tv"))[0] == b"large 1"
        assert (await ask(client, "phone"))[0] == b"small 1"
        assert (script.bodies, script.asked) == (2, [None, '"large-1"'])
        for device, body in (("wall", b"large 1"), ("watch", b"small 1")):
            assert await ask(client, device) == (body, "penstock; fwd=vary-miss; fwd-status=304")
            assert sorted((script.asked[-1] or "").split(", ")) == ['"large-1"', '"small-1"']
        # From now on no origin is asked.
        for device, size in OF.items():
            said, status = await ask(client, device)
            assert said == f"{size} 1".encode()
            assert status is not None
            assert status.startswith("penstock; hit")
        assert (script.bodies, len(script.asked)) == (2, 4)
        assert caching.engine.cache is not None
        assert caching.engine.cache.stats().objects == 2
        assert caching.engine.cache.purge(url=f"{origin.url}/a") == 2
        assert (await ask(client, "wall"))[0] == b"large 1"
        assert script.asked[-1] is None


async def test_a_new_version_takes_the_place_of_the_old_one_for_all_who_had_that(caching: Edges) -> None:
    script = Devices()
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        for device in ("tv", "wall"):
            assert (await ask(client, device))[0] == b"large 1"
        script.version = 2
        assert (await client.ask("/a", "X-Device: wall", "Cache-Control: no-cache")).body == b"large 2"
        assert (await ask(client, "wall"))[0] == b"large 2"
        assert await ask(client, "tv") == (b"large 2", "penstock; fwd=vary-miss; fwd-status=304")
        assert (script.bodies, len(script.asked)) == (2, 4)


async def test_a_304_that_does_not_say_which_is_asked_again(caching: Edges) -> None:
    script = Devices()
    script.says_which = False
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        for device in ("tv", "wall"):
            assert (await ask(client, device))[0] == b"large 1"
        assert (script.bodies, script.asked) == (2, [None, '"large-1"', None])


async def test_a_client_that_has_it_already_is_told_so(caching: Edges) -> None:
    script = Devices()
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        await ask(client, "tv")
        reply = await client.ask("/a", "X-Device: wall", 'If-None-Match: "large-1"')
        assert (reply.head.status, script.bodies) == (304, 1)
        ranged = await client.ask("/a", "X-Device: wall", "Range: bytes=0-4")
        assert (ranged.head.status, ranged.body, script.bodies) == (206, b"large", 1)


async def test_for_whom_a_response_was_confirmed_is_known_after_a_restart(tmp_path: Path) -> None:
    script = Devices()
    async with ScriptedOrigin(script) as origin:
        async with gateway(origin, tmp_path / "disk") as here:
            for device in ("tv", "wall"):
                assert (await ask(here.client, device))[0] == b"large 1"
        async with gateway(origin, tmp_path / "disk") as here:
            await until(lambda: here.disk.objects == 1, "it is there")
            for device in ("tv", "wall"):
                assert (await ask(here.client, device))[0] == b"large 1"
        assert (script.bodies, len(script.asked)) == (1, 2)


async def test_a_client_that_sends_ever_new_values_leaves_a_bounded_number_of_variants(
    tmp_path: Path,
) -> None:
    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            value = (request.get("X-Device") or "").encode()
            await peer.send(answer(FRESH, "Vary: X-Device", f"Content-Length: {len(value)}") + value)

    most = config.Cache().max_variants
    async with penstock.Engine(memory="32MiB", threads=1, cache=config.Cache(memory="16MiB")) as engine:
        edges = Edges(engine)
        async with ScriptedOrigin(script) as origin:
            client = await edges.connect(await edges.relay(origin.url, caching=Caching()))
            for number in range(most + 50):
                body, _ = await ask(client, str(number))
                assert body == str(number).encode()
            assert engine.cache is not None
            assert engine.cache.stats().objects == most
            for number, is_there in ((50, True), (most + 49, True), (0, False)):
                body, status = await ask(client, str(number))
                assert body == str(number).encode()
                assert status is not None
                assert status.startswith("penstock; hit") == is_there, number
        await edges.close()


async def test_a_late_older_answer_does_not_replace_a_newer_one(caching: Edges) -> None:
    """RFC 9111, section 4: the most recent response by its Date is used."""
    now = time.time()
    come, answer_now = asyncio.Event(), asyncio.Event()
    asked = 0

    async def script(peer: Peer) -> None:
        nonlocal asked
        while True:
            await peer.request()
            number, asked = asked, asked + 1
            # The second is made before the third, and comes after it.
            if number == 1:
                come.set()
                await answer_now.wait()
            date = formatdate(now - 60 + 10 * number, usegmt=True)
            await peer.send(answer(FRESH, f"Date: {date}", "Content-Length: 1") + str(number).encode())

    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        slow, client = await caching.connect(served), await caching.connect(served)
        assert (await client.ask("/a")).body == b"0"
        late = asyncio.create_task(slow.ask("/a", "Cache-Control: no-cache"))
        await in_time(come.wait(), "the older answer has come")
        assert (await client.ask("/a", "Cache-Control: no-cache")).body == b"2"
        answer_now.set()
        assert (await late).body == b"1", "who asked gets its own"
        reply = await client.ask("/a")
        assert (reply.body, asked) == (b"2", 3)
