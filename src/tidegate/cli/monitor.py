"""``tidegate monitor``: serves a page that shows running transforms."""

from __future__ import annotations

import signal
import threading

import click


@click.command()
@click.argument("checkpoints", metavar="CHECKPOINT..", nargs=-1, required=True)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=9465, help="The port; 0 takes a free one."
)
@click.option("--host", default="127.0.0.1", help="The address to listen on.")
def monitor(checkpoints: tuple[str, ...], port: int, host: str) -> None:
    """Show the transforms of CHECKPOINT folders on a page, live, until Ctrl-C or SIGTERM."""
    from tidegate.cli.watching import remote_readers, tell_of_missing
    from tidegate.monitor.server import MonitorServer

    tell_of_missing(checkpoints)
    stopping = threading.Event()
    before = {
        each: signal.signal(each, lambda *_: stopping.set())
        for each in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        with MonitorServer(checkpoints, port=port, host=host, remote=remote_readers) as server:
            click.echo(f"Monitor at {server.url} (Ctrl-C ends it)")
            while not stopping.wait(1):
                pass
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
