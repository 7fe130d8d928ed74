"""Relayed event streams through real sockets: natively, by the application, and on stock transports; the engine with one
thread and with three, the loop asyncio's and uvloop's."""

from support.loops import both_loops
from support.ways import pytest_collection_modifyitems, way

__all__ = ["pytest_asyncio_loop_factories", "pytest_collection_modifyitems", "way"]

pytest_asyncio_loop_factories = both_loops
