"""What the tests of the disk's tier share: an engine with a directory, and an origin whose bodies tell what they are."""

import os
import random
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import penstock
from penstock import config
from penstock.config import Caching, OriginLimits
from penstock.stats import DiskStats
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, Reply, answer
from support.edges import Edges, Served
from support.waiting import in_time, until

SIZE = 300_000
"""Bytes of an object: five blocks of 64 KiB, the last one short. Two dozen do not fit into the memory of the tests."""
MANY = 40
MEMORY = 8 << 20
BLOCK = 64 * 1024
HEAD = 4096


def body(target: str, size: int = SIZE) -> bytes:
    return random.Random(target).randbytes(size)


class Library:
    """An origin that has everything, and counts who asks for what."""

    def __init__(self, *fields: str, size: int = SIZE) -> None:
        self.asked: Counter[str] = Counter()
        self.fields = fields or ("Cache-Control: max-age=3600", 'ETag: "1"')
        self.size = size
        self.confirmed = 0

    async def __call__(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.read_body()
            self.asked[request.target] += 1
            if request.get("If-None-Match") is not None:
                self.confirmed += 1
                await peer.send(answer(*self.fields, status="304 Not Modified"))
            elif request.method == "POST":
                await peer.send(answer("Content-Length: 2") + b"ok")
            else:
                whole = body(request.target, self.size)
                await peer.send(answer(*self.fields, f"Content-Length: {len(whole)}") + whole)


class Gateway:
    """An engine whose cache has a disk, and one route."""

    def __init__(self, engine: penstock.Engine, client: RawClient, edges: Edges, served: Served) -> None:
        self.engine, self.client, self.edges, self.served = engine, client, edges, served

    async def reconnect(self) -> None:
        self.client = await self.edges.connect(self.served)

    @property
    def disk(self) -> DiskStats:
        assert self.engine.cache is not None
        stats = self.engine.cache.disk_stats()
        assert stats is not None
        return stats

    async def settle(self) -> None:
        """Waits until nothing is on its way from memory to disk: an eighth of the memory is for that alone."""
        cache = self.engine.cache
        assert cache is not None
        await until(lambda: cache.stats().used <= MEMORY - MEMORY // 8, "what leaves memory has left")

    async def ask(self, target: str, *fields: str, method: str = "GET") -> Reply:
        reply = await in_time(self.client.ask(target, *fields, method=method))
        assert isinstance(reply, Reply)
        return reply

    async def fill(self, count: int = MANY) -> None:
        for number in range(count):
            assert (await self.ask(f"/{number}")).body == body(f"/{number}")
            await self.settle()

    async def check(self, count: int = MANY) -> None:
        """Every body is what the origin has sent, wherever it comes from."""
        for number in range(count):
            reply = await self.ask(f"/{number}")
            assert reply.head.status == 200
            assert reply.body == body(f"/{number}"), f"/{number}"
            await self.settle()


@asynccontextmanager
async def gateway(
    origin: ScriptedOrigin,
    directory: Path,
    *,
    budget: int | str = "256MiB",
    threads: int = 1,
    ready: bool = True,
    save: float = 60.0,
    timeout: float = 60.0,
    **caching: object,
) -> AsyncIterator[Gateway]:
    async with penstock.Engine(
        memory="32MiB",
        threads=threads,
        limits=OriginLimits(idle_timeout=30),
        cache=config.Cache(
            memory=MEMORY, disk=directory, disk_budget=budget, disk_save=save, disk_timeout=timeout
        ),
    ) as engine:
        edges = Edges(engine)
        try:
            served = await edges.relay(origin.url, caching=Caching(**caching))  # type: ignore[arg-type]
            found = Gateway(engine, await edges.connect(served), edges, served)
            if ready:
                await until(lambda: found.disk.ready, "the directory has been looked through")
            yield found
        finally:
            await edges.close()


def files(directory: Path) -> list[Path]:
    """Those of whole objects."""
    return sorted(directory.glob("??/" + "[0-9a-f]" * 16))


def used(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())


@asynccontextmanager
async def small_disk(path: Path, size: str) -> AsyncIterator[None]:
    path.mkdir()
    command = ("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path))
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("a file system of its own needs root, and leave to mount")
    try:
        yield
    finally:
        subprocess.run(("umount", "-l", str(path)), check=True)


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << (place % 8)
    path.write_bytes(data)
