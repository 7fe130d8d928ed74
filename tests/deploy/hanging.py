"""What `penstock serve --origin` runs, with pages that take an engine thread for hung after two seconds.

python hanging.py ORIGIN STATUS_SOCKET
"""

import asyncio
import sys

import penstock
from penstock.config import Edge, Forwarding, Status
from penstock.serving.announcer import Announcer
from penstock.serving.origin import relay_of_all, serve

origin, status = sys.argv[1:]


async def main() -> None:
    async with penstock.Engine(memory="8MiB", threads=2) as engine:
        await serve(
            relay_of_all(origin, Forwarding(), None),
            ("127.0.0.1", 0),
            engine=engine,
            edge=Edge(),
            drain=1,
            access_log=None,
            status=Status(listen=f"unix:{status}", hung=2),
            announcer=announcer,
        )


announcer = Announcer.of_environment(lambda _line: None)
try:
    asyncio.run(main())
finally:
    announcer.close()
