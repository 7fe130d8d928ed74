"""`penstock.testing.ScriptedOrigin` by itself: it ends as its block ends, whatever became of its connections."""

import asyncio
import contextlib
import gc
import socket
import warnings

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.client import client_of
from support.waiting import DEADLINE, in_time

LARGE = bytes(64 << 20)
"""More than the buffers of two sockets, which grow."""


async def test_what_was_still_sent_after_a_script_has_ended_is_no_failure() -> None:
    """asyncio's transport of Python 3.11 cannot be aborted any more then."""

    async def gives_up(peer: Peer) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                await peer.send(LARGE)
        assert peer._writer.transport.get_write_buffer_size() > 0, "something is left to send"

    async with ScriptedOrigin(gives_up) as origin, client_of(origin.port) as client:
        assert await in_time(client.rest(), "all that was begun comes")


@pytest.mark.parametrize("turns", range(5))
def test_a_connection_that_is_accepted_while_the_origin_closes_is_closed_too(turns: int) -> None:
    async def close_early() -> None:
        async with ScriptedOrigin(Peer.stall) as origin:
            client = socket.create_connection(("127.0.0.1", origin.port))
            for _ in range(turns):
                await asyncio.sleep(0)
        with client, contextlib.suppress(ConnectionResetError):
            client.settimeout(DEADLINE)
            assert client.recv(1) == b""

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(close_early())
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
