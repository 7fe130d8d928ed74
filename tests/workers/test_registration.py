"""What a worker declares is what the parent serves: every option of a route, and all that routes are made of."""

import asyncio
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from aiohttp import web

import penstock
from penstock import Hub, Origins, config
from penstock.serving.relay_spec import RelaySpec
from penstock.testing import ScriptedOrigin
from penstock.tokens import Jwks, Jwt, Key, SignedUrl
from penstock.web import Gateway, NativeRequest, RelayEnd
from penstock.web.native import NativeRoute
from penstock.web.topics import TopicsRoute
from penstock.workers import messages
from penstock.workers.descriptions import Code, Reference, SpecDescription
from penstock.workers.registration import ROUTES, RouteDescription
from support.family import Family, Worker
from support.origins import Recorder
from support.waiting import until

SECRET = "a secret of sixteen bytes, and some more"


def told(_: RelayEnd) -> None:
    """Is told the ends of requests."""


def denied(_: NativeRequest) -> bool:
    return False


# What each option of a route is given, where that is not its default.
RELAY: dict[str, Any] = {
    "prefix": "/vod/",
    "host": "media.example",
    "origin": "http://127.0.0.1:9/base",
    "rewrite": "/other/",
    "headers": {"X-One": "1", "X-Gone": None},
    "add_headers": [("X-Two", "2")],
    "response_headers": {"X-Three": "3"},
    "add_response_headers": [("X-Four", "4")],
    "timeouts": config.Timeouts(connect=1.5),
    "limits": config.RouteLimits(concurrency=7, rate=3.5),
    "drain": "1MiB",
    "events": config.EventRelay(heartbeat=3, drain=config.Drain(concurrency=2)),
    "caching": config.Caching(lifetime=60, tags=("film",)),
    "on_complete": told,
    "tenant": "a tenant",
    "authorise": denied,
    "decision_key": ("header:Token", "path:1"),
    "lifetime": 7,
    "name": "films",
}
INSPECTED: dict[str, Any] = {
    "prefix": "/model/",
    "inspect": config.Inspection(amend={"stream_options": {"include_usage": True}}),
}


def parts_of(route: Any) -> dict[str, Any]:
    """All that a route is made of, with what is shared as what it was declared with."""
    parts = {field.name: getattr(route, field.name) for field in fields(route)}
    spec = parts.pop("spec", None)
    if spec is not None:
        parts |= {field.name: getattr(spec, field.name) for field in fields(spec)}
    return {name: plain(value) for name, value in parts.items()}


def plain(value: Any) -> Any:
    shared = hasattr(value, "_declaration")
    if shared:
        return {name: plain(part) for name, part in value._declaration().items()}
    return "code" if callable(value) else value


def restored(family: Family, description: RouteDescription) -> Any:
    """The route that the parent makes of a description that went over a link."""
    parts: dict[str, Any] = {}
    for name, value in description.fields.items():
        if isinstance(value, Reference):
            parts[name] = family.declarations._object(value.number)
        elif isinstance(value, SpecDescription):
            parts[name] = family.declarations._spec(value)
        else:
            parts[name] = value
    parts = {name: told if isinstance(value, Code) else value for name, value in parts.items()}
    return ROUTES[description.kind](**parts)


def over_the_wire(value: Any) -> Any:
    return messages.load(messages.dump(value)[messages.LENGTH :])


async def one_description(worker: Worker, *routes: web.AbstractRouteDef) -> RouteDescription:
    app = web.Application()
    app.add_routes(routes)
    registration = await worker.describe(app)
    (description,) = over_the_wire(registration).routes
    return description


@pytest.mark.parametrize("options", [RELAY, INSPECTED], ids=["relay", "inspected"])
async def test_every_option_of_a_relay_is_there(family: Family, options: dict[str, Any]) -> None:
    worker = await family.worker()
    with worker.inside():
        route = Gateway("http://127.0.0.1:9", timeouts=config.Timeouts(total=9)).native(**options)
    description = await one_description(worker, route)
    assert parts_of(restored(family, description)) == parts_of(route)


async def test_no_option_of_a_route_is_left_out_of_that_test() -> None:
    given = Gateway("http://127.0.0.1:9").native("/")
    changed = {**parts_of(given)}
    # Of these there is one alone, whatever is asked for, or no default.
    for options in (RELAY, INSPECTED):
        allowed = {name: value for name, value in options.items() if name != "caching"}
        route = Gateway("http://127.0.0.1:9").native(**allowed)
        first, other = parts_of(given), parts_of(route)
        for name in first:
            if first[name] != other[name]:
                changed.pop(name, None)
    assert set(changed) == {"gateway", "unix", "forwarding", "caching", "max_event"}


@pytest.mark.parametrize("cls", [NativeRoute, RelaySpec, TopicsRoute])
def test_a_route_is_made_of_what_can_be_described(cls: type) -> None:
    """A part that is no argument of the class would be missing in the parent."""
    assert is_dataclass(cls)
    assert all(field.init for field in fields(cls))


async def test_gateways_are_there_with_what_they_were_given(family: Family) -> None:
    worker = await family.worker()
    options = {
        "forwarding": config.Forwarding(forwarded=True),
        "timeouts": config.Timeouts(total=9),
        "prefix": "/live",
        "max_event": "64KiB",
        "unix": "/run/origin",
        "caching": config.Caching(lifetime=5),
        "events": config.EventRelay(heartbeat=None),
    }
    with worker.inside():
        # It asks whether there is a cache.
        gateway = await asyncio.to_thread(lambda: Gateway("http://127.0.0.1:9/base", **options))  # type: ignore[arg-type]
    made: Any = family.declarations._object(await asyncio.to_thread(worker.declared.number, gateway))
    assert type(made) is Gateway
    assert made._engine is family.engine
    assert made._declaration() == {"origin": "http://127.0.0.1:9/base", "inspect": None, **options}
    assert parts_of(made.native("/live/")) == parts_of(gateway.native("/live/"))


KEYS = {"kty": "oct", "k": "c2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXMsIGFuZCBtb3Jl", "alg": "HS256", "kid": "a"}


@pytest.mark.parametrize(
    "verifying",
    [
        SignedUrl({"new": SECRET, "old": SECRET + "2"}, name="t", places=("query",), forward=True),
        Jwt(keys=(Key("HS256", SECRET, id="k"), KEYS), issuers="me", tenant="sub", required=("exp", "sub")),
        Jwt(jwks=Jwks("https://issuer.example/keys", usual=70.0), audiences=("you",), paths="/vod/{sub}/*"),
    ],
    ids=["signed", "keys", "jwks"],
)
async def test_what_verifies_is_there_with_its_keys(family: Family, verifying: Any) -> None:
    worker = await family.worker()
    with worker.inside():
        route = Gateway("http://127.0.0.1:9").native("/", authorise=verifying)
    decisions = restored(family, await one_description(worker, route)).decisions
    assert decisions._authorise == verifying
    assert decisions._authorise is not verifying
    assert not decisions.has_hook


async def test_origins_are_there_with_what_they_were_given(family: Family) -> None:
    worker = await family.worker()
    with worker.inside():
        origins = Origins(
            [config.Origin("http://127.0.0.1:9", weight=3), "http://127.0.0.1:10"],
            balance="hash",
            key="field:X-Key",
            health=config.Health(failures=2),
            check=config.Check(path="/well"),
            retries=config.Retries(tries=2),
            name="https://media.example",
        )
        route = Gateway(origins).native("/")
    made = restored(family, await one_description(worker, route)).spec.origin
    assert type(made) is Origins
    assert made is not origins
    assert made._declaration() == origins._declaration()


async def test_a_prefix_of_a_sub_application_is_the_parents_as_well(family: Family) -> None:
    worker = await family.worker()
    async with ScriptedOrigin(Recorder()) as upstream:
        with worker.inside():
            inner = web.Application()
            inner.add_routes([Gateway(upstream.url).native("/vod/", rewrite="/")])
        app = web.Application()
        app.add_subapp("/tv", inner)
        registration = await worker.describe(app)
        assert [route.key for route in registration.routes] == [(None, "/tv/vod/")]
        family.site.set_routes(family.declarations.routes(registration))
        client = await family.connect()
        assert (await client.ask("/tv/vod/7")).body == b"ok"


async def test_workers_of_one_code_declare_one_and_the_same(family: Family) -> None:
    registrations = []
    for _ in range(2):
        worker = await family.worker()
        with worker.inside():
            origins = Origins(["http://127.0.0.1:9", "http://127.0.0.1:10"])
            gateway = Gateway(origins)
            # Two that are alike are two, in every worker.
            routes = [
                gateway.native("/a/", authorise=denied, decision_key="address"),
                gateway.native("/b/", authorise=denied, decision_key="address"),
            ]
        app = web.Application()
        app.add_routes(routes)
        registrations.append(await worker.describe(app))
    first, second = registrations
    assert first == second
    one, other = (route.fields["decisions"] for route in first.routes)
    assert one != other


async def test_gateways_that_inspect_are_declared_without_a_route(family: Family) -> None:
    registrations, gateways = [], []
    for _ in range(2):
        worker = await family.worker()
        with worker.inside():
            # Two that are alike are two here as well, and of the others nothing is kept.
            gateways += [Gateway("http://127.0.0.1:9", inspect=config.Inspection()) for _ in range(2)]
            gateways.append(Gateway("http://127.0.0.1:9"))
        registrations.append(over_the_wire(await worker.describe(web.Application())))
    assert registrations[0] == registrations[1]
    assert len(set(registrations[0].kept)) == 2
    family.declarations.routes(registrations[0])
    for worker in list(family.born):
        await family.lose(worker)
    assert len(family.declarations._entries) == 2
    another = await family.worker()
    await family.serve(another)
    assert not family.declarations._entries
    with pytest.raises(penstock.ConfigurationError, match="has gone meanwhile: nothing is declared that is"):
        family.declarations.routes(registrations[0])


async def test_routes_that_workers_declare_are_served_without_them(family: Family) -> None:
    worker = await family.worker()
    async with ScriptedOrigin(Recorder()) as upstream:
        with worker.inside():
            route = Gateway(upstream.url).native("/vod/", response_headers={"X-Of": "the worker"})
        await family.serve(worker, route)
        await family.lose(worker)
        client = await family.connect()
        reply = await client.ask("/vod/7")
        assert (reply.body, reply.head.one("X-Of")) == (b"ok", "the worker")


async def test_hubs_of_workers_are_one(family: Family) -> None:
    workers = [await family.worker() for _ in range(2)]
    hubs = []
    for worker in workers:
        with worker.inside():
            hub = Hub(engine=family.engine, history=config.History(memory="64KiB"))
        hubs.append(hub)
        await family.serve(worker, hub.native("/events/"))
    assert await hubs[0].publish("news", "one", id="1")
    assert await hubs[1].publish("news", "two", id="2")
    assert await hubs[1].finish("news")
    client = await family.connect()
    reply = await client.ask("/events/news", "Last-Event-ID: 1")
    assert b"data: two" in reply.body
    assert b"data: one" not in reply.body
    assert await asyncio.to_thread(hubs[0].topics) == ["news"]
    stats = await asyncio.to_thread(hubs[0].stats)
    assert (stats.topics, stats.counts.events) == (1, 2)
    with pytest.raises(penstock.StateError, match="TOPIC_FINISHED"):
        await hubs[0].publish("news", "three")
    for hub in hubs:
        hub.close()
    assert await asyncio.to_thread(hubs[1].topics) == ["news"]


async def test_hubs_are_the_same_in_the_order_in_which_they_were_made(family: Family) -> None:
    """Whatever is used first, and by a route or not."""
    made = []
    for last_first in (False, True):
        worker = await family.worker()
        with worker.inside():
            hubs = [Hub(engine=family.engine) for _ in range(3)]
        if last_first:
            await asyncio.to_thread(worker.declared.number, hubs[2])
        await family.serve(worker, hubs[1].native("/events/"))
        made.append(hubs)
    for number in range(3):
        await made[0][number].publish(f"of {number}", "one")
        assert await asyncio.to_thread(made[1][number].topics) == [f"of {number}"]


async def test_hubs_without_a_route_outlive_the_workers_until_another_code_is_served(family: Family) -> None:
    old = await family.worker()
    with old.inside():
        hub = Hub(engine=family.engine)
    await family.serve(old)
    await hub.publish("news", "one")
    await family.lose(old)
    new = await family.worker()
    with new.inside():
        again = Hub(engine=family.engine)
    await family.serve(new)
    assert await asyncio.to_thread(again.topics) == ["news"]
    other = await family.worker()
    await family.serve(other)
    await family.lose(new)
    assert not [entry for entry in family.declarations._entries.values() if isinstance(entry.made, Hub)]


async def test_a_hub_that_a_request_makes_goes_with_it(family: Family) -> None:
    worker = await family.worker()
    await family.serve(worker)
    with worker.inside():
        hub = Hub(engine=family.engine)
    await asyncio.to_thread(worker.declared.number, hub)
    await hub.publish("news", "one")
    assert len(family.declarations._entries) == 1
    del hub
    await until(lambda: not family.declarations._entries, "the parent has released it")


async def test_what_cannot_go_to_another_process_is_refused(family: Family) -> None:
    worker = await family.worker()

    class Foreign(SignedUrl):
        pass

    with worker.inside():
        route = Gateway("http://127.0.0.1:9").native("/", authorise=Foreign(SECRET))
    with pytest.raises(TypeError, match="may not go over a link"):
        await one_description(worker, route)


async def test_the_parent_makes_nothing_but_what_may_be_declared(family: Family) -> None:
    worker = await family.worker()
    with pytest.raises(penstock.ConfigurationError, match="'engine' is nothing that a worker declares"):
        await worker.link.call("declare", "engine", {})
    with worker.inside():
        origins = Origins(["http://127.0.0.1:9"])
    number = await asyncio.to_thread(worker.declared.number, origins)
    with pytest.raises(RuntimeError, match="workers do not call '_take'"):
        await worker.link.call("shared", number, "_take", ((),), {})
    with pytest.raises(RuntimeError, match="nothing is declared that is called 99"):
        await worker.link.call("shared", 99, "stats", (), {})


async def test_a_route_with_caching_wants_a_cache_of_the_parent(engine: penstock.Engine) -> None:
    family = Family(engine)
    worker = await family.worker()
    with worker.inside():
        route = Gateway("http://127.0.0.1:9").native("/", caching=config.Caching())
        with pytest.raises(penstock.ConfigurationError, match="its parent's, which has none"):
            await asyncio.to_thread(penstock.Engine, memory="8MiB", cache=config.Cache(memory="1MiB"))
    with pytest.raises(penstock.ConfigurationError, match="has caching, and its engine no cache"):
        await family.serve(worker, route)
    await family.close()


async def test_what_is_about_to_be_served_stays_though_its_worker_goes(family: Family) -> None:
    worker = await family.worker()
    registrations = []
    for _ in range(2):
        with worker.inside():
            route = Gateway("http://127.0.0.1:9").native("/", authorise=denied, decision_key="address")
        app = web.Application()
        app.add_routes([route])
        registrations.append(await worker.describe(app))
        family.declarations.routes(registrations[-1])
        await family.lose(worker)
        worker = await family.worker()
    assert registrations[0] == registrations[1]
    family.declarations.serve(registrations[1])
    assert len(family.declarations._entries) == 2


async def test_a_registration_of_what_is_not_there_is_refused(family: Family) -> None:
    worker = await family.worker()
    with worker.inside():
        route = Gateway("http://127.0.0.1:9").native("/")
    app = web.Application()
    app.add_routes([route])
    registration = await worker.describe(app)
    await family.lose(worker)
    with pytest.raises(penstock.ConfigurationError, match="has gone meanwhile: nothing is declared that is"):
        family.declarations.routes(registration)
