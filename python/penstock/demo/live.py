"""A recorded HLS set played as a live stream, in a loop without end.

Owns the arithmetic from the clock to the playlist; `penstock.demo.origin` puts it on HTTP. Segment `n` of the
live stream is recorded segment `n` modulo the length of the set. Invariants: media sequence numbers never
fall, every segment named in a playlist can be fetched, and it stays fetchable for as long after it has left
the playlist as RFC 8216 §6.2.2 asks.
"""

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

WINDOW = 6
"""Segments in the live playlist: clients start three from the end (RFC 8216 §6.3.3), and may fall behind."""


class LiveStream:
    """A sliding window over an endless loop of recorded segments.

    Args:
        directory: holds `media.m3u8`, the initialisation segment and the media segments it names.
        clock: monotonic seconds. The stream advances by one segment each time a segment's length has passed.

    Raises:
        ValueError: the playlist names no segments, or they are not all of one length.
    """

    def __init__(self, directory: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._paths, self.segment_seconds = _read_recording(directory / "media.m3u8")
        self._clock = clock
        # The stream is as old as one full window, so that the first viewer need not wait for it to fill.
        age = timedelta(seconds=WINDOW * self.segment_seconds)
        self._began_at = clock() - age.total_seconds()
        self._began_on = datetime.now(UTC) - age

    @property
    def _produced(self) -> int:
        """How many segments are complete; the newest is this minus one."""
        return int((self._clock() - self._began_at) / self.segment_seconds)

    def playlist(self) -> str:
        """The live media playlist as of now (RFC 8216 §4.3)."""
        produced = self._produced
        first = produced - WINDOW
        lines = [
            "#EXTM3U",
            "#EXT-X-VERSION:7",
            f"#EXT-X-TARGETDURATION:{math.ceil(self.segment_seconds)}",
            f"#EXT-X-MEDIA-SEQUENCE:{first}",
            f"#EXT-X-DISCONTINUITY-SEQUENCE:{self._discontinuities_before(first)}",
            "#EXT-X-INDEPENDENT-SEGMENTS",
            '#EXT-X-MAP:URI="init.mp4"',
        ]
        for number in range(first, produced):
            if self._starts_loop(number):
                # Timestamps restart here, so a client has to be told; a MAP holds up to the next one, and
                # stating it again right after the discontinuity is what players are tested against.
                lines += ["#EXT-X-DISCONTINUITY", '#EXT-X-MAP:URI="init.mp4"']
            began = self._began_on + timedelta(seconds=number * self.segment_seconds)
            lines += [
                f"#EXT-X-PROGRAM-DATE-TIME:{began.isoformat(timespec='milliseconds')}",
                f"#EXTINF:{self.segment_seconds:.3f},",
                f"segment-{number}.m4s",
            ]
        return "\n".join(lines) + "\n"

    def segment(self, number: int) -> Path | None:
        """The file behind segment `number`, or None if it is not made yet or has expired."""
        # RFC 8216 §6.2.2: after it has left, for its own length plus that of the longest playlist.
        oldest = self._produced - WINDOW - (WINDOW + 1)
        if max(oldest, 0) <= number < self._produced:
            return self._paths[number % len(self._paths)]
        return None

    def _starts_loop(self, number: int) -> bool:
        return number > 0 and number % len(self._paths) == 0

    def _discontinuities_before(self, number: int) -> int:
        """Discontinuity tags that have left the playlist when it begins with segment `number`.

        A tag leaves with its segment, so the one at `number` itself is not counted (RFC 8216 §6.2.2).
        """
        return max(number - 1, 0) // len(self._paths)


def _read_recording(playlist: Path) -> tuple[list[Path], float]:
    """The segments a recorded playlist names, and the length in seconds that they all share."""
    paths: list[Path] = []
    lengths: set[float] = set()
    for line in playlist.read_text("utf-8").splitlines():
        if line.startswith("#EXTINF:"):
            lengths.add(float(line.removeprefix("#EXTINF:").partition(",")[0]))
        elif line and not line.startswith("#"):
            paths.append(playlist.with_name(line))
    if not paths or len(lengths) != 1:
        raise ValueError(f"{playlist.name} must name segments of one length, not {sorted(lengths)}")
    return paths, lengths.pop()
