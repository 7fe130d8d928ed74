"""TLS and HTTP/2 towards clients."""

from .expressions import rate, ratio, selected, total
from .shape import Line, Page, Panel, Row, graph, stat

_HANDSHAKES = rate("tls_handshakes_total")
_COMPLETE = 'end=~"full|resumed"'
_DAYS = f"({selected('tls_certificate_expiry_timestamp_seconds')} - time()) / 86400"
_EXPIRY = ((None, "red"), (7.0, "yellow"), (21.0, "green"))

PAGE = Page(
    "tls",
    "penstock: TLS and HTTP/2",
    "Whether clients get a connection, when certificates expire, and who misuses HTTP/2.",
    (
        Row(
            "Now",
            (
                stat("Handshakes", "That are over, a second.", "cps", _HANDSHAKES),
                stat(
                    "Failed",
                    "The share of handshakes after which the client has no connection.",
                    "percentunit",
                    ratio(rate("tls_handshakes_total", only='end!~"full|resumed"'), _HANDSHAKES),
                    steps=((None, "green"), (0.1, "yellow"), (0.5, "red")),
                ),
                stat(
                    "Resumed",
                    "The share of complete handshakes that resumed a session, and so cost no signature.",
                    "percentunit",
                    ratio(
                        rate("tls_handshakes_total", only='end="resumed"'),
                        rate("tls_handshakes_total", only=_COMPLETE),
                    ),
                ),
                stat("Under way", "Handshakes.", "short", total("tls_handshakes_active")),
                stat(
                    "HTTP/2",
                    "The share of new connections that speak it.",
                    "percentunit",
                    ratio(rate("http2_connections_total"), rate("client_connections_accepted_total")),
                ),
                stat(
                    "Next expiry",
                    "Until the first certificate expires. Clients refuse an expired one.",
                    "d",
                    f"min({_DAYS})",
                    steps=_EXPIRY,
                ),
            ),
        ),
        Row(
            "Handshakes",
            (
                graph(
                    "Complete",
                    "full, or resumed by a ticket.",
                    "cps",
                    (rate("tls_handshakes_total", "end", only=_COMPLETE), "{{end}}"),
                    width=12,
                    stacked=True,
                    colours={"full": "blue", "resumed": "green"},
                ),
                graph(
                    "Failed, by reason",
                    "closed and timeout are mostly scanners and health checks of balancers; unknown_name and "
                    "incompatible are clients that you may want to serve.",
                    "cps",
                    (rate("tls_handshakes_total", "end", only='end!~"full|resumed"'), "{{end}}"),
                    width=12,
                    stacked=True,
                ),
                graph(
                    "Under way",
                    "If it rises, the threads for handshakes are busy, or clients stop in the middle.",
                    "short",
                    (total("tls_handshakes_active", "instance"), "{{instance}}"),
                    width=12,
                ),
                graph(
                    "Decrypted bytes",
                    "From clients, and from origins at https.",
                    "Bps",
                    (rate("copied_bytes_total", "instance", only='reason="tls"'), "{{instance}}"),
                    width=12,
                ),
            ),
        ),
        Row(
            "Certificates",
            (
                Panel(
                    "Days until certificates expire",
                    "The 100 that expire first.",
                    "d",
                    (Line(_DAYS, "{{certificate}} ({{instance}})"),),
                    kind="bargauge",
                    most=90,
                    steps=_EXPIRY,
                ),
                graph(
                    "Certificates by state",
                    "stale: the files have become bad, and the earlier certificate is served. unusable: the "
                    "files have been bad from the start.",
                    "short",
                    (total("tls_certificates", "state"), "{{state}}"),
                    stacked=True,
                    colours={"current": "green", "stale": "yellow", "unusable": "red"},
                ),
                graph(
                    "Reloads",
                    "Times that changed files or keys of tickets were put in place, or were bad.",
                    "ops",
                    (rate("tls_reloads_total", "result"), "{{result}}"),
                    colours={"failed": "red", "applied": "green"},
                ),
            ),
        ),
        Row(
            "HTTP/2",
            (
                graph(
                    "New connections",
                    "Of HTTP/2, and of all clients.",
                    "cps",
                    (rate("http2_connections_total"), "HTTP/2"),
                    (rate("client_connections_accepted_total"), "all"),
                    width=12,
                ),
                graph(
                    "Refused, by reason",
                    "Connections that were ended for what their client did too often or wrong; streams: "
                    "requests that were refused because earlier ones had not ended. A steady rate from few "
                    "clients is an attack.",
                    "ops",
                    (rate("http2_refusals_total", "reason"), "{{reason}}"),
                    width=12,
                    stacked=True,
                ),
            ),
        ),
    ),
)
