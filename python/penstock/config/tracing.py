"""Traces of requests, and where they are sent."""

import os
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from . import checks
from .checks import Size

# Each process is one instance.
_INSTANCE: Final = str(uuid.uuid4())


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracing:
    """Traces of requests, which a collector of OpenTelemetry gets (OTLP over HTTP): `Engine(tracing=)`.

    A request has a span, and each attempt at an origin has one within it. Origins, and the application, are told of the
    trace of each request, kept or not, by the field `traceparent` (W3C Trace Context). A stream of events that is kept
    has a span for each part of it besides, so that it is seen while it goes on.
    """

    endpoint: str = "http://127.0.0.1:4318/v1/traces"
    """The URL that spans are sent to: port and path of a collector on this machine by default."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Fields that are sent with them, such as a token."""
    ratio: float = 0.01
    """The share that is kept, from 0 to 1, of the traces that begin here. What is kept depends on the id of the trace
    alone: servers with one ratio keep the same. A caller that is trusted (`Edge.trust_trace_context`) decides itself."""
    failures: bool = True
    """Keep each request that fails for another reason than its client. Its trace may lack the spans of other servers,
    which cannot know."""
    slowest: int = 2
    """Keep so many of the slowest requests between two sendings besides. 0: none for being slow."""
    service: str = "penstock"
    """The name of the service (`service.name`)."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """What else the spans are of, such as `{"deployment.environment.name": "live"}`."""
    interval: float = 5.0
    """Seconds for which spans wait to be sent together, as in OpenTelemetry's own exporters."""
    stream_interval: float = 60.0
    """Seconds that one span of a stream of events covers."""
    buffer: Size = "4MiB"
    """Bytes of spans that may wait for the collector. What does not fit is dropped, and counted
    (`penstock_trace_spans_dropped_total`): some 5,000 requests, or a minute of 1 % of 8,000 a second."""
    timeout: float = 10.0
    """Seconds that the collector has to take spans. It is asked again for about a minute, then they are dropped."""
    linger: float = 1.0
    """Seconds for which closing the engine waits for the collector to take the last spans."""

    def __post_init__(self) -> None:
        checks.text(self, "endpoint")
        self.place  # noqa: B018 (it checks)
        for name in ("headers", "resource"):
            self._check_texts(name)
        for name in self.headers:
            if not checks.is_token(name):
                raise checks.bad(self, "headers", f"{name!r} is not the name of a field")
        number = isinstance(self.ratio, int | float) and not isinstance(self.ratio, bool)
        if not number or not 0 <= self.ratio <= 1:
            raise checks.bad(self, "ratio", "must be from 0 to 1")
        checks.put(self, "ratio", float(self.ratio))
        checks.flag(self, "failures")
        checks.count(self, "slowest", 0, 1000)
        checks.text(self, "service")
        for name in ("interval", "stream_interval", "timeout"):
            checks.seconds(self, name)
        checks.seconds(self, "linger", zero=True)
        checks.size(self, "buffer", 64 << 10, 1 << 30)

    def _check_texts(self, name: str) -> None:
        value = getattr(self, name)
        rule = "must be a mapping of texts to texts without line ends"
        if not isinstance(value, Mapping):
            raise checks.bad(self, name, rule)
        for pair in value.items():
            if not all(isinstance(text, str) and text and text.isprintable() for text in pair):
                raise checks.bad(self, name, rule)
        checks.put(self, name, dict(value))

    @property
    def place(self) -> checks.OriginPlace:
        """The collector."""
        scheme, _, rest = self.endpoint.partition("://")
        authority = rest.partition("/")[0].partition("?")[0]
        return checks.origin(self, "endpoint", f"{scheme}://{authority}", ("http", "https"))

    @property
    def authority(self) -> str:
        """Its host, and its port if the URL has one."""
        return urlsplit(self.endpoint).netloc.rpartition("@")[2]

    @property
    def target(self) -> str:
        """What is asked for there."""
        parts = urlsplit(self.endpoint)
        query = f"?{parts.query}" if parts.query else ""
        return (parts.path or "/") + query

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The fields that are sent."""
        return list(self.headers.items())

    @property
    def described(self) -> list[tuple[str, str]]:
        """What the spans are of (OpenTelemetry, semantic conventions for resources)."""
        known = {
            "service.name": self.service,
            "service.instance.id": _INSTANCE,
            "host.name": socket.gethostname(),
            "process.pid": str(os.getpid()),
            "telemetry.sdk.name": "penstock",
            "telemetry.sdk.language": "rust",
        }
        return list((known | dict(self.resource)).items())
