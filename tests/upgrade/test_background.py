"""Work in bulk, which requests come before."""

import os
import sys
import threading

import pytest

from penstock.serving.background import background


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
def test_one_thread_has_less_of_the_processor_and_the_others_what_they_had() -> None:
    def seen() -> tuple[int, int]:
        number = threading.get_native_id()
        return number, os.getpriority(os.PRIO_PROCESS, number)

    before = seen()
    with background() as worker:
        first, second = (worker.submit(seen).result() for _ in range(2))
    assert first == second
    assert first[0] != before[0]
    assert first[1] > before[1]
    assert seen() == before
