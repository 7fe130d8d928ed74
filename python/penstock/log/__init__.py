"""What a hub publishes to other processes, and how it learns what they publish."""

from .interface import Entry, Event, Log, Source
from .reader import LogStats, Reader

__all__ = ["Entry", "Event", "Log", "LogStats", "Reader", "Source"]
