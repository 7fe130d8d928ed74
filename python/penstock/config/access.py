"""Access: how hooks are asked, how decisions are remembered, and the limits of tenants."""

from dataclasses import dataclass, field

from . import checks
from .checks import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """The limits of one tenant, over all threads and all routes that share decisions; None for no limit."""

    streams: int | None = None
    """Requests at a time; further ones are answered with 429 (TENANT_LIMITED)."""
    rate: float | None = None
    """Requests a second, on average; further ones are answered with 429 (TENANT_LIMITED)."""
    burst: int = 64
    """Requests that may come at once after a pause, if there is a rate, as `RouteLimits.burst`."""
    bandwidth: Size | None = None
    """Bytes of bodies a second, on average: they are sent no faster, all of them in turn. After a pause a second's
    worth is sent at once. Event streams are limited as well, and wait for their turn after bodies."""
    total: Size | None = None
    """Bytes of bodies in all, until `Decisions.renew`; then requests are answered with 403 (TENANT_EXHAUSTED), and
    running responses are cut: a stream without an end would otherwise have no total."""

    def __post_init__(self) -> None:
        if self.streams is not None:
            checks.count(self, "streams", 1)
        checks.rate(self, "rate")
        checks.count(self, "burst", 1)
        if self.bandwidth is not None:
            checks.size(self, "bandwidth", 1)
        if self.total is not None:
            checks.size(self, "total", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How many decisions are remembered and for how long; how a hook is asked. Times are seconds."""

    lifetime: float = 60.0
    """Seconds for which an allowed request is remembered, if the hook says nothing else. A permission that is
    withdrawn elsewhere and not revoked here ends within a minute, and a player with two requests a second costs
    the hook one question in 120."""
    denied_lifetime: float = 10.0
    """Seconds for which a refused request is remembered. A client that is allowed after all, having paid, does not
    wait long."""
    decisions: int = 100_000
    """Decisions to allow that are remembered, some 300 bytes each. Beyond it the least recently used is evicted,
    and the hook is asked again."""
    denials: int = 10_000
    """Decisions to refuse that are remembered, apart from the others: random attempts evict no allowed client."""
    questions: int = 256
    """Questions that the hook is asked at a time, each about another key; as many more wait for their turn. A hook
    that takes 50 ms then answers 5,000 a second, and a database has no more than that in flight. Client addresses
    (IPv6 networks of 64 bits) take turns. If no more can wait, the address with the most waiting questions loses
    one, and its requests are answered with 503 (ACCESS_BUSY): a flood of unknown tokens shuts out its own address
    alone."""
    timeout: float = 5.0
    """Seconds for a decision (503, ACCESS_TIMEOUT). Players give up on a segment some seconds later."""
    tenant_limits: TenantLimits = field(default_factory=TenantLimits)
    """The limits of each tenant, if an `Allow` says nothing else."""
    tenants: int = 10_000
    """Tenants whose counters are kept, some 300 bytes each. Beyond it a tenant without a remembered decision is
    forgotten, with its counters; if there is no such tenant, a new one is refused (503, TOO_MANY_TENANTS)."""

    def __post_init__(self) -> None:
        checks.seconds(self, "lifetime")
        checks.seconds(self, "denied_lifetime", zero=True)
        checks.count(self, "decisions", 1)
        checks.count(self, "denials", 1)
        checks.count(self, "questions", 1)
        checks.seconds(self, "timeout")
        if not isinstance(self.tenant_limits, TenantLimits):
            raise checks.bad(self, "tenant_limits", "must be a penstock.config.TenantLimits")
        checks.count(self, "tenants", 1)
