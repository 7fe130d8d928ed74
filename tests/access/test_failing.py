"""Hooks that fail, hang, or are gone: their requests are refused, nothing is remembered, nothing is left."""

import asyncio
import gc
import http.client
import logging
import re
import threading

import pytest

from penstock import _limited_log
from penstock.config import Access
from penstock.testing import ScriptedOrigin
from penstock.web import Allow, NativeRequest
from support.edges import Edges
from support.hooks import TOKEN, Hook, problem
from support.origins import Recorder
from support.waiting import in_time, until


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


async def test_a_hook_that_fails_refuses_and_is_asked_again(
    anywhere: Edges, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes: list[object] = [OSError("no database"), "yes", None]

    async def hook(_: NativeRequest) -> object:
        outcome = outcomes.pop(0) if outcomes else True
        if isinstance(outcome, Exception):
            raise outcome
        return outcome if outcome is not None else Allow("a")

    async with ScriptedOrigin(Recorder()) as upstream:
        gateway = anywhere.gateway(upstream.url)
        route = gateway.native("/", authorise=hook, decision_key=TOKEN)  # type: ignore[arg-type]
        served = await anywhere.serve([route])
        for _ in range(2):
            reply = await (await anywhere.connect(served)).ask("/")
            assert problem(reply) == (500, "ACCESS_FAILED")
        assert (await (await anywhere.connect(served)).ask("/")).body == b"ok"
        # Each way to fail has a line of its own.
        assert logged(caplog) == ["/: the hook that authorises GET / has failed"] * 2
        assert route.decisions is not None
        assert route.decisions.stats().failed == 2


async def test_a_hook_that_fails_each_request_has_one_traceback_and_then_a_count(
    anywhere: Edges, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_limited_log, "_INTERVAL", 1.0)

    async def hook(_: NativeRequest) -> bool:
        raise OSError("no database")

    async with ScriptedOrigin(Recorder()) as upstream:
        gateway = anywhere.gateway(upstream.url)
        served = await anywhere.serve([gateway.native("/", authorise=hook, decision_key=TOKEN)])
        for _ in range(50):
            assert (await (await anywhere.connect(served)).ask("/")).head.status == 500
        await until(lambda: sum(map(counted, logged(caplog))) >= 50, "all are counted")
    records = [record for record in caplog.records if record.exc_text]
    assert len(records) == 1
    assert "OSError: no database" in (records[0].exc_text or "")


def counted(line: str) -> int:
    """How many failures a line stands for."""
    more = re.search(r"; (\d+) more since", line)
    return 1 if more is None else 1 + int(more[1])


async def test_those_who_wait_with_a_hook_that_fails_are_refused_and_it_is_logged_once(
    edge: Edges, caplog: pytest.LogCaptureFixture
) -> None:
    go = asyncio.Event()

    async def hook(_: NativeRequest) -> bool:
        await go.wait()
        raise OSError("no database")

    async with ScriptedOrigin(Recorder()) as upstream:
        route = edge.gateway(upstream.url).native("/", authorise=hook, decision_key=TOKEN)
        served = await edge.serve([route])
        clients = [await edge.connect(served) for _ in range(20)]
        for client in clients:
            await client.get("/")
        decisions = route.decisions
        assert decisions is not None
        await until(lambda: decisions.stats().joined == 19, "all wait")
        go.set()
        for client in clients:
            assert (await in_time(client.head())).status == 500
        assert len(logged(caplog)) == 1


async def test_a_hook_that_takes_too_long_refuses(anywhere: Edges, caplog: pytest.LogCaptureFixture) -> None:
    hook = Hook(gate=asyncio.Event())
    async with ScriptedOrigin(Recorder()) as upstream:
        gateway = anywhere.gateway(upstream.url)
        # The hook has as long to answer at the end.
        access = Access(timeout=1)
        route = gateway.native("/", authorise=hook, decision_key=TOKEN, access=access)
        served = await anywhere.serve([route])
        clients = [await anywhere.connect(served) for _ in range(5)]
        for client in clients:
            await client.get("/", "Token: good-a")
        for client in clients:
            head = await in_time(client.head())
            assert (head.status, head.one("Retry-After")) == (503, "1")
        assert route.decisions is not None
        await until(lambda: route.decisions.stats().open == 0, "the hook has been cancelled")
        assert "has taken too long" in logged(caplog)[0]
        assert hook.gate is not None
        hook.gate.set()
        assert (await (await anywhere.connect(served)).ask("/", "Token: good-a")).body == b"ok"


async def test_a_blocked_interpreter_keeps_no_request_waiting(edge: Edges) -> None:
    """The engine keeps the time: a hook that burns is not there to be cancelled."""
    statuses: list[int] = []
    done = threading.Event()

    def ask(port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/")
        statuses.append(connection.getresponse().status)
        connection.close()
        done.set()

    def hook(_: NativeRequest) -> bool:
        # As a hook that computes for too long. The loop goes on when the client has its answer.
        return done.wait(30)

    async with ScriptedOrigin(Recorder()) as upstream:
        gateway = edge.gateway(upstream.url)
        route = gateway.native("/", authorise=hook, decision_key=TOKEN, access=Access(timeout=0.1))
        served = await edge.serve([route])
        thread = threading.Thread(target=ask, args=(served.port,))
        thread.start()
        await until(done.is_set, "the client has its answer")
        thread.join()
        assert statuses == [503]


async def test_too_many_questions_are_refused_at_once(anywhere: Edges) -> None:
    hook = Hook(gate=asyncio.Event())
    async with ScriptedOrigin(Recorder()) as upstream:
        gateway = anywhere.gateway(upstream.url)
        route = gateway.native("/", authorise=hook, decision_key=TOKEN, access=Access(questions=2))
        served = await anywhere.serve([route])
        decisions = route.decisions
        assert decisions is not None
        assert hook.gate is not None
        waiting = [await anywhere.connect(served) for _ in range(4)]
        for number, client in enumerate(waiting):
            await client.get("/", f"Token: good-{number}")
        await until(
            lambda: (decisions.stats().open, len(hook.asked)) == (4, 2), "two are asked, and as many wait"
        )
        reply = await (await anywhere.connect(served)).ask("/", "Token: good-4")
        assert problem(reply) == (503, "ACCESS_BUSY")
        assert reply.head.one("Retry-After") == "1"
        hook.gate.set()
        for client in waiting:
            assert (await client.head()).status == 200
        assert (await (await anywhere.connect(served)).ask("/", "Token: good-4")).body == b"ok"


async def test_clients_that_leave_while_they_wait_leave_nothing(edge: Edges) -> None:
    hook = Hook(gate=asyncio.Event())
    async with ScriptedOrigin(Recorder()) as upstream:
        route = edge.gateway(upstream.url).native("/", authorise=hook, decision_key=TOKEN)
        served = await edge.serve([route])
        clients = [await edge.connect(served) for _ in range(20)]
        for client in clients:
            await client.get("/", "Token: good-a")
        decisions = route.decisions
        assert decisions is not None
        assert hook.gate is not None
        await until(lambda: decisions.stats().joined == 19, "all wait")
        for client in clients[1:]:
            client.abort()
        await until(lambda: served.connections == 1, "they have left")
        hook.gate.set()
        assert (await clients[0].head()).status == 200
        await until(lambda: decisions.stats().running == 0, "nothing runs any more")


async def test_a_site_that_closes_keeps_no_request_waiting(edge: Edges) -> None:
    hook = Hook(gate=asyncio.Event())
    async with ScriptedOrigin(Recorder()) as upstream:
        route = edge.gateway(upstream.url).native("/", authorise=hook, decision_key=TOKEN)
        served = await edge.serve([route])
        client = await edge.connect(served)
        await client.get("/", "Token: good-a")
        await until(lambda: hook.asked, "it is asked")
        served.native.close()
        assert (await in_time(client.head())).status == 503
        client.abort()
        await until(lambda: served.connections == 0, "it has ended")
        assert hook.gate is not None
        hook.gate.set()


async def test_a_site_keeps_the_hook_of_its_route(edge: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as upstream:
        served = await edge.serve(
            [edge.gateway(upstream.url).native("/", authorise=Hook(), decision_key=TOKEN)]
        )
        client = await edge.connect(served)
        assert (await client.ask("/", "Token: good-a")).body == b"ok"
        # The site asks for as long as it has the route.
        gc.collect()
        assert (await client.ask("/", "Token: good-b")).body == b"ok"
