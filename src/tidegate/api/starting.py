"""Making a query ready to start: its sinks are checked and told what they get, nothing is written.

``Query.start`` is given what rows go to; here it becomes a ``Job`` with outlets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.api import arguments
from tidegate.api.reinject import reinject_sinks
from tidegate.api.side_output import Sides, sides_of
from tidegate.api.targets import (
    check_start,
    checked_targets,
    is_of_results,
    record_keys_of,
    results_of,
    tell_result_key,
)
from tidegate.engine.handover import as_one, wrap_user_sinks
from tidegate.engine.job import Job, Outlets
from tidegate.errors import ConfigError
from tidegate.plan.columns import ROW
from tidegate.plan.side_output import KINDS
from tidegate.spark.files import is_local_by_default
from tidegate.spark.isolation import most_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.api.query import Query
    from tidegate.connectors.sinks import Sink
    from tidegate.paths import StrPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Where the rows of a query are to go, as the user gave it.

    Attributes:
        sink: a sink of the results, or several.
        sides: what is given for the kinds of side output, by their argument.
        checkpoint: the folder of the checkpoint.
    """

    sink: object
    sides: Mapping[str, object]
    checkpoint: StrPath | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A query that is ready to start.

    Attributes:
        job: what to run.
        rows: its prepared rows, a stream.
        checkpoint: the folder of its checkpoint.
    """

    job: Job
    rows: DataFrame
    checkpoint: str


def ready(query: Query, wanted: Wanted) -> Ready:
    """Return a query ready to start.

    Raises:
        ConfigError: an argument is wrong, or the stream is not a streaming DataFrame.
        QueryError: Spark's analyzer refuses an expression.
        ExecutionError: the engine does not run this plan yet.
    """
    session = query._given_spark or query.given.session()
    local = session is None or is_local_by_default(session)
    sinks = arguments.results_sinks(wanted.sink, local=local)
    sides = sides_of(wanted.sides, local=local)
    sinks |= sides.sinks
    checkpoint = arguments.checkpoint(wanted.checkpoint, local=local)
    if session is not None:
        arguments.check_reachable(session, {"checkpoint": checkpoint, **sinks})
    stream = _stream_of(query)
    sinks |= reinject_sinks(query._routed(sides.routes).physical, stream)
    sinks = checked_targets(sinks, checkpoint, query.given.frames())
    results = _of_results(sinks)
    for argument, sink in results.items():
        tell_result_key(sink, query.physical, argument)
    check_start(
        sinks,
        checkpoint,
        stream.sparkSession,
        lambda sink: results_of(query.physical, query._columns_for(sink)),
    )
    keyed = query._keyed(record_keys_of(results.values()))
    return _ready(keyed, wrap_user_sinks(sinks, query.spark), sides, checkpoint)


def _ready(query: Query, sinks: dict[str, Sink], sides: Sides, checkpoint: str) -> Ready:
    results = _of_results(sinks)
    side = {kind.name: sinks[kind.argument] for kind in KINDS if kind.argument in sinks}
    query._warn()
    frames = query.given.frames()
    typed = query._typed(frames)._routed(sides.routes)
    rows = typed._prepare(frames, keep_rows=sides.keep_rows)
    outlets = Outlets(results=as_one(list(results.values())), side=side)
    job = typed._job(rows, outlets, partitions=most_tasks(query.spark))
    if side and not sides.keep_rows:
        # Records look the same whether they show the row or not.
        shown = typed._prepare(frames, keep_rows=True)
        job = replace(job, original=shown.schema[ROW].dataType)
    return Ready(job=job, rows=rows, checkpoint=checkpoint)


def _stream_of(query: Query) -> DataFrame:
    name = query.physical.prepare.source.name
    stream = query.given.streams.get(name)
    if stream is None or isinstance(stream, str) or not stream.isStreaming:
        raise ConfigError(
            f"{name} is not a streaming DataFrame\n\nGive tidegate.sql(..) one from "
            "spark.readStream, or use query.batch(..) for a table."
        )
    return stream


def _of_results(sinks: Mapping[str, Sink]) -> dict[str, Sink]:
    return {argument: sink for argument, sink in sinks.items() if is_of_results(argument)}
