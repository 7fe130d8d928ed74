"""Who may, with workers: the application's hook is asked over a link, what it says is remembered in the parent."""

import asyncio
import logging
from typing import Any

import pytest

from penstock import config
from penstock.testing import ScriptedOrigin
from penstock.tokens import SignedUrl
from penstock.web import Allow, Deny, Gateway, NativeRequest
from support.family import Family, Worker
from support.hooks import TOKEN, Hook, problem
from support.origins import Recorder
from support.waiting import in_time, until


async def guarded(family: Family, worker: Worker, url: str, hook: Any, *prefixes: str, **options: Any) -> Any:
    """Have routes served that ask `hook` together; what is remembered of it, as the worker has it."""
    with worker.inside():
        gateway = Gateway(url)
        first, *others = prefixes or ("/",)
        routes = [gateway.native(first, authorise=hook, decision_key=TOKEN, **options)]
        routes += [gateway.native(prefix, authorise=routes[0].decisions) for prefix in others]
    await family.serve(worker, *routes)
    return routes[0].decisions


async def test_many_first_requests_ask_once(family: Family) -> None:
    hook = Hook(gate=asyncio.Event())
    worker = await family.worker()
    async with ScriptedOrigin(Recorder()) as upstream:
        await guarded(family, worker, upstream.url, hook)
        clients = [await family.connect() for _ in range(100)]
        for client in clients:
            await client.get("/film", "Token: good-a")
        await until(lambda: hook.asked, "the hook is asked")
        await until(lambda: family.site.active() == 100, "all wait")
        hook.gate.set()  # type: ignore[union-attr]
        for client in clients:
            assert await client.body(await client.head()) == b"ok"
        assert hook.tokens == ["good-a"]


async def test_a_hook_sees_the_request(family: Family) -> None:
    hook = Hook()
    worker = await family.worker()
    async with ScriptedOrigin(Recorder()) as upstream:
        await guarded(family, worker, upstream.url, hook, "/vod/", name="films")
        client = await family.connect()
        await client.ask("/vod/%2F?a=%C3%BC", "Token: bad-\xfc", "X: 1", "X: 2")
    (seen,) = hook.asked
    assert (seen.method, str(seen.url), seen.path) == ("GET", "/vod/%2F?a=%C3%BC", "/vod/%2F")
    assert (seen.remote, seen.host, seen.route) == ("127.0.0.1", "gateway.test", "films")
    assert seen.headers.getall("x") == ["1", "2"]
    (token,) = seen.key
    assert token is not None
    assert token == seen.headers["Token"]
    # Bytes that are no UTF-8 become lone surrogates, as without workers.
    assert token.encode("utf-8", "surrogateescape") == b"bad-\xfc"


@pytest.mark.parametrize(
    ("answered", "expected"),
    [
        (True, 200),
        (Allow("a", lifetime=3, limits=config.TenantLimits(streams=2)), 200),
        (False, 403),
        (None, 403),
        (Deny(402, "pay first", challenge="Coin"), 402),
        (Deny(404), 404),
    ],
    ids=repr,
)
async def test_what_a_hook_may_say(family: Family, answered: Any, expected: int) -> None:
    worker = await family.worker()
    async with ScriptedOrigin(Recorder()) as upstream:
        await guarded(family, worker, upstream.url, lambda _: answered)
        reply = await (await family.connect()).ask("/", "Token: t")
        assert reply.head.status == expected
        if expected == 402:
            assert b"pay first" in reply.body
            assert reply.head.one("WWW-Authenticate") == "Coin"


async def test_a_hook_that_fails_has_failed_in_the_parent_too(
    family: Family, caplog: pytest.LogCaptureFixture
) -> None:
    def hook(_: NativeRequest) -> bool:
        raise OSError("no database")

    worker = await family.worker()
    async with ScriptedOrigin(Recorder()) as upstream:
        decisions = await guarded(family, worker, upstream.url, hook)
        assert problem(await (await family.connect()).ask("/")) == (500, "ACCESS_FAILED")
        stats = await asyncio.to_thread(decisions.stats)
        assert (stats.asked, stats.failed, stats.denied) == (1, 1, 0)
    failed = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "OSError: no database" in (failed[0].exc_text or "")


async def test_a_hook_that_takes_too_long_is_cancelled_in_its_worker(family: Family) -> None:
    cancelled = asyncio.Event()

    async def hook(_: NativeRequest) -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return True

    worker = await family.worker()
    async with ScriptedOrigin(Recorder()) as upstream:
        await guarded(family, worker, upstream.url, hook, access=config.Access(timeout=0.05))
        assert problem(await (await family.connect()).ask("/")) == (503, "ACCESS_TIMEOUT")
        await in_time(cancelled.wait())


async def test_another_worker_answers_for_one_that_dies(family: Family) -> None:
    asked: list[str] = []

    async def hangs(_: NativeRequest) -> bool:
        asked.append("the one that dies")
        await asyncio.Event().wait()
        return False

    async def answers(_: NativeRequest) -> bool:
        asked.append("the other")
        return True

    # By its name it is the same, as it is where both run the same code.
    hangs.__qualname__ = answers.__qualname__
    first, second = await family.worker(), await family.worker()
    async with ScriptedOrigin(Recorder()) as upstream:
        await guarded(family, first, upstream.url, answers)
        await guarded(family, second, upstream.url, hangs)
        client = await family.connect()
        await client.get("/", "Token: t")
        await until(lambda: asked, "the question is there")
        await family.lose(second)
        assert await client.body(await client.head()) == b"ok"
        assert asked == ["the one that dies", "the other"]


async def test_a_decision_revoked_in_a_worker_admits_no_request(family: Family) -> None:
    hook = Hook()
    first, second = await family.worker(), await family.worker()
    async with ScriptedOrigin(Recorder()) as upstream:
        decisions = [
            await guarded(family, worker, upstream.url, hook, "/a/", "/b/") for worker in (first, second)
        ]
        client = await family.connect()
        for token in ("good-a", "good-b"):
            for path in ("/a/", "/b/"):
                assert (await client.ask(path, f"Token: {token}")).body == b"ok"
        assert len(hook.asked) == 4
        # Each route has asked for itself, and both are meant.
        revoked = await asyncio.to_thread(decisions[0].revoke, key="good-a")
        assert (revoked.decisions, revoked.cut) == (2, 0)
        for path in ("/a/", "/b/"):
            assert (await client.ask(path, "Token: good-a")).body == b"ok"
            assert (await client.ask(path, "Token: good-b")).body == b"ok"
        assert hook.tokens[4:] == ["good-a", "good-a"]
        assert (await asyncio.to_thread(decisions[1].revoke, tenant="b")).decisions == 2
        assert (await asyncio.to_thread(decisions[1].stats)).allowed == 2


async def test_tenants_are_counted_for_all_workers(family: Family) -> None:
    limits = config.TenantLimits(total=3)
    hook = Hook(allowed={"limits": limits})
    worker = await family.worker()
    async with ScriptedOrigin(Recorder()) as upstream:
        decisions = await guarded(family, worker, upstream.url, hook)
        client = await family.connect()
        assert (await client.ask("/", "Token: good-a")).body == b"ok"
        assert (await asyncio.to_thread(decisions.tenants))["a"].bytes == 2
        await family.lose(worker)
        # The one that comes in its place knows what there has been.
        worker = await family.worker()
        decisions = await guarded(family, worker, upstream.url, hook)
        assert (await asyncio.to_thread(decisions.tenants))["a"].bytes == 2
        assert await asyncio.to_thread(decisions.renew, "a")
        assert (await asyncio.to_thread(decisions.tenants))["a"].bytes == 0
        assert not await asyncio.to_thread(decisions.renew, "b")


async def test_another_code_is_asked_anew(family: Family) -> None:
    old, new = Hook(), Hook()
    async with ScriptedOrigin(Recorder()) as upstream:
        await guarded(family, await family.worker(), upstream.url, old)
        client = await family.connect()
        assert (await client.ask("/", "Token: good-a")).body == b"ok"
        await guarded(family, await family.worker(), upstream.url, new)
        assert (await client.ask("/", "Token: good-a")).body == b"ok"
    assert (old.tokens, new.tokens) == (["good-a"], ["good-a"])


async def test_signed_urls_are_verified_without_a_worker(family: Family) -> None:
    urls = SignedUrl("a secret of sixteen bytes or more")
    worker = await family.worker()
    async with ScriptedOrigin(Recorder()) as upstream:
        with worker.inside():
            route = Gateway(upstream.url).native("/vod/", authorise=urls)
        await family.serve(worker, route)
        await family.lose(worker)
        client = await family.connect()
        signed = urls.sign("/vod/7", prefix="/vod/", lifetime=60)
        assert (await client.ask(signed)).body == b"ok"
        assert problem(await client.ask("/vod/7"))[0] == 403
