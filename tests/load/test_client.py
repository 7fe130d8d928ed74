"""How `penstock load` reads responses: the forms in which bodies end, and idle connections that have ended."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from .runs import SEGMENT, load, viewers

Answer = Callable[[bytes], bytes]
"""The bytes of a response with a body."""
PLAYLIST = "\n".join(
    (
        "#EXTM3U\n#EXT-X-TARGETDURATION:1",
        *(f"#EXTINF:{SEGMENT},\n{at}.m4s" for at in range(3)),
        "#EXT-X-ENDLIST",
    )
).encode()
BODY = bytes(range(256)) * 200


@asynccontextmanager
async def answering(answer: Answer, *, closes: bool = False) -> AsyncIterator[tuple[str, list[str]]]:
    """A server that sends a playlist or a segment in a form, and the paths that it was asked for.

    With `closes` it ends each connection after a response, and does not say that it will.
    """
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split()[1].decode()
                asked.append(path)
                whole = answer(PLAYLIST if path.endswith(".m3u8") else BODY)
                # In two parts, of which the first ends within the head.
                writer.write(whole[:9])
                await writer.drain()
                writer.write(whole[9:])
                await writer.drain()
                if closes or b"\r\nConnection: close" in whole:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


def with_length(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def in_chunks(body: bytes) -> bytes:
    pieces = [body[at : at + 777] for at in range(0, len(body), 777)]
    chunks = b"".join(b"%x;a=b\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nTrailer: x\r\n\r\n"


def until_close(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body


def after_hints(body: bytes) -> bytes:
    return b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + with_length(body)


@pytest.mark.parametrize("answer", [with_length, in_chunks, until_close, after_hints])
@pytest.mark.parametrize("network", ["", 'network = "cable"'])
async def test_a_body_is_read_to_its_end_in_each_form(tmp_path: Path, answer: Answer, network: str) -> None:
    async with answering(answer) as (url, asked):
        scenario = viewers([0.0]).replace("titles = 50", f"titles = 1\n{network}")
        ended = await load(tmp_path, scenario, "--target", url, duration=20)
    requests = ended.summary["requests"]
    assert (ended.summary["sessions"]["completed"], ended.summary["errors"]) == (1, [])
    assert requests["segment"]["bytes"] == 3 * len(BODY)
    assert requests["playlist"]["bytes"] == len(PLAYLIST)
    assert asked == ["/vod/0/master.m3u8", *(f"/vod/0/{at}.m4s" for at in range(3))]


async def test_a_request_is_made_again_if_the_idle_connection_has_ended(tmp_path: Path) -> None:
    async with answering(with_length, closes=True) as (url, asked):
        ended = await load(tmp_path, viewers([0.0]), "--target", url, duration=20)
    assert (ended.summary["sessions"]["completed"], ended.summary["errors"]) == (1, [])
    assert len(asked) == 4


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n1234", "broken off"),
        (
            lambda body: in_chunks(body)[:-5].replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1),
            "broken off",
        ),
        (lambda _: b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Le", "broken off"),
        (lambda _: b"SSH-2.0-OpenSSH\r\nConnection: close\r\n", "not HTTP"),
        (lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: x\r\nConnection: close\r\n\r\n", "not HTTP"),
    ],
    ids=["length", "chunks", "head", "no HTTP", "no length"],
)
async def test_a_response_that_is_cut_off_or_is_none_is_an_error(
    tmp_path: Path, answer: Answer, cause: str
) -> None:
    async with answering(answer) as (url, _):
        scenario = viewers([0.0]).replace("retry_delay", "retries = 0, retry_delay")
        ended = await load(tmp_path, scenario, "--target", url, duration=20)
    (error,) = ended.summary["errors"]
    assert error["cause"].startswith(cause), error
    assert ended.summary["qoe"]["failed_to_start"] == 1
