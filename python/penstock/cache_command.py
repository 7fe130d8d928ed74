"""`penstock cache`: looks at the cache of a running `penstock serve`, and purges it, through its control socket."""

import json
from pathlib import Path
from typing import Final

import click

from .control_client import ask, at_control

__all__ = ["cache"]

_json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def cache() -> None:
    """Look at the cache of a running server, and purge it.

    The server is one that was started with --cache and --control.

    \b
    Exit status: 0, 1 if the server could not be asked, 2 for wrong arguments.
    """  # noqa: D301 (click keeps the lines after a backspace as they are)


@cache.command()
@at_control
@_json_option
def stats(control: Path, as_json: bool) -> None:
    """Print how full it is, and how requests went."""
    found = ask(control, "GET", "/cache")
    if as_json:
        click.echo(json.dumps(found))
        return
    for name, value in found.items():
        click.echo(f"{name:13}{value}")


@cache.command()
@at_control
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
    click.echo(f"{ask(control, 'POST', '/cache/purge', json=wanted)['purged']} purged")


@cache.command("list")
@at_control
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
    for row in ask(control, "GET", "/cache/stored", params=wanted)["stored"]:
        if as_json:
            click.echo(json.dumps(row))
        else:
            numbers = f"{row['status']} {row['size']:>10} {row['age']:>7} {row['ttl']:>7} {row['hits']:>7}"
            click.echo(" ".join((numbers, row["url"], *row["tags"])))
