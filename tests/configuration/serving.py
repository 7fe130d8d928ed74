"""Files and keys for tests of what is served."""

import asyncio
import re
import signal

from penstock.tokens import SignedUrl
from support.command import Running

SECRET = "a secret of 32 bytes, from a safe"
URLS = SignedUrl(SECRET)
READ = re.compile(r"SIGHUP: the configuration (was read again|has faults)")


async def reload(running: Running) -> bool:
    """Have the file read again; whether it was good."""
    running.process.send_signal(signal.SIGHUP)
    async with asyncio.timeout(30):
        return (await running.wait_for(READ))[1] == "was read again"
