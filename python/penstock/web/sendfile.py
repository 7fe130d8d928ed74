"""`loop.sendfile` for the engine's transports, so that aiohttp's FileResponse works on them.

uvloop has no sendfile and says so before it looks at the transport; asyncio's refuses a transport that is not its
own. So the loop's method is wrapped by one that knows the engine's, for as long as a site of that loop is open.
"""

import asyncio
import io
import os
from typing import IO, Any, Final

from penstock import _native

__all__ = ["restore_sendfile", "take_over_sendfile"]

_USERS: Final = "_penstock_users"


def take_over_sendfile(loop: asyncio.AbstractEventLoop) -> None:
    """Have `loop.sendfile` serve the engine's transports too. Each call wants one of `restore_sendfile`.

    A loop whose `sendfile` other code has replaced is not changed.
    """
    replaced = vars(loop).get("sendfile")
    if replaced is not None:
        users = getattr(replaced, _USERS, None)
        if users is not None:
            users.append(None)
        return
    original: Any = loop.sendfile

    async def sendfile(
        transport: Any, file: IO[bytes], offset: int = 0, count: int | None = None, *, fallback: bool = True
    ) -> int:
        if isinstance(transport, _native.Transport):
            return await _send(transport, file, offset, count)
        return int(await original(transport, file, offset, count, fallback=fallback))

    setattr(sendfile, _USERS, [None])
    loop.sendfile = sendfile  # type: ignore[method-assign]


async def _send(transport: _native.Transport, file: IO[bytes], offset: int, count: int | None) -> int:
    if transport.is_closing():
        message = "Transport is closing"
        raise RuntimeError(message)
    if transport.get_extra_info("sslcontext") is not None:
        message = "a file is encrypted on its way"
        raise NotImplementedError(message)
    try:
        number = file.fileno()
        if count is None:
            count = max(os.fstat(number).st_size - offset, 0)
    except (AttributeError, OSError, io.UnsupportedOperation) as error:
        # As asyncio says of what is no file, so that the caller reads it instead.
        message = f"{file!r} is not a regular file"
        raise NotImplementedError(message) from error
    try:
        sent: int = await transport.send_file(number, offset, count)
    except asyncio.CancelledError:
        # The engine would send on, and later bytes would come after the whole file.
        transport.abort()
        raise
    file.seek(offset + sent)
    return sent


def restore_sendfile(loop: asyncio.AbstractEventLoop) -> None:
    """Take back one `take_over_sendfile`; the last one leaves the loop as it was."""
    users = getattr(vars(loop).get("sendfile"), _USERS, None)
    if users is None:
        # Other code has replaced our method.
        return
    users.pop()
    if not users:
        del loop.sendfile
