"""Who may: how it is asked and remembered, and what a tenant may have."""

from dataclasses import dataclass, field

from . import checks
from .checks import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """What one tenant may have at most, over all threads and all routes that share decisions; None for no limit."""

    streams: int | None = None
    """Requests at a time; one more is answered with 429 (TENANT_LIMITED)."""
    rate: float | None = None
    """Requests a second, over time; the same."""
    burst: int = 64
    """Requests that may come at once after a pause, where there is a rate, as `RouteLimits.burst`."""
    bandwidth: Size | None = None
    """Bytes of bodies a second, over time: they are sent no faster, all of them in turn. After a pause a second's worth
    comes at once. Event streams are held to it as well, and wait behind bodies."""
    total: Size | None = None
    """Bytes of bodies in all, until `Decisions.renew`; then requests are answered with 403 (TENANT_EXHAUSTED), and what
    runs is cut: a stream without an end would know no total else."""

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
    """How much is remembered of who may, and for how long; how a hook is asked. Times are seconds."""

    lifetime: float = 60.0
    """For which it is remembered that a request is let in, where the hook says nothing else. What is withdrawn
    elsewhere and not revoked here ends within a minute, and a player that asks twice a second costs the hook one
    question in 120."""
    denied_lifetime: float = 10.0
    """Seconds for which it is remembered that a request is refused. Who is let in after all, having paid, does not
    wait for long."""
    decisions: int = 100_000
    """Decisions to let in that are remembered, some 300 bytes each. Beyond it leaves who has not come back for longest,
    and is asked about again."""
    denials: int = 10_000
    """Decisions to refuse that are remembered, apart from the others: those who try at random push out nobody who
    may."""
    questions: int = 256
    """Questions that the hook is asked at a time, each about another key; as many again wait for their turn. A hook that
    takes 50 ms answers 5,000 a second so, and a database has no more than that in flight. Clients' addresses (of IPv6:
    networks of 64 bits) take turns. Where no more can wait, one of the address that has most waiting gives way, and its
    requests are answered with 503 (ACCESS_BUSY): a flood of unknown tokens shuts out its own address alone."""
    timeout: float = 5.0
    """For an answer (503, ACCESS_TIMEOUT). Players give up on a segment after some seconds more."""
    tenant_limits: TenantLimits = field(default_factory=TenantLimits)
    """What each tenant may have, where an `Allow` says nothing else."""
    tenants: int = 10_000
    """Tenants of whom it is known what they had, some 300 bytes each. Beyond it one leaves about whom nothing is
    remembered, and its counters with it; where there is none, a new one is refused (503, TOO_MANY_TENANTS)."""

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
