"""``tidegate run``: runs a pipeline until its input ends or it is stopped."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from tidegate.cli.exits import exit_code_of


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="Process the available input, then stop.")
@click.option("--flush", is_flag=True, help="Before stopping, emit the open state windows.")
@click.option("--drain", is_flag=True, help="Before stopping, emit every open window.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve metrics and health checks on this port.",
)
@click.option("--monitor", is_flag=True, help="Serve a page that shows the transforms, live.")
@click.option("--monitor-port", type=click.IntRange(0, 65535), help="Serve it on this port.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    help="What is printed: lines for people, or a JSON object in each line.",
)
@click.pass_context
def run(
    ctx: click.Context,
    file: Path,
    once: bool,
    flush: bool,
    drain: bool,
    metrics_port: int | None,
    monitor: bool,
    monitor_port: int | None,
    log_format: str | None,
) -> None:
    """Run the pipeline in FILE; Ctrl-C or SIGTERM stops it after the current batch."""
    if flush and drain:
        raise click.UsageError("--drain includes --flush: give one of them.")
    from tidegate.cli.json_lines import print_failure
    from tidegate.cli.pipeline import Ending, run_pipeline
    from tidegate.cli.progress import progress_for
    from tidegate.config import load_config
    from tidegate.monitor.server import DEFAULT_PORT
    from tidegate.plan.pipeline import LogFormat

    ending = Ending.DRAIN if drain else Ending.FLUSH if flush else Ending.KEEP
    form = LogFormat(log_format) if log_format else None
    try:
        config = load_config(file)
        form = form or config.log
        if metrics_port is not None:
            config = replace(config, metrics_port=metrics_port)
        if monitor_port is not None:
            config = replace(config, monitor_port=monitor_port)
        elif monitor and config.monitor_port is None:
            config = replace(config, monitor_port=DEFAULT_PORT)
        with progress_for(form) as progress:
            run_pipeline(config, progress, ending=ending, once=once)
    except Exception as error:
        if form is not LogFormat.JSON:
            raise
        print_failure(error, with_stack=ctx.find_root().params.get("verbose", False))
        sys.exit(exit_code_of(error))
