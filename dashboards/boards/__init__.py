"""Grafana dashboards and Prometheus rules of penstock. `generate.py` writes the files."""

from . import cache, memory, origins, overview, streams, tls, workers
from .shape import Page

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    streams.PAGE,
    cache.PAGE,
    origins.PAGE,
    memory.PAGE,
    workers.PAGE,
    tls.PAGE,
)

LEFT_OUT = {
    "penstock_hub_log_connections_total": "each connection shows in the state of the logs",
}
"""Metrics that are on no panel, each with the reason. A test compares it with the table of metrics."""
