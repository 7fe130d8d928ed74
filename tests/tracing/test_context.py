"""Which traces requests belong to, and what is passed on: W3C Trace Context."""

import pytest

from penstock.testing import ScriptedOrigin
from support.collector import CLIENT, SERVER

from .conftest import TRUSTING, Trace, one, say, sole

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def parent(flags: str = "01") -> str:
    return f"traceparent: 00-{TRACE}-{CALLER}-{flags}"


async def test_a_caller_that_is_trusted_has_the_request_in_its_trace(traced: Trace) -> None:
    async with traced(ratio=0.0) as edges, ScriptedOrigin(say()) as origin:
        served = await edges.relay(origin.url, edge=TRUSTING)
        await edges.fetched(served.port, "/", parent(), "tracestate: a=1", "TraceState: b@c=2")
        spans = await edges.collector.count(2)
        server, client = one(spans, SERVER), one(spans, CLIENT)
        assert (server.trace, server.parent, server.is_remote, server.state) == (
            TRACE,
            CALLER,
            True,
            "a=1,b@c=2",
        )
        assert (client.trace, client.parent, client.is_remote) == (TRACE, server.id, False)
        asked = sole(origin)
        assert asked.get("traceparent") == f"00-{TRACE}-{client.id}-01"
        assert asked.get("tracestate") == "a=1,b@c=2"


async def test_a_caller_that_is_trusted_keeps_a_trace_out(traced: Trace) -> None:
    async with traced(slowest=0) as edges, ScriptedOrigin(say()) as origin:
        served = await edges.relay(origin.url, edge=TRUSTING)
        await edges.fetched(served.port, "/", parent("00"))
        asked = sole(origin)
        told = asked.get("traceparent")
        assert told is not None
        assert (told[3:35], told[-2:]) == (TRACE, "00")
        await edges.fetched(served.port)
        spans = await edges.collector.count(2)
        assert TRACE not in {span.trace for span in spans}


async def test_any_other_caller_is_linked_to_and_decides_nothing(traced: Trace) -> None:
    async with traced(ratio=0.0, slowest=0) as edges, ScriptedOrigin(say()) as origin:
        served = await edges.relay(origin.url)
        await edges.fetched(served.port, "/", parent(), "tracestate: a=1")
        asked = sole(origin)
        told = asked.get("traceparent")
        assert told is not None
        assert told[3:35] != TRACE
        assert told[-2:] == "02"
        assert asked.get("tracestate") is None
    assert edges.collector.spans == []
    async with traced() as edges, ScriptedOrigin(say()) as origin:
        served = await edges.relay(origin.url)
        await edges.fetched(served.port, "/", parent())
        server = one(await edges.collector.count(2), SERVER)
        assert (server.parent, server.links) == ("", ((TRACE, CALLER),))


@pytest.mark.parametrize(
    "fields",
    [
        [parent().replace("00-", "ff-")],
        [parent()[:-1]],
        [parent().upper()],
        [parent(), parent()],
        ["tracestate: a=1"],
        [f"traceparent: 00-{'0' * 32}-{CALLER}-01"],
    ],
)
async def test_what_is_no_parent_is_none(traced: Trace, fields: list[str]) -> None:
    async with traced() as edges, ScriptedOrigin(say()) as origin:
        served = await edges.relay(origin.url, edge=TRUSTING)
        await edges.fetched(served.port, "/", *fields)
        server = one(await edges.collector.count(2), SERVER)
        assert (server.parent, server.links, server.state) == ("", (), "")
        asked = sole(origin)
        assert asked.get("tracestate") is None
        assert len([name for name, _ in asked.fields if name.lower() == "traceparent"]) == 1
