"""`penstock cache` against a running `penstock serve`, and the socket between them."""

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.command import COMMAND, LISTENING, Running, asked, run, serve


class Origin:
    """Answers with the number of the request, to be stored."""

    def __init__(self) -> None:
        self.requests = 0

    async def __call__(self, peer: Peer) -> None:
        while True:
            await peer.request()
            self.requests += 1
            body = str(self.requests).encode()
            fields = (
                "Cache-Control: max-age=60",
                "Cache-Tag: t",
                'ETag: "e"',
                f"Content-Length: {len(body)}",
            )
            await peer.send(answer(*fields, body=body))


@pytest.fixture
def control(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/control"


def options(origin: ScriptedOrigin, control: str) -> tuple[str, ...]:
    return ("--origin", origin.url, "--cache", "8MiB", "--control", control)


async def test_what_is_stored_is_listed_and_purged(control: str) -> None:
    async with ScriptedOrigin(Origin()) as origin, serve(*options(origin, control)) as running:
        client = await RawClient.connect(running.port)
        at = ("--control", control)
        for target in ("/a", "/b", "/b"):
            await client.ask(target)
        status, out, _ = await asked("cache", "stats", *at)
        assert status == 0
        assert [line.split()[0] for line in out.splitlines()] == [
            *("keys", "objects", "disk_objects", "used", "limit"),
            *("hits", "stale", "revalidated", "collapsed", "misses", "passed", "errors"),
        ]
        found = json.loads((await asked("cache", "stats", "--json", *at))[1])
        assert {name: found[name] for name in ("objects", "hits", "misses")} == {
            "objects": 2,
            "hits": 1,
            "misses": 2,
        }
        _, out, _ = await asked("cache", "list", *at)
        rows = [line.split() for line in out.splitlines()]
        assert [(row[0], row[1], row[4], *row[5:]) for row in rows] == [
            ("200", "1", "0", f"{origin.url}/a", "t"),
            ("200", "1", "1", f"{origin.url}/b", "t"),
        ]
        _, out, _ = await asked("cache", "list", "--json", "--after", f"{origin.url}/a", "--limit", "1", *at)
        (row,) = (json.loads(line) for line in out.splitlines())
        assert (row["url"], row["tags"]) == (f"{origin.url}/b", ["t"])
        assert (await asked("cache", "purge", "--url", f"{origin.url}/a", "--soft", *at))[:2] == (
            0,
            "1 purged\n",
        )
        assert (await client.ask("/b")).body == b"2"
        assert (await asked("cache", "purge", "--prefix", f"{origin.url}/b", *at))[:2] == (0, "1 purged\n")
        assert (await client.ask("/b")).body == b"3"
        assert (await asked("cache", "purge", "--tag", "t", *at))[:2] == (0, "2 purged\n")
        await client.ask("/c")
        assert (await asked("cache", "purge", "--all", *at))[:2] == (0, "1 purged\n")
        assert (await asked("cache", "list", *at))[:2] == (0, "")
        client.abort()


async def test_what_the_server_refuses_ends_with_1_and_its_words(control: str) -> None:
    async with ScriptedOrigin(Origin()) as origin, serve(*options(origin, control)):
        status, out, err = await asked("cache", "purge", "--url", "/a", "--control", control)
        assert (status, out) == (1, "")
        assert "no absolute http or https URL" in err
        assert "Traceback" not in err


async def raw(path: Path, request: bytes) -> tuple[int, dict[str, object]]:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(request)
    async with asyncio.timeout(20):
        whole = await reader.read()
    writer.close()
    head, _, body = whole.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a server that no test here changes, and that has to go on after each."""
    path = tmp_path_factory.mktemp("shared") / "control"
    command = [
        *COMMAND,
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--origin",
        "http://127.0.0.1:9",
        "--cache",
        "8MiB",
    ]
    with subprocess.Popen(
        [*command, "--control", f"unix:{path}"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = next((line for line in process.stderr if LISTENING.search(line)), None)
            assert said is not None, "it ended before it listened"
            yield path
            process.terminate()
            _, log = process.communicate(timeout=30)
            assert (process.returncode, "Traceback" in log) == (0, False), log
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("nothing", "no JSON object"),
        ("[]", "no JSON object"),
        ('{"tag": 1}', "a purge has one of"),
        ('{"every": "thing"}', "a purge has one of"),
        ('{"tag": "t", "soft": "no"}', "soft is neither"),
        ('{"all": true, "soft": true}', "a purge has one of"),
        ("{}", "give one of"),
        ('{"tag": ' + "9" * 5000 + "}", "no JSON object"),
        ("[" * 100_000, "no JSON object"),
        ('{"tag":' * 100_000, "no JSON object"),
        ('{"tag": "\\ud800"}', "half a surrogate"),
        ('{"url": "http://o/\\udfff"}', "half a surrogate"),
        ("0xff", "no JSON object"),
    ],
    ids=lambda value: value[:20],
)
async def test_what_is_no_purge_is_refused_by_the_socket(shared: Path, body: str, says: str) -> None:
    head = (
        f"POST /cache/purge HTTP/1.1\r\nHost: c\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    status, found = await raw(shared, (head + body).encode())
    assert status == 400
    assert says in str(found["detail"])


@pytest.mark.parametrize(
    "query",
    [
        *("limit=" + "9" * 6000, "limit=" + "9" * 4000, "limit=%D9%A1", "limit=-1", "limit=0", "limit=1e3"),
        *("prefix=%ED%A0%80", "prefix=%00", "after=%FF"),
    ],
    ids=lambda value: value[:20],
)
async def test_a_listing_that_cannot_be_is_refused_by_the_socket(shared: Path, query: str) -> None:
    request = f"GET /cache/stored?{query} HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n"
    status, found = await raw(shared, request.encode())
    assert status == (200 if query.startswith("after") else 400), found
    assert len(str(found)) < 300
    request = "POST /cache/purge HTTP/1.1\r\nHost: c\r\nConnection: close\r\n"
    request += 'Content-Type: application/json; charset=none\r\nContent-Length: 14\r\n\r\n{"tag": "tag"}'
    assert (await raw(shared, request.encode()))[0] in (200, 400)
    request = "GET /cache HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n"
    assert (await raw(shared, request.encode()))[0] == 200, "it goes on"


async def test_the_socket_is_its_owners_alone_and_goes_with_the_server(control: str) -> None:
    path = Path(control.removeprefix("unix:"))
    umask = os.umask(0)
    try:
        async with ScriptedOrigin(Origin()) as origin, serve(*options(origin, control)) as running:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            running.process.send_signal(signal.SIGTERM)
            assert await running.ended() == 0
            assert not path.exists()
    finally:
        os.umask(umask)
    status, _, err = await asked("cache", "stats", "--control", control)
    assert (status, "nothing answers at" in err, "Traceback" in err) == (1, True, False)


async def second(origin: ScriptedOrigin, control: str) -> tuple[int, str]:
    """A second server on the same socket: how it ends, and what it says."""
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "serve", "--listen", "127.0.0.1:0", *options(origin, control)),
        stderr=asyncio.subprocess.PIPE,
    )
    running = Running(process)
    return await running.ended(), running.log()


async def test_a_socket_that_another_process_serves_is_refused(control: str) -> None:
    async with ScriptedOrigin(Origin()) as origin, serve(*options(origin, control)):
        status, log = await second(origin, control)
        assert (status, "another process serves at" in log, "Traceback" in log) == (1, True, False)
        # The first one has kept it.
        assert (await asked("cache", "stats", "--control", control))[0] == 0


async def test_what_is_there_and_is_no_socket_is_left_alone(control: str) -> None:
    path = Path(control.removeprefix("unix:"))
    path.write_text("precious")
    async with ScriptedOrigin(Origin()) as origin:
        status, log = await second(origin, control)
    assert (status, "and no socket" in log, path.read_text()) == (1, True, "precious")


async def test_a_socket_whose_server_has_ended_is_replaced(control: str) -> None:
    path = control.removeprefix("unix:")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    async with ScriptedOrigin(Origin()) as origin, serve(*options(origin, control)):
        assert (await asked("cache", "stats", "--control", control))[0] == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("stats",), "Missing option '--control'"),
        (("stats", "--control", "/s"), "'/s' is not unix:PATH"),
        (("purge", "--control", "unix:/s"), "give one of --url, --prefix, --tag and --all"),
        (("purge", "--control", "unix:/s", "--url", "http://o/", "--tag", "t"), "give one of"),
        (("purge", "--control", "unix:/s", "--all", "--soft"), "--soft: not with --all"),
        (("list", "--control", "unix:/s", "--limit", "0"), "0 is not in the range"),
    ],
)
def test_wrong_arguments_end_with_2(arguments: tuple[str, ...], says: str) -> None:
    result = run("cache", *arguments)
    assert result.returncode == 2
    assert says in result.stderr
