"""Inspected responses through real sockets, on every way that event streams are relayed."""

from events.conftest import pytest_asyncio_loop_factories, way

__all__ = ["pytest_asyncio_loop_factories", "way"]
