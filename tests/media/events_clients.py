"""The readers of the load test: `python events_clients.py URL STREAMS EVENTS`.

Reads all streams at once, each to its end, and compares every event with the one that has to come next.
Prints how many events were right as the last line; the first thing wrong with each stream goes to standard
error, and the status is then 1.
"""

import asyncio
import sys

import aiohttp
from numbered_events import event


async def read(session: aiohttp.ClientSession, url: str, stream: int, events: int) -> int:
    """Read one stream; returns how many events came, each at its place.

    Raises:
        ValueError: an event is missing, repeated, out of order or changed, or there are fewer or more than
        `events`. aiohttp.ClientError: the stream could not be had, or was cut short.
    """
    rest = b""
    number = 0
    async with session.get(f"{url}/events/{stream}", raise_for_status=True) as response:
        if response.content_type != "text/event-stream":
            raise ValueError(f"is {response.content_type}")
        async for chunk in response.content.iter_any():
            *blocks, rest = (rest + chunk).split(b"\n\n")
            for block in blocks:
                if block + b"\n\n" != event(stream, number):
                    raise ValueError(f"has {block[:60]!r} in place of event {number}")
                number += 1
    if rest or number != events:
        raise ValueError(f"ended after {number} events with {rest[:60]!r} over")
    return number


async def main(url: str, streams: int, events: int) -> int:
    """Read all streams and report; returns the exit status."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, timeout=aiohttp.ClientTimeout(total=None)
    ) as session:
        reading = (read(session, url, stream, events) for stream in range(streams))
        results = await asyncio.gather(*reading, return_exceptions=True)
    faults = [(stream, result) for stream, result in enumerate(results) if isinstance(result, BaseException)]
    if faults:
        stream, first = faults[0]
        print(f"{len(faults)} streams failed, first {stream}: {first!r}", file=sys.stderr)  # noqa: T201 (so it reports)
    print(sum(each for each in results if isinstance(each, int)))  # noqa: T201 (so it reports)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
