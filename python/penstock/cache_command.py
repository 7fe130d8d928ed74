"""`penstock cache`: looks at the cache of a running `penstock serve`, and purges it, through its control socket."""

import json
from pathlib import Path
from typing import Any, Final

import click

__all__ = ["cache"]

# Seconds. The server's loop answers at once, unless a handler of an application keeps it busy.
_PATIENCE: Final = 60.0


def control_path(text: str) -> Path:
    """The path in `unix:PATH`."""
    path = text.removeprefix("unix:")
    if path in {text, ""}:
        raise click.BadParameter(f"{text!r} is not unix:PATH")
    return Path(path)


_control_option: Final = click.option(
    "--control",
    type=control_path,
    required=True,
    metavar="unix:PATH",
    help="What the server was given as --control.",
)
_json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def cache() -> None:
    """Look at the cache of a running server, and purge it.

    The server is one that was started with --cache and --control.

    \b
    Exit status: 0, 1 if the server could not be asked, 2 for wrong arguments.
    """  # noqa: D301 (click keeps the lines after a backspace as they are)


@cache.command()
@_control_option
@_json_option
def stats(control: Path, as_json: bool) -> None:
    """Print how full it is, and how requests went."""
    found = _ask(control, "GET", "/cache")
    if as_json:
        click.echo(json.dumps(found))
        return
    for name, value in found.items():
        click.echo(f"{name:13}{value}")


@cache.command()
@_control_option
@click.option("--url", metavar="URL", help="What is stored of this URL of the origin, every variant.")
@click.option("--prefix", metavar="URL", help="What is stored of URLs that begin so.")
@click.option("--tag", metavar="TAG", help="What has this tag in Surrogate-Key or Cache-Tag.")
@click.option("--all", "everything", is_flag=True, help="All that is stored.")
@click.option(
    "--soft", is_flag=True, help="Make it stale, and keep it to be validated or to stand in for errors."
)
def purge(
    control: Path, url: str | None, prefix: str | None, tag: str | None, everything: bool, soft: bool
) -> None:
    """Purge by URL, by prefix or by tag, and print how many stored responses that was.

    URLs are the origin's: scheme and authority are those of --origin. After the command no client gets a
    purged response.
    """
    given = {
        name: value for name, value in (("url", url), ("prefix", prefix), ("tag", tag)) if value is not None
    }
    if len(given) + everything != 1:
        raise click.UsageError("give one of --url, --prefix, --tag and --all")
    if everything and soft:
        raise click.UsageError("--soft: not with --all")
    wanted: dict[str, object] = {"all": True} if everything else {**given, "soft": soft}
    click.echo(f"{_ask(control, 'POST', '/cache/purge', json=wanted)['purged']} purged")


@cache.command("list")
@_control_option
@click.option("--prefix", metavar="URL", help="URLs that begin so alone.")
@click.option("--after", metavar="URL", help="Only URLs after this one: the last one of the page before.")
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="URLs at most.")
@_json_option
def list_stored(control: Path, prefix: str | None, after: str | None, limit: int, as_json: bool) -> None:
    """Print what is stored, in the order of the URLs.

    \b
    A line each: status, bytes, age and time to live in seconds, hits, URL, tags.
    """  # noqa: D301 (as above)
    wanted = {"limit": str(limit)}
    wanted.update(
        {name: value for name, value in (("prefix", prefix), ("after", after)) if value is not None}
    )
    for row in _ask(control, "GET", "/cache/stored", params=wanted)["stored"]:
        if as_json:
            click.echo(json.dumps(row))
        else:
            numbers = f"{row['status']} {row['size']:>10} {row['age']:>7} {row['ttl']:>7} {row['hits']:>7}"
            click.echo(" ".join((numbers, row["url"], *row["tags"])))


def _ask(control: Path, method: str, path: str, **options: Any) -> dict[str, Any]:
    """What the server says.

    Raises:
        ClickException: it cannot be asked, or does not do it.
    """
    # `penstock serve` has this command too, and does without.
    import asyncio  # noqa: PLC0415

    import aiohttp  # noqa: PLC0415

    asked = options.get("json") or options.get("params") or {}

    async def ask() -> tuple[int, dict[str, Any]]:
        connector = aiohttp.UnixConnector(path=str(control))
        timeout = aiohttp.ClientTimeout(total=_PATIENCE)
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
