"""The demo: New York's flights of January 2013, in the order in which they left."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import click

from tidegate.cli.pipeline import Ending, run_pipeline
from tidegate.cli.planning import plan_transform
from tidegate.cli.progress import Totals, progress_for
from tidegate.cli.tables import print_table
from tidegate.config import load_config
from tidegate.errors import ConfigError
from tidegate.plan.pipeline import PipelineConfig
from tidegate.spark.session import local_session

# Where the example is: in an installed package, in a checkout.
FOLDERS = (
    Path(__file__).parents[1] / "examples" / "flights",
    Path(__file__).parents[3] / "examples" / "flights",
)
TRANSFORM = "delays"
SHOWN_WINDOWS = 6
CLOSED = """
    SELECT date_format(window_start, 'dd MMM HH:mm') || date_format(window_end, '-HH:mm') AS hour,
           origin, flights, late_flights, round(average_delay, 1) AS average_delay, worst_delay
    FROM {results} ORDER BY window_start DESC, origin DESC LIMIT {rows}
"""


def run_demo() -> None:
    """Stream the flights file by file; print the plan, the progress and the results."""
    scratch = Path(tempfile.mkdtemp(prefix="tidegate-demo-"))
    config = load_config(copy_example(scratch) / "pipeline.toml")
    transform = config.transforms[TRANSFORM]
    click.echo(f"{transform.sql.strip()}\n")
    click.echo(plan_transform(config, transform).text())
    started = time.monotonic()
    with progress_for() as progress:
        run_pipeline(config, progress, ending=Ending.DRAIN, once=True)
    if TRANSFORM not in progress.totals:
        return  # A signal has ended it before its first batch.
    _print_results(config)
    _print_summary(config, progress.totals[TRANSFORM], time.monotonic() - started)


def copy_example(scratch: Path) -> Path:
    """Copy the example into ``scratch`` and return the copy.

    Spark reads the files of a folder in the order of their modification times, which are about
    equal in a checkout or installation. So the copies get times in the order of their names.
    """
    example = next((folder for folder in FOLDERS if (folder / "pipeline.toml").exists()), None)
    if example is None:
        raise ConfigError(
            f"the demo's data is missing from {FOLDERS[0]}\n\n"
            "Install Tidegate again, or run the demo in a checkout: make demo."
        )
    copy = scratch / "flights"
    shutil.copytree(example, copy)
    first = time.time() - 3600
    for place, file in enumerate(sorted((copy / "departures").iterdir())):
        os.utime(file, (first + place, first + place))
    return copy


def _print_results(config: PipelineConfig) -> None:
    (sink,) = config.sinks_of(TRANSFORM)
    spark = local_session(options=config.spark_options)
    results = spark.read.format(sink.format).load(sink.path)
    frame = spark.sql(CLOSED.format(results="{results}", rows=SHOWN_WINDOWS * 3), results=results)
    rows = [
        tuple(None if value is None else str(value) for value in row) for row in frame.collect()
    ]
    click.echo("\nThe last hours of the month (UTC; delays in minutes)")
    print_table(frame.columns, rows[::-1], [False, False, True, True, True, True])


def _print_summary(config: PipelineConfig, totals: Totals, seconds: float) -> None:
    late = config.sinks[config.transforms[TRANSFORM].side_output.sink_of("late")]
    (sink,) = config.sinks_of(TRANSFORM)
    rate = totals.rows_in * 1000 // max(1, totals.busy_ms)
    click.echo(
        f"\n{totals.rows_in:,} flights in {totals.batches} batches, {seconds:.0f} s in all "
        f"({rate:,} rows/s while a batch ran)\n"
        f"{totals.closed_windows:,} windows closed, {totals.rows_out:,} rows in {sink.path}\n"
        f"{totals.late:,} flights came too late for their hour: they are in {late.path}"
    )
