"""Origins: which of them fail or are slow, and what is done about it."""

from .expressions import highest, lowest, or_zero, quantile, rate, ratio, total
from .shape import Page, Row, graph, stat

_CLASSES = {".*2xx": "green", ".*3xx": "blue", ".*4xx": "yellow", ".*5xx": "red"}


def _failures(*by: str) -> str:
    failed, begun = rate("origin_failures_total", *by), rate("origin_requests_total", *by)
    return ratio(or_zero(failed, begun), begun)


PAGE = Page(
    "origins",
    "penstock: origins",
    "Which origins fail or are slow, whether connections to them are kept, and whether others take their place.",
    (
        Row(
            "Now",
            (
                stat("Requests", "To all origins, a second.", "reqps", rate("origin_requests_total")),
                stat(
                    "Failures",
                    "The share of requests to origins that fail, before or after the head.",
                    "percentunit",
                    _failures(),
                    steps=((None, "green"), (0.01, "yellow"), (0.05, "red")),
                ),
                stat("First byte, p99", "Of all origins.", "s", quantile(0.99, "origin_first_byte_seconds")),
                stat("From origins", "Bytes of bodies a second.", "Bps", rate("origin_body_bytes_total")),
                stat(
                    "Waiting",
                    "Requests that wait for a connection: raise --connections, or the origin is slow.",
                    "short",
                    total("origin_waiting_requests"),
                    steps=((None, "green"), (1, "yellow"), (100, "red")),
                ),
                stat(
                    "Kept alive",
                    "The share of requests that were given a connection an earlier one had opened.",
                    "percentunit",
                    ratio(rate("origin_connections_reused_total"), rate("origin_requests_total")),
                ),
            ),
        ),
        Row(
            "Requests",
            (
                graph(
                    "Requests by origin",
                    "Attempts that were begun, retries among them.",
                    "reqps",
                    (rate("origin_requests_total", "origin"), "{{origin}}"),
                    stacked=True,
                ),
                graph(
                    "Failures by origin",
                    "The share of attempts that fail. The log of penstock.origins has the address and the reason.",
                    "percentunit",
                    (_failures("origin"), "{{origin}}"),
                ),
                graph(
                    "Failures by code",
                    "docs/reference/errors.md has each code: what happened, and where to look.",
                    "reqps",
                    (rate("origin_failures_total", "origin", "code"), "{{code}} ({{origin}})"),
                    stacked=True,
                ),
                graph(
                    "Responses",
                    "By the class of their status.",
                    "reqps",
                    (rate("origin_responses_total", "origin", "status"), "{{origin}} {{status}}"),
                    stacked=True,
                    colours=_CLASSES,
                ),
                graph(
                    "First byte",
                    "From the first byte of a request to the first of its response: the origin's own time, and "
                    "the network's.",
                    "s",
                    (quantile(0.5, "origin_first_byte_seconds", "origin"), "{{origin}} p50"),
                    (quantile(0.99, "origin_first_byte_seconds", "origin"), "{{origin}} p99"),
                ),
                graph(
                    "Bytes from origins",
                    "Of the bodies of responses.",
                    "Bps",
                    (rate("origin_body_bytes_total", "origin"), "{{origin}}"),
                    stacked=True,
                ),
            ),
        ),
        Row(
            "Connections",
            (
                graph(
                    "Connections",
                    "In use by an exchange or being opened, or kept for the next one; and requests in progress "
                    "on connections of HTTP/2.",
                    "short",
                    (total("origin_connections", "origin", "state"), "{{origin}} {{state}}"),
                    (total("origin_streams", "origin"), "{{origin}} streams"),
                ),
                graph(
                    "Waiting requests",
                    "Requests that wait for a connection.",
                    "short",
                    (total("origin_waiting_requests", "origin"), "{{origin}}"),
                ),
                graph(
                    "Time to open a connection, p99",
                    "The name, the connection itself, and TLS.",
                    "s",
                    (quantile(0.99, "origin_connect_seconds", "origin"), "{{origin}}"),
                ),
                graph(
                    "Opened and reused",
                    "Reused should lead. If it does not, the origin closes connections after each response.",
                    "cps",
                    (rate("origin_connections_opened_total", "origin"), "{{origin}} opened"),
                    (rate("origin_connections_reused_total", "origin"), "{{origin}} reused"),
                ),
                graph(
                    "Idle connections that ended",
                    "expired: by us, for age or disuse. closed: by the origin. unsolicited: they brought bytes "
                    "after a whole response, which is the origin's error. Many closed ones: set idle_timeout "
                    "below the origin's own.",
                    "cps",
                    (rate("origin_connections_expired_total", "origin"), "{{origin}} expired"),
                    (rate("origin_connections_closed_total", "origin"), "{{origin}} closed"),
                    (rate("origin_connections_unsolicited_total", "origin"), "{{origin}} unsolicited"),
                ),
                graph(
                    "Repeats on a new connection",
                    "Requests sent a second time, after an idle connection turned out to be dead.",
                    "reqps",
                    (rate("origin_retries_total", "origin"), "{{origin}}"),
                ),
            ),
        ),
        Row(
            "Several origins for one another",
            (
                graph(
                    "Weight",
                    "Grows while an origin comes back; 0 while it is down or ejected.",
                    "short",
                    (lowest("upstream_origin_weight", "upstream", "origin"), "{{upstream}} {{origin}}"),
                ),
                graph(
                    "Up, by health checks",
                    "1 if checks have found it healthy, or there was no check yet.",
                    "short",
                    (lowest("upstream_origin_up", "upstream", "origin"), "{{upstream}} {{origin}}"),
                    most=1,
                ),
                graph(
                    "Ejected for",
                    "How long an origin stays ejected; and how often origins were.",
                    "s",
                    (
                        highest("upstream_origin_ejected_seconds", "upstream", "origin"),
                        "{{upstream}} {{origin}}",
                    ),
                ),
                graph(
                    "Retries",
                    "Requests sent to another origin: because one failed, because it was slow (hedges), for the "
                    "rest of a body (resumptions). Over budget: repeats that were not allowed, so clients saw "
                    "the failure.",
                    "reqps",
                    (rate("upstream_retries_total", "upstream"), "{{upstream}} retries"),
                    (rate("upstream_hedges_total", "upstream"), "{{upstream}} hedges"),
                    (rate("upstream_resumptions_total", "upstream"), "{{upstream}} resumptions"),
                    (rate("upstream_over_budget_total", "upstream"), "{{upstream}} over budget"),
                    (rate("upstream_ejections_total", "upstream"), "{{upstream}} ejections"),
                    colours={".*over budget": "red"},
                ),
                graph(
                    "Requests and failures by origin",
                    "Of each upstream.",
                    "reqps",
                    (rate("upstream_origin_requests_total", "upstream", "origin"), "{{origin}}"),
                    (rate("upstream_origin_failures_total", "upstream", "origin"), "{{origin}} failures"),
                    colours={".*failures": "red"},
                ),
                graph(
                    "Requests under way",
                    "Up to the ends of their bodies.",
                    "short",
                    (
                        total("upstream_origin_requests_active", "upstream", "origin"),
                        "{{upstream}} {{origin}}",
                    ),
                    stacked=True,
                ),
                graph(
                    "Requests to upstreams",
                    "Each once, however often it was repeated.",
                    "reqps",
                    (rate("upstream_requests_total", "upstream"), "{{upstream}}"),
                    width=12,
                    height=6,
                ),
                graph(
                    "Budget of retries",
                    "Retries that may begin now. At 0 failures reach the clients.",
                    "short",
                    (lowest("upstream_budget_left", "upstream"), "{{upstream}}"),
                    width=12,
                    height=6,
                ),
            ),
        ),
    ),
)
