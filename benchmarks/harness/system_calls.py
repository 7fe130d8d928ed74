"""System calls of a process, by strace."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.builds import require
from harness.load import LoadError

STOP_SECONDS = 10.0


class SystemCalls:
    """Counts, from `with` to its end, what all threads of a process call. Raises AbsentError without strace."""

    def __init__(self, pid: int, runtime: Path) -> None:
        self._report = runtime / "system-calls"
        self._command = [
            *(require("strace", "strace"), "-f", "-c", "-U", "calls,name"),
            *("-o", str(self._report), "-p", str(pid)),
        ]
        self.calls: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._strace = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        assert self._strace.stderr is not None
        # It says so once it has all threads.
        said = self._strace.stderr.readline()
        if "attached" not in said:
            self._strace.kill()
            raise LoadError(f"strace: {said.strip() or 'ended'}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._strace.send_signal(signal.SIGINT)
        self._strace.communicate(timeout=STOP_SECONDS)
        for line in self._report.read_text().splitlines():
            words = line.split()
            if len(words) == 2 and words[0].isdigit() and words[1] != "total":
                self.calls[words[1]] += int(words[0])
