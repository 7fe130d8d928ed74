"""What a worker says of its relays, and what the parent makes of that."""

import asyncio
from dataclasses import fields, replace
from typing import Any, Final

import pytest

import penstock
from penstock import Hub, Origins, _native, config
from penstock.serving.relay_spec import HeaderEdits, RelaySpec
from penstock.web import Gateway
from penstock.workers import messages, plans
from penstock.workers.descriptions import Reference, SpecDescription
from support.family import Family


def spec_of(gateway: Gateway, **changes: Any) -> RelaySpec:
    """What `gateway` has its parent relay."""
    return replace(gateway.native("/").spec, **{"max_event": 1024, **changes})


SPEC: Final = spec_of(Gateway("http://127.0.0.1:9"))


async def test_a_description_is_what_was_said(family: Family) -> None:
    worker = await family.worker()
    with worker.inside():
        gateway = Gateway("http://127.0.0.1:9", unix="/run/origin")
    caching, events = config.Caching(lifetime=3), config.EventRelay(heartbeat=2)
    spec = spec_of(gateway, caching=caching, events=events, name="/film", max_event=65536)
    description = plans.Plans(worker.declared, gateway).describe(spec)
    relay = plans.read(description)
    assert isinstance(relay, plans.Relay)
    assert relay.gateway is None
    assert family.declarations._spec(relay.spec) == spec
    assert isinstance(family.declarations.plan(description), _native.Plan)


async def test_what_is_inspected_is_counted_by_the_gateway_of_the_parent(family: Family) -> None:
    worker = await family.worker()
    with worker.inside():
        gateway = Gateway("http://127.0.0.1:9")
    described = plans.Plans(worker.declared, gateway)
    spec = spec_of(gateway, name="/{model}", inspect=config.Inspection(usage=("cost",)))
    description = await asyncio.to_thread(described.describe, spec)
    number = await asyncio.to_thread(worker.declared.number, gateway)
    relay = plans.read(description)
    assert isinstance(relay, plans.Relay)
    assert relay.gateway == number
    assert described.describe(spec) is description
    others = [
        described.describe(replace(spec, inspect=config.Inspection())),
        described.describe(replace(spec, name="/{other}")),
    ]
    assert len({description, *others}) == 3
    assert isinstance(family.declarations.plan(description), _native.Plan)
    assert list(await asyncio.to_thread(gateway.stats)) == ["/{model}"]


async def test_subscriptions_are_described_by_hub_and_terms(family: Family) -> None:
    worker = await family.worker()
    with worker.inside():
        hub = Hub(engine=family.engine)
        origins = Origins(["http://127.0.0.1:9"])
    number = await asyncio.to_thread(worker.declared.number, hub)
    terms, described = config.Subscriptions(join="start", per_tenant=2), plans.Plans(worker.declared, hub)
    description = described.describe(terms)
    assert plans.read(description) == plans.Topics(number, terms)
    assert described.describe(config.Subscriptions(join="start", per_tenant=2)) is description
    assert described.describe(config.Subscriptions()) != description
    assert isinstance(family.declarations.plan(description), _native.Plan)
    other = plans.Plans(worker.declared, origins)
    description = await asyncio.to_thread(other.describe, config.Subscriptions(retry=1))
    with pytest.raises(penstock.ConfigurationError, match="no hub is declared"):
        family.declarations.plan(description)


async def test_a_description_is_made_once(family: Family) -> None:
    worker = await family.worker()
    with worker.inside():
        origins = Origins(["http://127.0.0.1:9"])
        gateway = Gateway(origins)
    described, spec = plans.Plans(worker.declared, gateway), spec_of(gateway)
    first = await asyncio.to_thread(described.describe, spec)
    assert described.describe(replace(spec)) is first
    assert described.describe(SPEC) != first


async def test_origins_that_no_route_has_are_declared_by_a_relay(family: Family) -> None:
    several = [await family.worker() for _ in range(2)]
    descriptions, kept = [], []
    for worker in several:
        with worker.inside():
            origins = Origins(["http://127.0.0.1:9", "http://127.0.0.1:10"], balance="least-loaded")
            gateway = Gateway(origins)
        # What no worker has any more is forgotten, and the next that is declared alike is another.
        kept.append(origins)
        described = plans.Plans(worker.declared, gateway)
        descriptions.append(await asyncio.to_thread(described.describe, spec_of(gateway)))
    assert descriptions[0] == descriptions[1]
    relay: Any = plans.read(descriptions[0])
    made: Any = family.declarations._object(relay.spec.fields["origin"].number)
    assert type(made) is Origins
    assert made._declaration()["balance"] == "least-loaded"
    assert isinstance(family.declarations.plan(descriptions[0]), _native.Plan)


def written(gateway: object = None, **changes: object) -> bytes:
    """A description as a worker that lies could write it."""
    parts = {field.name: getattr(SPEC, field.name) for field in fields(SPEC)}
    return messages.dump(plans.Relay(gateway, SpecDescription({**parts, **changes})))[messages.LENGTH :]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "description",
    [
        b"",
        b"no message",
        b"\x80\x05\x8c\x08builtins\x8c\x05print\x93.",
        messages.dump((None, {}))[messages.LENGTH :],
        written(origin=Reference(99)),
        written(origin="http://127.0.0.1:9"),
        written(max_event=-1),
        written(max_event=None),
        written(99, inspect=config.Inspection()),
        written(inspect=config.Inspection()),
        written(99, inspect=99),
        written(request=HeaderEdits((("X-A", 1),), ())),  # type: ignore[arg-type]
        written(surplus=1),
        messages.dump(plans.Topics(99, config.Subscriptions()))[messages.LENGTH :],
    ],
    ids=[
        *("empty", "no message", "code", "a row", "unknown origins", "no origin", "no length"),
        *(
            "without a length",
            "unknown gateway",
            "no gateway",
            "no inspection",
            "no edit",
            "surplus",
            "unknown hub",
        ),
    ],
)
async def test_what_is_no_description_is_refused(
    family: Family, description: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(penstock.ConfigurationError, match="a worker asks for"):
        family.declarations.plan(description)
    assert not capsys.readouterr().out


async def test_what_is_no_gateway_counts_nothing(family: Family) -> None:
    worker = await family.worker()
    with worker.inside():
        origins, gateway = Origins(["http://127.0.0.1:9"]), Gateway("http://127.0.0.1:9")
    for shared, inspection in ((origins, config.Inspection()), (gateway, "usage")):
        number = await asyncio.to_thread(worker.declared.number, shared)
        with pytest.raises(penstock.ConfigurationError, match="a worker asks for what is no relay"):
            family.declarations.plan(written(number, inspect=inspection))


async def test_a_plan_with_caching_wants_a_cache_of_the_parent(engine: penstock.Engine) -> None:
    family = Family(engine)
    worker = await family.worker()
    with worker.inside():
        gateway = Gateway("http://127.0.0.1:9")
    described = plans.Plans(worker.declared, gateway).describe(spec_of(gateway, caching=config.Caching()))
    with pytest.raises(penstock.ConfigurationError, match="the engine has no cache"):
        family.declarations.plan(described)
    await family.close()
