"""What an origin refuses to one client, or fails at, keeps others from nothing: they wait for one another as before."""

from typing import Literal

import pytest

from penstock.config import Caching
from penstock.testing import Peer, RecordedRequest, ScriptedOrigin
from support.client import answer
from support.edges import Edges
from support.origins import FRESH, NumberedOrigin
from support.waiting import in_time, until

pytestmark = pytest.mark.parametrize("caching", [pytest.param(1, id="one thread")], indirect=True)

BODY = b"x" * 1000


def says(number: int, request: RecordedRequest) -> bytes:
    """Refuses a field and what is not there, and has all else."""
    fields = {name.lower(): value for name, value in request.fields}
    if "x-bad" in fields:
        return answer("Content-Length: 0", status=fields["x-bad"] + " No")
    head = (FRESH, 'ETag: "1"')
    if (wanted := fields.get("range", "bytes=0-")) == "bytes=0-":
        return answer(*head, f"Content-Length: {len(BODY)}") + BODY
    first = int(wanted.removeprefix("bytes=").partition("-")[0])
    if first >= len(BODY):
        return answer(f"Content-Range: bytes */{len(BODY)}", "Content-Length: 0", status="416 No")
    piece = BODY[first:]
    what = f"Content-Range: bytes {first}-{len(BODY) - 1}/{len(BODY)}"
    return answer(*head, what, f"Content-Length: {len(piece)}", status="206 Partial Content") + piece


@pytest.mark.parametrize(
    ("status", "field"),
    [
        (416, "Range: bytes=500000-500001"),
        (416, "Range: bytes=500000-"),
        (400, "X-Bad: 400"),
        (403, "X-Bad: 403"),
        (401, "X-Bad: 401\r\nAuthorization: Basic eDp5"),
        (431, "X-Bad: 431"),
        (500, "X-Bad: 500"),
        (503, "X-Bad: 503"),
    ],
)
@pytest.mark.parametrize("fill", ["asked", "slices"])
async def test_a_client_that_is_refused_does_not_keep_others_from_waiting_for_one_another(
    caching: Edges, fill: Literal["asked", "slices"], status: int, field: str
) -> None:
    script = NumberedOrigin(says)
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching(range_fill=fill, slice="64KiB"))
        bad = await caching.connect(served)
        assert (await in_time(bad.ask("/a", field))).head.status == status
        before = len(script.requests)
        script.hold(before + 1)
        clients = [await caching.connect(served) for _ in range(5)]
        began = served.requests
        for client in clients:
            await client.get("/a")
        await until(lambda: served.requests == began + len(clients), "all have asked")
        await in_time(script.asked.wait())
        script.go.set()
        for client in clients:
            head = await in_time(client.head())
            assert (head.status, await in_time(client.body(head))) == (200, BODY)
        assert len(script.requests) == before + 1


@pytest.mark.parametrize("status", [403, 503])
async def test_who_are_all_refused_are_not_kept_waiting_for_each_other_for_ever(
    caching: Edges, status: int
) -> None:
    count = 12
    asked = []

    async def script(peer: Peer) -> None:
        while True:
            asked.append(await peer.request())
            # The last ones come at once: each before is answered when the next has nothing to wait for.
            if len(asked) > 3:
                await until(lambda: len(asked) == count, "the others ask for themselves")
            await peer.send(answer("Content-Length: 0", status=f"{status} No"))

    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        clients = [await caching.connect(served) for _ in range(count)]
        for client in clients:
            await client.get("/a")
        for client in clients:
            assert (await in_time(client.head())).status == status
        assert len(asked) == count
