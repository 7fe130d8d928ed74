"""What is revoked is so on every engine thread before the call returns, also where it runs."""

import asyncio

import pytest

import penstock
from penstock.testing import ScriptedOrigin
from penstock.web import Allow, Deny, NativeRequest
from support.client import RawClient, answer
from support.edges import Edges
from support.hooks import TOKEN, Hook
from support.origins import Recorder, Steps
from support.waiting import in_time, until

EVENTS = answer("Transfer-Encoding: chunked", "Content-Type: text/event-stream")


async def many(edge: Edges, served: object, tokens: list[str]) -> list[RawClient]:
    """Clients on all engine threads, each of which has been let in."""
    clients = [await edge.connect(served) for _ in tokens]  # type: ignore[arg-type]
    for client, token in zip(clients, tokens, strict=True):
        assert (await client.ask("/", f"Token: {token}")).body == b"ok"
    return clients


@pytest.mark.parametrize(
    ("whose", "left"),
    [({"key": "good-a"}, ["good-b"]), ({"tenant": "a"}, ["good-b"]), ({"everybody": True}, [])],
    ids=repr,
)
async def test_a_revoked_decision_admits_no_further_request(
    anywhere: Edges, whose: dict[str, object], left: list[str]
) -> None:
    banned: set[str] = set()

    def hook(request: NativeRequest) -> Allow | Deny:
        token = str(request.key[0])
        asked.append(token)
        return Deny() if token in banned else Allow(token.removeprefix("good-"))

    asked: list[str] = []
    async with ScriptedOrigin(Recorder()) as upstream:
        route = anywhere.gateway(upstream.url).native("/", authorise=hook, decision_key=TOKEN)
        served = await anywhere.serve([route])
        tokens = ["good-a", "good-b"] * 4
        clients = await many(anywhere, served, tokens)
        assert asked == ["good-a", "good-b"]
        banned |= {"good-a"}
        assert route.decisions is not None
        assert route.decisions.revoke(**whose).decisions == 2 - len(left)  # type: ignore[arg-type]
        for client, token in zip(clients, tokens, strict=True):
            assert (await client.ask("/", f"Token: {token}")).head.status == (403 if token in banned else 200)
        assert asked[2:] == ["good-a", *(["good-b"] if not left else [])]


async def test_an_answer_to_what_was_asked_before_is_not_remembered(edge: Edges) -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    answers: list[Allow | Deny] = [Allow("a"), Deny()]
    asked = 0

    async def hook(_: NativeRequest) -> Allow | Deny:
        nonlocal asked
        number = asked
        asked += 1
        await gates[number].wait()
        return answers[number]

    async with ScriptedOrigin(Recorder()) as upstream:
        route = edge.gateway(upstream.url).native("/", authorise=hook, decision_key=TOKEN)
        served = await edge.serve([route])
        decisions = route.decisions
        assert decisions is not None
        client = await edge.connect(served)
        await client.get("/", "Token: x")
        await until(lambda: asked == 1, "it is asked")
        decisions.revoke(key="x")
        await until(lambda: asked == 2, "it is asked anew")
        gates[0].set()
        await until(lambda: decisions.stats().open == 1, "the first answer has come")
        assert decisions.stats().allowed == 0
        gates[1].set()
        assert (await in_time(client.head())).status == 403


async def test_a_revoked_event_stream_ends_after_a_whole_event(edge: Edges) -> None:
    steps = Steps(EVENTS)
    async with ScriptedOrigin(steps) as upstream:
        route = edge.gateway(upstream.url).native("/", authorise=Hook(), decision_key=TOKEN)
        served = await edge.serve([route])
        client = await edge.connect(served)
        await client.get("/", "Token: good-a")
        assert (await in_time(client.head())).status == 200
        steps.pieces.put_nowait(b"d\r\ndata: 1\n\ndata\r\n")
        assert await in_time(client.chunk()) == b"data: 1\n\n"
        assert route.decisions is not None
        assert route.decisions.stats().running == 1
        assert route.decisions.revoke(tenant="a") == (1, 1)
        assert await in_time(client.rest()) == b"0\r\n\r\n"
        await until(lambda: route.decisions.stats().running == 0, "it runs no more")


async def test_a_revoked_body_ends_visibly_before_its_end(anywhere: Edges) -> None:
    steps = Steps(answer("Content-Length: 4"))
    async with ScriptedOrigin(steps) as upstream:
        route = anywhere.gateway(upstream.url).native("/", authorise=Hook(), decision_key=TOKEN)
        client = await anywhere.connect(await anywhere.serve([route]))
        await client.get("/", "Token: good-a")
        steps.pieces.put_nowait(b"ab")
        await in_time(client.head())
        assert await in_time(client.reader.readexactly(2)) == b"ab"
        assert route.decisions is not None
        assert route.decisions.revoke(key="good-a", running="cut") == (1, 1)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await in_time(client.reader.readexactly(2))


async def test_what_may_go_on_does_and_nothing_new_begins(anywhere: Edges) -> None:
    steps = Steps(answer("Content-Length: 4"))
    async with ScriptedOrigin(steps) as upstream:
        route = anywhere.gateway(upstream.url).native("/", authorise=Hook(), decision_key=TOKEN)
        client = await anywhere.connect(await anywhere.serve([route]))
        await client.get("/", "Token: good-a")
        steps.pieces.put_nowait(b"ab")
        await in_time(client.head())
        assert await in_time(client.reader.readexactly(2)) == b"ab"
        assert route.decisions is not None
        assert route.decisions.revoke(everybody=True, running="go on") == (1, 0)
        steps.pieces.put_nowait(b"cd")
        assert await in_time(client.reader.readexactly(2)) == b"cd"


async def test_what_runs_by_a_decision_that_was_forgotten_is_cut_all_the_same(edge: Edges) -> None:
    steps = Steps(EVENTS)
    hook = Hook(allowed={"lifetime": 0})
    async with ScriptedOrigin(steps) as upstream:
        route = edge.gateway(upstream.url).native("/", authorise=hook, decision_key=TOKEN)
        client = await edge.connect(await edge.serve([route]))
        await client.get("/", "Token: good-a")
        assert (await in_time(client.head())).status == 200
        assert route.decisions is not None
        assert route.decisions.revoke(tenant="a") == (0, 1)
        assert await in_time(client.rest()) == b"0\r\n\r\n"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tenant": "a", "everybody": True},
        {"key": ("a", "b")},
        {"tenant": "a", "running": "stop"},
    ],
    ids=repr,
)
async def test_revocations_that_cannot_be_meant_are_refused(
    engine: penstock.Engine, options: dict[str, object]
) -> None:
    gateway = penstock.web.Gateway("http://origin.test", engine=engine)
    route = gateway.native("/", authorise=Hook(), decision_key=TOKEN)
    assert route.decisions is not None
    with pytest.raises(penstock.ConfigurationError):
        route.decisions.revoke(**options)  # type: ignore[arg-type]
