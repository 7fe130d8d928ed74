"""What viewers do besides watching: they seek, pause and give up, read slowly, and ask for parts of resources."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from aiohttp import web

from .runs import SEGMENT, load, media, multivariant, serving, titles, viewers

TIMES = [round(0.01 * at, 2) for at in range(12)]


def numbers(paths: list[str]) -> list[int]:
    """Of the segments, in the order in which they were asked for."""
    return [int(match[1]) for path in paths if (match := re.search(r"/(\d+)\.m4s$", path))]


async def test_viewers_seek_on_and_back_by_the_seed(tmp_path: Path) -> None:
    found = []
    for at, seed in enumerate((7, 7, 8)):
        async with titles(segments=40) as server:
            more = "seek = { every = 0.5, distance = 3, back = 0.4 }"
            scenario = viewers(TIMES, 'profile = "fixed", buffer = 1.0', more).replace(
                "median = 100", "median = 4"
            )
            ended = await load(tmp_path / str(at), scenario, "--target", server.url, seed=seed, duration=20)
            found.append([session["qoe"]["seeks"] > 0 for session in ended.sessions])
            jumps = [
                after - before
                for paths in server.asked.values()
                for before, after in zip(numbers(paths), numbers(paths)[1:], strict=False)
            ]
            assert min(jumps) < 0, "some went back"
            assert max(jumps) > 1, "some went on"
            assert all(0 <= number < 40 for paths in server.asked.values() for number in numbers(paths))
            qoe = ended.summary["qoe"]
            assert qoe["seeks"] > 12
            assert qoe["seeking"] > 0
            assert {session["ended"] for session in ended.sessions} <= {"left", "completed"}
            assert "seeks" in ended.output
    assert found[0] == found[1]


async def test_a_viewer_who_pauses_plays_to_the_end_and_later(tmp_path: Path) -> None:
    async with titles(segments=10) as server:
        more = "pause = { every = 0.5, median = 0.4, sigma = 0 }"
        ended = await load(tmp_path, viewers([0.0, 0.0], more=more), "--target", server.url, duration=60)
    pauses = 0
    for session in ended.sessions:
        qoe = session["qoe"]
        assert session["ended"] == "completed"
        assert qoe["played"] == pytest.approx(10 * SEGMENT)
        assert qoe["paused"] == pytest.approx(0.4 * qoe["pauses"], abs=1e-6)
        assert session["lasted"] >= qoe["startup"] + qoe["played"] + qoe["paused"] - 1e-6
        pauses += qoe["pauses"]
    assert pauses == ended.summary["qoe"]["pauses"] > 0
    assert "pauses" in (ended.directory / "report.html").read_text()


async def test_viewers_give_up_before_the_first_frame(tmp_path: Path) -> None:
    never = asyncio.Event()

    async def silent(request: web.Request) -> web.Response:
        if request.path.endswith(".m4s"):
            await never.wait()
        if request.path.endswith("master.m3u8"):
            return web.Response(text="#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1000\n0.m3u8\n")
        return web.Response(text="#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n0.m4s\n#EXT-X-ENDLIST\n")

    async with serving(silent) as url:
        more = "patience = { startup = 0.2, leaves = 0.9 }"
        ended = await load(tmp_path, viewers(TIMES, more=more), "--target", url, duration=30)
        never.set()
    assert {session["ended"] for session in ended.sessions} == {"gave_up"}
    assert all(session["lasted"] >= 0.2 for session in ended.sessions)
    assert ended.summary["sessions"]["gave_up"] == len(TIMES)
    assert f"{len(TIMES)} gave up" in ended.output


async def test_a_segment_that_comes_too_slowly_is_given_up_for_a_lower_rendition(tmp_path: Path) -> None:
    """The second segment of the higher rendition comes at a tenth of its bitrate, once."""
    asked: list[str] = []
    segment, ladder = 1.0, (100_000, 4_000_000)

    async def answer(request: web.Request) -> web.StreamResponse:
        name = request.path.rpartition("/")[2]
        if name == "master.m3u8":
            return web.Response(text=multivariant(ladder))
        if name.endswith(".m3u8"):
            return web.Response(text=media(name.removesuffix(".m3u8"), segment, 4))
        asked.append("/".join(request.path.split("/")[-2:]))
        rendition = int(request.path.split("/")[-2])
        body = bytes(int(ladder[rendition] * segment / 8))
        response = web.StreamResponse(headers={"content-length": str(len(body))})
        await response.prepare(request)
        is_slow = rendition == 1 and asked.count("1/2.m4s") == 1 and asked[-1] == "1/2.m4s"
        # 4 Mbit at 400 kbit/s take ten seconds of two.
        for at in range(0, len(body), 5000):
            if is_slow:
                await asyncio.sleep(0.1)
            try:
                await response.write(body[at : at + 5000])
            except ConnectionError:
                break
        return response

    async with serving(answer) as url:
        player = 'profile = "throughput"'
        ended = await load(tmp_path, viewers([0.0], player), "--target", url, duration=60)
    assert ended.status == 0, ended.errors
    (session,) = ended.sessions
    assert (session["ended"], ended.summary["errors"]) == ("completed", [])
    at = asked.index("1/2.m4s")
    assert asked[at + 1] == "0/2.m4s"
    assert session["qoe"]["abandoned"] == 1
    assert session["qoe"]["played"] == pytest.approx(4.0)
    assert ended.summary["requests"]["segment"]["count"] == 4


REQUESTS = """
[requests.parts]
path = "/vod/{title}/0/1.m4s"
arrivals = { curve = "trace", times = %s }
connections = 4
%s
[embedded_origin]
bitrates = [800_000]
segment = 4
"""


async def test_parts_of_resources_are_asked_for_within_their_bounds(tmp_path: Path) -> None:
    asked: list[tuple[int, int]] = []

    async def answer(request: web.Request) -> web.Response:
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers["range"])
        assert match is not None
        asked.append((int(match[1]), int(match[2])))
        return web.Response(status=206, body=bytes(int(match[2]) - int(match[1]) + 1))

    async with serving(answer) as url:
        scenario = REQUESTS % (TIMES * 4, "range = { within = 100_000, length = 1000 }")
        ended = await load(tmp_path, scenario, "--target", url, duration=10)
    assert ended.summary["requests"]["request"]["bytes"] == 48 * 1000
    assert all(last - first == 999 and first >= 0 and last < 100_000 for first, last in asked)
    assert len(set(asked)) > 40


async def test_a_whole_in_place_of_a_part_is_a_failure(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=bytes(5000))

    async with serving(answer) as url:
        scenario = REQUESTS % ([0.0], "range = { within = 5000, length = 1000 }")
        ended = await load(tmp_path, scenario, "--target", url, duration=10)
    assert [error["cause"] for error in ended.summary["errors"]] == ["status 200 to a range"]


async def test_slow_readers_take_their_time_beside_fast_ones(tmp_path: Path) -> None:
    """400 kB at 1.6 Mbit/s take two seconds, and nothing makes them faster."""
    more = "network = [{ rate = 1_600_000, share = 0.25 }]"
    ended = await load(tmp_path, REQUESTS % (TIMES * 4, more), "--embedded-origin", duration=30)
    found = ended.summary["requests"]["request"]
    assert (found["count"], found["bytes"]) == (48, 48 * 400_000)
    records = json.loads((ended.directory / "records.json").read_text())["records"]
    counts = [pair for thread in records for each in thread["classes"] for pair in each["sent"]]
    slow = sum(count for value, count in counts if value >= 1_900_000)
    assert 4 <= slow <= 24


KINDS = """
[hls.live]
path = "/live/{title}/master.m3u8"
titles = 3
arrivals = { curve = "trace", times = [0.0, 0.1] }
player = { profile = "fixed", startup = 0.2, resume = 0.2 }
watch = { median = 3, sigma = 0 }

[events.topics]
path = "/events/{title}"
titles = 2
counter = "n"
clock = "t"
arrivals = { curve = "trace", times = [0.0, 0.1, 0.2] }
watch = { median = 3, sigma = 0 }
network = [{ rate = 100_000, share = 0.5 }]

[tokens.completions]
arrivals = { curve = "trace", times = [0.0, 0.1] }

[embedded_origin]
bitrates = [100_000]
segment = 0.5
window = 8
events = 50
tokens = 20
token = 0.01
"""


async def test_the_embedded_origin_has_live_titles_events_and_tokens(tmp_path: Path) -> None:
    ended = await load(tmp_path, KINDS, "--embedded-origin", "--fail-if", "gaps > 0", duration=20)
    summary = ended.summary
    assert (ended.status, summary["errors"]) == (0, []), ended.output
    assert summary["qoe"]["latency"] > 0
    assert summary["requests"]["playlist"]["count"] > 6
    assert summary["requests"]["first_token"]["count"] == 2
    assert summary["requests"]["token"]["count"] == 2 * 19
    assert summary["requests"]["event"]["count"] > 100
    events = [session["events"] for session in ended.sessions if session["workload"] == 1]
    assert all(each["received"] > 20 and each["gaps"] == each["repeats"] == 0 for each in events)
