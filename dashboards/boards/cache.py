"""The cache: what it saves, and whether it has room."""

from .expressions import highest, lowest, or_zero, rate, ratio, total
from .shape import Page, Row, graph, stat

_RESULTS = {
    "hit": "green",
    "revalidated": "blue",
    "collapsed": "super-light-green",
    "stale": "yellow",
    "miss": "orange",
    "passed": "purple",
    "error": "red",
}
_SAVED = 'result=~"hit|stale|revalidated|collapsed"'
_FAILURES = ("disk_failures", "failures"), ("disk_damages", "damaged files"), ("disk_timeouts", "timeouts")


def _hit_ratio(*by: str) -> str:
    saved, asked = rate("cache_requests_total", *by, only=_SAVED), rate("cache_requests_total", *by)
    return ratio(or_zero(saved, asked), asked)


PAGE = Page(
    "cache",
    "penstock: cache",
    "What the cache saves its origins, whether it has room, and whether its disk works.",
    (
        Row(
            "Now",
            (
                stat(
                    "Served from the cache",
                    "The share of requests to the cache whose bodies the origin did not send for them: hits, "
                    "stale and revalidated responses, and requests that joined another's fetch.",
                    "percentunit",
                    _hit_ratio(),
                    steps=((None, "red"), (0.5, "yellow"), (0.8, "green")),
                ),
                stat("Requests", "To the cache, a second.", "reqps", rate("cache_requests_total")),
                stat("Stored responses", "In memory and on disk.", "short", total("cache_objects")),
                stat(
                    "URLs", "Under which something is stored or being fetched.", "short", total("cache_keys")
                ),
                stat("Evictions", "From memory, a second.", "ops", rate("cache_evictions_total")),
                stat(
                    "Disks that hang",
                    "A disk that hangs counts as empty; requests go to the origin.",
                    "short",
                    total("cache_disk_hanging"),
                    steps=((None, "green"), (1, "red")),
                ),
            ),
        ),
        Row(
            "Requests",
            (
                graph(
                    "Requests by result",
                    "A stored fresh response, a stale one, one that the origin had just confirmed, another "
                    "request's fetch, a response that was stored, one that was not, an error.",
                    "reqps",
                    (rate("cache_requests_total", "result"), "{{result}}"),
                    width=12,
                    stacked=True,
                    colours=_RESULTS,
                ),
                graph(
                    "Served from the cache, by route",
                    "A route far below the others: its responses forbid storing, vary, or are asked for once. "
                    "Compare misses with passed ones.",
                    "percentunit",
                    (_hit_ratio("route"), "{{route}}"),
                    width=12,
                    most=1,
                ),
            ),
        ),
        Row(
            "Room",
            (
                graph(
                    "Bytes",
                    "What is used and may be used, in memory and on disk.",
                    "bytes",
                    (total("cache_used_bytes", "tier"), "{{tier}} used"),
                    (total("cache_limit_bytes", "tier"), "{{tier}} limit"),
                ),
                graph(
                    "Stored responses",
                    "And parts of such.",
                    "short",
                    (total("cache_objects", "tier"), "{{tier}}"),
                    (total("cache_keys"), "URLs"),
                ),
                graph(
                    "Evictions",
                    "Responses, and parts, that left memory because room was needed. If hits fall while these "
                    "rise, give the cache more.",
                    "ops",
                    (rate("cache_evictions_total", "instance"), "{{instance}}"),
                ),
            ),
        ),
        Row(
            "Disk",
            (
                graph(
                    "Reads and writes",
                    "Responses served from files, brought back into memory, written, and not written because "
                    "too many left memory at once or the disk had just failed.",
                    "ops",
                    (rate("cache_disk_hits_total"), "served from files"),
                    (rate("cache_disk_promotions_total"), "brought back"),
                    (rate("cache_disk_writes_total"), "written"),
                    (rate("cache_disk_skips_total"), "not written"),
                ),
                graph(
                    "Trouble",
                    "Failures such as for want of space, files that were not what was written, requests that "
                    "waited for the disk for the whole time limit. All should be zero.",
                    "ops",
                    *((rate(f"cache_{name}_total"), legend) for name, legend in _FAILURES),
                    colours={"failures": "red", "damaged files": "orange", "timeouts": "yellow"},
                ),
                graph(
                    "State",
                    "ready: the files that were there at the start have been read. hanging: the disk counts as "
                    "empty.",
                    "short",
                    (lowest("cache_disk_ready", "instance"), "{{instance}} ready"),
                    (highest("cache_disk_hanging", "instance"), "{{instance}} hanging"),
                    most=1,
                ),
            ),
        ),
    ),
)
