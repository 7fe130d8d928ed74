"""What a tenant may have is counted over all engine threads and all clients on its account."""

import asyncio
from dataclasses import dataclass, field

import pytest

import penstock
from penstock.config import Access, TenantLimits
from penstock.testing import Peer, ScriptedOrigin, respond
from penstock.web import Allow, NativeRoute, TenantStats
from support.client import RawClient, Reply, answer
from support.edges import Edges, Served
from support.hooks import TOKEN, Hook, problem
from support.origins import Recorder, Steps
from support.subscribers import Topics
from support.waiting import in_time, until

EVENTS = answer("Transfer-Encoding: chunked", "Content-Type: text/event-stream")


def route_to(edge: Edges, url: str, hook: Hook | None = None, **limits: object) -> NativeRoute:
    access = Access(tenant_limits=TenantLimits(**limits))  # type: ignore[arg-type]
    return edge.gateway(url).native("/", authorise=hook or Hook(), decision_key=TOKEN, access=access)


@dataclass
class Halves:
    """An origin that sends the head and the first half of a body, and the second when the test says so."""

    first: bytes
    second: bytes
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(answer(f"Content-Length: {len(self.first + self.second)}", body=self.first))
            await self.go.wait()
            await peer.send(self.second)


async def ask(edge: Edges, served: Served, tenant: str) -> Reply:
    return await (await edge.connect(served)).ask("/", f"Token: good-{tenant}")


def stats(route: NativeRoute, tenant: str) -> TenantStats:
    assert route.decisions is not None
    return route.decisions.tenants()[tenant]


async def test_a_tenant_has_so_many_requests_at_a_time_on_all_threads(anywhere: Edges) -> None:
    halves = Halves(b"o", b"k")
    async with ScriptedOrigin(halves) as upstream:
        route = route_to(anywhere, upstream.url, streams=3)
        served = await anywhere.serve([route])
        clients = [await anywhere.connect(served) for _ in range(3)]
        for client in clients:
            await client.get("/", "Token: good-a")
            await in_time(client.head())
        refused = await ask(anywhere, served, "a")
        assert problem(refused) == (429, "TENANT_LIMITED")
        assert refused.head.one("Retry-After") == "1"
        assert (stats(route, "a").active, stats(route, "a").refused) == (3, 1)
        other = await anywhere.connect(served)
        await other.get("/", "Token: good-b")
        assert (await in_time(other.head())).status == 200
        halves.go.set()
        for client in (*clients, other):
            assert await in_time(client.reader.readexactly(2)) == b"ok"
        await until(lambda: stats(route, "a").active == 0, "they have ended")
        assert (await ask(anywhere, served, "a")).body == b"ok"


async def test_a_tenant_has_so_many_requests_a_second(anywhere: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as upstream:
        route = route_to(anywhere, upstream.url, rate=1e-6, burst=3)
        served = await anywhere.serve([route])
        for _ in range(3):
            assert (await ask(anywhere, served, "a")).body == b"ok"
        assert problem(await ask(anywhere, served, "a")) == (429, "TENANT_LIMITED")
        assert (await ask(anywhere, served, "b")).body == b"ok"
        await until(lambda: stats(route, "a") == TenantStats(0, 3, 1, 6), "all is counted")


async def test_a_tenant_that_has_had_its_total_is_refused_until_it_begins_anew(anywhere: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as upstream:
        route = route_to(anywhere, upstream.url, total=4)
        served = await anywhere.serve([route])
        for count in (2, 4):
            assert (await ask(anywhere, served, "a")).body == b"ok"
            await until(lambda count=count: stats(route, "a").bytes == count, "it is counted")
        assert problem(await ask(anywhere, served, "a")) == (403, "TENANT_EXHAUSTED")
        assert (await ask(anywhere, served, "b")).body == b"ok"
        assert route.decisions is not None
        assert route.decisions.renew("a")
        assert not route.decisions.renew("no tenant")
        assert (await ask(anywhere, served, "a")).body == b"ok"


async def test_what_runs_beyond_the_total_is_cut_visibly(edge: Edges) -> None:
    steps = Steps(answer("Content-Length: 12"))
    async with ScriptedOrigin(steps) as upstream:
        route = route_to(edge, upstream.url, total=6)
        client = await edge.connect(await edge.serve([route]))
        await client.get("/", "Token: good-a")
        await in_time(client.head())
        for _ in range(2):
            steps.pieces.put_nowait(b"1234")
            assert await in_time(client.reader.readexactly(4)) == b"1234"
        steps.pieces.put_nowait(b"1234")
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await in_time(client.reader.readexactly(4))
        assert stats(route, "a").bytes == 8


async def test_bodies_are_sent_no_faster_than_the_tenant_may_have_them(anywhere: Edges) -> None:
    halves = Halves(b"x" * 100, b"y" * 102)
    async with ScriptedOrigin(halves) as upstream:
        # What has come at first is the bandwidth of more than a minute.
        route = route_to(anywhere, upstream.url, bandwidth=1)
        served = await anywhere.serve([route])
        slow, other = await anywhere.connect(served), await anywhere.connect(served)
        await slow.get("/", "Token: good-a")
        await in_time(slow.head())
        assert await in_time(slow.reader.readexactly(100)) == halves.first
        halves.go.set()
        await other.get("/", "Token: good-b")
        assert (await in_time(other.head())).status == 200
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(slow.reader.read(1), 0.2)
        assert stats(route, "a").bytes == 100


async def test_what_is_paced_comes_whole(anywhere: Edges) -> None:
    body = bytes(range(256)) * 2048
    async with ScriptedOrigin(respond(answer(f"Content-Length: {len(body)}", body=body))) as upstream:
        route = route_to(anywhere, upstream.url, bandwidth=1 << 20)
        served = await anywhere.serve([route])
        clients = [await anywhere.connect(served) for _ in range(3)]
        for client in clients:
            await client.get("/", "Token: good-a")

        async def received(client: RawClient) -> bytes:
            return await client.body(await client.head())

        assert await in_time(asyncio.gather(*map(received, clients))) == [body] * 3
        await until(lambda: stats(route, "a").bytes == 3 * len(body), "all is counted")


async def test_a_decision_has_limits_of_its_own(edge: Edges) -> None:
    hook = Hook(allowed={"limits": TenantLimits(total=2)})
    async with ScriptedOrigin(Recorder()) as upstream:
        route = route_to(edge, upstream.url, hook, total=1000)
        served = await edge.serve([route])
        assert (await ask(edge, served, "a")).body == b"ok"
        await until(lambda: stats(route, "a").bytes == 2, "it is counted")
        assert problem(await ask(edge, served, "a")) == (403, "TENANT_EXHAUSTED")


async def test_event_streams_are_counted_as_they_go(edge: Edges) -> None:
    steps = Steps(EVENTS)
    async with ScriptedOrigin(steps) as upstream:
        route = route_to(edge, upstream.url)
        client = await edge.connect(await edge.serve([route]))
        await client.get("/", "Token: good-a")
        await in_time(client.head())
        steps.pieces.put_nowait(b"9\r\ndata: 1\n\n\r\n")
        assert await in_time(client.chunk()) == b"data: 1\n\n"
        assert (stats(route, "a").active, stats(route, "a").bytes) == (1, 9)


@pytest.mark.parametrize("limits", [{}, {"total": 1 << 30}], ids=["open", "limited"])
async def test_subscriptions_are_on_the_account_of_their_tenant(edge: Edges, limits: dict[str, int]) -> None:
    topics = Topics(edge)
    hub = topics.hub()
    access = Access(tenant_limits=TenantLimits(streams=1, **limits))
    route = hub.native("/events/", authorise=Hook(), decision_key=TOKEN, access=access)
    served = await edge.serve([route])
    decisions = route.decisions
    assert decisions is not None
    client = await edge.connect(served)
    await client.get("/events/news", "Token: good-a")
    assert (await in_time(client.head())).status == 200
    refused = await (await edge.connect(served)).ask("/events/news", "Token: good-a")
    assert problem(refused) == (429, "TENANT_LIMITED")
    for number in range(3):
        await hub.publish("news", str(number))
        assert b"data: " in await in_time(client.chunk())
    hub.close()
    assert await in_time(client.chunk()) == b""
    await until(lambda: decisions.tenants()["a"].active == 0, "it has ended")
    assert decisions.tenants()["a"].bytes > 30


async def test_tenants_are_bounded_and_those_of_whom_nothing_is_remembered_leave(edge: Edges) -> None:
    hook = Hook()
    async with ScriptedOrigin(Recorder()) as upstream:
        gateway = edge.gateway(upstream.url)
        route = gateway.native("/", authorise=hook, decision_key=TOKEN, access=Access(tenants=2))
        served = await edge.serve([route])
        decisions = route.decisions
        assert decisions is not None
        for tenant in "ab":
            assert (await ask(edge, served, tenant)).body == b"ok"
        assert problem(await ask(edge, served, "c")) == (503, "TOO_MANY_TENANTS")
        decisions.revoke(tenant="a")
        assert (await ask(edge, served, "c")).body == b"ok"
        assert sorted(decisions.tenants()) == ["b", "c"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: TenantLimits(streams=0),
        lambda: TenantLimits(rate=0),
        lambda: TenantLimits(burst=0),
        lambda: TenantLimits(bandwidth=0),
        lambda: TenantLimits(total=-1),
        lambda: Access(tenants=0),
        lambda: Allow(limits=TenantLimits()),
    ],
)
def test_limits_that_cannot_be_are_refused(make: object) -> None:
    with pytest.raises(penstock.ConfigurationError):
        make()  # type: ignore[operator]
