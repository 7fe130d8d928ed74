"""The rules of players by their profiles, with the figures of the players that they are named after."""

from typing import Any, Final

from .scenario import Player

__all__ = ["rule_of"]

# Of hls.js: abrEwmaFastVoD and abrEwmaSlowVoD, abrEwmaDefaultEstimate.
_HLS_JS: Final = {"fast": 3.0, "slow": 9.0, "first": 500_000.0}
# Of dash.js: throughputFastHalfLifeSeconds and throughputSlowHalfLifeSeconds. The lowest is taken before anything was
# measured, as Sabre does.
_DASH_JS: Final = {"fast": 3.0, "slow": 8.0, "first": 0.0}
_SHARE: Final = 0.9
"""dash.js's bandwidthSafetyFactor."""
_STABLE: Final = 18.0
"""Seconds of dash.js's bufferTimeDefault, by which its rules switch."""
# Of dash.js: throughputSafetyFactor of InsufficientBufferRule.
_INSUFFICIENT: Final = {"first": 0.7, "falls": 1.0, "least": 0.7}
# Of dash.js: MINIMUM_BUFFER_S and MINIMUM_BUFFER_PER_BITRATE_LEVEL_S of BolaRule.
_BOLA: Final = {
    "low": 10.0,
    "per_level": 2.0,
    "stable": _STABLE,
    "share": _SHARE,
    "insufficient": _INSUFFICIENT,
}


def rule_of(player: Player) -> dict[str, Any]:
    """The rule of a player, as the generator reads it."""
    rules: dict[str, dict[str, Any]] = {
        "fixed": {"name": "fixed", "level": player.level},
        "throughput": {
            "name": "throughput",
            "share": _SHARE,
            "insufficient": _INSUFFICIENT,
            "estimate": _DASH_JS,
        },
        # abrBandWidthFactor, abrBandWidthUpFactor and maxStarvationDelay.
        "hls.js": {"name": "starvation", "stay": 0.95, "up": 0.7, "stall": 4.0, "estimate": _HLS_JS},
        "dash.js": {
            "name": "dynamic",
            "high": _STABLE,
            "low": _STABLE / 2,
            "share": _SHARE,
            "insufficient": _INSUFFICIENT,
            "bola": _BOLA,
            # DEFAULT_VIDEO_BITRATE of its AbrController, of which no share is taken.
            "estimate": _DASH_JS | {"first": 1_000_000 / _SHARE},
        },
        "bola": {"name": "bola", "bola": _BOLA, "estimate": _DASH_JS},
    }
    return rules[player.profile]
