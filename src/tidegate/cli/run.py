"""``tidegate run``: runs a pipeline until its input ends or it is stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="Process the available input, then stop.")
@click.option("--flush", is_flag=True, help="Before stopping, emit the open state windows.")
@click.option("--drain", is_flag=True, help="Before stopping, emit every open window.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve metrics on this port.")
@click.option("--monitor", is_flag=True, help="Serve a page that shows the transforms, live.")
@click.option("--monitor-port", type=click.IntRange(0, 65535), help="Serve it on this port.")
def run(
    file: Path,
    once: bool,
    flush: bool,
    drain: bool,
    metrics_port: int | None,
    monitor: bool,
    monitor_port: int | None,
) -> None:
    """Run the pipeline in FILE; Ctrl-C or SIGTERM stops it after the current batch."""
    if flush and drain:
        raise click.UsageError("--drain includes --flush: give one of them.")
    from tidegate.cli.pipeline import Ending, run_pipeline
    from tidegate.cli.progress import progress_for
    from tidegate.config import load_config
    from tidegate.monitor.server import DEFAULT_PORT

    ending = Ending.DRAIN if drain else Ending.FLUSH if flush else Ending.KEEP
    with progress_for() as progress:
        config = load_config(file)
        if metrics_port is not None:
            config = replace(config, metrics_port=metrics_port)
        if monitor_port is not None:
            config = replace(config, monitor_port=monitor_port)
        elif monitor and config.monitor_port is None:
            config = replace(config, monitor_port=DEFAULT_PORT)
        run_pipeline(config, progress, ending=ending, once=once)
