"""Rules for Prometheus: a few recorded ratios, and alerts on what clients notice or soon will.

An alert of the severity `page` is worth waking a person; `ticket` is worth a look on a working day. What to do is in
docs/operations/dashboards.md, a section for each alert.
"""

import json
from dataclasses import dataclass

_RUNBOOK = "https://github.com/penstock/penstock/blob/main/docs/operations/dashboards.md"


@dataclass(frozen=True)
class Recorded:
    """A series that Prometheus computes at each evaluation."""

    name: str
    expression: str


@dataclass(frozen=True)
class Condition:
    """Half of an alert's expression: what is watched, and from when on it is wrong."""

    expression: str
    wrong: str

    def __str__(self) -> str:
        return f"{self.expression} {self.wrong}"


@dataclass(frozen=True)
class Alert:
    """Fires when one of `conditions` has held for `hold`."""

    name: str
    severity: str
    hold: str
    conditions: tuple[Condition, ...]
    summary: str
    """One line, with the values of labels: what is wrong, and where."""
    description: str
    """What clients notice, and what to do first."""

    @property
    def expression(self) -> str:
        """For Prometheus."""
        return "\nor\n".join(str(condition) for condition in self.conditions)

    @property
    def runbook(self) -> str:
        """The section that says what to do."""
        return f"{_RUNBOOK}#{self.name.lower()}"


def _rate(metric: str, *by: str, only: str = "") -> str:
    return f"sum by ({', '.join(('job', 'instance', *by))}) (rate({metric}{only}[5m]))"


RECORDED = (
    Recorded("penstock:requests:rate5m", _rate("penstock_requests_total", "route")),
    Recorded(
        "penstock:request_errors:ratio5m",
        _rate("penstock_requests_total", "route", only='{status=~"5..|none"}')
        + "\n/\n"
        + _rate("penstock_requests_total", "route"),
    ),
    Recorded(
        "penstock:request_first_byte_seconds:p99_5m",
        f"histogram_quantile(0.99, {_rate('penstock_request_first_byte_seconds_bucket', 'route', 'le')})",
    ),
    Recorded(
        "penstock:origin_failures:ratio5m",
        _rate("penstock_origin_failures_total", "origin")
        + "\n/\n"
        + _rate("penstock_origin_requests_total", "origin"),
    ),
)

ALERTS = (
    Alert(
        "PenstockDown",
        "page",
        "1m",
        (Condition('up{job="penstock"}', "== 0"),),
        "{{ $labels.instance }} does not answer on its status listener",
        "The process has ended or cannot be reached. Look at its log and exit status; the status pages have a "
        "thread of their own and answer while the rest hangs.",
    ),
    Alert(
        "PenstockThreadHangs",
        "page",
        "0s",
        (Condition("max by (job, instance) (penstock_engine_thread_silent_seconds)", "> 10"),),
        "An engine thread of {{ $labels.instance }} has made no progress for {{ $value | humanizeDuration }}",
        "The clients of that thread get nothing. Keep a core or a stack (gdb -p, thread apply all bt) for the "
        "report, and restart the process.",
    ),
    Alert(
        "PenstockErrors",
        "page",
        "5m",
        (Condition("penstock:request_errors:ratio5m", "> 0.05 and penstock:requests:rate5m > 0.1"),),
        "{{ $value | humanizePercentage }} of the requests on route {{ $labels.route }} of {{ $labels.instance "
        "}} fail",
        "Clients get statuses of 500 and above. The panel of failures by code on the overview says why: codes "
        "that begin with 0x1 or 0x2 are the origin's, 0x4 is memory, 0x5 this process.",
    ),
    Alert(
        "PenstockSlowFirstByte",
        "page",
        "10m",
        (Condition("penstock:request_first_byte_seconds:p99_5m", "> 1 and penstock:requests:rate5m > 0.1"),),
        "One of 100 requests on route {{ $labels.route }} of {{ $labels.instance }} waits {{ $value | "
        "humanizeDuration }} or longer for its head",
        "Players stall and tokens come late. Compare with the first byte of the origins: if that is as slow, it "
        "is the origin; if not, look for requests that wait for connections, for the application or for a hook.",
    ),
    Alert(
        "PenstockApplicationHangs",
        "page",
        "1m",
        (
            Condition("max by (job, instance) (penstock_application_lag_seconds)", "> 5"),
            Condition("max by (job, instance) (penstock_application_oldest_wait_seconds)", "> 5"),
        ),
        "The application of {{ $labels.instance }} takes no requests: its event loop is {{ $value | "
        "humanizeDuration }} late",
        "Requests for handlers wait and then get 503; native routes and running streams go on. A handler blocks "
        "the loop: py-spy dump --pid says where.",
    ),
    Alert(
        "PenstockMemoryFull",
        "page",
        "1m",
        (Condition('max by (job, instance) (penstock_pool_state{state="full"})', "== 1"),),
        "The memory pool of {{ $labels.instance }} is full",
        "New requests get 503. Raise --memory, or find what holds it: the page on memory has the cache, the "
        "hubs and the slabs by size.",
    ),
    Alert(
        "PenstockNoDescriptors",
        "page",
        "2m",
        (
            Condition("sum by (job, instance) (rate(penstock_client_accept_failures_total[5m]))", "> 0"),
            Condition("penstock_process_open_descriptors / penstock_process_descriptor_limit", "> 0.9"),
        ),
        "{{ $labels.instance }} is running out of descriptors",
        "New clients are not accepted, and origins cannot be reached. Raise LimitNOFILE (ulimit -n) to two for "
        "each client, and restart.",
    ),
    Alert(
        "PenstockOriginFails",
        "ticket",
        "5m",
        (Condition("penstock:origin_failures:ratio5m", "> 0.05"),),
        "{{ $value | humanizePercentage }} of the requests of {{ $labels.instance }} to {{ $labels.origin }} fail",
        "Clients notice it if no other origin and no stored response takes its place. The log of "
        "penstock.origins has the code, the address and the reason.",
    ),
    Alert(
        "PenstockOriginOut",
        "ticket",
        "5m",
        (Condition("min by (job, instance, upstream, origin) (penstock_upstream_origin_weight)", "== 0"),),
        "{{ $labels.instance }} has taken {{ $labels.origin }} out of {{ $labels.upstream }}",
        "Health checks find it down, or it was ejected for failures. The other origins have its load. Mend it; "
        "it comes back by itself.",
    ),
    Alert(
        "PenstockWaitsForOrigin",
        "ticket",
        "5m",
        (Condition("sum by (job, instance, origin) (penstock_origin_waiting_requests)", "> 0"),),
        "{{ $value | humanize }} requests of {{ $labels.instance }} wait for a connection to {{ $labels.origin }}",
        "All connections to it are in use. It is slow, or --connections is too low; after --queue-timeout "
        "clients get 503.",
    ),
    Alert(
        "PenstockWorkersEnd",
        "ticket",
        "0s",
        (
            Condition(
                'sum by (job, instance) (increase(penstock_worker_restarts_total{reason!="reloaded"}[10m]))',
                "> 3",
            ),
        ),
        "Workers of {{ $labels.instance }} ended or hung {{ $value | humanize }} times in ten minutes",
        "Requests that may not be repeated get 502. The log of penstock.workers has the exit status or the "
        "signal of each: 9 is mostly the kernel's, for memory.",
    ),
    Alert(
        "PenstockHookFails",
        "ticket",
        "5m",
        (Condition("sum by (job, instance, route) (rate(penstock_decision_failures_total[5m]))", "> 0"),),
        "The hook that decides on route {{ $labels.route }} of {{ $labels.instance }} raises or is too slow",
        "Clients without a remembered decision are refused. The log of penstock.web has the traceback.",
    ),
    Alert(
        "PenstockHubLogAway",
        "ticket",
        "1m",
        (Condition('penstock_hub_logs{state="away"}', "> 0"),),
        "{{ $labels.instance }} cannot reach the log that its topics share with other processes",
        "Events reach the subscribers of their own process alone. Look at Redis or Kafka, and at the network to "
        "it; what was missed is fetched when it is back.",
    ),
    Alert(
        "PenstockCertificateExpires",
        "ticket",
        "10m",
        (Condition("penstock_tls_certificate_expiry_timestamp_seconds - time()", "< 7 * 86400"),),
        "The certificate {{ $labels.certificate }} of {{ $labels.instance }} expires in {{ $value | "
        "humanizeDuration }}",
        "From then on clients refuse it. Renew it; penstock reads the files anew by itself.",
    ),
    Alert(
        "PenstockCertificateBad",
        "ticket",
        "5m",
        (Condition('sum by (job, instance) (penstock_tls_certificates{state=~"stale|unusable"})', "> 0"),),
        "{{ $labels.instance }} has {{ $value | humanize }} certificates whose files are bad",
        "A stale one is served until it expires; an unusable one is not served at all. The log names the file "
        "and what is wrong with it.",
    ),
    Alert(
        "PenstockConfigurationBad",
        "ticket",
        "5m",
        (Condition("min by (job, instance) (penstock_configuration_current)", "== 0"),),
        "{{ $labels.instance }} serves an earlier configuration: the file has faults",
        "Clients notice nothing until the process is restarted, which then fails. The log has each fault with its line "
        "and column, and penstock check FILE prints them.",
    ),
    Alert(
        "PenstockCacheDiskFails",
        "ticket",
        "5m",
        (
            Condition("max by (job, instance) (penstock_cache_disk_hanging)", "== 1"),
            Condition("sum by (job, instance) (rate(penstock_cache_disk_failures_total[5m]))", "> 0"),
        ),
        "The disk of the cache of {{ $labels.instance }} hangs or fails",
        "Its responses count as missing, and origins get their requests. Look at the space and the health of "
        "the disk (df, dmesg).",
    ),
    Alert(
        "PenstockThreadBusy",
        "ticket",
        "15m",
        (Condition("rate(penstock_engine_thread_busy_seconds_total[5m])", "> 0.9"),),
        "Engine thread {{ $labels.thread }} of {{ $labels.instance }} is at work {{ $value | humanizePercentage "
        "}} of the time",
        "Events and heads are late. Give it more --threads or another machine before the next peak.",
    ),
    Alert(
        "PenstockBlind",
        "ticket",
        "10m",
        (
            Condition("sum by (job, instance) (rate(penstock_log_lines_dropped_total[5m]))", "> 0"),
            Condition("sum by (job, instance) (rate(penstock_trace_spans_dropped_total[5m]))", "> 0"),
        ),
        "{{ $labels.instance }} loses lines of its access log or spans of its traces",
        "Requests are not affected. The file or the reader of the log is too slow, or the collector of traces "
        "is away.",
    ),
)


def as_yaml() -> str:
    """The file for Prometheus."""
    lines = ["# Written by dashboards/generate.py.", "groups:", "- name: penstock-recorded", "  rules:"]
    for recorded in RECORDED:
        lines += [f"  - record: {recorded.name}", *_block("expr", recorded.expression)]
    lines += ["- name: penstock", "  rules:"]
    for alert in ALERTS:
        lines += [f"  - alert: {alert.name}", *_block("expr", alert.expression)]
        lines += [
            f"    for: {alert.hold}",
            "    labels:",
            f"      severity: {alert.severity}",
            "    annotations:",
        ]
        notes = {"summary": alert.summary, "description": alert.description, "runbook_url": alert.runbook}
        # A string of JSON is one of YAML.
        lines += [f"      {name}: {json.dumps(text)}" for name, text in notes.items()]
    return "\n".join(lines) + "\n"


def _block(name: str, text: str) -> list[str]:
    return [f"    {name}: |", *(f"      {line}" for line in text.splitlines())]
