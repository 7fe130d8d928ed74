"""A directory is one process's: a child that was forked does not keep it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock import config

PARENT = """
import os, signal, sys
import penstock
from penstock import config

engine = penstock.Engine(
    memory="4MiB", cache=config.Cache(memory="1MiB", disk=sys.argv[1], disk_budget="8MiB")
)
if os.fork() == 0:
    os.write(1, b"forked\\n")
    # Until the test says so.
    os.read(0, 1)
    engine.close()
    del engine
    os.write(1, b"still there\\n")
    os._exit(0)
signal.pause()
"""


def test_a_child_that_outlives_its_parent_does_not_keep_the_directory(tmp_path: Path) -> None:
    settings = config.Cache(memory="1MiB", disk=tmp_path / "disk", disk_budget="8MiB")
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "disk")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        assert parent.stdout.readline() == b"forked\n"
        parent.kill()
        assert parent.wait(10) == -signal.SIGKILL
        penstock.Engine(memory="4MiB", cache=settings).close()
        parent.stdin.write(b".")
        parent.stdin.flush()
        assert parent.stdout.read() == b"still there\n"


def test_a_parent_keeps_the_directory_when_its_child_ends(tmp_path: Path) -> None:
    settings = config.Cache(memory="1MiB", disk=tmp_path / "disk", disk_budget="8MiB")
    program = PARENT.replace("signal.pause()", "os.wait(); os.write(1, b'waited\\n'); signal.pause()")
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "disk")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        parent.stdin.write(b".")
        parent.stdin.flush()
        assert [parent.stdout.readline() for _ in range(3)] == [b"forked\n", b"still there\n", b"waited\n"]
        with pytest.raises(penstock.SystemFailureError) as caught:
            penstock.Engine(memory="4MiB", cache=settings)
        parent.kill()
        assert caught.value.name == "CACHE_DIRECTORY_TAKEN"
