"""An engine: its memory, and what its streams and reads take of it."""

from dataclasses import dataclass

from . import checks
from .checks import PAGE, REGION, Size, parse_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The one memory budget for all payload bytes."""

    memory: Size = "256MiB"
    """Bytes; rounded down to whole regions of 256 KiB. 256 MiB hold 1024 streams of 256 KiB each."""
    reserve: Size | None = None
    """Bytes that only response heads and joined frames may take, so that established streams can go on when the
    rest is used. None: a thirty-second of `memory`."""
    heads: Size | None = None
    """Bytes that only request heads of clients may take, so that a client is answered however full the rest is.
    Incomplete heads take at most half of it: beyond that the head that has held the most memory for the longest
    time is refused (HEADS_FULL). None: a sixteenth of `memory`; 16 MiB hold 2,000 arriving heads."""
    pressed_percent: int = 75
    """From this use on windows shrink to their floor; a quarter is for responses in progress."""
    full_percent: int = 95
    """From this use on new work is refused at once; the rest is for established streams."""
    hysteresis_percent: int = 10
    """How far below a threshold the use must fall before the state relaxes, so that it does not flap."""
    prefault: Size = "4MiB"
    """Bytes kept present ahead of need by a background thread, at most: faulting a fresh 64 KiB in takes 43 us. It
    keeps as much as is in use, and 1 MiB at least, so that an idle engine takes one huge page."""
    huge_pages: bool = True
    """Ask for transparent huge pages: a hit of 512 KiB in a large cache costs a fifth less with them. Resident
    memory then grows in steps of 2 MiB."""
    lock: bool = False
    """Ask for the pages to be locked into memory. Off: the usual limit (RLIMIT_MEMLOCK) is 8 MiB."""
    caches: int = 4
    """Caches of free slabs, shared by threads in turn: for the engine's, the event loop's, and spare ones."""

    def __post_init__(self) -> None:
        memory = checks.size(self, "memory", REGION) // REGION * REGION
        checks.put(self, "memory", memory)
        if self.reserve is None:
            checks.put(self, "reserve", memory // 32)
        if checks.size(self, "reserve", 0) >= memory:
            raise checks.bad(self, "reserve", f"must be less than memory, {memory} bytes")
        if self.heads is None:
            checks.put(self, "heads", memory // 16)
        if checks.size(self, "heads", 0) + parse_size(self.reserve) >= memory:  # type: ignore[arg-type]
            raise checks.bad(self, "heads", f"must be, with reserve, less than memory, {memory} bytes")
        checks.count(self, "pressed_percent", 1, 100)
        checks.count(self, "full_percent", 1, 100)
        checks.count(self, "hysteresis_percent", 0, 100)
        if self.full_percent < self.pressed_percent:
            raise checks.bad(
                self, "full_percent", f"must not be below pressed_percent, {self.pressed_percent}"
            )
        if self.hysteresis_percent >= self.pressed_percent:
            raise checks.bad(
                self, "hysteresis_percent", f"must be below pressed_percent, {self.pressed_percent}"
            )
        checks.size(self, "prefault", 0)
        checks.flag(self, "huge_pages")
        checks.flag(self, "lock")
        checks.count(self, "caches", 1, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The window of one stream: bytes on their way to a consumer that has not released them yet."""

    floor: Size = "64KiB"
    """Bytes at the start, and at least: one read of the largest size that saves CPU time."""
    ceiling: Size = "1MiB"
    """Bytes at most: a round trip of 40 ms at 200 Mbit/s. The pool shared by the streams is a limit too."""

    def __post_init__(self) -> None:
        floor = checks.size(self, "floor", PAGE)
        checks.size(self, "ceiling", PAGE)
        if parse_size(self.ceiling) < floor:
            raise checks.bad(self, "ceiling", f"must not be below floor, {floor} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Memory that one read of a body is offered; it adapts to the arriving bytes between `least` and `most`."""

    least: Size = "4KiB"
    """Bytes at least: the smallest slab, which is what an idle or slow stream costs."""
    unknown: Size = "16KiB"
    """Bytes at the start of a body of unknown length, such as an event stream."""
    known: Size = "64KiB"
    """Bytes at the start of a body whose length is known, unless that is shorter."""
    most: Size = "256KiB"
    """Bytes at most: the largest slab. A socket seldom has more at a time."""

    def __post_init__(self) -> None:
        least = checks.size(self, "least", PAGE, REGION)
        most = checks.size(self, "most", least, REGION)
        checks.size(self, "unknown", least, most)
        checks.size(self, "known", least, most)
