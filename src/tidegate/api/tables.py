"""A query over tables: one job, for back-tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegate.api import arguments
from tidegate.api.chain import ResultsOf
from tidegate.api.unions import united, without_source
from tidegate.engine.job import Outlets
from tidegate.errors import ConfigError, ExecutionError
from tidegate.plan.columns import WINDOW_TIME
from tidegate.plan.settings import TimeMode
from tidegate.plan.upstream import ResultTime
from tidegate.spark.isolation import most_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.api.query import Query
    from tidegate.engine.job import Job


class Nowhere:
    """The outlet of a query that has no sink."""

    def write(self, frame: DataFrame, epoch: int) -> None:
        raise AssertionError("a batch query has no sink")


def over_tables(
    query: Query, frames: Mapping[str, DataFrame], *, keep_rows: bool = False
) -> tuple[DataFrame, Job]:
    """Return prepared rows of tables, and their job.

    Args:
        query: the query.
        frames: tables by their names in the statement. If it reads the results of another query,
            the tables of that one may be given instead.
        keep_rows: whether the original rows are needed.

    Raises:
        ConfigError: the table for the stream is missing, or is none.
        ExecutionError: the query is in processing time.
        QueryError: Spark's analyzer refuses an expression.
    """
    prepare = query.physical.prepare
    source, name = prepare.source, prepare.source.name
    given = {**query.given.frames(), **_tables(query, frames)}
    if any(member in frames for member in source.members):
        members = {member: given[member] for member in source.members if member in given}
        if len(members) == len(source.members):
            given[name] = united(name, members)
    if name not in given or given[name].isStreaming:
        wanted = ", ".join(f"{each}=spark.read..." for each in source.members or (name,))
        raise ConfigError(f"batch needs a static DataFrame\n\nWrite query.batch({wanted}).")
    if query.physical.watermark.mode is TimeMode.PROCESSING:
        raise ExecutionError(
            "batch() has no processing time: the rows of a table have no arrival\n\nGive the query "
            'an event time: event_time_field = "..", or ON in the statement.'
        )
    _check_times(query, given[name])
    if prepare.source.united:
        given[name] = without_source(given[name])
    if frames:
        query.check_types(given)
    typed = query._typed(given)
    rows = typed._prepare(given, keep_rows=keep_rows)
    return rows, typed._job(rows, Outlets(results=Nowhere()), most_tasks(query.spark))


def _tables(query: Query, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The tables that a statement reads; the results of another query are computed over its own."""
    prepare = query.physical.prepare
    name = prepare.source.name
    known = [*prepare.source.members, *(relation.name for relation in prepare.relations)]
    results = query.given.streams.get(name)
    if not isinstance(results, ResultsOf) or name in frames:
        return arguments.tables_of(frames, known)
    own = {key: frame for key, frame in frames.items() if key in known}
    theirs = {key: frame for key, frame in frames.items() if key not in known}
    return {**arguments.tables_of(own, known), name: results.over_tables(theirs)}


def _check_times(query: Query, results: DataFrame) -> None:
    """Refuse a table for the results of a query if it lacks the times of their windows."""
    follows = query.physical.watermark.follows
    if follows is None or follows.time is not ResultTime.LAST or WINDOW_TIME in results.columns:
        return
    name = query.physical.prepare.source.name
    raise ConfigError(
        f"{name} is a table, whose rows do not say when their windows end\n\nLeave {name} out and "
        "give the tables that it reads; or name a time of its windows in the statement: ON .."
    )
