"""The overview: whether it is well, and on which routes it is not."""

from .expressions import lowest, or_zero, quantile, rate, ratio, selected, total
from .shape import Page, Row, graph, stat

_STATUSES = {"1..|2..": "green", "3..": "blue", "4..|499": "yellow", "5..|none": "red"}
_ERRORS = or_zero(rate("requests_total", only='status=~"5..|none"'), rate("requests_total"))
_ROUTE_ERRORS = or_zero(
    rate("requests_total", "route", only='status=~"5..|none"'), rate("requests_total", "route")
)

PAGE = Page(
    "overview",
    "penstock: overview",
    "Whether it is well: requests, errors and durations by route, clients, threads and descriptors.",
    (
        Row(
            "Now",
            (
                stat(
                    "Instances up",
                    "Instances that Prometheus reaches.",
                    "short",
                    'sum(up{job=~"$job", instance=~"$instance"})',
                    steps=((None, "red"), (1, "green")),
                ),
                stat(
                    "Requests",
                    "Requests that end, a second.",
                    "reqps",
                    rate("requests_total"),
                ),
                stat(
                    "Errors",
                    "The share of requests that end with a status of 500 and above, or are aborted before a head.",
                    "percentunit",
                    ratio(_ERRORS, rate("requests_total")),
                    steps=((None, "green"), (0.01, "yellow"), (0.05, "red")),
                ),
                stat(
                    "First byte, p99",
                    "99 of 100 requests have the head of their response within this time.",
                    "s",
                    quantile(0.99, "request_first_byte_seconds"),
                    steps=((None, "green"), (0.5, "yellow"), (1, "red")),
                ),
                stat(
                    "Being answered",
                    "Requests that are being answered, event streams among them.",
                    "short",
                    total("requests_active"),
                ),
                stat(
                    "Memory in use",
                    "The share of the pool that is held. At 100 % new work is refused.",
                    "percentunit",
                    f"max({selected('pool_used_bytes')} / {selected('pool_budget_bytes')})",
                    steps=((None, "green"), (0.75, "yellow"), (0.95, "red")),
                ),
            ),
        ),
        Row(
            "Requests, errors and durations",
            (
                graph(
                    "Requests by route",
                    "Requests that end, a second. application: all that the application answers; none: refused "
                    "before there was a route.",
                    "reqps",
                    (rate("requests_total", "lane", "route"), "{{route}} ({{lane}})"),
                ),
                graph(
                    "Errors by route",
                    "The share of requests that end with a status of 500 and above, or are aborted before a "
                    "head. The panel of failures says why.",
                    "percentunit",
                    (ratio(_ROUTE_ERRORS, rate("requests_total", "route")), "{{route}}"),
                ),
                graph(
                    "First byte by route, p99",
                    "From the head of a request to that of its response. Compare with the origins' first byte: "
                    "the rest is time in a queue, for a decision or in the application.",
                    "s",
                    (quantile(0.99, "request_first_byte_seconds", "route"), "{{route}}"),
                ),
                graph(
                    "Statuses",
                    "Requests that end, by the status that was sent. 499: the client left before a head; none: "
                    "aborted without one.",
                    "reqps",
                    (rate("requests_total", "status"), "{{status}}"),
                    stacked=True,
                    colours=_STATUSES,
                ),
                graph(
                    "Failures by code",
                    "Requests that failed, also after their head, by the name of the error's code: "
                    "docs/reference/errors.md.",
                    "reqps",
                    (rate("request_failures_total", "route", "code"), "{{code}} ({{route}})"),
                    stacked=True,
                ),
                graph(
                    "Duration, all routes",
                    "From the head of a request to the end of its response. Event streams are as long as their "
                    "clients stay.",
                    "s",
                    (quantile(0.5, "request_duration_seconds"), "p50"),
                    (quantile(0.9, "request_duration_seconds"), "p90"),
                    (quantile(0.99, "request_duration_seconds"), "p99"),
                ),
                graph(
                    "Requests being answered",
                    "A route whose number rises while its requests a second do not is waiting for its origin or "
                    "its clients.",
                    "short",
                    (total("requests_active", "route"), "{{route}}"),
                    stacked=True,
                ),
                graph(
                    "Sent to clients",
                    "Bytes that the kernel took, heads and framing included.",
                    "Bps",
                    (rate("response_bytes_total", "route"), "{{route}}"),
                    stacked=True,
                ),
                graph(
                    "Received from clients",
                    "Bytes of bodies of requests that are over.",
                    "Bps",
                    (rate("request_body_bytes_total", "route"), "{{route}}"),
                    stacked=True,
                ),
            ),
        ),
        Row(
            "Clients",
            (
                graph(
                    "Connections",
                    "Connections of clients, with a request that is being answered or without.",
                    "short",
                    (total("client_connections", "state"), "{{state}}"),
                    stacked=True,
                ),
                graph(
                    "New connections",
                    "Many new ones beside few requests: clients that do not keep connections alive.",
                    "cps",
                    (rate("client_connections_accepted_total", "instance"), "{{instance}}"),
                ),
                graph(
                    "Refused and cut",
                    "Requests that were refused, connections of addresses that had too many, and clients that "
                    "were cut because others needed what they held.",
                    "ops",
                    (rate("refusals_total"), "refused requests"),
                    (rate("client_connections_refused_total"), "refused connections"),
                    (rate("client_evictions_total", "reason"), "cut: {{reason}}"),
                ),
            ),
        ),
        Row(
            "Network to clients",
            (
                graph(
                    "Round trip, p50",
                    "Of a sample of connections, by class of response, as the kernel smooths it.",
                    "s",
                    (quantile(0.5, "tcp_rtt_seconds", "class"), "{{class}}"),
                    width=6,
                ),
                graph(
                    "Rate of delivery, slowest tenth",
                    "A tenth of the measurements are below, where there was enough to send to tell. Below the bit "
                    "rate of a video its viewers wait.",
                    "Bps",
                    (quantile(0.1, "tcp_delivery_rate_bytes", "class"), "{{class}}"),
                    width=6,
                ),
                graph(
                    "Sent again",
                    "Bytes of the sampled connections, and those of them that TCP has sent again. Above a few "
                    "hundredths packets are lost.",
                    "Bps",
                    (rate("tcp_sent_bytes_total", "class"), "sent: {{class}}"),
                    (rate("tcp_retransmitted_bytes_total", "class"), "sent again: {{class}}"),
                    width=6,
                ),
                graph(
                    "What holds delivery up",
                    "Time in which something was under way on the sampled connections, and the parts in which the "
                    "client read too slowly or the kernel's buffer was too small (net.ipv4.tcp_wmem).",
                    "s",
                    (rate("tcp_busy_seconds_total"), "under way"),
                    (rate("tcp_receiver_limited_seconds_total"), "client has no room"),
                    (rate("tcp_buffer_limited_seconds_total"), "buffer too small"),
                    (rate("tcp_looks_total"), "samples a second"),
                    width=6,
                ),
            ),
        ),
        Row(
            "Process",
            (
                graph(
                    "Engine threads at work",
                    "The share of time in which a thread works. Above 0.9 events are late: give it more threads.",
                    "percentunit",
                    (
                        rate("engine_thread_busy_seconds_total", "instance", "thread"),
                        "{{instance}} {{thread}}",
                    ),
                    width=8,
                    most=1,
                ),
                graph(
                    "Descriptors",
                    "The share of the limit that is open. A process without descriptors accepts no client and "
                    "reaches no origin.",
                    "percentunit",
                    (
                        f"{selected('process_open_descriptors')} / {selected('process_descriptor_limit')}",
                        "{{instance}}",
                    ),
                    width=8,
                ),
                graph(
                    "What is not told",
                    "Connections that the operating system refused to accept, lines that the access log had no "
                    "room for, and spans of traces: kept, and not sent.",
                    "ops",
                    (rate("client_accept_failures_total"), "accept failures"),
                    (rate("log_lines_dropped_total"), "log lines dropped"),
                    (rate("trace_spans_total"), "spans kept"),
                    (rate("trace_spans_dropped_total"), "spans dropped"),
                    width=8,
                ),
                graph(
                    "Configuration",
                    "Whether each instance serves the configuration file that it read last: 0 if that was bad, which "
                    "its log explains. And readings a second.",
                    "short",
                    (lowest("configuration_current", "instance"), "{{instance}}"),
                    (rate("configuration_reloads_total", "result"), "read: {{result}}"),
                    width=8,
                ),
                graph(
                    "Version",
                    "Instances by the version that runs.",
                    "short",
                    (total("build_info", "version"), "{{version}}"),
                    width=8,
                    stacked=True,
                ),
            ),
        ),
    ),
)
