"""`penstock upgrade`: has a newer process serve in place of a running `penstock serve`, through its control socket."""

from pathlib import Path

import click

from .control_client import ask, at_control

__all__ = ["upgrade"]


@click.command()
@at_control
def upgrade(control: Path) -> None:
    """Have a new process serve in place of a running server, which was started with --control.

    The new process has the same command line, with the code, the configuration file and the certificates that are there
    now. It listens to the same sockets, and no connection is refused. When it is ready it accepts, and the one before
    drains, as after SIGTERM. If it fails before that, nothing has changed.

    \b
    Exit status: 0 when the new process accepts, 1 if it does not, 2 for wrong arguments.
    """  # noqa: D301 (click keeps the lines after a backspace as they are)
    # The server limits how long it takes: --upgrade-timeout.
    found = ask(control, "POST", "/upgrade", patience=None)
    click.echo(f"process {found['process']} serves")
