"""A headless Firefox driven over WebDriver BiDi (W3C): the same tab as that of `browser`, as far as tests need it."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from .browser import Page, running_browser

_LISTENING = re.compile(rb"WebDriver BiDi listening on ws://([\d.:]+)")
# A test must reach no other machine.
_PREFERENCES: dict[str, bool | str] = {
    "app.normandy.enabled": False,
    "browser.safebrowsing.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,",
}


class FirefoxPage(Page):
    """One tab, made by `open_firefox`. It trusts every certificate, and `complaints` has console messages alone."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        super().__init__(socket)
        self._context = ""

    async def begin(self) -> None:
        """Begin a session."""
        await self.command("session.new", capabilities={"alwaysMatch": {"acceptInsecureCerts": True}})
        await self.command("session.subscribe", events=["log.entryAdded"])
        tree = await self.command("browsingContext.getTree")
        self._context = tree["contexts"][0]["context"]

    async def open(self, url: str) -> None:
        await self.command("browsingContext.navigate", context=self._context, url=url, wait="complete")

    async def evaluate(self, expression: str) -> Any:
        # Braces begin a block or an object; what has no value is null.
        text = (
            f"Promise.resolve(eval({json.dumps(expression)})).then((value) => JSON.stringify(value ?? null))"
        )
        answer = await self.command(
            "script.evaluate", expression=text, target={"context": self._context}, awaitPromise=True
        )
        assert answer["type"] == "success", answer
        return json.loads(answer["result"]["value"])

    def _note(self, method: str, event: dict[str, Any]) -> None:
        if method == "log.entryAdded" and event["level"] in ("error", "warn"):
            self.complaints.append(str(event["text"]))


@asynccontextmanager
async def open_firefox(program: str, profile: Path) -> AsyncIterator[FirefoxPage]:
    """Start `program` on a profile in `profile`, yield its tab, and end it."""
    profile.mkdir()
    lines = (f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in _PREFERENCES.items())
    (profile / "user.js").write_text("\n".join(lines))
    command = (
        *(program, "--headless", "--no-remote", "--profile", str(profile)),
        *("--remote-debugging-port=0", "about:blank"),
    )
    async with (
        running_browser(*command, said=_LISTENING) as (address, session),
        session.ws_connect(f"ws://{address}/session", max_msg_size=0) as socket,
    ):
        page = FirefoxPage(socket)
        async with page.listening():
            await page.begin()
            yield page
