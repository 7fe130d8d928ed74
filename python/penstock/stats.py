"""Snapshots of what an engine counts, field by field."""

from dataclasses import dataclass

from ._field_docs import document

__all__ = [
    "DecisionStats",
    "DiskStats",
    "EngineStats",
    "Histogram",
    "InspectionStats",
    "OriginStats",
    "PoolStats",
    "RelayStats",
    "SlabClass",
    "TenantStats",
    "Timings",
]


@dataclass(frozen=True, slots=True)
class SlabClass:
    """One size of slab."""

    size: int
    """Bytes of one slab."""
    total: int
    """Slabs that memory is cut into now, free or not."""
    live: int
    """Slabs that are held."""
    peak: int
    """The highest `live` so far."""


@dataclass(frozen=True, slots=True)
class PoolStats:
    """The memory budget."""

    budget: int
    """Bytes of data that the pool may hold."""
    state: str
    """`"open"`, `"pressed"` (windows shrink) or `"full"` (new work is refused)."""
    classes: tuple[SlabClass, ...]
    """By slab size, ascending."""
    live_runs: int
    """Objects larger than the largest slab that are held."""
    live_bytes: int
    """Bytes of slabs and runs that are held."""
    peak_bytes: int
    """The highest `live_bytes` so far."""
    refusals: int
    """Times that memory was asked for and there was none."""
    bytes_copied: dict[str, int]
    """Payload moved by the CPU inside this process, by reason."""


@dataclass(frozen=True, slots=True)
class OriginStats:
    """Connections to one origin."""

    active: int
    """In use by an exchange."""
    idle: int
    """Kept alive for the next one."""
    waiting: int
    """Requests that wait for a connection."""
    opened: int
    """Connections opened so far."""
    reused: int
    """Requests so far that were given a connection an earlier one had opened."""
    expired: int
    """Idle connections closed because of their age or disuse."""
    closed: int
    """Idle connections that the origin closed."""
    unsolicited: int
    """Connections that brought bytes after a whole response, or while idle, and were closed for it."""
    retried: int
    """Requests sent a second time, because an idle connection turned out to be dead, or to have been written to."""


@dataclass(frozen=True, slots=True)
class DiskStats:
    """The part of a cache that is on disk. Counts are since the engine was made.

    Of what is stored in parts each part is a response here.
    """

    objects: int
    """Responses that are on disk."""
    used: int
    """Bytes that their files take, whole pages."""
    limit: int
    """Bytes that they may."""
    ready: bool
    """Whether what was there at the start has been looked through; until then nothing is written."""
    hits: int
    """Answers out of files."""
    promoted: int
    """Responses that were brought back into memory."""
    written: int
    """Responses written."""
    skipped: int
    """Responses that left memory unwritten: too many left at once, or the disk had failed a moment ago."""
    failed: int
    """Failures of the disk, such as for want of space."""
    damaged: int
    """Files that were not what was written, and were dropped."""
    timeouts: int
    """Times that a reader has waited for the disk for `config.Cache.disk_timeout`."""
    hanging: bool
    """Whether no reading has ended since the last of those. Meanwhile it is as if nothing were on disk, and nothing is
    written."""


@dataclass(frozen=True, slots=True)
class RelayStats:
    """What gateways have done besides relaying: with event streams by `config.EventRelay`, and for clients who left."""

    heartbeats: int
    """Comments that were sent while an event stream was quiet."""
    idle: int
    """Event streams that were cut because the origin sent no event (EVENT_TIMEOUT)."""
    told: int
    """Failures that a client was told of by an event."""
    draining: int
    """Responses that are being read on now, whose clients have left."""
    drained: int
    """Responses that were read on, so far."""
    undrained: int
    """Responses that were to be read on, and were cancelled because `config.Drain.concurrency` others were."""


@dataclass(frozen=True, slots=True)
class DecisionStats:
    """What is remembered of who may, and what was counted so far."""

    allowed: int
    """Decisions to let in that are remembered."""
    denied: int
    """Decisions to refuse that are remembered."""
    open: int
    """Questions that the hook has not answered."""
    running: int
    """Responses that run, and take longer than a moment."""
    hits: int
    """Requests that were let in by what was remembered."""
    denied_hits: int
    """Requests that were refused by what was remembered."""
    asked: int
    """Questions."""
    joined: int
    """Requests that waited for the answer to a question which another had asked."""
    failed: int
    """Questions that were not answered, because the hook failed or took too long."""
    evicted: int
    """Decisions that were forgotten before their time, for want of room."""
    revoked: int
    """Decisions that were revoked."""


@dataclass(frozen=True, slots=True)
class TenantStats:
    """What a tenant has had."""

    active: int
    """Requests that are being answered."""
    requests: int
    """Requests that were let in."""
    refused: int
    """Requests that were refused for one of its limits."""
    bytes: int
    """Bytes of bodies, since it is known or since `Decisions.renew`."""


@dataclass(frozen=True, slots=True)
class EngineStats:
    """One engine. `streams` and `origins` are as of now; origins that are out of use are forgotten."""

    requests: int
    """Exchanges begun from Python: requests, and relays that wait for their head. The metrics count all by route."""
    streams: int
    """Streams whose consumer has neither seen the end nor left; a streamed request body counts too."""
    bytes_received: int
    """Payload bytes read from origins, files and pipes, and request bodies sent up."""
    bytes_spliced: int
    """Those of them that the kernel moved from the origin's socket to the client's, without a copy."""
    wakeups: int
    """Times that an event loop was woken; one wake-up can bring many frames of many streams."""
    origins: dict[str, OriginStats]
    """By `scheme://authority`."""
    pool: PoolStats
    """The memory budget."""
    relays: RelayStats
    """Event streams, and clients who left."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds that each stage of an exchange took; 0 for a stage that did not happen."""

    queue: float
    """Waiting for a connection to become free."""
    resolve: float
    """Turning the name into addresses."""
    connect: float
    """Opening a connection."""
    tls: float
    """The TLS handshake."""
    first_byte: float
    """From the first byte of the request sent to the first of the response, an upload included."""
    body: float | None
    """From the head to the end of the body; None until it has ended."""
    reused: bool
    """Whether the exchange used a connection that an earlier one had opened."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """How long things took. The buckets are the same for all, and fit Prometheus."""

    bounds: tuple[float, ...]
    """Upper bounds of the buckets in seconds, ascending, from a millisecond to two minutes."""
    counts: tuple[int, ...]
    """How often it took longer than the bound before and no longer than this one; one more, at the end, for what took
    longer than all of them."""
    sum: float
    """Seconds, of all together."""

    @property
    def count(self) -> int:
        """How often there was something to count."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class InspectionStats:
    """What the inspected responses of a route come to, since it was declared."""

    streams: int
    """Event streams that have ended."""
    responses: int
    """Other responses that have ended."""
    hidden: int
    """Those of both in which a usage may have been and was not seen: coded, or too large."""
    with_usage: int
    """Those of both that had a usage."""
    events: int
    """Events so far that a browser would dispatch; of streams that go on as well."""
    bytes: int
    """Bytes of event streams so far, as they came from the origin."""
    first_token: Histogram
    """From when the origin was asked to the first token."""
    token_gaps: Histogram
    """Between two tokens of a stream that followed one another."""
    totals: Histogram
    """From when the origin was asked to the end of the stream."""


document(globals()[name] for name in __all__)
