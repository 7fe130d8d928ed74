"""Every setting of the engine and of the gateway: declared, explained and checked here and nowhere else.

The dataclasses are frozen and checked once, when they are made. Sizes may be written as numbers of bytes or
as text such as `"256MiB"`; after construction they are numbers. The engine receives what stands here and has
no defaults of its own. A bad setting raises `penstock.ConfigurationError`, a ValueError naming the field.
"""

from penstock._field_docs import document

from .access import Access, TenantLimits
from .access_log import AccessLog
from .caching import Cache, Caching, Overrides
from .checks import parse_size
from .edge import Edge, RouteLimits
from .engine import Flow, Pool, Reads
from .events import Drain, EventRelay, Inspection
from .http2 import Http2, OriginHttp2
from .hub import History, KafkaLog, RedisLog, Subscriptions
from .origins import ClientCertificate, Forwarding, GrpcWeb, OriginLimits, OriginTls, Timeouts
from .server import Server, ServerOrigin, ServerRoute, ServerSite
from .status import Status
from .tls import HSTS, TLS
from .tracing import Tracing
from .upstream import Check, Health, Origin, Retries
from .workers import Workers

__all__ = [
    "HSTS",
    "TLS",
    "Access",
    "AccessLog",
    "Cache",
    "Caching",
    "Check",
    "ClientCertificate",
    "Drain",
    "Edge",
    "EventRelay",
    "Flow",
    "Forwarding",
    "GrpcWeb",
    "Health",
    "History",
    "Http2",
    "Inspection",
    "KafkaLog",
    "Origin",
    "OriginHttp2",
    "OriginLimits",
    "OriginTls",
    "Overrides",
    "Pool",
    "Reads",
    "RedisLog",
    "Retries",
    "RouteLimits",
    "Server",
    "ServerOrigin",
    "ServerRoute",
    "ServerSite",
    "Status",
    "Subscriptions",
    "TenantLimits",
    "Timeouts",
    "Tracing",
    "Workers",
    "parse_size",
]

# Its name of before, from when there was no other TLS.
Tls = OriginTls

document(globals()[name] for name in __all__)
