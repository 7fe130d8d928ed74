"""Who is asked: in turn, by load, by key; backups, limits, and origins that come and go."""

import asyncio
from collections import Counter

import pytest

import penstock
from penstock import Origin, Origins
from penstock.config import Cache, Caching, Health
from support.backends import Backend, Backends, film
from support.client import RawClient
from support.waiting import until

from .conftest import Front

AT_ONCE = Health(slow_start=0)


async def test_requests_take_turns_by_weight(front: Front) -> None:
    async with Backends(2) as (a, b):
        client = await front.connect(await front.serve(Origins([Origin(a.url, weight=3), b.url])))
        for number in range(16):
            reply = await client.ask(f"/{number}")
            assert reply.body == film(f"/{number}")
        assert (a.count(), b.count()) == (12, 4)


async def test_each_origin_is_sent_its_own_host(front: Front) -> None:
    async with Backends(2) as (a, b):
        client = await front.connect(await front.serve(Origins([a.url, b.url])))
        for number in range(2):
            await client.ask(f"/{number}")
        for backend in (a, b):
            (request,) = backend.requests
            assert request.get("Host") == f"127.0.0.1:{backend.port}"


async def test_the_path_of_the_origins_stands_in_front(front: Front) -> None:
    async with Backends(2) as (a, b):
        origins = Origins([f"{a.url}/films/", f"{b.url}/films"])
        client = await front.connect(await front.serve(origins))
        for _ in range(2):
            await client.ask(f"/x{_}?y=1")
        assert sorted(request.target for backend in (a, b) for request in backend.requests) == [
            "/films/x0?y=1",
            "/films/x1?y=1",
        ]


async def held(front: Front, port: int, backend: Backend) -> RawClient:
    """A request that `backend` holds."""
    client, before = await front.connect(port), backend.active
    await client.get(f"/held/{len(front.clients)}")
    await until(lambda: backend.active > before, "the request is held")
    return client


async def test_the_least_loaded_is_asked(native: Front) -> None:
    async with Backends(2) as (a, b):
        port = await native.serve(Origins([a.url, b.url], balance="least-loaded"))
        a.mode = b.mode = "hold"
        first = await held(native, port, a)
        b.mode = "well"
        client = await native.connect(port)
        for number in range(5):
            await client.ask(f"/{number}")
        assert (a.count(), b.count()) == (1, 5)
        a.released.set()
        assert (await first.head()).status == 200


async def test_a_request_is_under_way_until_its_body_has_ended(native: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode, a.tag = "cut stall", 'W/"weak"'
        origins = Origins([a.url, b.url], balance="least-loaded")
        port = await native.serve(origins)
        client = await native.connect(port)
        await client.get("/long")
        await client.head()
        other = await native.connect(port)
        for number in range(3):
            await other.ask(f"/{number}")
        assert (a.count(), b.count()) == (1, 3)
        assert [state.active for state in origins.stats().origins] == [1, 0]
        client.reset()
        await until(lambda: origins.stats().origins[0].active == 0, "the client's leaving ends it")
        assert origins.stats().origins[0].failures == 0, "that a client leaves is no failure of the origin"


async def test_a_path_is_asked_of_the_same_origin(front: Front) -> None:
    async with Backends(3) as backends:
        origins = Origins([backend.url for backend in backends], balance="hash")
        port = await front.serve(origins)
        client = await front.connect(port)
        for turn in range(2):
            for number in range(60):
                await client.ask(f"/{number}?turn={turn}")
        homes = [{request.target.split("?")[0] for request in backend.requests} for backend in backends]
        assert sum(len(home) for home in homes) == 60, "a path was asked of two origins"
        assert all(homes), "an origin has none of 60 paths"


async def test_the_query_counts_if_it_is_to(native: Front) -> None:
    async with Backends(2) as (a, b):
        client = await native.connect(
            await native.serve(Origins([a.url, b.url], balance="hash", key="target"))
        )
        for number in range(24):
            await client.ask(f"/?{number}")
        assert a.requests
        assert b.requests


async def test_a_field_decides_if_it_is_to(native: Front) -> None:
    async with Backends(2) as (a, b):
        origins = Origins([a.url, b.url], balance="hash", key="field:X-Session")
        client = await native.connect(await native.serve(origins))
        for number in range(24):
            await client.ask(f"/{number}", f"X-Session: {number % 6}")
        homes = [{request.get("x-session") for request in backend.requests} for backend in (a, b)]
        assert sum(len(home) for home in homes) == 6, "a session was asked of two origins"


async def test_the_keys_of_a_lost_origin_alone_move(native: Front) -> None:
    async with Backends(3) as backends:
        origins = Origins([backend.url for backend in backends], balance="hash", health=AT_ONCE)
        client = await native.connect(await native.serve(origins))

        async def homes() -> dict[str, str]:
            found = {}
            for number in range(30):
                reply = await client.ask(f"/{number}")
                found[f"/{number}"] = reply.head.one("X-From") or ""
            return found

        before = await homes()
        await backends[1].kill()
        during = await homes()
        assert {path for path in before if before[path] != during[path]} == {
            path for path, home in before.items() if home == "b"
        }


async def test_a_backup_is_asked_while_no_other_is_available(native: Front) -> None:
    async with Backends(3) as (a, b, c):
        origins = Origins([a.url, b.url, Origin(c.url, backup=True)], health=Health(failures=1, eject=60))
        client = await native.connect(await native.serve(origins))
        await client.ask("/1")
        await client.ask("/2")
        assert c.count() == 0
        await a.kill()
        await b.kill()
        for number in range(5):
            assert (await client.ask(f"/more/{number}")).head.one("X-From") == "c"


async def test_an_origin_has_no_more_requests_than_it_may(native: Front) -> None:
    async with Backends(2) as (a, b):
        origins = Origins([Origin(a.url, max_requests=1), Origin(b.url, max_requests=1)])
        port = await native.serve(origins)
        a.mode = b.mode = "hold"
        clients = [await native.connect(port) for _ in range(2)]
        for client in clients:
            await client.get("/held")
        await until(lambda: a.active == b.active == 1, "each has one")
        late = await native.connect(port)
        reply = await late.ask("/late")
        assert (reply.head.status, b"QUEUE_FULL" in reply.body) == (503, True)
        a.released.set()
        b.released.set()
        for client in clients:
            assert (await client.head()).status == 200
        await until(lambda: sum(state.active for state in origins.stats().origins) == 0, "both have ended")


async def test_origins_change_while_requests_run(front: Front) -> None:
    async with Backends(3) as (a, b, c):
        origins = Origins([a.url, b.url], health=AT_ONCE)
        port = await front.serve(origins)
        a.mode = "hold"
        client = await front.connect(port)
        await client.get("/held")
        await until(lambda: a.active == 1, "the request is held")
        origins.set([c.url, Origin(b.url, weight=2)])
        other = await front.connect(port)
        seen = Counter([(await other.ask(f"/{number}")).head.one("X-From") for number in range(6)])
        assert seen == {"b": 4, "c": 2}
        assert [state.url for state in origins.stats().origins] == [c.url, b.url]
        a.released.set()
        head = await client.head()
        assert (head.one("X-From"), await client.body(head)) == ("a", film("/held"))


async def test_changes_and_requests_beside_one_another_lose_nothing(native: Front) -> None:
    async with Backends(3) as (a, b, c):
        origins = Origins([a.url])
        port = await native.serve(origins)
        done = 0

        async def ask(worker: int) -> None:
            nonlocal done
            client = await native.connect(port)
            for number in range(40):
                reply = await client.ask(f"/{worker}/{number}")
                assert (reply.head.status, reply.body) == (200, film(f"/{worker}/{number}"))
                done += 1

        async def change() -> None:
            lists = [[a.url, b.url], [b.url, c.url], [c.url], [a.url, b.url, c.url]]
            turn = 0
            while done < 160:
                origins.set(lists[turn % 4])
                turn += 1
                await until(lambda before=done: done > before or done >= 160, "a request ends")  # type: ignore[misc]

        await asyncio.gather(change(), *(ask(worker) for worker in range(4)))
        assert a.count() + b.count() + c.count() == 160
        await until(
            lambda: sum(state.active for state in origins.stats().origins) == 0, "nothing is under way"
        )


async def test_the_library_asks_them_too(engine: penstock.Engine) -> None:
    async with Backends(2) as (a, b):
        origins = Origins([f"{a.url}/base", f"{b.url}/base"])
        for number in range(2):
            async with engine.get(f"/{number}?q=%2F", origins=origins) as response:
                assert await response.bytes() == film(f"/base/{number}?q=%2F")
        assert (a.count(), b.count()) == (1, 1)
        with pytest.raises(penstock.RequestError):
            engine.get(f"{a.url}/x", origins=origins)


def test_what_cannot_be_is_refused() -> None:
    for origins in (
        [],
        "http://a",
        ["http://a", "http://a:80/"],
        ["http://a/x", "http://a2/y"],
        ["ftp://a"],
        [Origin("http://a", backup=True)],
    ):
        with pytest.raises(penstock.ConfigurationError):
            Origins(origins)  # type: ignore[arg-type]
    for options in ({"balance": "random"}, {"key": "host"}, {"key": "field:"}, {"name": "http://a/path"}):
        with pytest.raises(penstock.ConfigurationError):
            Origins(["http://a"], **options)  # type: ignore[arg-type]
    with pytest.raises(penstock.ConfigurationError):
        Origin("http://a", weight=0)
    with pytest.raises(penstock.ConfigurationError):
        Origins(["http://a"]).set(["http://b/other"])


async def test_one_cached_copy_is_served_whichever_origin_sent_it() -> None:
    """What is stored is known by the name of the origins, whichever of them has answered, and by that after a change."""
    async with Backends(2) as (a, b), penstock.Engine(memory="8MiB", cache=Cache(memory="2MiB")) as engine:
        origins = Origins([a.url, b.url])
        caching = Caching(lifetime=60)
        for _ in range(3):
            async with engine.get("/film", origins=origins, caching=caching) as response:
                assert await response.bytes() == film("/film")
        origins.set([b.url])
        async with engine.get("/film", origins=origins, caching=caching) as response:
            assert await response.bytes() == film("/film")
        assert a.count() + b.count() == 1
