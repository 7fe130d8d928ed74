"""A mixed load of a steady pace, whose every failure counts: `python mixed.py PORT SEGMENT`.

It prints a line when every kind has been answered, counts between the lines "begin" and "end" on its standard input, and
then prints what it has counted. Nothing is ever asked twice: no failure is hidden by a client that repeats requests.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"
CONNECTIONS = 4
PATIENCE_SECONDS = 30.0


@dataclass
class Kind:
    """Requests that are alike; `expected` is the body of their answer."""

    name: str
    method: str
    target: str
    per_second: int
    expected: bytes
    sent: bytes = b""
    milliseconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def request(self) -> bytes:
        head = f"{self.method} {self.target} HTTP/1.1\r\nHost: {HOST}\r\n"
        length = f"Content-Length: {len(self.sent)}\r\n" if self.method == "POST" else ""
        return f"{head}{length}\r\n".encode() + self.sent

    def report(self) -> dict[str, object]:
        times = sorted(self.milliseconds)
        p50, p99, longest = (
            round(times[int(share * (len(times) - 1))], 2) if times else None for share in (0.5, 0.99, 1)
        )
        return {
            "requests": len(times) + len(self.failures),
            "failures": len(self.failures),
            "first_failure": self.failures[0] if self.failures else "",
            "p50_ms": p50,
            "p99_ms": p99,
            "max_ms": longest,
        }


def kinds(segment: bytes) -> list[Kind]:
    return [
        Kind("handler", "GET", "/ok", 100, b"ok"),
        Kind("relayed", "GET", "/relayed/segment", 50, segment),
        Kind("stored", "GET", "/stored/segment", 100, segment),
        Kind("posted", "POST", "/posted", 50, b"1000", b"x" * 1000),
    ]


class Load:
    """All kinds at once."""

    def __init__(self, port: int, kinds: list[Kind]) -> None:
        self.kinds = kinds
        self.answered = asyncio.Event()
        self._port = port
        self._counting = False
        self._over = False
        self._waiting = {kind.name for kind in kinds}

    def begin(self) -> None:
        self._counting = True

    def end(self) -> None:
        self._over = True

    async def run(self) -> None:
        """Ask until the end; what has begun to be asked by then is waited for."""
        async with asyncio.TaskGroup() as group:
            for kind in self.kinds:
                for number in range(CONNECTIONS):
                    group.create_task(self._ask(kind, number / kind.per_second))

    async def _ask(self, kind: Kind, after: float) -> None:
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        due = time.monotonic() + after
        while not self._over:
            await asyncio.sleep(due - time.monotonic())
            due += CONNECTIONS / kind.per_second
            began, counts = time.monotonic(), self._counting
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    connection = connection or await asyncio.open_connection(HOST, self._port)
                    failure = await self._answer(kind, *connection)
            except (OSError, EOFError, TimeoutError, ValueError) as error:
                failure = repr(error)
            if failure and connection is not None:
                connection[1].transport.abort()
                connection = None
            if counts and failure:
                kind.failures.append(failure)
            elif counts:
                kind.milliseconds.append((time.monotonic() - began) * 1e3)
            elif not failure:
                self._waiting.discard(kind.name)
                if not self._waiting:
                    self.answered.set()
        if connection is not None:
            connection[1].transport.abort()

    async def _answer(self, kind: Kind, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        """What is wrong with the answer; nothing if it is right."""
        writer.write(kind.request())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        body = await reader.readexactly(length)
        if head.split()[1] != "200":
            return head.partition("\r\n")[0] + " " + body[:300].decode("latin-1")
        return "" if body == kind.expected else "the body is another one"


async def main() -> None:
    load = Load(int(sys.argv[1]), kinds(Path(sys.argv[2]).read_bytes()))
    loop = asyncio.get_running_loop()
    running = asyncio.create_task(load.run())
    await load.answered.wait()
    print(json.dumps({"phase": "connected"}), flush=True)
    for act in (load.begin, load.end):
        await loop.run_in_executor(None, sys.stdin.readline)
        act()
    await running
    print(json.dumps({kind.name: kind.report() for kind in load.kinds}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
