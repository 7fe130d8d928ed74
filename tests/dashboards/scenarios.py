"""What each alert fires for, and what it keeps quiet about, as series that promtool feeds to the rules.

Samples are half a minute apart. `0+10x40` is 0 and then 40 times 10 more; `1x40` is 41 times 1. Time begins at 0, in
1970.
"""

from dataclasses import dataclass, field

HERE = 'job="penstock", instance="a:9145"'
"""The labels of one instance."""
_DAY = 86400


@dataclass(frozen=True)
class Scenario:
    """Of one alert."""

    fires: dict[str, str]
    """Series for which it fires, with their samples."""
    quiet: dict[str, str]
    """Series for which it does not."""
    at: str = "20m"
    """When it fires."""
    before: str | None = None
    """When it does not fire yet."""
    value: str = ""
    """Its value, as the summary has it."""
    labels: dict[str, str] = field(default_factory=dict)
    """Its labels, besides those of the instance and the severity."""


def _series(name: str, labels: str = "") -> str:
    return f"{name}{{{HERE}{', ' if labels else ''}{labels}}}"


def _requests(bad: int, good: int) -> dict[str, str]:
    return {
        _series("penstock_requests_total", 'lane="native", route="vod", status="502"'): f"0+{bad}x60",
        _series("penstock_requests_total", 'lane="native", route="vod", status="200"'): f"0+{good}x60",
    }


def _first_bytes(within_a_second: int) -> dict[str, str]:
    """Of a hundred requests in half a minute."""
    bucket = "penstock_request_first_byte_seconds_bucket"
    route = 'lane="native", route="vod", le='
    return {
        **_requests(0, 100),
        _series(bucket, f'{route}"1"'): f"0+{within_a_second}x60",
        _series(bucket, f'{route}"2"'): "0+100x60",
        _series(bucket, f'{route}"+Inf"'): "0+100x60",
    }


def _attempts(failed: int) -> dict[str, str]:
    """Of a hundred attempts in half a minute."""
    origin = 'origin="http://a"'
    return {
        _series("penstock_origin_failures_total", f'{origin}, code="CONNECT_FAILED"'): f"0+{failed}x60",
        _series("penstock_origin_requests_total", origin): "0+100x60",
    }


SCENARIOS = {
    "PenstockDown": Scenario({_series("up"): "1 1 0x60"}, {_series("up"): "1 1 0 1x60"}, before="1m30s"),
    "PenstockThreadHangs": Scenario(
        {
            _series("penstock_engine_thread_silent_seconds", 'thread="0"'): "0.5x60",
            _series("penstock_engine_thread_silent_seconds", 'thread="1"'): "12x60",
        },
        {_series("penstock_engine_thread_silent_seconds", 'thread="0"'): "0.9x60"},
        value="12s",
    ),
    "PenstockErrors": Scenario(
        _requests(20, 80), _requests(4, 96), before="3m", value="20%", labels={"route": "vod"}
    ),
    "PenstockSlowFirstByte": Scenario(
        _first_bytes(50), _first_bytes(100), before="8m", value="1.98s", labels={"route": "vod"}
    ),
    "PenstockApplicationHangs": Scenario(
        {_series("penstock_application_oldest_wait_seconds"): "0 8x60"},
        {
            _series("penstock_application_oldest_wait_seconds"): "0 8 0.1x60",
            _series("penstock_application_lag_seconds"): "0.2x60",
        },
        before="1m",
        value="8s",
    ),
    "PenstockMemoryFull": Scenario(
        {_series("penstock_pool_state", 'state="full"'): "0 1x60"},
        {
            _series("penstock_pool_state", 'state="full"'): "0 1 0x60",
            _series("penstock_pool_state", 'state="pressed"'): "1x60",
        },
        before="1m",
    ),
    "PenstockNoDescriptors": Scenario(
        {
            _series("penstock_process_open_descriptors"): "950x60",
            _series("penstock_process_descriptor_limit"): "1024x60",
        },
        {
            _series("penstock_process_open_descriptors"): "500x60",
            _series("penstock_process_descriptor_limit"): "1024x60",
            _series("penstock_client_accept_failures_total"): "7x60",
        },
        before="1m",
    ),
    "PenstockOriginFails": Scenario(
        _attempts(10), _attempts(1), before="3m", value="10%", labels={"origin": "http://a"}
    ),
    "PenstockOriginOut": Scenario(
        {_series("penstock_upstream_origin_weight", 'upstream="http://media", origin="http://a"'): "1 0x60"},
        {
            _series(
                "penstock_upstream_origin_weight", 'upstream="http://media", origin="http://a"'
            ): "1 0 0 0.3 1x60"
        },
        before="5m",
        labels={"upstream": "http://media", "origin": "http://a"},
    ),
    "PenstockWaitsForOrigin": Scenario(
        {_series("penstock_origin_waiting_requests", 'origin="http://a"'): "0 12x60"},
        {_series("penstock_origin_waiting_requests", 'origin="http://a"'): "0 12 12 0 12 0x60"},
        before="5m",
        value="12",
        labels={"origin": "http://a"},
    ),
    "PenstockWorkersEnd": Scenario(
        {_series("penstock_worker_restarts_total", 'reason="ended"'): "0+1x60"},
        {
            _series("penstock_worker_restarts_total", 'reason="ended"'): "0 1x60",
            _series("penstock_worker_restarts_total", 'reason="reloaded"'): "0+1x60",
        },
        value="20",
    ),
    "PenstockHookFails": Scenario(
        {_series("penstock_decision_failures_total", 'route="vod"'): "0+1x60"},
        {_series("penstock_decision_failures_total", 'route="vod"'): "3x60"},
        before="4m",
        labels={"route": "vod"},
    ),
    "PenstockHubLogAway": Scenario(
        {_series("penstock_hub_logs", 'state="away"'): "0 1x60"},
        {_series("penstock_hub_logs", 'state="away"'): "0 1 0x60"},
        before="1m",
        labels={"state": "away"},
    ),
    "PenstockCertificateExpires": Scenario(
        {_series("penstock_tls_certificate_expiry_timestamp_seconds", 'certificate="a"'): f"{3 * _DAY}x60"},
        {_series("penstock_tls_certificate_expiry_timestamp_seconds", 'certificate="a"'): f"{30 * _DAY}x60"},
        before="5m",
        value="2d 23h 40m 0s",
        labels={"certificate": "a"},
    ),
    "PenstockCertificateBad": Scenario(
        {
            _series("penstock_tls_certificates", 'state="stale"'): "0 1x60",
            _series("penstock_tls_certificates", 'state="unusable"'): "0 2x60",
        },
        {
            _series("penstock_tls_certificates", 'state="current"'): "5x60",
            _series("penstock_tls_certificates", 'state="stale"'): "0x60",
        },
        before="5m",
        value="3",
    ),
    "PenstockConfigurationBad": Scenario(
        {_series("penstock_configuration_current"): "1 0x60"},
        {_series("penstock_configuration_current"): "1 1 0x3 1x60"},
        before="5m",
    ),
    "PenstockCacheDiskFails": Scenario(
        {_series("penstock_cache_disk_failures_total"): "0+1x60"},
        {
            _series("penstock_cache_disk_failures_total"): "9x60",
            _series("penstock_cache_disk_hanging"): "0 1 0x60",
        },
        before="4m",
    ),
    "PenstockThreadBusy": Scenario(
        {_series("penstock_engine_thread_busy_seconds_total", 'thread="0"'): "0+28.5x60"},
        {_series("penstock_engine_thread_busy_seconds_total", 'thread="0"'): "0+15x60"},
        before="14m",
        value="95%",
        labels={"thread": "0"},
    ),
    "PenstockBlind": Scenario(
        {_series("penstock_trace_spans_dropped_total"): "0+1x60"},
        {
            _series("penstock_trace_spans_dropped_total"): "5x60",
            _series("penstock_log_lines_dropped_total"): "5x60",
        },
        before="9m",
    ),
}
