"""An origin that fails before its answer has begun: another is asked, once, within the budget, if that may be done."""

import pytest

import penstock
from penstock import Origin, Origins
from penstock.config import Health, OriginLimits, Retries, Timeouts
from penstock.testing import Peer, ScriptedOrigin
from support.backends import Backend, Backends, film
from support.waiting import until

from .conftest import Front

NO_EJECTION = Health(failures=None, failure_percent=None)
"""So that the second request meets the fault too."""

FAULTS: list[str | int] = ["close", "reset", "stall", 500, 502, 503, 504]


async def faulty(
    front: Front, fault: str | int, backends: list[Backend], **retries: object
) -> tuple[Origins, int]:
    """All but the last origin have `fault`."""
    for backend in backends[:-1]:
        backend.mode = fault
    origins = Origins(
        [backend.url for backend in backends],
        health=NO_EJECTION,
        retries=Retries(**{"try_timeout": 0.2, **retries}),  # type: ignore[arg-type]
    )
    return origins, await front.serve(origins)


@pytest.mark.parametrize("fault", FAULTS)
async def test_another_origin_is_asked(front: Front, fault: str | int) -> None:
    async with Backends(3) as backends:
        origins, port = await faulty(front, fault, backends)
        client = await front.connect(port)
        for number in range(3):
            reply = await client.ask(f"/{number}")
            assert (reply.head.status, reply.body) == (200, film(f"/{number}"))
        # In turn: the first request begins at a, the second at b, the third at c.
        counts = origins.stats()
        assert [backend.count() for backend in backends] == [state.requests for state in counts.origins]
        assert counts.requests == 3
        assert counts.retries == sum(backend.count() for backend in backends) - 3
        assert all(backend.count(f"/{number}") <= 1 for backend in backends for number in range(3))


async def test_an_origin_that_refuses_connections_costs_a_request_nothing(front: Front) -> None:
    async with Backends(2) as (a, b):
        origins = Origins([a.url, b.url], health=NO_EJECTION)
        port = await front.serve(origins)
        await a.kill()
        client = await front.connect(port)
        for number in range(4):
            assert (await client.ask(f"/{number}")).body == film(f"/{number}")
        assert b.count() == 4


async def test_a_name_that_is_not_known_is_an_origin_that_fails(native: Front) -> None:
    async with Backend() as good:
        client = await native.connect(await native.serve(Origins(["http://no..name", good.url])))
        for number in range(2):
            assert (await client.ask(f"/{number}")).head.status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("fault", ["close", "stall", 503])
async def test_what_may_have_been_done_is_not_done_twice(front: Front, method: str, fault: str | int) -> None:
    async with Backends(2) as (a, b):
        a.mode = fault
        port = await front.serve(
            Origins([a.url, b.url], health=NO_EJECTION), timeouts=Timeouts(first_byte=0.2)
        )
        client = await front.connect(port)
        await client.get("/", "Content-Length: 4", method=method)
        await client.send(b"data")
        status = (await client.head()).status
        assert status == {"close": 502, "stall": 504, 503: 503}[fault]
        assert (a.count(), b.count()) == (1, 0)


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_what_was_not_sent_is_sent_elsewhere(front: Front, method: str) -> None:
    async with Backends(2) as (a, b):
        port = await front.serve(Origins([a.url, b.url], health=NO_EJECTION))
        await a.kill()
        for number in range(2):
            client = await front.connect(port)
            await client.get(f"/{number}", "Content-Length: 4", method=method)
            await client.send(b"data")
            assert (await client.head()).status == 200
        assert b.count() == 2


async def test_a_streamed_body_is_sent_elsewhere_only_if_nothing_was_sent(native: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = "close"
        port = await native.serve(Origins([a.url, b.url], health=NO_EJECTION))
        client = await native.connect(port)
        await client.get("/", "Transfer-Encoding: chunked", method="GET")
        await client.send(b"4\r\ndata\r\n0\r\n\r\n")
        assert (await client.head()).status == 502
        assert (a.count(), b.count()) == (1, 0)


async def test_the_last_answer_is_the_clients_if_there_is_no_better(front: Front) -> None:
    async with Backends(3) as backends:
        for backend in backends:
            backend.mode = 503
        port = await front.serve(Origins([backend.url for backend in backends], health=NO_EJECTION))
        reply = await (await front.connect(port)).ask("/x")
        assert (reply.head.status, reply.body) == (503, b"503 of c")
        assert [backend.count() for backend in backends] == [1, 1, 1]


async def test_an_answer_of_a_status_is_better_than_no_answer(native: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode, b.mode = 503, "close"
        client = await native.connect(await native.serve(Origins([a.url, b.url], health=NO_EJECTION)))
        reply = await client.ask("/x")
        assert (reply.head.status, reply.body) == (503, b"503 of a")


async def test_other_statuses_are_answers(front: Front) -> None:
    async with Backends(2) as (a, b):
        for status in (404, 429, 501):
            a.mode = b.mode = status
            before = a.count() + b.count()
            client = await front.connect(await front.serve(Origins([a.url, b.url])))
            assert (await client.ask(f"/{status}")).head.status == status
            assert a.count() + b.count() == before + 1


async def test_no_origin_is_tried_twice_and_no_more_than_the_tries(native: Front) -> None:
    async with Backends(4) as backends:
        _, port = await faulty(native, "close", backends, tries=2)
        backends[-1].mode = "close"
        client = await native.connect(port)
        assert (await client.ask("/x")).head.status == 502
        assert sum(backend.count() for backend in backends) == 2
        assert max(backend.count() for backend in backends) == 1


async def test_retries_are_within_their_budget(native: Front) -> None:
    async with Backends(3) as backends:
        for backend in backends:
            backend.mode = 503
        origins = Origins(
            [backend.url for backend in backends],
            health=NO_EJECTION,
            retries=Retries(budget_percent=20, budget_per_second=0),
        )
        port = await native.serve(origins)
        client = await native.connect(port)
        for number in range(50):
            assert (await client.ask(f"/{number}")).head.status == 503
        stats = origins.stats()
        sent = sum(backend.count() for backend in backends)
        assert stats.requests == 50
        # A second may pass out of the window while this runs on a slow machine, and takes its requests along.
        assert sent == 50 + stats.retries
        assert 1 <= stats.retries <= 10
        assert stats.over_budget >= 40, "most requests end because nothing is left"


async def test_no_retries_without_a_budget(native: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = b.mode = "close"
        origins = Origins(
            [a.url, b.url],
            health=NO_EJECTION,
            retries=Retries(budget_percent=0, budget_per_second=0),
        )
        port = await native.serve(origins)
        for number in range(6):
            # The connection ends behind the answer to a failure.
            client = await native.connect(port)
            assert (await client.ask(f"/{number}")).head.status == 502
        assert a.count() + b.count() == 6
        assert (origins.stats().retries, origins.stats().over_budget) == (0, 6)


async def test_the_limit_of_a_try_is_not_that_of_the_request(native: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = "stall"
        # The other origin has the same time, on a busy machine too.
        origins = Origins([a.url, b.url], retries=Retries(try_timeout=1))
        port = await native.serve(origins, timeouts=Timeouts(first_byte=20))
        client = await native.connect(port)
        assert (await client.ask("/x")).body == film("/x")
        assert origins.stats().origins[0].failures == 1
        await until(lambda: a.active == 0, "the connection of the try is closed")


async def test_the_whole_limit_covers_all_tries(native: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = b.mode = "stall"
        origins = Origins([a.url, b.url], retries=Retries(try_timeout=0.2))
        port = await native.serve(origins, timeouts=Timeouts(total=0.3))
        reply = await (await native.connect(port)).ask("/x")
        assert (reply.head.status, b"TOTAL_TIMEOUT" in reply.body) == (504, True)
        assert a.count() == 1
        await until(lambda: a.active + b.active == 0, "both are given up")


async def test_a_client_that_leaves_ends_the_tries(native: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = "stall"
        origins = Origins([a.url, b.url])
        client = await native.connect(await native.serve(origins))
        await client.get("/x")
        await until(lambda: a.active == 1, "the first try is under way")
        client.reset()
        await until(lambda: a.active == 0, "it is given up")
        assert b.count() == 0
        await until(lambda: origins.stats().origins[0].active == 0, "and counted as over")
        assert origins.stats().origins[0].failures == 0


async def test_an_origin_whose_connections_are_all_in_use_is_passed_over() -> None:
    limits = OriginLimits(connections=1, waiting=0)
    async with Backends(2) as (a, b), penstock.Engine("8MiB", limits=limits, threads=1) as engine:
        origins = Origins([Origin(a.url, weight=1000), b.url])
        a.mode = "hold"
        held = engine.get("/held", origins=origins)
        await until(lambda: a.active == 1, "the connection is in use")
        async with engine.get("/x", origins=origins) as response:
            assert await response.bytes() == film("/x")
        assert b.count() == 1
        assert origins.stats().origins[0].failures == 0, "to be busy is no failure"
        a.released.set()
        async with held:
            assert len(await held.bytes()) == len(film("/held"))


async def test_a_hedge_outruns_a_stalled_origin(front: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = "stall"
        origins = Origins([a.url, b.url], retries=Retries(hedge=0.05), health=NO_EJECTION)
        client = await front.connect(await front.serve(origins))
        reply = await client.ask("/x")
        assert (reply.head.one("X-From"), reply.body) == ("b", film("/x"))
        stats = origins.stats()
        assert (stats.hedges, stats.retries) == (1, 0)
        assert stats.origins[0].failures == 1, "an origin that is outrun has failed"
        await until(lambda: a.active == 0, "the loser's connection is closed")


async def test_the_first_answer_is_taken_though_there_is_a_hedge(native: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode, b.mode = "hold", "stall"
        origins = Origins([a.url, b.url], retries=Retries(hedge=0.05))
        client = await native.connect(await native.serve(origins))
        await client.get("/x")
        await until(lambda: b.active == 1, "the hedge is sent")
        a.released.set()
        head = await client.head()
        assert (head.one("X-From"), await client.body(head)) == ("a", film("/x"))
        await until(lambda: b.active == 0, "the hedge is given up")
        assert [state.failures for state in origins.stats().origins] == [0, 0]


async def test_a_hedge_may_follow_what_most_requests_take(native: Front) -> None:
    async with Backends(2) as (a, b):
        origins = Origins([a.url, b.url], retries=Retries(hedge="p99"), health=NO_EJECTION)
        client = await native.connect(await native.serve(origins))
        a.mode = "stall"
        late = await native.connect(client.writer.get_extra_info("peername")[1])
        await late.get("/before")
        await until(lambda: a.active == 1, "it stalls")
        a.mode = "well"
        for number in range(32):
            assert (await client.ask(f"/{number}")).head.status == 200
        assert (a.count("/before"), b.count("/before")) == (1, 0), "nothing was known when it was sent"
        a.mode = "stall"
        for number in range(2):
            assert (await client.ask(f"/later/{number}")).body == film(f"/later/{number}")
        assert origins.stats().hedges >= 1


async def test_no_hedge_where_the_answer_comes_in_time(native: Front) -> None:
    async with Backends(2) as (a, b):
        origins = Origins([a.url, b.url], retries=Retries(hedge=20))
        client = await native.connect(await native.serve(origins))
        for number in range(4):
            await client.ask(f"/{number}")
        assert (origins.stats().hedges, a.count() + b.count()) == (0, 4)


async def test_what_may_have_been_done_is_not_hedged(native: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode, b.mode = "hold", "stall"
        origins = Origins([a.url, b.url], retries=Retries(hedge=0.02))
        port = await native.serve(origins)
        post = await native.connect(port)
        await post.get("/x", "Content-Length: 0", method="POST")
        await until(lambda: a.active == 1, "it is under way")
        # What comes later and is hedged shows that the time for a hedge of the first has passed.
        get = await native.connect(port)
        await get.get("/y")
        await until(lambda: a.count("/y") == 1, "a GET is hedged")
        assert (a.count("/x"), b.count("/x")) == (1, 0)
        a.released.set()
        assert (await post.head()).status == 200
        assert (await get.head()).status == 200


async def test_interim_responses_of_a_try_that_fails_have_passed(native: Front) -> None:
    async def hints(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        peer.close()

    async with ScriptedOrigin(hints) as first, Backend() as second:
        client = await native.connect(await native.serve(Origins([first.url, second.url])))
        await client.get("/x")
        assert (await client.head()).status == 103
        head = await client.head()
        assert (head.status, await client.body(head)) == (200, film("/x"))
