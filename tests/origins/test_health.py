"""Origins that are ejected for what requests have met there, or taken out by checks, and how they come back."""

import penstock
from penstock import Origin, Origins
from penstock.config import Check, Health, Retries
from support.backends import Backends, film
from support.waiting import until

from .conftest import Front

LONG = 3600.0


async def test_an_origin_that_fails_again_and_again_is_not_asked_any_more(front: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = 500
        origins = Origins([a.url, b.url], health=Health(failures=3, eject=LONG, max_eject=LONG))
        client = await front.connect(await front.serve(origins))
        for number in range(20):
            assert (await client.ask(f"/{number}")).head.status == 200
        assert (a.count(), b.count()) == (3, 20)
        first, second = origins.stats().origins
        assert (first.available, first.up, second.available) == (False, True, True)
        assert first.ejected is not None
        assert 0 < first.ejected <= LONG
        assert (first.failures, first.requests, origins.stats().ejections) == (3, 3, 1)


async def test_a_body_that_breaks_off_is_a_failure(native: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = "cut close"
        origins = Origins([a.url, b.url], health=Health(failures=3, eject=LONG, max_eject=LONG))
        client = await native.connect(await native.serve(origins))
        for number in range(20):
            assert (await client.ask(f"/{number}")).body == film(f"/{number}")
        assert a.count() == 3
        assert origins.stats().origins[0].failures == 3


async def test_an_answer_between_two_failures_begins_the_row_anew(native: Front) -> None:
    async with Backends(2) as (a, b):
        origins = Origins(
            [a.url, b.url], health=Health(failures=2, failure_percent=None, eject=LONG, max_eject=LONG)
        )
        client = await native.connect(await native.serve(origins))
        for number in range(12):
            # Every second request that a gets fails.
            a.mode = 500 if number % 4 == 0 else "well"
            assert (await client.ask(f"/{number}")).head.status == 200
        first = origins.stats().origins[0]
        assert first.failures >= 3
        assert first.available


async def test_a_share_of_failures_ejects_as_well(native: Front) -> None:
    async with Backends(2) as (a, b):
        health = Health(failures=None, failure_percent=40, least_requests=5, eject=LONG, max_eject=LONG)
        origins = Origins([Origin(a.url, weight=1000), b.url], health=health)
        client = await native.connect(await native.serve(origins))
        for number in range(20):
            a.mode = 500 if number % 2 == 0 else "well"
            await client.ask(f"/{number}")
        # 500 at the requests 0, 2 and 4: three of five.
        assert a.count() == 5


async def test_one_that_has_been_ejected_comes_back_by_itself(front: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = 503
        origins = Origins([a.url, b.url], health=Health(failures=1, eject=0.05, slow_start=0))
        client = await front.connect(await front.serve(origins))
        await client.ask("/first")
        assert origins.stats().ejections == 1
        a.mode = "well"
        await until(lambda: origins.stats().origins[0].available, "its time is over")
        before = a.count()
        for number in range(4):
            assert (await client.ask(f"/{number}")).head.status == 200
        assert a.count() - before == 2


async def test_who_comes_back_gets_its_share_little_by_little(native: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = 503
        origins = Origins([a.url, b.url], health=Health(failures=1, eject=0.05, slow_start=LONG))
        client = await native.connect(await native.serve(origins))
        await client.ask("/first")
        a.mode = "well"
        await until(lambda: origins.stats().origins[0].available, "its time is over")
        assert 0.1 <= origins.stats().origins[0].weight < 0.2
        before = a.count()
        for number in range(22):
            await client.ask(f"/{number}")
        assert 1 <= a.count() - before <= 4, "about a tenth beside one with its whole share"


async def test_where_all_are_ejected_all_are_asked(front: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = b.mode = 503
        origins = Origins([a.url, b.url], health=Health(failures=1, eject=LONG, max_eject=LONG))
        client = await front.connect(await front.serve(origins))
        assert (await client.ask("/first")).head.status == 503
        assert not any(state.available for state in origins.stats().origins)
        a.mode = b.mode = "well"
        for number in range(4):
            assert (await client.ask(f"/{number}")).head.status == 200


async def test_where_too_few_are_left_all_are_asked(native: Front) -> None:
    async with Backends(3) as (a, b, c):
        a.mode = b.mode = 503
        health = Health(failures=1, eject=LONG, max_eject=LONG, panic_percent=50)
        origins = Origins([backend.url for backend in (a, b, c)], health=health)
        client = await native.connect(await native.serve(origins))
        await client.ask("/first")
        a.mode = b.mode = "well"
        counts = [backend.count() for backend in (a, b, c)]
        for number in range(9):
            await client.ask(f"/{number}")
        more = [backend.count() - before for backend, before in zip((a, b, c), counts, strict=True)]
        assert min(more) >= 2, f"{more}: one of three is less than half"


async def test_the_knowledge_is_of_all_threads_and_engines(front: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = 500
        origins = Origins([a.url, b.url], health=Health(failures=1, eject=LONG, max_eject=LONG))
        port = await front.serve(origins)
        for number in range(6):
            client = await front.connect(port)
            assert (await client.ask(f"/{number}")).head.status == 200
        async with penstock.Engine("2MiB", threads=1) as other:
            for number in range(4):
                async with other.get(f"/other/{number}", origins=origins) as response:
                    assert len(await response.bytes())
        assert a.count() == 1


async def test_checks_take_an_origin_out_before_a_client_meets_it(native: Front) -> None:
    async with Backends(2) as (a, b):
        origins = Origins(
            [a.url, b.url], check=Check(path="/health", interval=0.02, timeout=20, fall=2, rise=2)
        )
        client = await native.connect(await native.serve(origins))
        await client.ask("/first")
        a.mode = 500
        await until(lambda: not origins.stats().origins[0].up, "checks have found it to be down")
        for number in range(6):
            assert (await client.ask(f"/{number}")).head.one("X-From") == "b"
        assert origins.stats().origins[0].failures == 0
        a.mode = "well"
        await until(lambda: origins.stats().origins[0].up, "checks have found it to be well")
        assert all(request.get("Host") == f"127.0.0.1:{a.port}" for request in a.requests)


async def test_a_check_that_hangs_is_a_failure_after_its_time(native: Front) -> None:
    async with Backends(2) as (a, b):
        origins = Origins([a.url, b.url], check=Check(path="/health", interval=0.02, timeout=1, fall=1))
        client = await native.connect(await native.serve(origins))
        await client.ask("/first")
        a.mode = "stall"
        await until(lambda: not origins.stats().origins[0].up, "the check has timed out")
        assert origins.stats().origins[1].up


async def test_each_origin_is_checked_once_an_interval_for_all_threads(native: Front) -> None:
    async with Backends(2) as (a, b):
        origins = Origins([a.url, b.url], check=Check(path="/health", interval=LONG))
        port = await native.serve(origins)
        for number in range(9):
            client = await native.connect(port)
            await client.ask(f"/{number}")
        await until(lambda: a.count("/health") == b.count("/health") == 1, "the first checks")
        await (await native.connect(port)).ask("/last")
        assert (a.count("/health"), b.count("/health")) == (1, 1)


async def test_checks_go_on_when_the_engine_that_sent_them_has_ended() -> None:
    async with Backends(1) as (a,):
        origins = Origins([a.url], check=Check(path="/health", interval=0.02))
        for turn in range(2):
            async with penstock.Engine("2MiB", threads=1) as engine:
                async with engine.get(f"/{turn}", origins=origins) as response:
                    await response.bytes()
                before = a.count("/health")
                await until(lambda before=before: a.count("/health") > before + 1, "checks are sent")  # type: ignore[misc]


async def test_checks_end_with_the_origins() -> None:
    async with Backends(1) as (a,), penstock.Engine("2MiB", threads=1) as engine:
        origins = Origins([a.url], check=Check(path="/health", interval=0.02))
        async with engine.get("/x", origins=origins) as response:
            await response.bytes()
        await until(lambda: a.count("/health") > 1, "checks are sent")
        del origins, response
        other = Origins([a.url], check=Check(path="/other", interval=0.02))

        async def rounds() -> None:
            before = a.count("/other")
            async with engine.get("/y", origins=other) as response:
                await response.bytes()
            await until(lambda: a.count("/other") > before + 3, "the others are checked")

        # One that was under way may still come.
        await rounds()
        last = a.count("/health")
        await rounds()
        assert a.count("/health") == last


async def test_a_stampede_is_bounded_when_all_but_one_are_gone(native: Front) -> None:
    async with Backends(3) as (a, b, c):
        origins = Origins(
            [backend.url for backend in (a, b, c)],
            health=Health(failures=1, eject=LONG, max_eject=LONG),
            retries=Retries(budget_percent=20, budget_per_second=0),
        )
        port = await native.serve(origins)
        clients = [await native.connect(port) for _ in range(30)]
        c.mode = "hold"
        a.mode = b.mode = "close"
        for number, client in enumerate(clients):
            await client.get(f"/{number}")
        await until(
            lambda: sum(state.active for state in origins.stats().origins) == c.active, "a and b are out"
        )
        c.released.set()
        statuses = [(await client.head()).status for client in clients]
        stats = origins.stats()
        assert c.count() <= 30
        assert stats.retries <= 6, "a fifth of thirty"
        assert a.count() + b.count() + c.count() == 30 + stats.retries
        assert statuses.count(200) == c.count()
