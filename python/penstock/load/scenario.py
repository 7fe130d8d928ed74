"""A scenario, as its file says it: every setting of `penstock load`, with its default and its checks."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from penstock.config import checks

from .network import PRESETS, FaultyTraceError, Step, steps_of

__all__ = [
    "Arrivals",
    "Events",
    "Hls",
    "Network",
    "Origin",
    "Patience",
    "Pause",
    "Player",
    "Ranges",
    "Requests",
    "Run",
    "Scenario",
    "Seek",
    "Tokens",
    "Void",
    "Watch",
    "Workload",
]

# Beyond that a process has no ports and no memory, whatever its limits are.
_MOST_SESSIONS: Final = 1_000_000
_MOST_TITLES: Final = 10_000_000
# Seconds of a round trip of a trace that has none.
_ROUND_TRIP: Final = 0.05
# What each curve needs besides `curve`.
_CURVES: Final = {
    "steady": ("rate",),
    "ramp": ("rate", "to"),
    "day": ("rate", "to", "period"),
    "step": ("rate", "to", "at"),
    "flash": ("rate", "crowd", "at", "within"),
    "trace": ("times",),
}


def _number(settings: object, name: str, least: float, most: float, what: str) -> None:
    """Check a number, which becomes a float."""
    value = getattr(settings, name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise checks.bad(settings, name, f"must be {what} from {least:g} to {most:g}")
    checks.put(settings, name, float(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """When sessions arrive: an open loop, which does not wait for the sessions before."""

    curve: Literal["steady", "ramp", "day", "step", "flash", "trace"] = "steady"
    """`steady`, or a rate that rises evenly (`ramp`), goes up and down as a sine (`day`), jumps (`step`), or is steady
    besides a crowd (`flash`); all of them Poisson processes. `trace`: at given times."""
    rate: float | None = None
    """Sessions a second; at the start, or at the trough."""
    to: float | None = None
    """Sessions a second at the end, at the peak, or after the jump."""
    at: float | None = None
    """Seconds from the start to the jump, or to the crowd."""
    period: float | None = None
    """Seconds from one trough of `day` to the next."""
    crowd: int | None = None
    """How many sessions a crowd is."""
    within: float | None = None
    """Seconds in which the crowd comes."""
    times: tuple[float, ...] | None = None
    """Seconds from the start at which sessions arrive."""

    def __post_init__(self) -> None:
        checks.word(self, "curve", _CURVES)
        needed = _CURVES[self.curve]
        for name in ("rate", "to", "at", "period", "crowd", "within", "times"):
            if name not in needed and getattr(self, name) is not None:
                raise checks.bad(self, name, f"has no meaning with the curve {self.curve}")
            if name in needed and getattr(self, name) is None:
                raise checks.bad(self, name, f"is needed with the curve {self.curve}")
        for name in needed:
            if name in ("rate", "to"):
                _number(self, name, 0, 1e6, "sessions a second")
            elif name in ("at", "within", "period"):
                checks.seconds(self, name, zero=name == "at")
            elif name == "crowd":
                checks.count(self, name, 1, _MOST_SESSIONS)
        if self.times is not None:
            times = checks.sequence(self, "times", "must be an array of seconds")
            if not all(isinstance(each, int | float) and each >= 0 for each in times):
                raise checks.bad(self, "times", "must be an array of seconds from 0 on")
            checks.put(self, "times", tuple(float(each) for each in times))


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """How a player fetches. A setting that is not given is that of the profile."""

    profile: Literal["throughput", "fixed", "hls.js", "dash.js", "bola"] = "throughput"
    """`throughput`: the highest rendition that the estimated throughput carries. `fixed`: always the same one. `bola`:
    by the buffer. `hls.js` and `dash.js`: the rules of these players, with their figures."""
    level: int = 0
    """The rendition of `fixed`, from 0, the lowest, on."""
    buffer: float = 30.0
    """Seconds of media that are buffered at most; 30 as in hls.js."""
    startup: float = 2.0
    """Seconds in the buffer with which it starts to play."""
    resume: float = 2.0
    """Seconds in the buffer with which it plays on after a stall."""
    retries: int = 6
    """Times that a failed request is made again before the session fails; 6 as in hls.js."""
    retry_delay: float = 1.0
    """Seconds before the first of them; each further wait is twice as long."""
    max_retry_delay: float = 64.0
    """Seconds of the longest of these waits; 64 as in hls.js."""
    abandon: float | None = 1.8
    """Times its length that a segment may take, as it looks, before it is given up for a lower rendition; 1.8 as in
    dash.js. None: never."""

    def __post_init__(self) -> None:
        checks.word(self, "profile", ("throughput", "fixed", "hls.js", "dash.js", "bola"))
        checks.count(self, "level", 0, 1000)
        for name in ("buffer", "startup", "resume", "retry_delay", "max_retry_delay"):
            checks.seconds(self, name)
        checks.count(self, "retries", 0, 1000)
        if self.abandon is not None:
            _number(self, "abandon", 0.1, 1000, "a multiple")
        if self.startup > self.buffer:
            raise checks.bad(self, "startup", f"must be at most the buffer, {self.buffer:g}")
        if self.resume > self.buffer:
            raise checks.bad(self, "resume", f"must be at most the buffer, {self.buffer:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """How long viewers watch: log-normal."""

    median: float = 60.0
    """Seconds that half of them exceed."""
    sigma: float = 1.0
    """The deviation of the logarithm. 0: all watch for the same time."""

    def __post_init__(self) -> None:
        checks.seconds(self, "median")
        _number(self, "sigma", 0, 5, "a deviation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seek:
    """How often viewers seek, and how far."""

    every: float
    """Seconds that are played from one seek to the next, in the mean; exponential."""
    distance: float = 30.0
    """Seconds of media by which they seek, in the mean; exponential."""
    back: float = 0.3
    """The share of seeks that go back."""

    def __post_init__(self) -> None:
        checks.seconds(self, "every")
        checks.seconds(self, "distance")
        _number(self, "back", 0, 1, "a share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """How often viewers pause, and for how long. Meanwhile the buffer is filled."""

    every: float
    """Seconds that are played from one pause to the next, in the mean; exponential."""
    median: float = 10.0
    """Seconds of a pause that half of them exceed; log-normal."""
    sigma: float = 1.0
    """The deviation of the logarithm. 0: all are as long."""

    def __post_init__(self) -> None:
        checks.seconds(self, "every")
        checks.seconds(self, "median")
        _number(self, "sigma", 0, 5, "a deviation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """When viewers give up; the figures are those of Krishnan and Sitaraman (IMC 2012), of 23 million views."""

    startup: float = 2.0
    """Seconds that all wait for the first frame."""
    leaves: float = 0.058
    """The share of the viewers still waiting that leaves in each further second."""
    stall: float = 5.0
    """Seconds by which each second of a stall shortens what is watched."""

    def __post_init__(self) -> None:
        checks.seconds(self, "startup", zero=True)
        _number(self, "leaves", 0.0001, 0.9999, "a share")
        _number(self, "stall", 0, 1000, "seconds")


Preset = Literal["3g", "4g", "cable", "bad-wifi"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network that sessions have: a preset, a trace, or a rate."""

    preset: Preset | None = None
    """Rates that change at random, of each session others."""
    trace: str | os.PathLike[str] | None = None
    """A file: JSON of Sabre, deliveries of Mahimahi, or seconds and Mbit/s in two columns."""
    rate: float | None = None
    """Bits a second, always the same: a slow reader."""
    round_trip: float | None = None
    """Seconds of a round trip. None: that of the preset or of the trace, or 0.05 where a trace has none."""
    share: float = 1.0
    """The share of the sessions that have it."""

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.preset, self.trace, self.rate)) != 1:
            raise checks.bad(self, "preset", "a network needs one of a preset, a trace and a rate")
        if self.rate is not None:
            _number(self, "rate", 1, 1e12, "bits a second")
        if self.preset is not None:
            checks.word(self, "preset", PRESETS)
        checks.seconds(self, "round_trip", optional=True, zero=True)
        _number(self, "share", 0, 1, "a share")
        if self.trace is not None:
            checks.path(self, "trace")
            try:
                self.steps()
            except FaultyTraceError as error:
                raise checks.bad(self, "trace", f"{self.trace} {error}") from None

    @property
    def name(self) -> str:
        """How reports call it."""
        if self.rate is not None:
            return f"{self.rate:g} bit/s"
        return self.preset or Path(str(self.trace)).stem

    def steps(self) -> list[Step]:
        """Those of the trace or of the rate."""
        if self.rate is not None:
            return [Step(1.0, self.rate, self.round_trip or 0.0)]
        steps = steps_of(str(self.trace), _ROUND_TRIP if self.round_trip is None else self.round_trip)
        if self.round_trip is None:
            return steps
        return [replace(step, round_trip=self.round_trip) for step in steps]


Networks = Preset | Network | tuple[Network, ...] | None
"""The networks of the sessions of a workload: a preset, one, or several with shares. The other sessions read as fast as
they can."""


def _all_networks(networks: Networks) -> tuple[Network, ...]:
    if networks is None:
        return ()
    if isinstance(networks, str):
        return (Network(preset=networks),)
    return (networks,) if isinstance(networks, Network) else tuple(networks)


def _networks(settings: "Hls | Requests | Events") -> None:
    """Check the networks of a workload."""
    if isinstance(settings.network, str):
        checks.word(settings, "network", PRESETS)
    names = [network.name for network in settings.networks]
    if len(set(names)) < len(names):
        raise checks.bad(settings, "network", "two networks have the same name")
    if sum(network.share for network in settings.networks) > 1 + 1e-9:
        raise checks.bad(settings, "network", "the shares must be at most 1 together")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hls:
    """Sessions that play HLS (RFC 8216)."""

    arrivals: Arrivals
    path: str = "/vod/{title}/master.m3u8"
    """The path of a multivariant or media playlist. `{title}` becomes the number of the title, from 0 on."""
    titles: int = 1
    """How many titles there are."""
    alpha: float = 0.8
    """The exponent of Zipf's law, by which titles are chosen. 0: all are equally popular."""
    player: Player = field(default_factory=Player)
    watch: Watch = field(default_factory=Watch)
    seek: Seek | None = None
    """How viewers seek. None: they do not."""
    pause: Pause | None = None
    """How viewers pause. None: they do not."""
    patience: Patience | None = None
    """When viewers give up. None: they wait for as long as they would have watched."""
    network: Networks = None
    """The network of the sessions: a preset, a trace or a rate, or several with shares. Sessions that have none read as
    fast as they can."""

    def __post_init__(self) -> None:
        _path(self)
        checks.count(self, "titles", 1, _MOST_TITLES)
        _number(self, "alpha", 0, 10, "an exponent")
        _networks(self)

    @property
    def networks(self) -> tuple[Network, ...]:
        """All networks of its sessions."""
        return _all_networks(self.network)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Requests for parts of a resource."""

    within: int
    """Bytes of the resource in which the parts are, each at a place as likely as any other."""
    length: int = 65_536
    """Bytes of a part."""
    share: float = 1.0
    """The share of the requests; the others are for the whole."""

    def __post_init__(self) -> None:
        checks.count(self, "within", 1, 1 << 50)
        checks.count(self, "length", 1, 1 << 50)
        _number(self, "share", 0, 1, "a share")
        if self.length > self.within:
            raise checks.bad(self, "length", f"must be at most within, {self.within}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Sessions of one request, which waits if all connections are busy. Its latency counts from when it was due."""

    arrivals: Arrivals
    path: str
    """The path. `{title}` becomes the number of the title, from 0 on."""
    titles: int = 1
    """How many titles there are."""
    alpha: float = 0.8
    """The exponent of Zipf's law, by which titles are chosen. 0: all are equally popular."""
    connections: int = 100
    """Connections of each machine."""
    range: Ranges | None = None
    """What ranges are asked for. None: all requests are for the whole."""
    network: Networks = None
    """As in `Hls`: a share with a low rate are slow readers. They have a connection of their own."""

    def __post_init__(self) -> None:
        _path(self)
        _networks(self)
        checks.count(self, "titles", 1, _MOST_TITLES)
        checks.count(self, "connections", 1, _MOST_SESSIONS)
        _number(self, "alpha", 0, 10, "an exponent")

    @property
    def networks(self) -> tuple[Network, ...]:
        """All networks of its sessions."""
        return _all_networks(self.network)


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Sessions that subscribe to events as a browser's EventSource does, and check that none is missing."""

    arrivals: Arrivals
    path: str
    """The path. `{title}` becomes the number of the topic, from 0 on."""
    titles: int = 1
    """How many topics there are."""
    alpha: float = 0.8
    """The exponent of Zipf's law, by which topics are chosen. 0: all are equally popular."""
    counter: str | None = None
    """The key of the number that counts events, in data that is JSON. None: the digits at the end of the id."""
    clock: str | None = None
    """The key of the time of publication, in seconds since 1970, in data that is JSON. None: delays are not measured."""
    gap_event: str = "penstock-gap"
    """The type of the event by which the server says that others are missing."""
    reconnect_delay: float = 3.0
    """Seconds before a connection is made again, until the server says otherwise (`retry:`); 3 as in browsers."""
    max_reconnect_delay: float = 30.0
    """Seconds of the longest of these waits after failures in a row."""
    idle: float = 60.0
    """Seconds without a byte after which the connection is given up."""
    watch: Watch = field(default_factory=Watch)
    network: Networks = None
    """As in `Hls`: a share with a low rate are slow readers."""

    def __post_init__(self) -> None:
        _path(self)
        _networks(self)
        checks.count(self, "titles", 1, _MOST_TITLES)
        _number(self, "alpha", 0, 10, "an exponent")
        for name in ("counter", "clock"):
            if getattr(self, name) is not None:
                checks.text(self, name)
        checks.text(self, "gap_event")
        for name in ("reconnect_delay", "max_reconnect_delay", "idle"):
            checks.seconds(self, name)

    @property
    def networks(self) -> tuple[Network, ...]:
        """All networks of its sessions."""
        return _all_networks(self.network)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Sessions that read the tokens of a completion, in the form of OpenAI's API."""

    arrivals: Arrivals
    path: str = "/v1/chat/completions"
    """The path. `{title}` becomes a number from 0 on."""
    titles: int = 1
    """How many of them there are."""
    alpha: float = 0.8
    """The exponent of Zipf's law, by which they are chosen."""
    body: str = '{"model": "load", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}'
    """What is posted."""
    authorization: str | None = None
    """The value of the field Authorization."""
    leave: float = 0.0
    """The share of sessions that leave before the end."""
    watch: Watch = field(default_factory=lambda: Watch(median=2.0))
    """How long those stay."""
    idle: float = 60.0
    """Seconds without a byte after which the stream is given up."""

    def __post_init__(self) -> None:
        _path(self)
        checks.count(self, "titles", 1, _MOST_TITLES)
        _number(self, "alpha", 0, 10, "an exponent")
        checks.text(self, "body")
        if self.authorization is not None:
            checks.text(self, "authorization")
            if not self.authorization.isprintable() or not self.authorization.isascii():
                raise checks.bad(self, "authorization", "must be printable ASCII")
        _number(self, "leave", 0, 1, "a share")
        checks.seconds(self, "idle")


Workload = Hls | Requests | Events | Tokens
"""One kind of sessions."""


def _path(settings: Workload) -> None:
    if not settings.path.startswith("/") or not settings.path.isprintable() or " " in settings.path:
        raise checks.bad(settings, "path", "must begin with / and have no spaces")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How sessions are run."""

    threads: int | None = None
    """Threads, each with its part of the sessions. None: one less than the usable cores, at least one."""
    max_sessions: int = 20_000
    """Sessions at a time. Arrivals beyond are dropped, and the run is void."""
    timeout: float = 20.0
    """Seconds to the end of a response; 20 as in hls.js."""
    samples: int = 10
    """Sessions of each workload whose buffers the report draws."""

    def __post_init__(self) -> None:
        if self.threads is not None:
            checks.count(self, "threads", 1, 256)
        checks.count(self, "max_sessions", 1, _MOST_SESSIONS)
        checks.seconds(self, "timeout")
        checks.count(self, "samples", 0, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Void:
    """When a run says nothing about its target, because the generator was the bottleneck."""

    lateness: float = 0.005
    """Seconds by which the generator's timers may be late, at the 99th percentile."""
    cpu: float = 0.85
    """Share of its core that a thread of the generator may use."""
    others: float = 0.10
    """Share of all cores that processes besides the generator and a target on the same machine may use."""

    def __post_init__(self) -> None:
        checks.seconds(self, "lateness")
        _number(self, "cpu", 0.01, 1, "a share")
        _number(self, "others", 0, 1, "a share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the embedded origin serves: `/vod/TITLE/master.m3u8`, for any title, and live titles, events and tokens."""

    bitrates: tuple[int, ...] = (400_000, 1_200_000, 3_000_000, 6_000_000)
    """Bits a second of the renditions."""
    segment: float = 4.0
    """Seconds of a segment."""
    segments: int = 150
    """Segments of a title."""
    window: int = 10
    """Segments of a live playlist, `/live/TITLE/master.m3u8`."""
    events: float = 1.0
    """Events a second of each topic, `/events/TOPIC`."""
    tokens: int = 50
    """Tokens of a completion, `/v1/chat/completions`."""
    token: float = 0.02
    """Seconds from one token to the next."""

    def __post_init__(self) -> None:
        bitrates = checks.sequence(self, "bitrates", "must be an array of bits a second")
        if not bitrates or not all(isinstance(each, int) and 1000 <= each <= 10**10 for each in bitrates):  # noqa: PLR2004
            raise checks.bad(self, "bitrates", "must be an array of bits a second from 1000 to 10^10")
        checks.put(self, "bitrates", tuple(sorted(bitrates)))
        checks.seconds(self, "segment")
        checks.count(self, "segments", 1, 100_000)
        checks.count(self, "window", 3, 100_000)
        _number(self, "events", 0.001, 1e6, "events a second")
        checks.count(self, "tokens", 0, 1_000_000)
        _number(self, "token", 0, 3600, "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario: its workloads by their names, and how they are run."""

    hls: Mapping[str, Hls] = field(default_factory=dict)
    requests: Mapping[str, Requests] = field(default_factory=dict)
    events: Mapping[str, Events] = field(default_factory=dict)
    tokens: Mapping[str, Tokens] = field(default_factory=dict)
    run: Run = field(default_factory=Run)
    void: Void = field(default_factory=Void)
    embedded_origin: Origin = field(default_factory=Origin)

    def __post_init__(self) -> None:
        if not (self.hls or self.requests or self.events or self.tokens):
            kinds = "[hls.NAME], [requests.NAME], [events.NAME] or [tokens.NAME]"
            raise checks.bad(self, "hls", f"a scenario needs a workload: a table {kinds}")
