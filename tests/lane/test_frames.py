"""Handlers that read a stream and write its frames, as the README's first example reads one."""

from pathlib import Path

import pytest
from aiohttp import web

import penstock
from support.waiting import in_time, until

from .conftest import Connect, Serve

SIZE = 24 * 1024 * 1024


@pytest.fixture
def media(tmp_path: Path) -> Path:
    path = tmp_path / "media"
    path.write_bytes(bytes(range(256)) * (SIZE // 256))
    return path


async def begin(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": str(SIZE)})
    await response.prepare(request)
    return response


async def test_what_the_engine_sends_is_waited_for(
    engine: penstock.Engine, serve: Serve, connect: Connect, media: Path
) -> None:
    """A handler that never waits for its client waits for the next frame: no frame that it holds is its own."""
    written = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = await begin(request)
        async with penstock.open_file(media, engine=engine) as stream:
            async for frame in stream:
                request.transport.write(memoryview(frame))
                written += len(frame)
        return response

    client = await connect(await serve(handler), 4096)
    await client.get()
    head = await client.head()
    await until(lambda: written, "the handler has begun")
    assert await client.body(head) == media.read_bytes()
    assert written == SIZE
    assert not any(engine.stats().pool.bytes_copied.values())


async def test_frames_that_are_kept_after_they_were_sent_are_held(
    engine: penstock.Engine, serve: Serve, connect: Connect, media: Path
) -> None:
    told = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal told
        response = await begin(request)
        kept = []
        async with penstock.open_file(media, engine=engine) as stream:
            while True:
                try:
                    async for frame in stream:
                        kept.append(frame)
                        request.transport.write(memoryview(frame))
                except penstock.WindowHeldError:
                    told += 1
                    kept.clear()
                else:
                    return response

    client = await connect(await serve(handler))
    answer = await in_time(client.ask(), "the handler is told")
    assert answer.body == media.read_bytes()
    assert told
