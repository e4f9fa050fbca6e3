"""``tidegate demo``: a month of real flights, streamed through one statement."""

from __future__ import annotations

import click


@click.command()
def demo() -> None:
    """Stream a month of real flights through one statement."""
    from tidegate.cli.flights import run_demo

    run_demo()
