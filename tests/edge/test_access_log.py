"""The lines of the access log: one for each request, with what became of it."""

import re
from pathlib import Path

import pytest

from penstock.testing import ScriptedOrigin, respond
from support.client import answer
from support.edges import Edges
from support.origins import Recorder, says
from support.waiting import until

LINE = re.compile(
    r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z 127\.0\.0\.1 "(?P<request>[^"]*)" (?P<status>\d+) (?P<bytes>\d+) \d+\.\d{6}'
    r"(?: route=(?P<route>\S+))?(?: failed=(?P<code>0x[0-9A-F]{3})/(?P<name>\w+))?"
)


async def lines(path: Path, count: int) -> list[dict[str, str | None]]:
    """The first `count` lines, taken apart."""

    def whole() -> list[str]:
        return path.read_text().splitlines() if path.exists() else []

    await until(lambda: len(whole()) >= count, f"{count} lines are written")
    found = [LINE.fullmatch(line) for line in whole()]
    assert len(found) == count
    assert all(found), whole()
    return [match.groupdict() for match in found if match]


async def test_a_line_says_what_was_asked_and_answered(edge: Edges, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    async with ScriptedOrigin(Recorder()) as origin:
        gateway = edge.gateway(origin.url)
        client = await edge.connect(await edge.serve([gateway.native("/vod/", name="films")], log=log))
        await client.ask("/vod/a?quality=1")
        await client.ask("/vod/b", method="HEAD")
        await client.ask("/vod/c", method="POST", version="1.0")
        found = await lines(log, 3)
    assert [
        (line["request"], line["status"], line["bytes"], line["route"], line["name"]) for line in found
    ] == [
        ("GET /vod/a?quality=1 HTTP/1.1", "200", "2", "films", None),
        ("HEAD /vod/b HTTP/1.1", "200", "0", "films", None),
        ("POST /vod/c HTTP/1.0", "200", "2", "films", None),
    ]


@pytest.mark.parametrize(
    ("data", "then", "status", "sent", "name"),
    [
        (b"", "close", "502", "problem", "ORIGIN_CLOSED"),
        (answer("Content-Length: 9", body=b"half"), "stall", "200", "4", "CLIENT_GONE"),
        (b"", "stall", "499", "0", "CLIENT_GONE"),
    ],
    ids=["before the head", "the client left", "the client left before the head"],
)
async def test_a_failure_is_named(
    edge: Edges, tmp_path: Path, data: bytes, then: str, status: str, sent: str, name: str
) -> None:
    log = tmp_path / "access.log"
    async with ScriptedOrigin(says(data, then=then)) as origin:
        client = await edge.connect(await edge.relay(origin.url, log=log))
        await client.get()
        await origin.connection()
        if then == "close":
            head = await client.head()
            assert head.status == 502
            problem = await client.body(head)
            sent = str(len(problem)) if sent == "problem" else sent
        elif data:
            await client.reader.readuntil(b"half")
        client.reset()
        (line,) = await lines(log, 1)
    assert (line["status"], line["bytes"], line["name"]) == (status, sent, name)
    assert line["code"] is not None


async def test_a_request_without_a_route_has_none(edge: Edges, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    client = await edge.connect(await edge.serve([], log=log))
    await client.ask("/nowhere")
    (line,) = await lines(log, 1)
    assert (line["status"], line["route"], line["name"]) == ("404", None, "NO_ROUTE")


async def test_a_request_cannot_forge_a_line(edge: Edges, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    async with ScriptedOrigin(respond(answer("Content-Length: 0"))) as origin:
        client = await edge.connect(await edge.relay(origin.url, log=log))
        assert (await client.ask("/%22x%22%0a")).head.status == 200
        (line,) = await lines(log, 1)
    assert line["request"] == "GET /%22x%22%0a HTTP/1.1"


async def test_every_line_of_a_burst_is_written(edge: Edges, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url, log=log)
        clients = [await edge.connect(served) for _ in range(6)]
        for number in range(50):
            for client in clients:
                await client.get(f"/{number}")
            for client in clients:
                await client.body(await client.head())
        found = await lines(log, 300)
    assert sorted(line["request"] or "" for line in found) == sorted(
        f"GET /{number} HTTP/1.1" for number in range(50) for _ in clients
    )


async def test_what_the_edge_refuses_to_read_is_logged_too(edge: Edges, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    client = await edge.connect(await edge.serve([], log=log))
    await client.send(b"GET / HTTP/3.0\r\n\r\n")
    assert (await client.head()).status == 505
    (line,) = await lines(log, 1)
    assert (line["request"], line["status"], line["name"]) == ("-", "505", "UNSUPPORTED_VERSION")
