"""Topics: what is kept of them, where, and how subscribers are served."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Literal

from penstock.exceptions import make_error

from . import checks
from .checks import PAGE, Size


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a hub keeps of its topics, for later and returning subscribers. Times are seconds."""

    events: int = 1000
    """Events of a topic; the oldest leave. Ten minutes of a score that changes twice a second."""
    bytes: Size = "1MiB"
    """Bytes of a topic's events, as they are sent. A larger event is refused (BAD_EVENT)."""
    age: float | None = 600.0
    """Seconds for which an event is kept: longer than a laptop is closed between two rooms. None: for ever; a
    topic then exists until it is finished."""
    memory: Size | None = None
    """Bytes that all topics take at most: whole slabs of the engine's pool, of 4 to 64 KiB, and the lists of
    events, 80 bytes each and their keys. Beyond it the oldest events of the topic that is published to are
    dropped; then publishing is refused (POOL_FULL). None: a quarter of the pool."""
    topics: int = 10_000
    """Topics at a time; further ones are refused (TOO_MANY_TOPICS). Each takes at least 4 KiB once it has an
    event."""
    finished_age: float = 600.0
    """Seconds for which a finished topic is remembered; after that its name means a new one. As `age`: a client
    that returns within that time is told, and does not wait for events that never come."""

    def __post_init__(self) -> None:
        checks.count(self, "events", 1)
        checks.size(self, "bytes", 1, 1 << 31)
        checks.seconds(self, "age", optional=True)
        if self.memory is not None:
            checks.size(self, "memory", PAGE)
        checks.count(self, "topics", 1)
        checks.seconds(self, "finished_age", zero=True)


@dataclass(frozen=True, slots=True)
class RedisLog:
    """A Redis with the history and order of topics that hubs of several processes share. Times are seconds.

    Needs `pip install penstock[redis]`, and Redis 6.2 or newer, or Valkey.
    """

    url: str = field(repr=False)
    """`redis://user:password@host:6379/0`, `rediss://` for TLS, `unix://` for the path of a socket. No cluster."""
    _: KW_ONLY
    prefix: str = "penstock:"
    """The beginning of its keys. Hubs with the same prefix share their topics."""
    timeout: float = 2.0
    """Seconds for each operation, and for how long Redis may be silent before it counts as unavailable. A failover
    of Redis takes longer; a client that waits for an answer should not."""
    away: Literal["refuse", "deliver"] = "refuse"
    """What happens to events published while Redis is unavailable. `refuse`: publishing fails (HUB_UNAVAILABLE).
    `deliver`: they go to the subscribers of this process alone, without an id, and a gap is announced when Redis
    is back."""
    longest_wait: float = 5.0
    """Seconds between two attempts to connect at most: the first is at once, each later one after twice the time,
    less up to half by chance."""
    idle: float = 86_400.0
    """Seconds after which Redis forgets a topic without new events. Subscribers that are still connected are told
    of a gap at the next event. Longer than most pages stay open."""
    lease: float = 15.0
    """Seconds after which a process that feeds a topic (`Hub.feed`) and is silent counts as dead: another one then
    ends the topic, with an event that says so. It must be above one and a half times `timeout` and `longest_wait`
    together, or a restarted Redis would find all of them dead; and longer than any handler blocks the event
    loop."""

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not self.url.startswith(("redis://", "rediss://", "unix://")):
            raise checks.bad(self, "url", "must begin with redis://, rediss:// or unix://")
        checks.text(self, "prefix")
        checks.word(self, "away", ("refuse", "deliver"))
        checks.seconds(self, "timeout")
        checks.seconds(self, "longest_wait")
        checks.seconds(self, "idle")
        checks.seconds(self, "lease")
        # After Redis was away a process says that it is alive when it has come back, and within a third of the lease.
        if self.lease * 2 / 3 <= self.timeout + self.longest_wait:
            raise checks.bad(
                self, "lease", "must be above one and a half times timeout and longest_wait together"
            )


_NAME_OF_KAFKA: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
_HOW_TO_CONNECT: Final = re.compile(r"client_id|security_protocol|(ssl|sasl)_[a-z_]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class KafkaLog:
    """Topics of a Kafka that hubs follow, and publish nothing to. Times are seconds.

    Each partition is a topic of the hub, `TOPIC/PARTITION`, and an event's id is `PARTITION:OFFSET`. Needs `pip
    install penstock[kafka]`.
    """

    servers: str
    """`host:9092,host:9092`: some of its brokers, which know the others."""
    topics: Sequence[str]
    """Topics that may be subscribed to, by their names in Kafka. A client that is allowed on a route that serves
    the hub can subscribe to all of them."""
    _: KW_ONLY
    type_header: str | None = None
    """The header of a record that has the event's type, such as `ce_type`. None: events have no types."""
    timeout: float = 10.0
    """Seconds for each operation, and for how long Kafka may be silent before it counts as unavailable. A
    partition gets another leader within it."""
    longest_wait: float = 5.0
    """Seconds between two attempts to connect at most: the first is at once, each later one after twice the time,
    less up to half by chance."""
    connection: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """How to connect: arguments of `aiokafka.AIOKafkaConsumer` that begin with `ssl_` or `sasl_`, `security_protocol`
    and `client_id`."""

    def __post_init__(self) -> None:
        if not isinstance(self.servers, str) or not all(part.strip() for part in self.servers.split(",")):
            raise checks.bad(self, "servers", "must be like 'host:9092,host:9092'")
        rule = "must be names of topics: letters, digits, dots, underscores and hyphens"
        names = checks.sequence(self, "topics", rule)
        if not names or not all(isinstance(name, str) and _NAME_OF_KAFKA.fullmatch(name) for name in names):
            raise checks.bad(self, "topics", rule)
        checks.put(self, "topics", names)
        if self.type_header is not None:
            checks.text(self, "type_header")
        if not isinstance(self.connection, Mapping) or not all(
            isinstance(name, str) for name in self.connection
        ):
            # Its values may be secrets: errors do not show them.
            raise make_error("BAD_CONFIGURATION", "KafkaLog.connection: must be a mapping of names to values")
        for name in self.connection:
            if not _HOW_TO_CONNECT.fullmatch(name):
                # Its values may be secrets: errors do not show them.
                rule = f"{name}: only client_id, security_protocol, and what begins with ssl_ or sasl_"
                raise make_error("BAD_CONFIGURATION", f"KafkaLog.connection: {rule}")
        checks.seconds(self, "timeout")
        checks.seconds(self, "longest_wait")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriptions:
    """How a hub serves subscribers. Times are seconds."""

    join: int | Literal["now", "start"] = "now"
    """Where a new subscriber begins: with events published from now on, with the whole history, or with that many
    of the newest events. A returning subscriber goes on after its last event."""
    slow: Literal["disconnect", "drop-oldest", "newest-per-key"] = "disconnect"
    """What happens to a slow subscriber, whose next event has left the history. `disconnect`: its response ends
    after a whole event, and it returns with its last id. `drop-oldest`: it goes on with the oldest event in the
    history, after a `penstock-gap`. `newest-per-key`: like that, and of its waiting events it gets only the newest
    of each key, and the events without a key."""
    behind: Size | None = None
    """Bytes that may wait for a subscriber that had caught up, before it is disconnected. None: all of the
    history."""
    retry: float | None = None
    """Seconds after which a disconnected client should return (`retry:`), sent once at the beginning. None: as it
    likes; browsers wait for some seconds."""
    open: bool = True
    """Whether the first subscriber creates a topic. If not, an unknown topic is answered with 404."""
    heartbeat: float | None = 15.0
    """Seconds without a byte sent after which a comment is sent, which browsers ignore; up to a quarter less, by
    chance. Proxies and load balancers cut connections that are idle for 60 s, some for 30 s. None: never."""
    max_age: float | None = None
    """Seconds after which a response ends after a whole event and the client returns; up to a quarter less, by
    chance. It lets load move to other nodes. None: no limit."""
    per_topic: int | None = None
    """Subscribers of one topic; further ones are answered with 429. None: any number; and so below."""
    per_tenant: int | None = None
    """Subscriptions of one tenant to all topics of the hub, if `Hub.stream` is told the tenant."""
    per_address: int | None = None
    """Subscriptions from one address to all topics of the hub. Clients behind one proxy have one address."""
    most: int | None = None
    """Subscribers of all topics of the hub."""

    def __post_init__(self) -> None:
        if isinstance(self.join, bool) or not (
            self.join in ("now", "start") or (isinstance(self.join, int) and 0 <= self.join <= 1 << 31)
        ):
            raise checks.bad(self, "join", "must be 'now', 'start' or a number of events")
        checks.word(self, "slow", ("disconnect", "drop-oldest", "newest-per-key"))
        if self.behind is not None:
            checks.size(self, "behind", 1)
            if self.slow != "disconnect":
                raise checks.bad(self, "behind", "goes with slow='disconnect'")
        checks.seconds(self, "retry", optional=True, zero=True)
        checks.flag(self, "open")
        checks.seconds(self, "heartbeat", optional=True)
        checks.seconds(self, "max_age", optional=True)
        for name in ("per_topic", "per_tenant", "per_address", "most"):
            if getattr(self, name) is not None:
                checks.count(self, name, 1)
