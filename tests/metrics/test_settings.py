"""Where pages may be, and what is no such place."""

import pytest

import penstock
from penstock.config import Status


@pytest.mark.parametrize(
    ("listen", "place"),
    [
        ("127.0.0.1:9145", ("127.0.0.1", 9145)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("[::1]:80", ("::1", 80)),
        ("unix:/run/a:b", "/run/a:b"),
        ("localhost:9145", ("127.0.0.1", 9145)),
        *((text, ("0.0.0.0", 9145)) for text in ("9145", ":9145", "*:9145")),
    ],
)
def test_places(listen: str, place: object) -> None:
    assert Status(listen=listen).place() == place


@pytest.mark.parametrize(
    "settings",
    [
        {"listen": ""},
        {"listen": "127.0.0.1"},
        {"listen": "127.0.0.1:"},
        {"listen": "127.0.0.1:65536"},
        {"listen": "127.0.0.1:-1"},
        {"listen": "127.0.0.1:\u0661"},
        {"listen": "host.example:9145"},
        {"listen": "http://127.0.0.1:9145"},
        {"listen": "::1:9145"},
        {"listen": "unix:"},
        {"listen": 9145},
        {"hung": 1.9},
        {"behind": 0},
        {"scrapes": 0},
        {"viewers": -1},
        {"viewers": 1025},
    ],
)
def test_what_is_wrong_is_refused(settings: dict[str, object]) -> None:
    (name,) = settings
    with pytest.raises(penstock.ConfigurationError, match=rf"Status\.{name} = "):
        Status(**settings)  # type: ignore[arg-type]


def test_this_machine_alone_by_default() -> None:
    host, _ = Status().place()
    assert host == "127.0.0.1"
