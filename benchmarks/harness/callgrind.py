"""Instructions, by valgrind's callgrind: a program under it, and what it says of the functions that ran.

Callgrind counts the instructions that the program's process executes itself, and not the kernel's. It runs the threads
of a process one at a time. Its simulated last-level cache, which slows it down, is empty when it begins to count, and
holds more than any request touches: what misses it is a cache line that is touched for the first time.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from harness.builds import require
from harness.load import LoadError
from harness.processes import Process

PACKAGE = "valgrind"
# Each is one call of an allocator that is asked for memory; what only returns it is not counted.
ALLOCATORS = frozenset({"malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign"})
LIBC = re.compile(r"/libc[.-]")
# Of the last-level cache: bytes, ways, and bytes of a line.
LAST_LEVEL = "33554432,16,64"
COMMAND_SECONDS = 60.0
# "fn=(12) name" where it is named first, and "fn=(12)" after that. A "c" before it: of the function that is called.
NAMED = re.compile(r"(c?)(ob|fn)=\((\d+)\)(?: (.*))?")


@dataclass
class Profile:
    """What a process executed in a window."""

    instructions: int = 0
    loop: int = 0
    """The first thread's part: of the event loop, where there is one."""
    allocations: int = 0
    """Calls of libc's allocator for memory."""
    code_lines: int = 0
    """Cache lines of instructions that were touched for the first time since `Callgrind.count`."""
    data_lines: int = 0
    functions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Instructions by object file and function, without what the function calls."""


def command(program: list[str], runtime: Path, *, with_cache: bool = False) -> list[str]:
    """Return what starts a program under callgrind, which counts nothing yet. Raises AbsentError."""
    cache = ["--cache-sim=yes", f"--LL={LAST_LEVEL}"] if with_cache else []
    return [
        require("valgrind", PACKAGE),
        "--tool=callgrind",
        "--instr-atstart=no",
        "--separate-threads=yes",
        "--fair-sched=try",
        *cache,
        f"--callgrind-out-file={runtime / 'callgrind'}",
        *program,
    ]


class Callgrind:
    """A process that `command` started."""

    def __init__(self, process: Process, runtime: Path) -> None:
        self._process = process
        self._runtime = runtime
        self._windows = 0

    def count(self) -> None:
        """Begin to count, with empty caches: until then it runs several times as fast."""
        self._tell("instrumentation", "off")
        self._tell("instrumentation", "on")

    def open(self) -> None:
        self._tell("zero")

    def close(self) -> Profile:
        """Return what has run since `open`."""
        self._windows += 1
        self._tell("dump")
        profile = Profile()
        for path in sorted(self._runtime.glob(f"callgrind.{self._windows}-*")):
            read = parse(path.read_text(errors="replace"))
            profile.instructions += read.instructions
            profile.allocations += read.allocations
            profile.code_lines += read.code_lines
            profile.data_lines += read.data_lines
            profile.functions.update(read.functions)
            if path.name.endswith("-01"):
                profile.loop = read.instructions
        if not profile.instructions:
            raise LoadError(f"callgrind counted nothing: {self._process.diagnosis()}")
        return profile

    def _tell(self, *words: str) -> None:
        asked = [require("vgdb", PACKAGE), f"--pid={self._process.pid}", *words]
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS)
        if done.returncode:
            raise LoadError(f"{' '.join(asked)}: {done.stderr.strip()} {self._process.diagnosis()}")


def parse(text: str) -> Profile:
    """Return the counts of one thread, from a file in callgrind's format."""
    profile = Profile()
    names: dict[tuple[str, str], str] = {}
    at = {"ob": "", "fn": ""}
    called = {"ob": "", "fn": ""}
    events: list[str] = []
    inclusive = False
    for line in text.splitlines():
        if line.startswith("events:"):
            events = line.split()[1:]
        elif line.startswith("totals:"):
            # Trailing zeros are left out.
            totals = dict(zip(events, map(int, line.split()[1:]), strict=False))
            profile.code_lines = totals.get("ILmr", 0)
            profile.data_lines = totals.get("DLmr", 0) + totals.get("DLmw", 0)
        elif named := NAMED.fullmatch(line):
            of_call, kind, number, name = named.groups()
            if name is not None:
                names[kind, number] = name
            (called if of_call else at)[kind] = names[kind, number]
        elif line.startswith("calls="):
            # An object is only named where it is another one than the caller's.
            where = called["ob"] or at["ob"]
            # A function that calls itself is "name'2" at the second level.
            if called["fn"].partition("'")[0] in ALLOCATORS and LIBC.search(where):
                profile.allocations += int(line[len("calls=") :].split()[0])
            called = {"ob": "", "fn": ""}
            inclusive = True
        elif line and line[0] in "0123456789+-*":
            # A place and a cost. The line after "calls=" is what the called functions took.
            if not inclusive:
                cost = int(line.split()[1])
                profile.instructions += cost
                profile.functions[at["ob"], at["fn"]] += cost
            inclusive = False
    return profile
