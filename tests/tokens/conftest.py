"""Tokens through real sockets: on one engine thread, on three, and where a stock runner serves the routes."""

from cache.conftest import caching
from edge.conftest import anywhere

__all__ = ["anywhere", "caching"]
