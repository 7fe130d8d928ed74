"""What the generator is told: a scenario and the arguments of a run, as JSON."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock._cores import usable_cores

from .network import PRESETS
from .profiles import rule_of
from .scenario import Arrivals, Hls, Network, Player, Scenario, Tokens, Workload

__all__ = ["Arguments", "origin_of", "plan_of", "threads_of", "workloads_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What the command line says of a run."""

    target: str
    """`http://host:port` or `https://host:port`."""
    duration: float
    """Seconds in which sessions arrive."""
    seed: int
    """Decides all random numbers."""
    part: int = 0
    """The part of the sessions that this machine has, from 0 on."""
    parts: int = 1
    """How many machines share the sessions."""
    roots: str | None = None
    """A file of certificates by which those of servers are verified. None: those of the machine."""


def plan_of(scenario: Scenario, arguments: Arguments) -> str:
    """The plan of this machine's part of a run."""
    run = scenario.run
    threads = threads_of(scenario)
    plan = {
        "seed": arguments.seed,
        "duration": arguments.duration,
        "target": arguments.target,
        "roots": None if arguments.roots is None else Path(arguments.roots).read_text(),
        "threads": threads,
        "part": arguments.part,
        "parts": arguments.parts,
        "max_sessions": run.max_sessions,
        "timeout": run.timeout,
        "samples": run.samples,
        "workloads": [_workload(name, each) for name, each in workloads_of(scenario)],
    }
    return json.dumps(plan, allow_nan=False)


def threads_of(scenario: Scenario) -> int:
    """How many threads the generator has."""
    return scenario.run.threads or max(1, usable_cores() - 1)


def workloads_of(scenario: Scenario) -> list[tuple[str, Workload]]:
    """The workloads in the order of their numbers in records."""
    kinds = (scenario.hls, scenario.requests, scenario.events, scenario.tokens)
    return [pair for kind in kinds for pair in kind.items()]


def origin_of(scenario: Scenario) -> str:
    """The settings of the embedded origin."""
    return json.dumps(asdict(scenario.embedded_origin))


def _workload(name: str, workload: Workload) -> dict[str, Any]:
    sessions = asdict(workload)
    del sessions["arrivals"]
    sessions["kind"] = type(workload).__name__.lower()
    if not isinstance(workload, Tokens):
        del sessions["network"]
        sessions["networks"] = [
            {"share": network.share, "network": _network(network)} for network in workload.networks
        ]
    if isinstance(workload, Hls):
        sessions["habits"] = {name: sessions.pop(name) for name in ("seek", "pause", "patience")}
        sessions["player"] = _player(workload.player)
    return {"name": name, "arrivals": _arrivals(workload.arrivals), "sessions": sessions}


def _network(network: Network) -> dict[str, Any]:
    if network.preset is None:
        return {"kind": "trace", "steps": [asdict(step) for step in network.steps()]}
    told: dict[str, Any] = {"kind": "chain", **PRESETS[network.preset]}
    return told if network.round_trip is None else told | {"round_trip": network.round_trip}


def _arrivals(arrivals: Arrivals) -> dict[str, Any]:
    return {name: value for name, value in asdict(arrivals).items() if value is not None}


def _player(player: Player) -> dict[str, Any]:
    told = asdict(player)
    del told["profile"], told["level"]
    # dash.js's graceTimeThreshold.
    abandon = None if player.abandon is None else {"after": 0.5, "times": player.abandon}
    return told | {"rule": rule_of(player), "abandon": abandon}
