"""Whether a run says something about its target: it does not if the generator was the bottleneck."""

from collections.abc import Mapping
from typing import Any

from .scenario import Void

__all__ = ["void_reasons"]


def void_reasons(summary: Mapping[str, Any], void: Void) -> list[str]:
    """Why the run is void, in words; nothing if it is not."""
    generator, sessions = summary["generator"], summary["sessions"]
    reasons = []
    late = generator["lateness"].get("p99", 0.0)
    if late > void.lateness:
        reasons.append(
            f"the generator's timers were {late * 1e3:.1f} ms late at the 99th percentile (limit: "
            f"{void.lateness * 1e3:g} ms): use a machine with idle cores, or fewer sessions"
        )
    busiest = max(generator["cpu"], default=0.0)
    if busiest > void.cpu:
        reasons.append(
            f"a thread of the generator used {busiest:.0%} of its core (limit: {void.cpu:.0%}): use more threads or "
            "machines, or fewer sessions"
        )
    others = generator["others"]
    if others is not None and others > void.others:
        reasons.append(
            f"other processes used {others:.0%} of the cores (limit: {void.others:.0%}): use a machine of its own"
        )
    if sessions["dropped"]:
        reasons.append(
            f"{sessions['dropped']} arrivals were dropped because there were run.max_sessions already: raise it, or "
            "shorten the sessions"
        )
    causes = {"no_port": "ports", "no_descriptor": "file descriptors"}
    for cause, what in causes.items():
        count = sum(error["count"] for error in summary["errors"] if error["cause"] == cause)
        if count:
            reasons.append(
                f"the generator ran out of {what} {count} times: use more machines, or raise the limit"
            )
    if not (sessions["started"] or sessions["dropped"]):
        reasons.append("no session arrived: raise the rate or the duration")
    return reasons
