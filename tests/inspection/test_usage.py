"""The usage that is found on the way is the one that a full parse of every event finds, whatever the origin sends in
whatever pieces."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock
from penstock.testing import Peer, ScriptedOrigin
from support.client import answer
from support.origins import CHUNKED, EVENT_STREAM, chunk
from support.ways import Way

from .gateways import KNOWN, Inspecting, inspecting, inspection_of, stream_of

PATHS: Final = (("message", "usage"), ("usage",), ("response", "usage"))


def usage_of(stream: str, paths: tuple[tuple[str, ...], ...] = PATHS) -> dict[str, Any] | None:
    """By the rules of the HTML standard, and with every event parsed."""
    found: dict[str, Any] | None = None
    data: list[str] = []
    lines = stream.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line in lines[:-1]:
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        if line:
            continue
        text, data = "\n".join(data), []
        try:
            value_of: Any = json.loads(text)
        except ValueError:
            continue
        for path in paths:
            place = value_of
            for step in path:
                place = place.get(step) if isinstance(place, dict) else None
            if isinstance(place, dict):
                found = {**(found or {}), **place}
    return found


@dataclass
class Pieces:
    """An origin that answers each request with the pieces that are next."""

    pieces: list[bytes] = field(default_factory=list)

    async def __call__(self, peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.read_body()
            await peer.send(answer(EVENT_STREAM, CHUNKED))
            for piece in self.pieces:
                await peer.send(chunk(piece))
            await peer.send(b"0\r\n\r\n")


@dataclass
class Bench:
    """A gateway in front of such an origin, and one client's connection."""

    name: str
    runner: asyncio.Runner
    kind: str

    async def start(self) -> None:
        self.engine = penstock.Engine(memory="16MiB")
        self.way = Way(self.engine, self.name)
        self.script = Pieces()
        self.origin = ScriptedOrigin(self.script)
        await self.origin.__aenter__()
        self.chat: Inspecting = await inspecting(self.way, self.origin.url, inspection_of(self.kind))
        self.client = await self.way.connect(self.chat.relay.port)

    async def relay(self, stream: bytes, cuts: list[int]) -> tuple[dict[str, Any] | None, int]:
        """The usage and the number of events that are seen of `stream`, which comes cut at `cuts`."""
        edges = [0, *sorted({cut % len(stream) for cut in cuts} - {0}), len(stream)]
        self.script.pieces = [stream[a:b] for a, b in pairwise(edges)]
        reply = await self.client.ask("/")
        assert reply.body == stream
        seen = await self.chat.inspected()
        return seen.usage, seen.events

    def check(self, stream: bytes, cuts: list[int]) -> tuple[dict[str, Any] | None, int]:
        return self.runner.run(self.relay(stream, cuts))

    async def close(self) -> None:
        await self.way.close()
        await self.origin.__aexit__(None, None, None)
        await self.engine.aclose()


@contextmanager
def bench_of(name: str, kind: str) -> Iterator[Bench]:
    with asyncio.Runner() as runner:
        bench = Bench(name, runner, kind)
        runner.run(bench.start())
        try:
            yield bench
        finally:
            runner.run(bench.close())


NAMES: Final = st.sampled_from(["usage", "response", "message", "a", "b", 'usage":{', "é"])
LEAVES: Final = (
    st.none()
    | st.integers()
    | st.sampled_from(["usage", '"usage": {"a": 1}', '{"usage":{}}', "\\", "\n", "é", 1.5, True])
)


def within(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return LEAVES | st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4)


VALUES: Final = within(within(within(LEAVES)))
TOKENS: Final = st.sampled_from(
    ["{", "}", "[", "]", ",", ":", '"usage"', '"usage":{"a":1}', '"response":', '"', "\\", "1", "null", " "]
)


@st.composite
def blocks(draw: st.DrawFn) -> str:
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    if draw(st.booleans()):
        # Names are written as they are: what is written with escapes is not searched for.
        indent = draw(st.sampled_from([None, 1]))
        data = json.dumps(draw(VALUES), ensure_ascii=False, indent=indent)
    else:
        data = "".join(draw(st.lists(TOKENS, max_size=10)))
    name = draw(st.sampled_from(["", "event: x" + end, ": comment" + end]))
    return name + "".join(f"data: {line}{end}" for line in data.split("\n")) + end


@pytest.mark.parametrize("way_name", ["native", "stock relay"])
def test_any_stream_in_any_pieces(way_name: str) -> None:
    with bench_of(way_name, "openai_chat") as bench:

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(blocks(), min_size=1, max_size=5), st.lists(st.integers(0, 10_000), max_size=6))
        def check(parts: list[str], cuts: list[int]) -> None:
            stream = "".join(parts)
            assert bench.check(stream.encode(), cuts)[0] == usage_of(stream)

        check()


@pytest.mark.parametrize("kind", KNOWN)
def test_streams_of_known_shapes_split_anywhere(kind: str) -> None:
    stream, known = stream_of(kind), KNOWN[kind]
    paths = (("usageMetadata",),) if kind == "gemini" else PATHS
    assert usage_of(stream.decode(), paths) == known["usage"]
    with bench_of("native", kind) as bench:
        # Every byte is the first of a piece once, forty of them at a time.
        for start in range(40):
            cuts = list(range(start, len(stream), 40))
            assert bench.check(stream, cuts) == (known["usage"], known["events"]), start
