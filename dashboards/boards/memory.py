"""Memory: throughput, durations and resident memory one above the other, and what the pool is used for."""

from .expressions import highest, quantile, rate, ratio, selected, total
from .shape import Page, Row, graph, stat

_STATES = {".*full": "red", ".*pressed": "yellow", ".*open": "green"}

PAGE = Page(
    "memory",
    "penstock: memory",
    "Whether the memory budget fits the load: throughput, p99 and resident memory at one glance, and the pool.",
    (
        Row(
            "Now",
            (
                stat(
                    "Sent to clients",
                    "Bytes a second.",
                    "Bps",
                    rate("response_bytes_total"),
                ),
                stat("First byte, p99", "Of all routes.", "s", quantile(0.99, "request_first_byte_seconds")),
                stat(
                    "Resident",
                    "Of the largest instance.",
                    "bytes",
                    f"max({selected('process_resident_bytes')})",
                ),
                stat(
                    "Pool in use",
                    "The share of the budget, of the fullest instance.",
                    "percentunit",
                    f"max({selected('pool_used_bytes')} / {selected('pool_budget_bytes')})",
                    steps=((None, "green"), (0.75, "yellow"), (0.95, "red")),
                ),
                stat(
                    "Pools that are full",
                    "New work is refused while a pool is full.",
                    "short",
                    total("pool_state", only='state="full"'),
                    steps=((None, "green"), (1, "red")),
                ),
                stat(
                    "Copied by the processor",
                    "Bytes that were copied for each byte of payload. A relay copies none but what TLS decrypts.",
                    "percentunit",
                    ratio(rate("copied_bytes_total"), rate("payload_bytes_total")),
                ),
            ),
        ),
        Row(
            "Throughput, p99 and resident memory",
            (
                graph(
                    "Throughput",
                    "Bytes sent to clients, and payload read from origins, files and bodies of requests. The "
                    "cache is the difference.",
                    "Bps",
                    (rate("response_bytes_total", "instance"), "{{instance}} sent"),
                    (rate("payload_bytes_total", "instance"), "{{instance}} read"),
                    width=24,
                    height=7,
                ),
                graph(
                    "p99",
                    "First byte and whole response. If it rises with throughput while memory stays flat, the "
                    "limit is the processor or the origin; if the pool is pressed, it is memory.",
                    "s",
                    (quantile(0.99, "request_first_byte_seconds", "instance"), "{{instance}} first byte"),
                    (quantile(0.99, "request_duration_seconds", "instance"), "{{instance}} whole response"),
                    width=24,
                    height=7,
                ),
                graph(
                    "Resident memory and pool",
                    "Resident memory rises to the pool's peak use and stays there. If it goes on rising while "
                    "the pool's peak does not, the application leaks.",
                    "bytes",
                    (highest("process_resident_bytes", "instance"), "{{instance}} resident"),
                    (highest("pool_budget_bytes", "instance"), "{{instance}} pool budget"),
                    (highest("pool_peak_bytes", "instance"), "{{instance}} pool peak"),
                    (highest("pool_used_bytes", "instance"), "{{instance}} pool used"),
                    width=24,
                    height=7,
                ),
            ),
        ),
        Row(
            "Pool",
            (
                graph(
                    "State",
                    "Instances by the state of their pool. pressed: windows shrink, so streams slow down. full: "
                    "new work is refused.",
                    "short",
                    (total("pool_state", "state"), "{{state}}"),
                    stacked=True,
                    colours=_STATES,
                ),
                graph(
                    "Overload",
                    "Instances whose engine or application has too much to do. pressed: nothing is begun that no client "
                    "waits for. shedding: a part of the new requests is refused (OVERLOADED).",
                    "short",
                    (total("pressure_state", "part", "state", only='state!="ok"'), "{{part}}: {{state}}"),
                    stacked=True,
                ),
                graph(
                    "Refusals, and clients cut for memory",
                    "Times that memory was asked for and there was none, also where a stream waited for it and "
                    "got it; and clients cut because they held memory and read nothing.",
                    "ops",
                    (rate("pool_refusals_total", "instance"), "{{instance}} refusals"),
                    (rate("client_evictions_total", only='reason="memory"'), "clients cut"),
                ),
                graph(
                    "Who has it",
                    "The cache and the history of hubs have a part of the pool; the rest is streams and heads.",
                    "bytes",
                    (total("pool_used_bytes"), "pool used"),
                    (total("cache_used_bytes", only='tier="memory"'), "cache"),
                    (total("hub_used_bytes"), "history of hubs"),
                ),
                graph(
                    "Slabs that are held",
                    "By size in bytes. Large ones are reads of segments, small ones slow streams and heads.",
                    "short",
                    (total("pool_slabs", "size", only='state="held"'), "{{size}}"),
                    stacked=True,
                ),
                graph(
                    "Slabs that are free",
                    "By size in bytes: memory that the pool holds ready.",
                    "short",
                    (total("pool_slabs", "size", only='state="free"'), "{{size}}"),
                    stacked=True,
                ),
                graph(
                    "Large objects",
                    "Objects larger than the largest slab that are held.",
                    "short",
                    (total("pool_runs", "instance"), "{{instance}}"),
                ),
            ),
        ),
        Row(
            "Copies",
            (
                graph(
                    "Bytes copied, by reason",
                    "tls (what was decrypted) and upload are expected, and frame_join on a raw relay is not; "
                    "docs/concepts/memory.md has each reason.",
                    "Bps",
                    (rate("copied_bytes_total", "reason"), "{{reason}}"),
                    width=8,
                    stacked=True,
                ),
                graph(
                    "Bytes moved by the kernel",
                    "Of large bodies that go from an origin to a client in plain and are not stored or looked at: no "
                    "copy, and no memory of the pool. None at all means that a sandbox forbids splice, or that TLS ends "
                    "here.",
                    "Bps",
                    (rate("spliced_bytes_total", "instance"), "{{instance}}"),
                    width=8,
                ),
                graph(
                    "Tasks",
                    "Of the engine's threads: connections and fetches. If they rise while connections do not, "
                    "report it.",
                    "short",
                    (total("engine_tasks", "instance"), "{{instance}} tasks"),
                    width=8,
                ),
            ),
        ),
    ),
)
