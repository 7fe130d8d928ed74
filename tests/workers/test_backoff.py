"""How long one waits before a process is started again, by what it has lived for, and what may be set of workers."""

import pytest

import penstock
from penstock import config
from penstock.workers.backoff import Backoff


def never() -> float:
    return 0.0


def test_the_first_time_is_at_once_and_then_it_takes_longer() -> None:
    backoff = Backoff(0.5, 30.0, never)
    assert [backoff.after(0.1) for _ in range(9)] == [0, 0.5, 1, 2, 4, 8, 16, 30, 30]


def test_one_that_has_lived_is_forgiven() -> None:
    backoff = Backoff(0.5, 30.0, never)
    assert [backoff.after(lived) for lived in (0, 0, 0, 29.9)] == [0, 0.5, 1, 2]
    assert [backoff.after(lived) for lived in (30.0, 0, 0)] == [0, 0.5, 1]


def test_chance_takes_up_to_half_of_it() -> None:
    chances = iter((0.9, 0.0, 0.5, 1.0))
    backoff = Backoff(1.0, 8.0, lambda: next(chances))
    assert [backoff.after(0) for _ in range(4)] == [0, 1, 1.5, 2]
    waits = set()
    for backoff in [Backoff(1.0, 8.0) for _ in range(50)]:
        assert backoff.after(0) == 0
        waits.add(backoff.after(0))
    assert len(waits) > 40, "several that end at once do not start at once"
    assert all(0.5 <= wait <= 1 for wait in waits)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("count", 0),
        ("count", 1.5),
        ("start_timeout", 0),
        ("stop_timeout", -1),
        ("hang", 0),
        ("hang", "soon"),
        ("backoff", 0),
        ("max_backoff", 0.4),
        ("memory", "much"),
        ("memory", "1KiB"),
    ],
)
def test_a_setting_that_cannot_be_is_named(setting: str, value: object) -> None:
    with pytest.raises(penstock.ConfigurationError, match=rf"Workers\.{setting} = {value!r}: "):
        config.Workers(**{"count": 2, setting: value})  # type: ignore[arg-type]


def test_settings_take_the_form_that_is_read() -> None:
    settings = config.Workers(count=2, stop_timeout=0, hang=None, memory="8MiB")
    assert (settings.stop_timeout, settings.hang, settings.memory) == (0.0, None, 8 << 20)
