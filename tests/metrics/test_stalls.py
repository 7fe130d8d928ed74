"""The pages tell the truth while the interpreter stands still."""

import asyncio
import signal
import sys
from pathlib import Path

from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.origins import Recorder
from support.scraping import Pages
from support.waiting import in_time


async def connect(path: Path) -> RawClient:
    return RawClient(*await asyncio.open_unix_connection(str(path), limit=64 * 1024))


async def test_pages_and_native_routes_answer_while_the_interpreter_hangs(tmp_path: Path) -> None:
    socket, status = tmp_path / "app.sock", tmp_path / "status.sock"
    async with ScriptedOrigin(Recorder()) as origin:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).with_name("stalling.py")),
            *map(str, (socket, status, origin.url)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        clients = []
        try:
            assert await process.stdout.readline() == b"ready\n"
            pages = Pages(f"unix:{status}")
            await pages.until_status("ready", 200)
            hanging = await connect(socket)
            clients.append(hanging)
            await hanging.get("/hang")
            await pages.until(
                lambda metrics: metrics.get("application_requests_total", outcome="taken") == 1, "it hangs"
            )
            # No request waits for the application: it is asked for a sign.
            ready = await pages.until_status("ready", 503)
            (application,) = (check for check in ready["checks"] if not check["ok"])
            assert application["check"] == "application"
            assert "0 of 1024 requests wait" in application["seen"]
            assert "owed a sign" in application["seen"]
            assert (await pages.check("health"))[0] == 200
            native = await connect(socket)
            clients.append(native)
            assert (await native.ask("/vod/a")).body == b"ok"
            waiting = await connect(socket)
            clients.append(waiting)
            await waiting.get("/hello")
            metrics = await pages.until(
                lambda metrics: (
                    metrics.get("application_waiting_requests") == 1
                    and metrics.get("application_oldest_wait_seconds") > 0.2
                ),
                "a request waits",
            )
            assert metrics.get("application_lag_seconds") > 0.2
            assert metrics.get("requests_active", lane="app", route="application") == 2
            assert metrics.get("requests_total", lane="native", route="vod", status="200") == 1
            async with pages.viewer() as viewer:
                event = await viewer.until(lambda event: len(event["slowest"]) == 2, "what waits is shown")
                waits = {one["path"]: (one["route"], one["awaits"]) for one in event["slowest"]}
                assert waits == dict.fromkeys(("/hang", "/hello"), (None, "application"))
                assert event["totals"]["lag"] > 0.2
                assert [check["check"] for check in event["checks"] if not check["ok"]] == ["application"]
            process.stdin.write(b".")
            assert (await hanging.head()).status == 200
            assert (await waiting.head()).status == 200
            await pages.until_status("ready", 200)
        finally:
            for client in clients:
                client.abort()
            if process.returncode is None:
                process.stdin.close()
                process.send_signal(signal.SIGTERM)
            await in_time(process.wait(), "the process has ended")
        assert process.returncode == 0
