"""A headless Chromium driven over the DevTools protocol, as much of it as the tests of the page need.

`open_browser` starts the program with a profile of its own and ends it; `Page` is its one tab. Nothing is
polled from here: conditions are awaited inside the page, and what the page complains of is collected from the
moment it is opened.
"""

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

# Without these a fresh Chromium asks its maker for components, experiments and QUIC, and a test must reach
# no other machine.
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
    "--remote-debugging-port=0",
)
_LISTENING = re.compile(rb"DevTools listening on ws://([\d.:]+)/")


class Page:
    """One tab, made by `open_browser`; `complaints` holds console errors, exceptions and failed requests."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.complaints: list[str] = []
        self._socket = socket
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def command(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and return its result; an error answer raises AssertionError."""
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        answer = await self._waiting[number]
        assert "error" not in answer, f"{method}: {answer['error']}"
        return dict(answer["result"])

    async def open(self, url: str) -> None:
        """Navigate to `url`, collecting complaints from its first byte on."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.command(f"{domain}.enable")
        answer = await self.command("Page.navigate", url=url)
        assert "errorText" not in answer, answer["errorText"]

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        answer = await self.command(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, condition: str, *, seconds: float) -> Any:
        """Wait until a JavaScript expression is true and return its value; fails after `seconds`."""
        watching = f"""new Promise((resolve) => {{
            const look = () => {{ const value = ({condition}); value ? resolve(value) : setTimeout(look, 50);
            }}; look();
        }})"""
        try:
            async with asyncio.timeout(seconds):
                return await self.evaluate(watching)
        except TimeoutError:
            text = await self.evaluate("document.body.innerText")
            raise AssertionError(
                f"not within {seconds} s: {condition}\ncomplaints: {self.complaints}\nthe page:\n{text}"
            ) from None

    async def size(self, width: int, height: int, *, scale: int) -> None:
        """Lay the page out at `width` x `height`, with `scale` dots for each pixel."""
        await self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )

    async def screenshot(self, width: int, height: int, *, scheme: str, target: Path, scale: int = 2) -> None:
        """Write a PNG of the page at `width` x `height`, `scale` times as fine, in a light or dark `scheme`."""
        await self.size(width, height, scale=scale)
        await self.command(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )
        # A frame that was laid out at the new size has to be shown before it can be taken.
        await self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        answer = await self.command("Page.captureScreenshot", format="png")
        _write(target, base64.b64decode(answer["data"]))

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Take in answers and events until the block ends."""
        listening = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening

    async def _listen(self) -> None:
        async for message in self._socket:
            content = message.json()
            if "id" in content:
                self._waiting.pop(content["id"]).set_result(content)
            else:
                self._note(content["method"], content["params"])
        for each in self._waiting.values():
            each.set_exception(ConnectionError("the browser has gone"))

    def _note(self, method: str, event: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.complaints.append(details.get("exception", details).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(each.get("value", each)) for each in event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{event['entry']['text']} {event['entry'].get('url', '')}")
        elif method == "Network.loadingFailed" and not event.get("canceled"):
            self.complaints.append(f"a request failed: {event['errorText']}")


def _write(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


@asynccontextmanager
async def open_browser(program: str, profile: Path, *flags: str) -> AsyncIterator[Page]:
    """Start `program` on the empty directory `profile`, with more `flags`, yield its tab, and end it."""
    command = (program, *_FLAGS, *flags, f"--user-data-dir={profile}", "about:blank")
    async with running_browser(*command, said=_LISTENING) as (address, session):
        async with session.get(f"http://{address}/json/list") as response:
            tabs = await response.json()
        tab = next(each for each in tabs if each["type"] == "page")
        # A screenshot is one message, and longer than the limit of 4 MiB on what a server may send.
        async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            page = Page(socket)
            async with page.listening():
                yield page


@asynccontextmanager
async def running_browser(
    *command: str, said: re.Pattern[bytes]
) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    """Start a browser, yield the address that the line `said` has and a session to reach it by, and end it."""
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    drain: asyncio.Task[bytes] | None = None
    try:
        async with asyncio.timeout(60):
            address = await _address(process.stderr, said)
        # From here on only so that the browser never waits for a full pipe.
        drain = asyncio.create_task(process.stderr.read())
        async with aiohttp.ClientSession() as session:
            yield address, session
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        if drain is not None:
            await drain


async def _address(stderr: asyncio.StreamReader, said: re.Pattern[bytes]) -> str:
    lines = []
    async for line in stderr:
        lines.append(line)
        if found := said.match(line):
            return found[1].decode()
    raise AssertionError(f"the browser ended before it listened: {b''.join(lines).decode(errors='replace')}")
