"""Subscribers and readers of tokens on real sockets: each fault of a stream is reported, and none invented."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import pytest
from aiohttp import web

from .runs import load, serving

COUNT = 10_000


def subscribers(times: list[float], more: str = "") -> str:
    return f"""
[events.subscribers]
path = "/events/{{title}}"
arrivals = {{ curve = "trace", times = {times} }}
watch = {{ median = 100, sigma = 0 }}
reconnect_delay = 0.05
{more}
"""


def stream(
    numbers: Iterable[int], form: Callable[[int], str]
) -> Callable[[web.Request], AsyncIterator[bytes]]:
    async def parts(_: web.Request) -> AsyncIterator[bytes]:
        whole = "".join(form(number) for number in numbers).encode()
        # Pieces of a size that no event has.
        for at in range(0, len(whole), 1013):
            yield whole[at : at + 1013]

    return parts


def once(parts: Callable[[web.Request], AsyncIterator[bytes]]) -> Callable[[web.Request], object]:
    """A handler that streams to a new subscriber, and says to one that comes again that there is no more."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if "Last-Event-ID" in request.headers:
            return web.Response(status=204)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        async for part in parts(request):
            await response.write(part)
        return response

    return handler


def swapped() -> list[int]:
    numbers = list(range(COUNT))
    numbers[5000], numbers[5001] = numbers[5001], numbers[5000]
    return numbers


@pytest.mark.parametrize(
    ("numbers", "faults"),
    [
        (list(range(COUNT)), {}),
        ([number for number in range(COUNT) if number != 5000], {"gaps": 1, "missing": 1}),
        ([*range(5001), 5000, *range(5001, COUNT)], {"repeats": 1}),
        (swapped(), {"reordered": 1}),
    ],
    ids=["whole", "dropped", "repeated", "reordered"],
)
async def test_one_fault_in_ten_thousand_events_is_found(
    tmp_path: Path, numbers: list[int], faults: dict[str, int]
) -> None:
    parts = stream(numbers, lambda number: f"id: topic-{number}\ndata: x\n\n")
    async with serving(once(parts)) as url:
        ended = await load(tmp_path, subscribers([0.0, 0.0]), "--target", url, duration=20)
    assert ended.summary["sessions"]["completed"] == 2
    nothing = dict.fromkeys(("unnumbered", "gaps", "missing", "repeats", "reordered", "announced"), 0)
    for session in ended.sessions:
        expected = {"received": len(numbers), **nothing, **faults, "reconnects": 1}
        assert session["events"] == expected


async def test_a_subscriber_comes_back_with_the_last_id_after_the_time_it_was_told(tmp_path: Path) -> None:
    asked: list[tuple[float, str | None]] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        last = request.headers.get("Last-Event-ID")
        asked.append((asyncio.get_running_loop().time(), last))
        if len(asked) == 4:
            return web.Response(status=204)
        if len(asked) == 3:
            return web.Response(status=503)
        begin = 0 if last is None else int(last) + 1
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for number in range(begin, begin + 5):
            await response.write(f"retry: 200\nid: {number}\ndata: x\n\n".encode())
        assert request.transport is not None
        if begin:
            # Not an end: the connection breaks.
            request.transport.abort()
        return response

    async with serving(handler) as url:
        ended = await load(tmp_path, subscribers([0.0]), "--target", url, duration=20)
    (session,) = ended.sessions
    assert [last for _, last in asked[:2]] == [None, "4"]
    assert asked[3][1] == asked[2][1]
    assert session["events"]["gaps"] == session["events"]["repeats"] == 0
    assert session["events"]["reconnects"] == 3
    assert asked[1][0] - asked[0][0] >= 0.2, "the server's retry counts"
    assert asked[3][0] - asked[2][0] >= 0.4, "after a failure it waits for twice as long"


async def test_counters_clocks_and_announced_gaps_are_read_from_data(tmp_path: Path) -> None:
    def form(number: int) -> str:
        if number == 50:
            return "event: penstock-gap\ndata:\n\n"
        late = time.time() - 0.25
        jump = 1000 if number > 50 else 0
        return f'id: {late:.3f}-0\ndata: {{"n": {number + jump},\ndata: "t": {late}}}\n\n: a comment\n\n'

    async with serving(once(stream(range(100), form))) as url:
        scenario = subscribers([0.0], 'counter = "n"\nclock = "t"')
        ended = await load(tmp_path, scenario, "--target", url, "--fail-if", "gaps > 0", duration=20)
    assert ended.status == 0, ended.output
    events = ended.summary["events"]
    assert (events["received"], events["announced"], events["gaps"], events["unnumbered"]) == (99, 1, 0, 0)
    delays = ended.summary["requests"]["event"]
    assert delays["count"] == 99
    assert 0.25 <= delays["due"]["p50"] < 5


async def test_a_subscriber_that_is_refused_fails(tmp_path: Path) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=403)

    async with serving(handler) as url:
        ended = await load(tmp_path, subscribers([0.0]), "--target", url, duration=5)
    assert ended.sessions[0]["cause"] == "status 403"
    assert ended.summary["errors"] == [{"class": "subscribe", "cause": "status 403", "count": 1}]


READERS = """
[tokens.readers]
arrivals = { curve = "trace", times = [0.0, 0.01, 0.02, 0.03] }
"""


def completion(end: bytes, pause: float = 0.0) -> Callable[[web.Request], object]:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert (await request.json())["stream"] is True
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for number in range(20):
            await response.write(b'data: {"choices": [{"delta": {"content": "%d"}}]}\n\n' % number)
            await asyncio.sleep(pause)
        await response.write(end)
        return response

    return handler


async def test_tokens_are_read_to_their_end(tmp_path: Path) -> None:
    async with serving(completion(b"data: [DONE]\n\n")) as url:
        ended = await load(tmp_path, READERS, "--target", url)
    assert ended.summary["sessions"]["completed"] == 4
    assert ended.summary["events"]["received"] == 80
    requests = ended.summary["requests"]
    assert (requests["first_token"]["count"], requests["token"]["count"]) == (4, 76)


async def test_a_stream_of_tokens_that_is_cut_off_has_failed(tmp_path: Path) -> None:
    async with serving(completion(b"")) as url:
        ended = await load(tmp_path, READERS, "--target", url)
    assert ended.summary["sessions"]["failed"] == 4
    cause = "the stream ended without [DONE]"
    assert ended.summary["errors"] == [{"class": "token", "cause": cause, "count": 4}]


async def test_readers_leave_in_the_middle(tmp_path: Path) -> None:
    scenario = READERS + "leave = 1.0\nwatch = { median = 0.3, sigma = 0 }\n"
    async with serving(completion(b"data: [DONE]\n\n", pause=0.1)) as url:
        ended = await load(tmp_path, scenario, "--target", url)
    assert ended.summary["sessions"]["left"] == 4
    assert 0 < ended.summary["events"]["received"] < 80
