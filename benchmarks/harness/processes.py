"""Child processes: pinned to a core, on a free loopback port, in a process group that is always stopped.

Every program of a run is started through `Process`, so that leaving its `with` block, by success, error or
Ctrl-C, leaves nothing behind.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

HOST = "127.0.0.1"
STARTUP_SECONDS = 15.0
STOP_SECONDS = 5.0
# Should this process be killed, and so unable to stop its children, the kernel tells them.
PINNED = ("setpriv", "--pdeathsig", "TERM", "taskset", "--cpu-list")


class StartError(RuntimeError):
    """A program did not start to listen; the message ends with what it printed."""


def free_port() -> int:
    """Return a loopback port that the kernel has just found free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _accepts(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


class Process:
    """One program on one core, in a process group of its own, its stderr kept in `runtime`.

    Entering starts it; leaving sends SIGTERM to the group, then SIGKILL to what is left after STOP_SECONDS. It has a
    session of its own too, unless it is started `together` with others: where the kernel gives each session the same
    share of a core (autogroup), those are one.
    """

    def __init__(
        self,
        command: list[str],
        *,
        core: int | str,
        runtime: Path,
        interactive: bool = False,
        together: bool = False,
    ) -> None:
        self.command = command
        self._own_session = not together
        self._core = core
        self._log = runtime / "stderr"
        self._pipe = subprocess.PIPE if interactive else subprocess.DEVNULL
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        with self._log.open("w") as log:
            self._child = subprocess.Popen(
                [*PINNED, str(self._core), *self.command],
                stdin=self._pipe,
                stdout=self._pipe,
                stderr=log,
                text=True,
                start_new_session=self._own_session,
                process_group=None if self._own_session else 0,
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, and what is left of its group. To be called again does nothing."""
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.child.wait(STOP_SECONDS)
        # The leader may have ended before its workers: the group is what must be gone.
        self._signal(signal.SIGKILL)
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                pipe.close()

    @property
    def child(self) -> subprocess.Popen[str]:
        if self._child is None:
            raise RuntimeError("the process has not been started")
        return self._child

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def stdin(self) -> IO[str]:
        assert self.child.stdin is not None, "started without pipes"
        return self.child.stdin

    @property
    def stdout(self) -> IO[str]:
        assert self.child.stdout is not None, "started without pipes"
        return self.child.stdout

    def diagnosis(self) -> str:
        """Return how the program ended, if it has, and the last of what it wrote to stderr."""
        code = self.child.poll()
        state = "is running" if code is None else f"ended with {code}"
        return f"{self.command[0]} {state}\n{self._log.read_text(errors='replace')[-2000:]}".strip()

    def ended(self) -> bool:
        return self.child.poll() is not None

    def wait_until_listening(self, port: int, host: str = HOST, *, seconds: float = STARTUP_SECONDS) -> None:
        """Return when `port` of `host` accepts connections. Raises StartError if the program ends or `seconds`
        pass.
        """
        deadline = time.monotonic() + seconds
        while not _accepts(host, port):
            if self.ended() or time.monotonic() > deadline:
                raise StartError(f"nothing listens on {host}:{port}: {self.diagnosis()}")
            time.sleep(0.02)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)
