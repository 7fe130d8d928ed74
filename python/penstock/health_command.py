"""`penstock health`: asks the pages about a running engine whether it is well, for probes that have no HTTP client."""

import json

import click

from .status_client import OK, ask, at_status, place_of

__all__ = ["health"]


@click.command()
@at_status
@click.option(
    "--ready", is_flag=True, help="Ask whether it takes new work, and not only whether it is alive."
)
@click.option(
    "--timeout",
    "patience",
    type=click.FloatRange(0.01, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long an answer may take.",
)
def health(
    url: str | None, status_listen: tuple[str, int] | str | None, ready: bool, patience: float
) -> None:
    """Ask whether a running server is healthy. It must have been started with --status-listen.

    \b
      penstock health
      penstock health --status-listen unix:/run/penstock/status.sock --ready
      penstock health http://10.0.0.7:9145

    \b
    Exit status: 0 if it is, 1 if it is not or does not answer, 2 for wrong arguments.
    """  # noqa: D301 (click keeps the lines after a backspace as they are)
    place = place_of(url, status_listen)
    status, body = ask(place, "/penstock/ready" if ready else "/penstock/health", patience)
    if status != OK:
        raise click.ClickException(_reason(status, body))
    click.echo("ready" if ready else "healthy")


def _reason(status: int, body: bytes) -> str:
    """Why the page is not good: the checks that have failed."""
    try:
        failed = [check for check in json.loads(body)["checks"] if not check["ok"]]
        return "; ".join(f"{check['check']}: {check['seen']}" for check in failed)
    except (ValueError, KeyError, TypeError):
        return f"the answer has status {status}, and is no page about an engine"
