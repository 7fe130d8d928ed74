"""penstock: an async media gateway. Policy in Python, bytes in Rust.

The library in four lines::

    async with penstock.Engine(memory="256MiB") as engine:
        async with engine.get("http://origin/seg1.m4s") as response:
            async for frame in response:
                view = memoryview(frame)

The gateway for aiohttp applications is in `penstock.web`, the settings in `penstock.config`, the ways to cut a body
in `penstock.framing`.
"""

from . import config, framing
from ._native import __version__
from .cache import CacheStats, StoredResponse
from .config import KafkaLog, RedisLog
from .engine import Engine, default_engine
from .events import encode_event
from .exceptions import (
    ArgumentError,
    BodyTruncatedError,
    ConfigurationError,
    ConnectionFailedError,
    ErrorCode,
    FrameError,
    PenstockError,
    PoolError,
    ProtocolError,
    RequestError,
    StateError,
    StreamBusyError,
    SystemFailureError,
    TimeLimitError,
    WindowHeldError,
    error_codes,
)
from .hub import Hub, HubCounts, HubStats, TopicStats
from .log import LogStats
from .sources import open_fd, open_file, open_process
from .stats import (
    DiskStats,
    EngineStats,
    Histogram,
    InspectionStats,
    OriginStats,
    PoolStats,
    RelayStats,
    SlabClass,
    Timings,
)
from .stream import Frame, FrameStream, Response

__all__ = [
    "ArgumentError",
    "BodyTruncatedError",
    "CacheStats",
    "ConfigurationError",
    "ConnectionFailedError",
    "DiskStats",
    "Engine",
    "EngineStats",
    "ErrorCode",
    "Frame",
    "FrameError",
    "FrameStream",
    "Histogram",
    "Hub",
    "HubCounts",
    "HubStats",
    "InspectionStats",
    "KafkaLog",
    "LogStats",
    "OriginStats",
    "PenstockError",
    "PoolError",
    "PoolStats",
    "ProtocolError",
    "RedisLog",
    "RelayStats",
    "RequestError",
    "Response",
    "SlabClass",
    "StateError",
    "StoredResponse",
    "StreamBusyError",
    "SystemFailureError",
    "TimeLimitError",
    "Timings",
    "TopicStats",
    "WindowHeldError",
    "__version__",
    "config",
    "default_engine",
    "encode_event",
    "error_codes",
    "framing",
    "open_fd",
    "open_file",
    "open_process",
]
