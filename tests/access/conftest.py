"""Routes that ask who may, with one engine thread and with three, and on stock transports."""

from support.edges import anywhere, edge

__all__ = ["anywhere", "edge"]
