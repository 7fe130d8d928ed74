"""What a worker says of its relays, and what the parent makes of that."""

import asyncio
from typing import Any

import pytest

import penstock
from penstock import Hub, Origins, _native, config
from penstock.framing import Events
from penstock.origins import Place
from penstock.web import Gateway
from penstock.workers import messages, plans
from support.family import Family

WHERE = Place("http", "127.0.0.1", 9, "")


async def test_a_description_is_what_was_said(family: Family) -> None:
    worker = await family.worker()
    described = plans.Plans(worker.declared, "/run/origin", Events(max_frame="64KiB", blocks=True))
    caching, events = config.Caching(lifetime=3), config.EventRelay(heartbeat=2)
    description = described.describe(WHERE, caching, events, "/film")
    assert plans.read(description) == plans.Relay(
        WHERE, "/run/origin", caching, "/film", events, "64KiB", None
    )
    assert isinstance(family.declarations.plan(description), _native.Plan)


async def test_what_is_inspected_is_counted_by_the_gateway_of_the_parent(family: Family) -> None:
    worker = await family.worker()
    inspection = config.Inspection(usage=("cost",))
    with worker.inside():
        gateway = Gateway("http://127.0.0.1:9")
    described = plans.Plans(worker.declared, None, Events(blocks=True))
    description = await asyncio.to_thread(
        described.describe, WHERE, None, None, "/{model}", (gateway, inspection)
    )
    number = await asyncio.to_thread(worker.declared.number, gateway)
    assert plans.read(description)[3:] == ("/{model}", None, "1MiB", (number, inspection))
    assert described.describe(WHERE, None, None, "/{model}", (gateway, inspection)) is description
    others = [
        described.describe(WHERE, None, None, "/{model}", (gateway, config.Inspection())),
        described.describe(WHERE, None, None, "/{other}", (gateway, inspection)),
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
    terms, described = config.Subscriptions(join="start", per_tenant=2), plans.TopicsPlans()
    description = described.describe(number, terms)
    assert plans.read(description) == plans.Topics(number, terms)
    assert described.describe(number, config.Subscriptions(join="start", per_tenant=2)) is description
    assert described.describe(number, config.Subscriptions()) != description
    assert isinstance(family.declarations.plan(description), _native.Plan)
    other = await asyncio.to_thread(worker.declared.number, origins)
    with pytest.raises(penstock.ConfigurationError, match="no hub is declared"):
        family.declarations.plan(described.describe(other, config.Subscriptions(retry=1)))


async def test_a_description_is_made_once(family: Family) -> None:
    worker = await family.worker()
    with worker.inside():
        origins = Origins(["http://127.0.0.1:9"])
    described = plans.Plans(worker.declared, None, Events(blocks=True))
    first = await asyncio.to_thread(described.describe, origins, None, None, "")
    assert described.describe(origins, None, None, "") is first
    assert described.describe(WHERE, None, None, "") != first


async def test_origins_that_no_route_has_are_declared_by_a_relay(family: Family) -> None:
    several = [await family.worker() for _ in range(2)]
    descriptions, kept = [], []
    for worker in several:
        with worker.inside():
            origins = Origins(["http://127.0.0.1:9", "http://127.0.0.1:10"], balance="least-loaded")
        # What nobody has any more is forgotten, and the next that is declared alike is another.
        kept.append(origins)
        described = plans.Plans(worker.declared, None, Events(blocks=True))
        descriptions.append(await asyncio.to_thread(described.describe, origins, None, None, ""))
    assert descriptions[0] == descriptions[1]
    number: Any = plans.read(descriptions[0])[0]
    made: Any = family.declarations._object(number)
    assert type(made) is Origins
    assert made._declaration()["balance"] == "least-loaded"
    assert isinstance(family.declarations.plan(descriptions[0]), _native.Plan)


def written(*row: object) -> bytes:
    return messages.dump(plans.Relay(*row))[messages.LENGTH :]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "description",
    [
        b"",
        b"no message",
        b"\x80\x05\x8c\x08builtins\x8c\x05print\x93.",
        messages.dump((WHERE, None, None, "", None, 1, None))[messages.LENGTH :],
        written(99, None, None, "", None, 1, None),
        written("http://127.0.0.1:9", None, None, "", None, 1, None),
        written(WHERE, None, None, "", None, -1, None),
        written(WHERE, None, None, "", None, 1, (99, config.Inspection())),
        written(WHERE, None, None, "", None, 1, (99,)),
        written(WHERE, None, None, "", None, 1, 99),
        messages.dump(plans.Topics(99, config.Subscriptions()))[messages.LENGTH :],
    ],
    ids=[
        *("empty", "no message", "code", "a row", "unknown origins", "no origin", "no length"),
        *("unknown gateway", "half an inspection", "no inspection", "unknown hub"),
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
            family.declarations.plan(written(WHERE, None, None, "", None, 1024, (number, inspection)))


async def test_a_plan_with_caching_wants_a_cache_of_the_parent(engine: penstock.Engine) -> None:
    family = Family(engine)
    worker = await family.worker()
    described = plans.Plans(worker.declared, None, Events(blocks=True))
    with pytest.raises(penstock.ConfigurationError, match="the engine has no cache"):
        family.declarations.plan(described.describe(WHERE, config.Caching(), None, "/film"))
    await family.close()
