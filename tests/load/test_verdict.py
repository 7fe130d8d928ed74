"""When a run is void."""

import copy
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock.load.machine import Others
from penstock.load.scenario import Void
from penstock.load.verdict import void_reasons

FINE: dict[str, Any] = {
    "generator": {"lateness": {"p99": 0.004}, "cpu": [0.2, 0.8], "others": 0.05},
    "sessions": {"started": 10, "dropped": 0},
    "errors": [{"class": "segment", "cause": "status 500", "count": 3}],
}


def test_a_run_on_an_idle_machine_is_not_void() -> None:
    assert void_reasons(FINE, Void()) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda each: each["generator"]["lateness"].update(p99=0.0051), "5.1 ms late"),
        (lambda each: each["generator"]["cpu"].append(0.86), "86% of its core"),
        (lambda each: each["generator"].update(others=0.11), "11% of the cores"),
        (lambda each: each["sessions"].update(dropped=1), "1 arrivals were dropped"),
        (lambda each: each["sessions"].update(started=0), "no session arrived"),
        (lambda each: each["errors"].append({"cause": "no_port", "count": 2}), "out of ports 2 times"),
        (
            lambda each: each["errors"].append({"cause": "no_descriptor", "count": 1}),
            "out of file descriptors",
        ),
    ],
)
def test_each_rule_makes_a_run_void(change: Callable[[dict[str, Any]], None], said: str) -> None:
    summary = copy.deepcopy(FINE)
    change(summary)
    (reason,) = void_reasons(summary, Void())
    assert said in reason


BUSY = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    pass
"""


def test_a_busy_process_is_another_unless_it_is_the_target() -> None:
    process = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with socket.create_server(("127.0.0.1", 0)) as free:
            of_another = Others(f"http://127.0.0.1:{free.getsockname()[1]}")
            of_target = Others(f"http://127.0.0.1:{port}")
            # Until the process has used half a second: how long that takes depends on what else runs.
            used = f"/proc/{process.pid}/stat"
            before = ticks(used)
            while ticks(used) - before < os.sysconf("SC_CLK_TCK") / 2:
                time.sleep(0.01)
            another, target = of_another.share(), of_target.share()
        assert another is not None
        assert target is not None
        assert another > target
    finally:
        process.kill()
        process.communicate()


def ticks(path: str) -> int:
    with open(path) as file:
        return int(file.read().rpartition(")")[2].split()[11])
