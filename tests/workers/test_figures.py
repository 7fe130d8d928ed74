"""What the pages say of worker processes."""

import os
import signal
from pathlib import Path

from support.scraping import Pages

from .serving import APP, workers


async def test_what_becomes_of_workers_and_of_what_they_had_is_counted(directory: Path) -> None:
    where = f"unix:{directory / 'pages'}"
    async with workers(directory, "--status-listen", where, app=APP) as serving:
        pages = Pages(where)
        metrics = await pages.metrics()
        assert metrics.get("workers", state="current") == 2
        assert metrics.get("workers", state="retired") == 0
        assert metrics.get("worker_generation") == 1
        assert metrics.has("worker_restarts_total", reason="hung")
        assert metrics.has("worker_losses_total", outcome="cut_off")

        held = await serving.hold()
        assert (await pages.metrics()).get("worker_requests_active") == 1
        os.kill(serving.holding().pop(), signal.SIGKILL)
        await pages.until(
            lambda metrics: (
                metrics.get("worker_repeats_total") == 1
                and metrics.get("worker_exchanges_total") == 2
                and metrics.get("worker_restarts_total", reason="ended") == 1
                and metrics.get("workers", state="current") == 2
            ),
            "the request is with another worker, and there is a new one",
        )
        serving.release()
        assert (await held)[0] == 200


async def test_a_request_that_is_lost_with_its_worker_is_counted(directory: Path) -> None:
    where = f"unix:{directory / 'pages'}"
    async with workers(directory, "--status-listen", where, app=APP) as serving:
        pages = Pages(where)
        posted = await serving.hold("Content-Length: 0", method="POST")
        os.kill(serving.holding().pop(), signal.SIGKILL)
        assert (await posted)[0] == 502
        metrics = await pages.until(
            lambda metrics: metrics.get("worker_losses_total", outcome="refused") == 1, "it is lost"
        )
        assert metrics.get("worker_losses_total", outcome="cut_off") == 0
        assert metrics.get("worker_exchanges_total") == 1


async def test_a_response_that_is_cut_off_is_counted(directory: Path) -> None:
    where = f"unix:{directory / 'pages'}"
    async with workers(directory, "--status-listen", where, app=APP) as serving:
        pages = Pages(where)
        client = await serving.connect()
        await client.get("/half")
        await client.head()
        assert await client.chunk() == b"half"
        for pid in serving.alive():
            os.kill(pid, signal.SIGKILL)
        metrics = await pages.until(
            lambda metrics: metrics.get("worker_losses_total", outcome="cut_off") == 1, "it is lost"
        )
        assert metrics.get("worker_losses_total", outcome="refused") == 0
        assert metrics.get("worker_repeats_total") == 0


async def test_a_generation_that_is_replaced_is_counted_until_it_has_finished(directory: Path) -> None:
    where = f"unix:{directory / 'pages'}"
    async with workers(directory, "--status-listen", where, app=APP) as serving:
        pages = Pages(where)
        held = await serving.hold()
        serving.running.process.send_signal(signal.SIGHUP)
        metrics = await pages.until(
            lambda metrics: metrics.get("worker_restarts_total", reason="reloaded") == 2, "the new ones serve"
        )
        assert metrics.get("worker_generation") == 2
        assert metrics.get("workers", state="current") == 2
        assert metrics.get("workers", state="retired") >= 1
        serving.release()
        assert (await held)[0] == 200
        metrics = await pages.until(lambda metrics: metrics.get("workers", state="retired") == 0, "all end")
        assert metrics.get("worker_restarts_total", reason="ended") == 0


async def test_a_worker_that_hangs_is_seen_to(directory: Path) -> None:
    where = f"unix:{directory / 'pages'}"
    async with workers(directory, "--worker-hang", "1", "--status-listen", where, app=APP) as serving:
        pages = Pages(where)
        blocked = await serving.begin("/blocks")
        await pages.until(lambda metrics: metrics.get("worker_silent_seconds") > 0.3, "one is silent")
        metrics = await pages.until(
            lambda metrics: metrics.get("worker_restarts_total", reason="hung") == 1, "another is started"
        )
        assert metrics.get("worker_restarts_total", reason="ended") == 0
        assert await blocked == (200, "not again")


async def test_the_page_shows_what_workers_have(directory: Path) -> None:
    where = f"unix:{directory / 'pages'}"
    async with workers(directory, "--status-listen", where, app=APP) as serving:
        held = await serving.hold()
        async with Pages(where).viewer() as viewer:
            event = await viewer.until(lambda event: event["slowest"], "the request that a worker holds")
            (waiting,) = event["slowest"]
            assert (waiting["path"], waiting["lane"], waiting["awaits"]) == ("/held", "app", "application")
            assert event["totals"]["workers"] == 2
            serving.release()
            assert (await held)[0] == 200
            await viewer.until(lambda event: not event["slowest"], "it is over")
