"""The demo's live playlist: what RFC 8216 asks of one that slides and loops."""

import re
from dataclasses import dataclass

import pytest

from penstock.demo.live import WINDOW, LiveStream
from penstock.demo.origin import MEDIA

_RECORDED = 8
_SECONDS = 2.0


@dataclass
class Clock:
    """Time as the test sets it."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def live(clock: Clock) -> LiveStream:
    return LiveStream(MEDIA, clock)


def _tag(playlist: str, name: str) -> int:
    found = re.search(rf"^#{name}:(\d+)$", playlist, re.MULTILINE)
    assert found, f"{name} is missing from:\n{playlist}"
    return int(found[1])


def _numbers(playlist: str) -> list[int]:
    return [int(each) for each in re.findall(r"^segment-(\d+)\.m4s$", playlist, re.MULTILINE)]


def test_the_window_is_full_from_the_start(live: LiveStream) -> None:
    playlist = live.playlist()
    assert playlist.startswith("#EXTM3U\n")
    assert _numbers(playlist) == list(range(WINDOW))
    assert _tag(playlist, "EXT-X-TARGETDURATION") == _SECONDS
    assert "#EXT-X-ENDLIST" not in playlist


def test_one_segment_is_added_and_one_leaves_as_its_length_passes(live: LiveStream, clock: Clock) -> None:
    clock.now += 0.9 * _SECONDS
    assert _tag(live.playlist(), "EXT-X-MEDIA-SEQUENCE") == 0
    clock.now += 0.2 * _SECONDS
    assert _tag(live.playlist(), "EXT-X-MEDIA-SEQUENCE") == 1
    assert _numbers(live.playlist()) == list(range(1, 1 + WINDOW))


def test_a_discontinuity_and_its_map_stand_right_before_the_first_segment_of_a_loop(
    live: LiveStream, clock: Clock
) -> None:
    clock.now += 5 * _SECONDS
    playlist = live.playlist()
    assert re.search(
        r"segment-7\.m4s\n"
        r"#EXT-X-DISCONTINUITY\n"
        r'#EXT-X-MAP:URI="init\.mp4"\n'
        r"#EXT-X-PROGRAM-DATE-TIME:\S+\n"
        r"#EXTINF:2\.000,\n"
        r"segment-8\.m4s\n",
        playlist,
    ), playlist
    assert playlist.count("#EXT-X-DISCONTINUITY\n") == 1


def test_a_segment_keeps_its_discontinuity_number_while_the_window_slides(
    live: LiveStream, clock: Clock
) -> None:
    seen: dict[int, int] = {}
    for _ in range(4 * _RECORDED):
        playlist = live.playlist()
        discontinuity = _tag(playlist, "EXT-X-DISCONTINUITY-SEQUENCE")
        for line in playlist.splitlines():
            if line == "#EXT-X-DISCONTINUITY":
                discontinuity += 1
            elif found := re.fullmatch(r"segment-(\d+)\.m4s", line):
                assert seen.setdefault(int(found[1]), discontinuity) == discontinuity
        clock.now += _SECONDS
    assert sorted(set(seen.values())) == [0, 1, 2, 3, 4]


def test_a_segment_can_be_fetched_while_it_is_listed_and_a_while_after(
    live: LiveStream, clock: Clock
) -> None:
    clock.now += 100 * _SECONDS
    first, *_, last = _numbers(live.playlist())
    assert live.segment(last + 1) is None
    path = live.segment(first)
    assert path == MEDIA / f"segment{first % _RECORDED}.m4s"
    # RFC 8216 §6.2.2: its own length and that of the longest playlist after it has left.
    clock.now += (WINDOW + 1) * _SECONDS
    assert first not in _numbers(live.playlist())
    assert live.segment(first) == path
    clock.now += _SECONDS
    assert live.segment(first) is None


def test_the_first_segments_are_not_preceded_by_any(live: LiveStream) -> None:
    assert live.segment(0) == MEDIA / "segment0.m4s"
    assert live.segment(-1) is None
