"""What a hub publishes to other processes, and how it learns what they publish."""

from .interface import Entry, Event, Log, LogStats, Source

__all__ = ["Entry", "Event", "Log", "LogStats", "Source"]
