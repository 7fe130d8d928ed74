"""The application: its queue and event loop, worker processes, hooks that decide, and tenants."""

from .expressions import highest, quantile, rate, ratio, total
from .shape import Page, Row, graph, stat

_RESULTS = {"hit": "green", "denied_hit": "orange", "asked": "blue", "joined": "purple"}

PAGE = Page(
    "workers",
    "penstock: application, workers and hooks",
    "Whether Python keeps up: the application's queue, worker processes, hooks and tenants.",
    (
        Row(
            "Now",
            (
                stat(
                    "Not looked at yet",
                    "Requests that wait for the application.",
                    "short",
                    total("application_waiting_requests"),
                    steps=((None, "green"), (100, "yellow"), (1000, "red")),
                ),
                stat(
                    "Event loop, lag",
                    "How long the application's loop took to answer the last probe. With workers, of the "
                    "fastest one.",
                    "s",
                    highest("application_lag_seconds"),
                    steps=((None, "green"), (0.1, "yellow"), (1, "red")),
                ),
                stat("Workers", "That take requests.", "short", total("workers", only='state="current"')),
                stat(
                    "Silence of workers",
                    "Of the worker that is silent for the longest. After --worker-hang it is replaced.",
                    "s",
                    highest("worker_silent_seconds"),
                    steps=((None, "green"), (1, "yellow"), (5, "red")),
                ),
                stat(
                    "Decisions remembered",
                    "The share of requests that needed no question to a hook.",
                    "percentunit",
                    ratio(
                        rate("decision_lookups_total", only='result=~"hit|denied_hit"'),
                        rate("decision_lookups_total"),
                    ),
                ),
                stat("Hook, p99", "From a question to its answer.", "s", quantile(0.99, "decision_seconds")),
            ),
        ),
        Row(
            "Application",
            (
                graph(
                    "Requests for the application",
                    "taken by it; refused: too many waited; expired: not taken in time; left: by their clients "
                    "before.",
                    "reqps",
                    (rate("application_requests_total", "outcome"), "{{outcome}}"),
                    stacked=True,
                    colours={"taken": "green", "refused": "red", "expired": "orange", "left": "yellow"},
                ),
                graph(
                    "Waiting requests",
                    "And the limit, above which requests are refused.",
                    "short",
                    (total("application_waiting_requests", "instance"), "{{instance}} waiting"),
                    (total("application_waiting_limit", "instance"), "{{instance}} limit"),
                ),
                graph(
                    "Wait and lag",
                    "For how long the first request has waited, and how late the event loop answers. Both rise "
                    "if a handler blocks: find it by py-spy dump.",
                    "s",
                    (highest("application_oldest_wait_seconds", "instance"), "{{instance}} oldest wait"),
                    (highest("application_lag_seconds", "instance"), "{{instance}} lag"),
                ),
                graph(
                    "Engine threads, silence",
                    "Time since a thread last reported progress, which it does once a second. Above 10 s it "
                    "hangs.",
                    "s",
                    (
                        highest("engine_thread_silent_seconds", "instance", "thread"),
                        "{{instance}} thread {{thread}}",
                    ),
                    width=12,
                ),
                graph(
                    "Ends without on_complete",
                    "Ends of requests on native routes for which on_complete was not called, because Python was "
                    "stalled.",
                    "ops",
                    (rate("untold_ends_total", "instance"), "{{instance}}"),
                    width=12,
                ),
            ),
        ),
        Row(
            "Workers",
            (
                graph(
                    "Processes",
                    "current: serving; coming: starting with newer code; retired: finishing their requests.",
                    "short",
                    (total("workers", "state"), "{{state}}"),
                    stacked=True,
                    colours={"current": "green", "coming": "blue", "retired": "yellow"},
                ),
                graph(
                    "Starts in place of others",
                    "ended: the process died. hung: its loop was silent. reloaded: newer code. The log of "
                    "penstock.workers says why.",
                    "ops",
                    (rate("worker_restarts_total", "reason"), "{{reason}}"),
                    colours={"ended": "red", "hung": "orange", "reloaded": "blue"},
                ),
                graph(
                    "Silence",
                    "For how long a worker's loop has not answered; the longest of all.",
                    "s",
                    (highest("worker_silent_seconds", "instance"), "{{instance}}"),
                ),
                graph(
                    "Requests",
                    "Handed to a worker, and handed to a second one because the first had ended or was full.",
                    "reqps",
                    (rate("worker_exchanges_total"), "handed over"),
                    (rate("worker_repeats_total"), "repeated"),
                ),
                graph(
                    "Requests lost with their worker",
                    "refused: answered with 502 (WORKER_GONE). cut_off: in a response that was begun.",
                    "reqps",
                    (rate("worker_losses_total", "outcome"), "{{outcome}}"),
                ),
                graph(
                    "In work, and generation",
                    "Requests that workers have, and the number of the code that serves: it rises with each "
                    "reload.",
                    "short",
                    (total("worker_requests_active", "instance"), "{{instance}} requests"),
                    (highest("worker_generation", "instance"), "{{instance}} generation"),
                ),
            ),
        ),
        Row(
            "Hooks that decide",
            (
                graph(
                    "Lookups",
                    "hit: allowed by a remembered decision; denied_hit: refused by one; asked: the hook was "
                    "asked; joined: waited for a question that was open.",
                    "reqps",
                    (rate("decision_lookups_total", "result"), "{{result}}"),
                    stacked=True,
                    colours=_RESULTS,
                ),
                graph(
                    "Answers of hooks",
                    "From a question to its answer, or to its failure. Requests without a remembered decision "
                    "are as slow.",
                    "s",
                    (quantile(0.5, "decision_seconds", "route"), "{{route}} p50"),
                    (quantile(0.99, "decision_seconds", "route"), "{{route}} p99"),
                ),
                graph(
                    "Questions",
                    "Questions that are open, and responses that run by a decision.",
                    "short",
                    (total("decision_questions_open", "route"), "{{route}} open questions"),
                    (total("decision_responses_running", "route"), "{{route}} running responses"),
                ),
                graph(
                    "Failures",
                    "Questions that were not answered: the hook raised, or took too long. Their requests are "
                    "refused.",
                    "ops",
                    (rate("decision_failures_total", "route"), "{{route}}"),
                    colours={".*": "red"},
                ),
                graph(
                    "Remembered decisions",
                    "By verdict.",
                    "short",
                    (total("decisions_remembered", "route", "verdict"), "{{route}} {{verdict}}"),
                    stacked=True,
                ),
                graph(
                    "Decisions that left early",
                    "Evicted for lack of room (raise Access.decisions), or revoked.",
                    "ops",
                    (rate("decision_evictions_total", "route"), "{{route}} evicted"),
                    (rate("decision_revocations_total", "route"), "{{route}} revoked"),
                ),
            ),
        ),
        Row(
            "Tenants",
            (
                graph(
                    "Requests on tenants' accounts",
                    "Let in, or refused for a limit of the tenant's. Decisions.tenants() has each tenant.",
                    "reqps",
                    (rate("tenant_requests_total", "route", "result"), "{{route}} {{result}}"),
                    stacked=True,
                    colours={".* refused": "red"},
                ),
                graph(
                    "Being answered",
                    "Requests on tenants' accounts.",
                    "short",
                    (total("tenant_requests_active", "route"), "{{route}}"),
                ),
                graph(
                    "Bytes",
                    "Of bodies, of requests that are over.",
                    "Bps",
                    (rate("tenant_body_bytes_total", "route"), "{{route}}"),
                ),
            ),
        ),
    ),
)
