"""No hidden copy, seen from outside: strace says where each receive call puts what it gets.

A child process reads bodies over plain HTTP. Every byte that the kernel hands over on the origin's sockets must land
inside the pool's mapping, and nothing must have been counted as copied.
"""

import asyncio
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.programs import require

PIECE = bytes(range(256)) * 256
COUNT = 64
TOTAL = len(PIECE) * COUNT

READER = """
import asyncio, json, sys
import penstock

async def main():
    async with penstock.Engine(memory="16MiB") as engine:
        async with engine.get(sys.argv[1]) as response:
            received = 0
            async for frame in response:
                received += len(memoryview(frame))
        del frame
        base, length = engine.pool_addresses()
        copied = engine.stats().pool.bytes_copied
        print(json.dumps({"received": received, "base": base, "length": length, "copied": copied}))

asyncio.run(main())
"""

CONNECT = re.compile(r"connect\((\d+), \{sa_family=AF_INET, sin_port=htons\((\d+)\)")
RECEIVE = re.compile(
    r"(recvfrom|read|readv|recvmsg|recvmmsg|preadv2?)\((0x[0-9a-f]+), (0x[0-9a-f]+|0)\b.*\) += (\S+)"
)
CLOSE = re.compile(r"close\((\d+)\) += 0")


@dataclass(frozen=True)
class Receive:
    call: str
    address: int
    count: int


def receives(traces: list[Path], port: int) -> list[Receive]:
    """What was received on connections to `port`. There is a file for each thread, and a thread owns its sockets."""
    found = []
    for trace in traces:
        sockets: set[int] = set()
        for line in trace.read_text().splitlines():
            if connect := CONNECT.match(line):
                if int(connect[2]) == port:
                    sockets.add(int(connect[1]))
            elif close := CLOSE.match(line):
                sockets.discard(int(close[1]))
            elif (receive := RECEIVE.match(line)) and int(receive[2], 16) in sockets and receive[4] != "-1":
                count = int(receive[4], 16)
                if count:
                    found.append(Receive(receive[1], int(receive[3], 16), count))
    return found


async def serve(peer: Peer) -> None:
    target = (await peer.request()).target
    chunked = target == "/chunks"
    fields = {"/length": b"Content-Length: %d\r\n" % TOTAL, "/chunks": b"Transfer-Encoding: chunked\r\n"}
    await peer.send(b"HTTP/1.1 200 OK\r\n" + fields.get(target, b"") + b"\r\n")
    for _ in range(COUNT):
        await peer.send(b"%x\r\n%s\r\n" % (len(PIECE), PIECE) if chunked else PIECE)
    if chunked:
        await peer.send(b"0\r\n\r\n")


@pytest.mark.parametrize("framing", ["length", "chunks", "close"])
async def test_every_byte_is_received_into_the_pool(tmp_path: Path, framing: str) -> None:
    async with ScriptedOrigin(serve) as origin:
        process = await asyncio.create_subprocess_exec(
            *(require("strace", package="strace"), "-ff", "-o", str(tmp_path / "trace"), "-s", "0"),
            *("-e", "trace=connect,close,recvfrom,read,readv,recvmsg,recvmmsg,preadv,preadv2"),
            *("-e", "raw=recvfrom,read,readv,recvmsg,recvmmsg,preadv,preadv2", "-e", "signal=none"),
            *(sys.executable, "-c", READER, f"{origin.url}/{framing}"),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0
        port = origin.port
    said = json.loads(output)
    assert said["received"] == TOTAL
    assert not any(said["copied"].values()), said["copied"]

    calls = receives(list(tmp_path.glob("trace.*")), port)
    assert sum(call.count for call in calls) > TOTAL, "the trace has all of the body, and the head"
    assert {call.call for call in calls} == {"recvfrom"}, (
        "where other calls put their bytes is not looked at here"
    )
    end = said["base"] + said["length"]
    outside = [call for call in calls if not said["base"] <= call.address <= end - call.count]
    assert not outside, f"received outside of the pool at {said['base']:#x} to {end:#x}"
