"""Expressions of PromQL for panels.

Metrics are named without `penstock_`. Each function selects what the variables of the page say: job, instance and, for
metrics that have the label, route. A metric or a label that is not in the table of metrics is a KeyError.
"""

import re

from .table import METRICS

_TARGET = {"job", "instance"}
"""Labels that Prometheus adds to each series."""


def selected(name: str, only: str = "", suffix: str = "") -> str:
    """The series of a metric, as far as the matchers `only` and the variables say."""
    labels = METRICS[f"penstock_{name}"].labels
    matchers = ['job=~"$job"', 'instance=~"$instance"']
    if "route" in labels:
        matchers.append('route=~"$route"')
    if only:
        matchers.append(only)
        _check(name, re.findall(r"(\w+)\s*[=!]", only))
    return f"penstock_{name}{suffix}{{{', '.join(matchers)}}}"


def rate(name: str, *by: str, only: str = "") -> str:
    """How much a counter, or the number of a histogram's durations, grows in a second."""
    _check(name, by)
    suffix = "_count" if METRICS[f"penstock_{name}"].kind == "histogram" else ""
    return _over("sum", by, f"rate({selected(name, only, suffix)}[$__rate_interval])")


def total(name: str, *by: str, only: str = "") -> str:
    """The sum of a gauge."""
    _check(name, by)
    return _over("sum", by, selected(name, only))


def highest(name: str, *by: str, only: str = "") -> str:
    """The highest value of a gauge."""
    _check(name, by)
    return _over("max", by, selected(name, only))


def lowest(name: str, *by: str, only: str = "") -> str:
    """The lowest value of a gauge."""
    _check(name, by)
    return _over("min", by, selected(name, only))


def quantile(share: float, name: str, *by: str, only: str = "") -> str:
    """The duration that `share` of a histogram's durations do not exceed."""
    _check(name, by)
    buckets = f"rate({selected(name, only, '_bucket')}[$__rate_interval])"
    return f"histogram_quantile({share}, {_over('sum', ('le', *by), buckets)})"


def ratio(part: str, whole: str) -> str:
    """A part of a whole; no series where the whole is nothing."""
    return f"{part} / ({whole} > 0)"


def or_zero(part: str, whole: str) -> str:
    """`part`, and zero for what is in `whole` alone: a counter has no sample before its first event."""
    return f"({part} or {whole} * 0)"


def _over(function: str, by: tuple[str, ...], series: str) -> str:
    return f"{function} by ({', '.join(by)}) ({series})" if by else f"{function}({series})"


def _check(name: str, labels: tuple[str, ...] | list[str]) -> None:
    unknown = set(labels) - METRICS[f"penstock_{name}"].labels - _TARGET
    if unknown:
        raise KeyError(f"penstock_{name} has no label {', '.join(sorted(unknown))}")
