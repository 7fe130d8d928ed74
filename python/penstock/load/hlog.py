"""HdrHistogram's log, version 1.3 with histograms in its encoding V2: other tools read and merge it.

The form is that of the implementation in Java (`HistogramLogWriter`, `encodeIntoCompressedByteBuffer`):
lines of a tag, a start, a length, the highest value and a compressed histogram in base64.
"""

import base64
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from .histogram import Counts, added

__all__ = ["encoded", "log_lines"]

_COOKIE: Final = 0x1C849303 | 0x10
_COMPRESSED_COOKIE: Final = 0x1C849304 | 0x10
_LONGEST: Final = 120_000_000
_DIGITS: Final = 3
# Of three digits: the first 2048 values are exact, and each further row of 1024 covers twice as much.
_HALF: Final = 1024
_HALF_BITS: Final = 10


def _index(value: int) -> int:
    """The place of a value among the counts."""
    row = max(0, value.bit_length() - (_HALF_BITS + 1))
    return (row + 1) * _HALF + (value >> row) - _HALF


def encoded(counts: Counts) -> str:
    """A histogram in encoding V2, compressed, as base64."""
    payload = bytearray()
    at = 0
    for value, count in counts:
        place = _index(value)
        if place > at:
            payload += _zigzag(at - place)
        payload += _zigzag(count)
        at = place + 1
    head = struct.pack(">IIIIQQd", _COOKIE, len(payload), 0, _DIGITS, 1, _LONGEST, 1.0)
    packed = zlib.compress(head + payload)
    return base64.b64encode(struct.pack(">II", _COMPRESSED_COOKIE, len(packed)) + packed).decode()


def _zigzag(value: int) -> bytes:
    """ZigZag LEB128 in nine bytes at most; a negative number is a run of zeros."""
    left = (value << 1) ^ (value >> 63)
    made = bytearray()
    # Counts have 63 bits and no ninth group of seven.
    while left >= 1 << 7:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    made.append(left)
    return bytes(made)


def log_lines(records: Sequence[Mapping[str, Any]], begun: float) -> Iterator[str]:
    """The log of a run: a line for each class and second. `begun` is its start, in seconds since 1970."""
    yield "#[Histogram log format version 1.3]"
    yield f"#[StartTime: {begun:.3f} (seconds since epoch)]"
    yield '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'
    rows: dict[tuple[int, str], list[Counts]] = {}
    for thread in records:
        for each in thread["classes"]:
            for second, counts in each["seconds"]:
                rows.setdefault((second, each["class"]), []).append(counts)
    for (second, kind), several in sorted(rows.items()):
        counts = added(several)
        # The unit of the maximum is the millisecond, as in the logs of Java.
        yield f"Tag={kind},{second:.3f},1.000,{counts[-1][0] / 1000:.3f},{encoded(counts)}"
