"""The public cases of server-sent events, which the engine's own tests run too, through Python's `framing.Events`."""

import json
import os
from pathlib import Path

import pytest

import penstock
from penstock.framing import Events
from penstock.testing import Peer, ScriptedOrigin

CASES = {
    case["name"]: case for case in json.loads((Path(__file__).parent / "data" / "sse_cases.json").read_text())
}


def seen(frame: penstock.Frame) -> dict[str, object]:
    """What a page would be told."""

    def text(value: object) -> str | None:
        return None if value is None else bytes(value).decode(errors="replace")

    return {
        "event": text(frame.event) or "message",
        "data": text(frame.data),
        "id": text(frame.id),
        "retry": frame.retry,
    }


def piped(data: bytes, engine: penstock.Engine, framing: Events) -> penstock.FrameStream:
    read, write = os.pipe()
    stream = penstock.open_fd(read, engine=engine, framing=framing)
    os.write(write, data)
    os.close(write)
    return stream


@pytest.mark.parametrize("name", CASES)
async def test_a_page_is_told_what_the_standard_says(engine: penstock.Engine, name: str) -> None:
    data = CASES[name]["input"].encode()
    async with piped(data, engine, Events()) as stream:
        assert [seen(frame) async for frame in stream] == CASES[name]["events"]


@pytest.mark.parametrize("name", CASES)
async def test_blocks_have_every_byte(engine: penstock.Engine, name: str) -> None:
    data = CASES[name]["input"].encode()
    async with piped(data, engine, Events(blocks=True)) as stream:
        assert b"".join([bytes(frame) async for frame in stream]) == data


@pytest.mark.parametrize("size", [1, 2, 3])
async def test_events_are_the_same_however_the_origin_cuts_them(engine: penstock.Engine, size: int) -> None:
    """All cases, one response each, in chunks that are read one by one: each is a packet of its own."""
    cases = list(CASES.values())

    async def script(peer: Peer) -> None:
        for case in cases:
            await peer.request()
            await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            data = case["input"].encode()
            for start in range(0, len(data), size):
                piece = data[start : start + size]
                await peer.send(b"%x\r\n%s\r\n" % (len(piece), piece))
            await peer.send(b"0\r\n\r\n")
        await peer.stall()

    async with ScriptedOrigin(script) as origin:
        for case in cases:
            async with engine.get(origin.url) as response:
                events = [seen(frame) async for frame in response.frames(Events())]
            assert events == case["events"], case["name"]
        assert len(origin.connections) == 1
