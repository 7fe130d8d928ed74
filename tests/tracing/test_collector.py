"""Collectors that are slow, refuse, or are not there: requests do not notice, and what is lost is counted."""

import threading
from typing import Any

import pytest
from prometheus_client import parser

from penstock import metrics
from penstock.config import Tracing
from penstock.exceptions import ConfigurationError
from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.collector import Collector
from support.command import serve
from support.waiting import until

from .conftest import Trace, Traced, say


def counts(edges: Traced) -> tuple[float, float]:
    """Spans that were kept, and spans that were dropped."""
    samples = {
        sample.name: sample.value
        for family in parser.text_string_to_metric_families(metrics.text(edges.engine))
        for sample in family.samples
        if sample.name.startswith("penstock_trace_spans")
    }
    return samples["penstock_trace_spans_total"], samples["penstock_trace_spans_dropped_total"]


async def test_spans_wait_for_a_collector_that_is_away(traced: Trace, collector: Collector) -> None:
    collector.status = 503
    async with traced() as edges, ScriptedOrigin(say()) as origin:
        served = await edges.relay(origin.url)
        await edges.fetched(served.port)
        await until(lambda: collector.requests, "the collector is asked")
        collector.status = 200
        await collector.count(2)
        assert counts(edges) == (2, 0)


async def test_what_is_refused_is_not_sent_again(traced: Trace, collector: Collector) -> None:
    collector.status = 400
    async with traced() as edges, ScriptedOrigin(say()) as origin:
        served = await edges.relay(origin.url)
        await edges.fetched(served.port)
        await until(lambda: counts(edges) == (2, 2), "they are lost")
        assert len(collector.requests) == 1


async def test_a_part_that_is_refused_is_counted(traced: Trace, collector: Collector) -> None:
    collector.rejects = 1
    async with traced() as edges, ScriptedOrigin(say()) as origin:
        served = await edges.relay(origin.url)
        await edges.fetched(served.port)
        await until(lambda: counts(edges) == (2, 1), "one is lost")


async def test_a_collector_that_hangs_costs_no_request_anything(traced: Trace, collector: Collector) -> None:
    collector.hold = threading.Event()
    async with traced(buffer="64KiB", linger=0.1) as edges, ScriptedOrigin(say()) as origin:
        served = await edges.relay(origin.url)
        await edges.fetched(served.port)
        await until(lambda: collector.requests, "the collector is asked")
        client = await edges.connect(served)
        for _ in range(300):
            await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await client.body(await client.head())
        # The last is counted when it is over, and its client may know that before.
        await until(lambda: counts(edges)[0] == 602, "all were kept")
        assert 300 < counts(edges)[1] < 602, "64 KiB hold some of them"
        assert len(collector.requests) == 1


async def test_an_engine_that_closes_sends_the_last_spans(traced: Trace, collector: Collector) -> None:
    async with traced(interval=60.0, linger=30.0) as edges, ScriptedOrigin(say()) as origin:
        served = await edges.relay(origin.url)
        await edges.fetched(served.port)
        assert collector.requests == []
    assert len(collector.spans) == 2


async def test_an_engine_does_not_wait_for_a_collector_that_hangs(
    traced: Trace, collector: Collector
) -> None:
    collector.hold = threading.Event()
    async with traced(linger=0.05) as edges, ScriptedOrigin(say()) as origin:
        served = await edges.relay(origin.url)
        await edges.fetched(served.port)
        await until(lambda: collector.requests, "the collector is asked")
    collector.hold.set()
    assert len(collector.requests) == 1


async def test_the_command_sends_traces(collector: Collector) -> None:
    async with ScriptedOrigin(say()) as origin:
        options = ("--traces", collector.url, "--traces-ratio", "1", "--trust-trace-context")
        async with serve("--origin", origin.url, *options) as running:
            client = await RawClient.connect(running.port)
            parent = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
            await client.send(f"GET / HTTP/1.1\r\nHost: a\r\n{parent}\r\n\r\n".encode())
            await client.body(await client.head())
            client.abort()
            running.process.terminate()
            assert await running.ended() == 0
        # It sends the last spans when it ends.
        assert {span.trace for span in collector.spans} == {"4bf92f3577b34da6a3ce929d0e0e4736"}


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("endpoint", ""),
        ("endpoint", "localhost:4318"),
        ("endpoint", "ftp://localhost/v1/traces"),
        ("endpoint", "http://localhost:99999/"),
        ("ratio", 1.1),
        ("ratio", -0.1),
        ("ratio", True),
        ("ratio", "all"),
        ("headers", {"a b": "c"}),
        ("headers", {"a": "b\r\nc: d"}),
        ("headers", "a: b"),
        ("resource", {"a": 1}),
        ("slowest", -1),
        ("service", ""),
        ("interval", 0),
        ("buffer", "1KiB"),
    ],
)
def test_what_is_no_setting_is_refused(setting: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"Tracing\.{setting}"):
        Tracing(**{setting: value})


@pytest.mark.parametrize(
    ("url", "authority", "target"),
    [
        ("http://localhost", "localhost", "/"),
        ("https://collector.example/a/b?c=d", "collector.example", "/a/b?c=d"),
        ("http://[::1]:4318/v1/traces", "[::1]:4318", "/v1/traces"),
    ],
)
def test_an_endpoint_is_a_url(url: str, authority: str, target: str) -> None:
    tracing = Tracing(endpoint=url)
    assert (tracing.authority, tracing.target) == (authority, target)
