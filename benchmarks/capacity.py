"""Whether memory that is reserved and not used costs time, and how much that is used does: `capacity.py [--quick]`.

A program relays bytes between sockets through buffers: a length is read into a slot of a capacity, which is written from
when as many others have been read into as there are connections. Only what is read is touched.

    ratio    the capacity by the length: of 4 to 256 KiB, with 16 and 1,024 connections, pages of 4 KiB and of 2 MiB
    knee     what is touched before the same memory is used again, from 256 KiB to 1 GiB, by both sizes of pages

Reported is the processor time of the relaying thread by KiB: the median of five rounds, which are interleaved. The
spread is that of the middle three. A cell whose spread is over a tenth is measured again, twice at most. Results are in
results/capacity.json, and docs/concepts/capacity.md says what came of it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

from harness import builds, command, results

OUTPUT = results.DIRECTORY / "capacity.json"
KIB = 1024
LENGTHS = (4, 8, 16, 64, 256)
RATIOS = (1.0, 1.5, 2.0, 2.3, 2.4, 3.0, 4.0, 8.0)
CONNECTIONS = (16, 1024)
KNEE_LENGTH = 16
KNEE_MIB = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
# Relayed in a round of a cell: some 30 ms.
MIB, QUICK_MIB = 192, 16
ROUNDS, MORE_ROUNDS = 5, 2
MOST_SPREAD = 0.10


@dataclass
class Cell:
    """One cell. Times are nanoseconds of the relaying thread by KiB."""

    part: str
    length_kib: int
    ratio: float
    connections: int
    huge_pages: bool
    times: list[float] = field(default_factory=list)
    faults: int = 0

    @property
    def touched_mib(self) -> float:
        """What is touched before the same memory is used again."""
        return self.length_kib * self.connections / KIB

    @property
    def capacity(self) -> int:
        """Bytes: whole lines of a cache, so that each slot begins with one."""
        return round(self.length_kib * KIB * self.ratio / 64) * 64

    @property
    def time(self) -> float:
        return median(self.times)

    @property
    def spread(self) -> float:
        """Of the middle three of five."""
        ordered = sorted(self.times)
        middle = ordered[len(ordered) // 5 : len(ordered) - len(ordered) // 5]
        return (middle[-1] - middle[0]) / self.time


@dataclass(frozen=True)
class Row:
    """What is kept of a cell."""

    part: str
    length_kib: int
    ratio: float
    connections: int
    touched_mib: float
    huge_pages: bool
    ns_by_kib: float
    spread: float
    faults: int


def cells() -> list[Cell]:
    grid = [
        Cell("ratio", length, ratio, count, huge)
        for length in LENGTHS
        for count in CONNECTIONS
        for ratio in RATIOS
        for huge in (False, True)
    ]
    knee = [
        Cell("knee", KNEE_LENGTH, 1.0, round(touched * KIB / KNEE_LENGTH), huge)
        for touched in KNEE_MIB
        for huge in (False, True)
    ]
    return grid + knee


@contextmanager
def program() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [builds.rust("capacity", "capacity")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        yield running
        assert running.stdin is not None
        running.stdin.close()


def measure(running: subprocess.Popen[str], cell: Cell, mib: int) -> None:
    assert running.stdin is not None
    assert running.stdout is not None
    length = cell.length_kib * KIB
    print(length, cell.capacity, cell.connections, int(cell.huge_pages), mib, file=running.stdin, flush=True)
    time, faults = running.stdout.readline().split()
    cell.times.append(float(time))
    cell.faults = max(cell.faults, int(faults))


def run(mib: int, rounds: int) -> list[Cell]:
    found = cells()
    with program() as running:
        for number in range(rounds):
            for cell in found:
                measure(running, cell, mib)
            command.say(f"round {number + 1} of {rounds}")
        for _ in range(MORE_ROUNDS):
            for cell in [cell for cell in found if cell.spread > MOST_SPREAD]:
                cell.times.clear()
                for _ in range(rounds):
                    measure(running, cell, mib)
    return found


def one(found: Sequence[Cell], *key: object) -> Cell:
    (cell,) = (
        each
        for each in found
        if (each.part, each.length_kib, each.ratio, each.connections, each.huge_pages) == key
    )
    return cell


def show(found: Sequence[Cell]) -> None:
    for huge in (False, True):
        for count in CONNECTIONS:
            print(f"\nof ratio 1, {count} connections, pages of {'2 MiB' if huge else '4 KiB'}")
            print(f"{'KiB':>5}{'ns/KiB':>9}" + "".join(f"{ratio:>7g}" for ratio in RATIOS))
            for length in LENGTHS:
                row = [one(found, "ratio", length, ratio, count, huge).time for ratio in RATIOS]
                print(f"{length:5}{row[0]:9.1f}" + "".join(f"{time / row[0]:7.3f}" for time in row))
    print(f"\ntouched, MiB{'ns/KiB: 4 KiB':>16}{'2 MiB':>8}")
    for touched in KNEE_MIB:
        times = [
            one(found, "knee", KNEE_LENGTH, 1.0, round(touched * KIB / KNEE_LENGTH), huge).time
            for huge in (False, True)
        ]
        print(f"{touched:12g}{times[0]:16.1f}{times[1]:8.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one short round, and no results file")
    quick = parser.parse_args().quick
    found = run(QUICK_MIB, 1) if quick else run(MIB, ROUNDS)
    show(found)
    wide = [cell for cell in found if cell.spread > MOST_SPREAD]
    print(f"\n{len(found)} cells, {len(wide)} of them with a spread over {MOST_SPREAD:.0%}")
    if not quick:
        rows = [
            Row(
                cell.part,
                cell.length_kib,
                cell.ratio,
                cell.connections,
                cell.touched_mib,
                cell.huge_pages,
                round(cell.time, 2),
                round(cell.spread, 4),
                cell.faults,
            )
            for cell in found
        ]
        results.publish(OUTPUT, rows, method=" ".join((__doc__ or "").split()), counters="absent")
    return 0


if __name__ == "__main__":
    sys.exit(main())
