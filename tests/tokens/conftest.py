"""Tokens through real sockets: on one engine thread, on three, and where a stock runner serves the routes."""

from support.edges import anywhere, caching

__all__ = ["anywhere", "caching"]
