"""Files and keys for tests of what is served."""

import asyncio
import re
import signal
from pathlib import Path

from penstock.tokens import SignedUrl
from support.command import Running
from support.documents import ROOT

GUIDE = ROOT / "docs" / "guide" / "configuration.md"
SECRET = "a secret of 32 bytes, from a safe"
URLS = SignedUrl(SECRET)
READ = re.compile(r"SIGHUP: the configuration (was read again|has faults)")


def tables(path: Path = GUIDE) -> list[str]:
    """The files in a document."""
    return re.findall(r"^```toml\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


async def reload(running: Running) -> bool:
    """Have the file read again; whether it was good."""
    running.process.send_signal(signal.SIGHUP)
    async with asyncio.timeout(30):
        return (await running.wait_for(READ))[1] == "was read again"
