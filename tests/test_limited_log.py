"""Lines that clients can cause: the first whole, then a count in each interval."""

import asyncio
import logging

import pytest

from penstock import _limited_log
from penstock._limited_log import LimitedLog
from support.waiting import until


@pytest.fixture
def log() -> LimitedLog:
    return LimitedLog(logging.getLogger("limited"))


def fail(log: LimitedLog, cause: str, number: int) -> None:
    error = OSError(f"no database {number}")
    log.log(logging.ERROR, cause, "the hook of %s has failed", cause, error=error)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


async def test_the_first_line_is_whole_and_the_others_are_counted(
    log: LimitedLog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_limited_log, "_INTERVAL", 0.2)
    for number in range(1000):
        fail(log, "a", number)
    fail(log, "b", 0)
    assert lines(caplog) == ["the hook of a has failed", "the hook of b has failed"]
    assert "OSError: no database 0" in (caplog.records[0].exc_text or "")
    await until(lambda: len(caplog.records) == 3, "the interval is over")
    counted = "the hook of a has failed: OSError('no database 999'); 998 more since the line before"
    assert lines(caplog)[2] == counted
    assert caplog.records[2].exc_text is None
    # The interval begins anew with that line.
    fail(log, "a", 1000)
    assert len(caplog.records) == 3
    await until(lambda: len(caplog.records) == 4, "the next is over")
    assert lines(caplog)[3] == "the hook of a has failed: OSError('no database 1000')"


async def test_after_an_interval_without_a_line_the_next_is_whole(
    log: LimitedLog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_limited_log, "_INTERVAL", 0.0)
    fail(log, "a", 0)
    fail(log, "a", 1)
    assert ["OSError" in (record.exc_text or "") for record in caplog.records] == [True, True]


async def test_causes_are_bounded_and_quiet_ones_leave(
    log: LimitedLog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_limited_log, "_MOST_CAUSES", 3)
    for cause in "abcde":
        fail(log, cause, 0)
    assert len(caplog.records) == 3
    caplog.clear()
    quiet = LimitedLog(logging.getLogger("limited"))
    monkeypatch.setattr(_limited_log, "_INTERVAL", 0.0)
    for cause in "abcde":
        fail(quiet, cause, 0)
    assert len(caplog.records) == 5
    causes = quiet._causes[asyncio.get_running_loop()]
    assert len(causes) <= 3


def test_without_a_loop_each_has_its_line(log: LimitedLog, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(2):
        fail(log, "a", number)
    assert len(caplog.records) == 2
