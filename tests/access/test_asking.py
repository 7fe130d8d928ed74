"""Who may is asked once for each key, and remembered for its time."""

import asyncio

import pytest

import penstock
from penstock.config import Access
from penstock.testing import ScriptedOrigin
from penstock.web import Allow, Deny, NativeRequest
from support.client import RawClient
from support.edges import Edges
from support.hooks import TOKEN, Hook, problem
from support.origins import Recorder
from support.waiting import in_time, until


async def test_a_hook_decides_and_is_asked_no_more(anywhere: Edges) -> None:
    origin, hook = Recorder(), Hook()
    async with ScriptedOrigin(origin) as upstream:
        route = anywhere.gateway(upstream.url).native("/", authorise=hook, decision_key=TOKEN, name="films")
        served = await anywhere.serve([route])
        client = await anywhere.connect(served)
        for number in range(5):
            assert (await client.ask(f"/{number}?a=%41", "Token: good-a")).body == b"ok"
        assert len(origin.arrivals) == 5
        (request,) = hook.asked
        assert (request.method, request.path, request.route) == ("GET", "/0", "films")
        assert (str(request.url), request.host, request.remote) == ("/0?a=%41", "gateway.test", "127.0.0.1")
        assert request.headers["token"] == "good-a"
        for _ in range(3):
            refused = await (await anywhere.connect(served)).ask("/", "Token: bad")
            assert problem(refused) == (403, "ACCESS_DENIED")
        assert len(origin.arrivals) == 5, "the origin hears nothing of who may not"
        assert hook.tokens == ["good-a", "bad"]
        assert route.decisions is not None
        stats = route.decisions.stats()
        assert (stats.allowed, stats.denied, stats.asked, stats.open) == (1, 1, 2, 0)
        assert (stats.hits, stats.denied_hits) == (4, 2)


@pytest.mark.parametrize("path", ["//admin/x", "/a//x", "///admin/x", "//admin@host:1/x", "//"])
async def test_a_hook_sees_the_path_that_the_origin_is_asked_for(anywhere: Edges, path: str) -> None:
    origin, hook = Recorder(), Hook()
    async with ScriptedOrigin(origin) as upstream:
        route = anywhere.gateway(upstream.url).native("/", authorise=hook, decision_key=TOKEN)
        client = await anywhere.connect(await anywhere.serve([route]))
        assert (await client.ask(f"{path}?a=%41", "Token: good-a")).body == b"ok"
        (arrival,), (request,) = origin.arrivals, hook.asked
        assert arrival.head.target == f"{path}?a=%41"
        assert (request.path, request.url.path, request.url.host) == (path, path, None)
        assert request.url.query_string == "a=A"


async def test_a_thousand_who_come_at_once_ask_once(edge: Edges) -> None:
    hook = Hook(gate=asyncio.Event())
    async with ScriptedOrigin(Recorder()) as upstream:
        route = edge.gateway(upstream.url).native("/", authorise=hook, decision_key=TOKEN)
        served = await edge.serve([route])
        decisions = route.decisions
        assert decisions is not None
        assert hook.gate is not None
        clients = [await edge.connect(served) for _ in range(1000)]
        for client in clients:
            await client.get("/", "Token: good-a")
        await until(lambda: decisions.stats().joined == 999, "all but one wait for the decision of the first")
        hook.gate.set()

        async def answered(client: RawClient) -> bytes:
            return await client.body(await client.head())

        bodies = await in_time(asyncio.gather(*map(answered, clients)))
        assert bodies == [b"ok"] * 1000
        assert (hook.tokens, decisions.stats().asked) == (["good-a"], 1)


async def test_the_decision_is_remembered_though_its_client_has_left(edge: Edges) -> None:
    hook = Hook(gate=asyncio.Event())
    async with ScriptedOrigin(Recorder()) as upstream:
        route = edge.gateway(upstream.url).native("/", authorise=hook, decision_key=TOKEN)
        served = await edge.serve([route])
        client = await edge.connect(served)
        await client.get("/", "Token: good-a")
        await until(lambda: hook.asked, "it is asked")
        client.abort()
        await until(lambda: served.connections == 0, "it has left")
        assert route.decisions is not None
        assert hook.gate is not None
        hook.gate.set()
        await until(lambda: route.decisions.stats().allowed == 1, "it is remembered")
        assert (await (await edge.connect(served)).ask("/", "Token: good-a")).body == b"ok"
        assert len(hook.asked) == 1


@pytest.mark.parametrize("allowed", [True, False, None, Allow(), Deny(lifetime=60)], ids=repr)
@pytest.mark.parametrize("is_coroutine", [True, False])
async def test_what_a_hook_may_say(
    edge: Edges, allowed: Allow | Deny | bool | None, is_coroutine: bool
) -> None:
    asked = []

    def hook(request: NativeRequest) -> Allow | Deny | bool | None:
        asked.append(request)
        return allowed

    async def coroutine(request: NativeRequest) -> Allow | Deny | bool | None:
        return hook(request)

    async with ScriptedOrigin(Recorder()) as upstream:
        gateway = edge.gateway(upstream.url)
        chosen = coroutine if is_coroutine else hook
        served = await edge.serve([gateway.native("/", authorise=chosen, decision_key=TOKEN)])
        expected = 200 if allowed is True or isinstance(allowed, Allow) else 403
        for _ in range(2):
            assert (await (await edge.connect(served)).ask("/")).head.status == expected
        assert len(asked) == 1


async def test_a_refusal_says_what_the_hook_says(anywhere: Edges) -> None:
    hook = Hook(denied={"status": 401, "detail": 'Log in to "see" it.', "challenge": 'Bearer realm="films"'})
    async with ScriptedOrigin(Recorder()) as upstream:
        route = anywhere.gateway(upstream.url).native("/", authorise=hook, decision_key=TOKEN)
        served = await anywhere.serve([route])
        for _ in range(2):
            reply = await (await anywhere.connect(served)).ask("/")
            assert problem(reply) == (401, "ACCESS_DENIED")
            assert b'"detail": "Log in to \\"see\\" it."' in reply.body
            assert reply.head.one("WWW-Authenticate") == 'Bearer realm="films"'
            assert reply.head.one("Cache-Control") == "no-store"
        refused = await (await anywhere.connect(served)).ask("/", method="HEAD")
        assert (refused.head.status, refused.body) == (401, b"")


async def test_a_decision_is_asked_for_again_when_its_time_is_over(anywhere: Edges) -> None:
    hook = Hook(allowed={"lifetime": 0}, denied={"lifetime": 0})
    async with ScriptedOrigin(Recorder()) as upstream:
        route = anywhere.gateway(upstream.url).native("/", authorise=hook, decision_key=TOKEN)
        served = await anywhere.serve([route])
        for _ in range(3):
            assert (await (await anywhere.connect(served)).ask("/", "Token: good-a")).body == b"ok"
            assert (await (await anywhere.connect(served)).ask("/", "Token: bad")).head.status == 403
        assert hook.tokens == ["good-a", "bad"] * 3


async def test_what_runs_out_is_asked_for_again(edge: Edges) -> None:
    hook = Hook()
    async with ScriptedOrigin(Recorder()) as upstream:
        route = edge.gateway(upstream.url).native("/", authorise=hook, decision_key=TOKEN, lifetime=0.05)
        client = await edge.connect(await edge.serve([route]))
        end = asyncio.get_running_loop().time() + 10
        while len(hook.asked) < 3:
            assert (await client.ask("/", "Token: good-a")).body == b"ok"
            assert asyncio.get_running_loop().time() < end


async def test_a_body_is_asked_for_when_its_request_has_been_let_in(edge: Edges) -> None:
    hook, origin = Hook(gate=asyncio.Event()), Recorder()
    async with ScriptedOrigin(origin) as upstream:
        route = edge.gateway(upstream.url).native("/", authorise=hook, decision_key=TOKEN)
        served = await edge.serve([route])
        client = await edge.connect(served)
        await client.get("/", "Token: good-a", "Content-Length: 4", "Expect: 100-continue", method="POST")
        await until(lambda: hook.asked, "it is asked")
        assert hook.gate is not None
        hook.gate.set()
        assert (await client.head()).status == 100
        await client.send(b"body")
        assert (await client.head()).status == 200
        assert origin.arrivals[0].body == b"body"
        refused = await edge.connect(served)
        await refused.get("/", "Token: bad", "Content-Length: 4", "Expect: 100-continue", method="POST")
        assert (await refused.head()).status == 403


async def test_routes_share_what_is_remembered_and_ask_for_themselves(anywhere: Edges) -> None:
    hook = Hook()
    async with ScriptedOrigin(Recorder()) as upstream:
        gateway = anywhere.gateway(upstream.url)
        films = gateway.native("/films/", authorise=hook, decision_key=TOKEN)
        live = gateway.native("/live/", authorise=films.decisions)
        assert live.decisions is films.decisions
        assert films.decisions is not None
        served = await anywhere.serve([films, live])
        client = await anywhere.connect(served)
        for path in ("/films/1", "/live/1", "/films/2", "/live/2"):
            assert (await client.ask(path, "Token: good-a")).body == b"ok"
        assert [request.route for request in hook.asked] == ["/films/", "/live/"]
        assert films.decisions.revoke(tenant="a").decisions == 2


def lets_in(_: NativeRequest) -> bool:
    return True


@pytest.mark.parametrize(
    "options",
    [
        {"authorise": lets_in},
        {"authorise": lets_in, "decision_key": ()},
        {"authorise": lets_in, "decision_key": "Authorization"},
        {"authorise": lets_in, "decision_key": "header:"},
        {"authorise": lets_in, "decision_key": "header:a b"},
        {"authorise": lets_in, "decision_key": "path:0"},
        {"authorise": lets_in, "decision_key": "path:x"},
        {"authorise": lets_in, "decision_key": ("address", "colour:red")},
        {"authorise": 7, "decision_key": "address"},
        {"decision_key": "address"},
        {"lifetime": 5},
        {"access": Access()},
        {"authorise": lets_in, "decision_key": "address", "lifetime": 0},
    ],
    ids=lambda options: repr({name: getattr(value, "__name__", value) for name, value in options.items()}),
)
async def test_what_cannot_be_meant_is_refused(engine: penstock.Engine, options: dict[str, object]) -> None:
    gateway = penstock.web.Gateway("http://origin.test", engine=engine)
    with pytest.raises(penstock.ConfigurationError):
        gateway.native("/", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (Allow, {"tenant": ""}),
        (Allow, {"lifetime": -1}),
        (Deny, {"status": 200}),
        (Deny, {"status": 401}),
        (Deny, {"challenge": "a\r\nb"}),
        (Access, {"questions": 0}),
        (Access, {"timeout": 0}),
    ],
    ids=repr,
)
def test_answers_that_cannot_be_are_refused(make: type, options: dict[str, object]) -> None:
    with pytest.raises(penstock.ConfigurationError):
        make(**options)
