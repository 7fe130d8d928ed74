"""Streams and events: relayed streams, topics, tokens."""

from .expressions import quantile, rate, ratio, total
from .shape import Page, Row, graph, stat

PAGE = Page(
    "streams",
    "penstock: streams and events",
    "Whether streams run and subscribers keep up: relayed streams, topics of hubs, and tokens.",
    (
        Row(
            "Now",
            (
                stat("Streams", "Streams whose consumer is there.", "short", total("streams")),
                stat("Subscribers", "Subscribers of all topics.", "short", total("hub_subscribers")),
                stat("Topics", "Topics that are there.", "short", total("hub_topics")),
                stat(
                    "Events delivered",
                    "Events that were given to subscribers, once for each, a second.",
                    "ops",
                    rate("hub_deliveries_total"),
                ),
                stat(
                    "Events missed",
                    "Events that subscribers missed and were told of by a gap, a second.",
                    "ops",
                    rate("hub_dropped_events_total"),
                    steps=((None, "green"), (0.1, "yellow"), (10, "red")),
                ),
                stat(
                    "First token, p99",
                    "From when the origin was asked.",
                    "s",
                    quantile(0.99, "first_token_seconds"),
                ),
            ),
        ),
        Row(
            "Streams",
            (
                graph(
                    "Streams",
                    "Streams whose consumer has neither seen the end nor left, and bodies that are read on "
                    "without a client.",
                    "short",
                    (total("streams"), "streams"),
                    (total("draining_responses"), "read on without a client"),
                ),
                graph(
                    "Begun",
                    "Streams begun, and bodies that were read on after their clients had left or were not for "
                    "the limit on their number.",
                    "ops",
                    (rate("streams_started_total"), "begun"),
                    (rate("drained_responses_total"), "read on"),
                    (rate("undrained_responses_total"), "not read on"),
                ),
                graph(
                    "Quiet and failed event streams",
                    "Heartbeats, streams cut because their origin was silent for too long, and failures told by "
                    "an event. Cuts and failures come from origins: look there.",
                    "ops",
                    (rate("event_heartbeats_total"), "heartbeats"),
                    (rate("event_streams_idle_total"), "cut: origin silent"),
                    (rate("event_failures_told_total"), "failures told"),
                ),
            ),
        ),
        Row(
            "Topics",
            (
                graph(
                    "Subscribers and topics",
                    "Of all hubs together.",
                    "short",
                    (total("hub_subscribers"), "subscribers"),
                    (total("hub_topics"), "topics"),
                ),
                graph(
                    "Events",
                    "Published events, and their deliveries: one for each subscriber.",
                    "ops",
                    (rate("hub_events_total"), "published"),
                    (rate("hub_deliveries_total"), "delivered"),
                    (rate("hub_conflated_events_total"), "replaced by newer ones"),
                ),
                graph(
                    "Bytes of events",
                    "Of published events, as they are sent.",
                    "Bps",
                    (rate("hub_event_bytes_total"), "published"),
                ),
                graph(
                    "Subscribers that fall behind",
                    "Subscribers cut because they did not keep up, gaps announced, and the events in them. If "
                    "all fall behind, the threads are busy or the history is too short.",
                    "ops",
                    (rate("hub_slow_subscribers_total"), "cut"),
                    (rate("hub_gaps_total"), "gaps"),
                    (rate("hub_dropped_events_total"), "events missed"),
                    colours={"events missed": "red"},
                ),
                graph(
                    "Subscriptions",
                    "New ones, and subscriptions that resumed and got all that they had missed.",
                    "ops",
                    (rate("hub_subscriptions_total"), "subscriptions"),
                    (rate("hub_resumptions_total"), "resumed whole"),
                ),
                graph(
                    "History",
                    "Bytes of the pool that history uses, and the limit. At the limit the oldest events go.",
                    "bytes",
                    (total("hub_used_bytes"), "used"),
                    (total("hub_limit_bytes"), "limit"),
                ),
            ),
        ),
        Row(
            "Topics that processes share",
            (
                graph(
                    "Logs",
                    "Logs in Redis or Kafka that hubs follow: ready, or away. While one is away, events reach "
                    "the subscribers of their own process alone.",
                    "short",
                    (total("hub_logs", "state"), "{{state}}"),
                    stacked=True,
                    colours={"ready": "green", "away": "red"},
                ),
                graph(
                    "Followed topics",
                    "And topics that wait for room in the hub's memory, or for missing entries.",
                    "short",
                    (total("hub_log_topics"), "followed"),
                    (total("hub_log_topics_behind"), "waiting"),
                ),
                graph(
                    "Entries",
                    "Entries that came from logs, events for them by what became of them, and gaps.",
                    "ops",
                    (rate("hub_log_entries_total"), "entries"),
                    (rate("hub_log_events_total", "outcome"), "events {{outcome}}"),
                    (rate("hub_log_gaps_total"), "gaps"),
                ),
            ),
        ),
        Row(
            "Tokens",
            (
                graph(
                    "First token",
                    "From when the origin was asked. It is the origin's, unless connections to it are short.",
                    "s",
                    (quantile(0.5, "first_token_seconds", "route"), "{{route}} p50"),
                    (quantile(0.99, "first_token_seconds", "route"), "{{route}} p99"),
                ),
                graph(
                    "Between two tokens",
                    "Of one stream.",
                    "s",
                    (quantile(0.5, "token_gap_seconds", "route"), "{{route}} p50"),
                    (quantile(0.99, "token_gap_seconds", "route"), "{{route}} p99"),
                ),
                graph(
                    "Streams of tokens, length",
                    "From when the origin was asked to the end.",
                    "s",
                    (quantile(0.5, "token_stream_seconds", "route"), "{{route}} p50"),
                    (quantile(0.99, "token_stream_seconds", "route"), "{{route}} p99"),
                ),
                graph(
                    "Metered responses",
                    "Responses that are over and were inspected: streams of events, or others.",
                    "ops",
                    (rate("inspected_responses_total", "route", "content"), "{{route}} {{content}}"),
                    stacked=True,
                ),
                graph(
                    "Usages seen",
                    "The share of inspected responses that had a usage, and of those in which one may have been "
                    "and was not seen. What is not seen is not metered.",
                    "percentunit",
                    (
                        ratio(
                            rate("inspected_usages_total", "route"),
                            rate("inspected_responses_total", "route"),
                        ),
                        "{{route}} with a usage",
                    ),
                    (
                        ratio(
                            rate("inspected_hidden_total", "route"),
                            rate("inspected_responses_total", "route"),
                        ),
                        "{{route}} hidden",
                    ),
                    most=1,
                ),
                graph(
                    "Events of inspected streams",
                    "A second.",
                    "ops",
                    (rate("inspected_events_total", "route"), "{{route}}"),
                ),
                graph(
                    "Bytes of an event",
                    "The mean of inspected streams.",
                    "bytes",
                    (
                        ratio(
                            rate("inspected_bytes_total", "route"), rate("inspected_events_total", "route")
                        ),
                        "{{route}}",
                    ),
                    width=24,
                    height=6,
                ),
            ),
        ),
    ),
)
