"""What ``tidegate monitor`` and ``tidegate top`` have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from tidegate.paths import local_path
from tidegate.state.reader import StateReader


def tell_of_missing(checkpoints: Iterable[str]) -> None:
    """Tell of folders that do not exist yet; a query may be about to make them."""
    for each in checkpoints:
        folder = local_path(each)
        if folder is not None and not folder.is_dir():
            click.echo(f"{each} does not exist yet; it is shown as soon as it does", err=True)


def remote_readers(folder: str) -> Mapping[str, StateReader]:
    """Return readers of the checkpoints in a folder that is not on this machine, with Spark."""
    from tidegate.spark.session import local_session
    from tidegate.state.spark_reader import readers_of

    return readers_of(local_session(), folder)


def readers_by_running_spark(folder: str) -> Mapping[str, StateReader]:
    """Return the same if Spark runs already in this process, else none: it must not be started."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:
        return {}
    from tidegate.spark.session import current_session
    from tidegate.state.spark_reader import readers_of

    return readers_of(current_session(), folder)
