"""How commands ask a running `penstock serve` through its control socket."""

from pathlib import Path
from typing import Any, Final

import click

__all__ = ["PATIENCE", "ask", "at_control", "control_path"]

PATIENCE: Final = 60.0
"""Seconds. The server's loop answers at once, unless a handler of an application keeps it busy."""


def control_path(text: str) -> Path:
    """The path in `unix:PATH`."""
    path = text.removeprefix("unix:")
    if path in {text, ""}:
        raise click.BadParameter(f"{text!r} is not unix:PATH")
    return Path(path)


at_control: Final = click.option(
    "--control",
    type=control_path,
    required=True,
    metavar="unix:PATH",
    help="What the server was given as --control.",
)


def ask(
    control: Path, method: str, path: str, patience: float | None = PATIENCE, **options: Any
) -> dict[str, Any]:
    """What the server says, within `patience` seconds.

    Raises:
        ClickException: it cannot be asked, or does not do it.
    """
    # `penstock serve` has this command too, and does without.
    import asyncio  # noqa: PLC0415

    import aiohttp  # noqa: PLC0415

    asked = options.get("json") or options.get("params") or {}

    async def ask() -> tuple[int, dict[str, Any]]:
        connector = aiohttp.UnixConnector(path=str(control))
        timeout = aiohttp.ClientTimeout(total=patience)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.request(method, f"http://control{path}", **options) as response,
        ):
            return response.status, await response.json(content_type=None)

    try:
        status, found = asyncio.run(ask())
    except (aiohttp.ClientError, OSError) as error:
        why = getattr(error, "strerror", None) or str(error)
        rule = "is there a 'penstock serve' with this --control?"
        raise click.ClickException(f"--control: nothing answers at {control}: {why}: {rule}") from error
    if status != 200:  # noqa: PLR2004 (OK)
        about = next((f"--{name}: " for name in ("url", "prefix", "tag") if name in asked), "")
        raise click.ClickException(f"{about}{found['detail']}")
    return found
