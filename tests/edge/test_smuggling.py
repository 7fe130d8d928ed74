"""Requests that two parsers could read differently, through real sockets: each is refused, or reaches the origin as the
RFC reads it, in one framing. And two other servers behind the edge read what it sends as it has read it.
"""

import json
from pathlib import Path

import pytest

from penstock.testing import Peer, RecordedRequest, ScriptedOrigin
from support.client import RawClient, answer
from support.edges import Edges, Served

from .backends import Reading, running_aiohttp, running_nginx_before
from .corpus import CASES, GROUPS, LIMITS, Case, Expected


async def final(client: RawClient, method: str) -> tuple[int, bytes]:
    """The next response that is no interim one."""
    while (head := await client.head()).status < 200:
        pass
    return head.status, await client.body(head, method)


async def play(edges: Edges, served: Served, case: Case) -> list[tuple[Expected, int]]:
    """Send what the case says, check the answers, and return the requests that were let through and their statuses."""
    client = await edges.connect(served)
    await client.send(case.sent)
    answered: list[tuple[Expected, int]] = []
    for expected in case.requests:
        try:
            status, body = await final(client, expected.method)
        except EOFError:
            # The origin has refused the one before, and not read it to its end: what follows cannot be told from it.
            assert answered[-1][1] >= 400
            return answered
        if not expected.has_route:
            assert status == 404
            if expected.method != "HEAD":
                assert json.loads(body)["name"] == "NO_ROUTE"
            # A refusal ends the connection.
            assert await client.rest() == b""
            return answered
        answered.append((expected, status))
    if case.refusal is None:
        if not case.closes:
            client.writer.write_eof()
        assert await client.rest() == b"", "nothing else is answered"
    elif case.refusal[0] == "REQUEST_TRUNCATED":
        client.writer.write_eof()
        with pytest.raises((ConnectionResetError, EOFError)):
            await client.head()
    else:
        status, body = await final(client, "GET")
        assert (json.loads(body)["name"], status) == case.refusal
        assert await client.rest() == b"", "nothing behind it is read"
    client.abort()
    return answered


def one_framing(head: RecordedRequest, body: bytes) -> bool:
    """Whether the fields say once where the body ends."""
    lengths, codings = head.get_all("Content-Length"), head.get_all("Transfer-Encoding")
    if codings:
        return codings == ["chunked"] and not lengths
    return lengths == [str(len(body))] if lengths else not body


@pytest.mark.parametrize("group", GROUPS)
async def test_a_case_is_refused_or_read_as_the_rfc_says(edge: Edges, group: str) -> None:
    seen: list[tuple[RecordedRequest, bytes]] = []

    async def record(peer: Peer) -> None:
        while True:
            head = await peer.request()
            body = await peer.read_body()
            seen.append((head, body))
            await peer.send(answer("Content-Length: 0"))

    async with ScriptedOrigin(record) as origin:
        served = await edge.relay(origin.url, edge=LIMITS)
        for case in (case for case in CASES if case.group == group):
            before = len(seen)
            try:
                through = await play(edge, served, case)
                assert [
                    Expected(head.method, head.target, head.get("X-Forwarded-Host") or "", body)
                    for head, body in seen[before:]
                ] == [expected for expected, _ in through]
                assert all(status == 200 for _, status in through)
                for head, body in seen[before:]:
                    assert head.version == "HTTP/1.1"
                    assert head.get("Host") == f"127.0.0.1:{origin.port}"
                    assert one_framing(head, body), head.fields
            except Exception as error:
                error.add_note(f"in the case {case.name!r}: {case.sent!r:.300}")
                raise


BACKENDS = {"nginx": running_nginx_before, "aiohttp": running_aiohttp}

STRICTER = {
    "nginx": {
        "a length in a request with TRACE",
        "a method in lower case is another method",
        "a method with every character of a token",
        "target /%",
        "target /%00",
        "target /%u002e",
        "target /%zz",
    },
    "aiohttp": {
        "a length in a request with BREW",
        "a method in lower case is another method",
        "an unknown method",
        "a method with every character of a token",
    },
}
"""What we let through and another server refuses by itself: fewer methods or targets, but no other reading."""


@pytest.mark.parametrize("name", BACKENDS)
async def test_another_server_reads_what_is_sent_as_it_was_read(
    edge: Edges, name: str, tmp_path: Path
) -> None:
    readings: list[Reading] = []
    refused: dict[str, int] = {}
    count = 0
    async with BACKENDS[name](readings, tmp_path) as url:
        served = await edge.relay(url, edge=LIMITS)
        for case in CASES:
            # What is refused by us never gets there whole: that is for the test above.
            readings.clear()
            try:
                through = await play(edge, served, case)
                taken = [
                    Reading(expected.method, expected.target, expected.body)
                    for expected, status in through
                    if status == 200
                ]
                assert readings == taken
            except Exception as error:
                error.add_note(f"in the case {case.name!r}: {case.sent!r:.300}")
                raise
            count += len(readings)
            refused.update((case.name, status) for _, status in through if status != 200)
    assert set(refused) <= STRICTER[name]
    assert set(refused.values()) <= {400, 405}
    assert count > 150, "most is let through"
