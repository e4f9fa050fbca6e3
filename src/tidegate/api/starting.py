"""Making a query ready to start: its sinks are checked and told what they get, nothing is written.

``Query.start`` is given what rows go to; here it becomes a ``Job`` with outlets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.api import arguments
from tidegate.api.chain import ResultsOf
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
from tidegate.engine.beside import Beside, Group
from tidegate.engine.downstream import Downstream
from tidegate.engine.handover import as_one, wrap_user_sinks
from tidegate.engine.job import Job, Outlets
from tidegate.engine.rows.together import Part, prepare_together
from tidegate.engine.watch import Watch, name_of
from tidegate.errors import ConfigError
from tidegate.plan.columns import ROW
from tidegate.plan.side_output import KINDS
from tidegate.spark.files import is_local_by_default
from tidegate.spark.isolation import in_session, most_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.api.chain import Attached
    from tidegate.api.query import Query
    from tidegate.connectors.sinks import Sink
    from tidegate.paths import StrPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Where the rows of a query are to go, as the user gave it.

    Attributes:
        sink: a sink of the results, or several; None if only other queries read them.
        sides: what is given for the kinds of side output, by their argument.
        checkpoint: the folder of the checkpoint.
        downstream: the queries that read the results.
        progress: the folder of Spark's progress; None: the checkpoint.
    """

    sink: object
    sides: Mapping[str, object]
    checkpoint: StrPath | None
    downstream: tuple[Attached, ...] = ()
    progress: StrPath | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A query that is ready to start.

    Attributes:
        job: what to run.
        rows: its prepared rows; without any if it reads the results of another query.
        checkpoint: the folder of its checkpoint.
        progress: the folder of Spark's progress.
        keep_rows: whether its side output shows original rows.
        columns: what it selects from rows that are prepared for several queries, or None.
        others: the queries for which they are prepared too.
    """

    job: Job
    rows: DataFrame
    checkpoint: str
    progress: str
    keep_rows: bool
    columns: tuple[str, ...] | None = None
    others: tuple[Beside, ...] = ()

    def group(self) -> Group:
        """Return what runs in one query of Spark."""
        return Group(
            job=self.job,
            checkpoint=self.checkpoint,
            columns=self.columns,
            others=self.others,
            has_progress=self.progress == self.checkpoint,
        )

    def checkpoints(self) -> list[str]:
        """Return its folder and those of the queries that start with it."""
        with_it: tuple[Downstream | Beside, ...] = (*self.job.outlets.downstream, *self.others)
        return [self.checkpoint, *(path for each in with_it for path in _checkpoints(each))]


def _checkpoints(query: Downstream | Beside) -> list[str]:
    below = query.job.outlets.downstream
    return [query.checkpoint, *(path for each in below for path in _checkpoints(each))]


def ready(query: Query, wanted: Wanted, beside: tuple[Attached, ...] = ()) -> Ready:
    """Return a query ready to start, with others over the same stream.

    Raises:
        ConfigError: an argument is wrong, or the stream is not a streaming DataFrame.
        QueryError: Spark's analyzer refuses an expression.
        ExecutionError: the engine does not run this plan yet.
    """
    targets = _targets(query, wanted)
    _check_stream(query)
    found = _ready(query, targets, wanted.downstream)
    if beside:
        found = _together(query, found, beside)
    folders = [path.rstrip("/") for path in found.checkpoints()]
    for path in folders:
        if folders.count(path) > 1:
            raise ConfigError(
                f"checkpoint={path!r} is that of two queries\n\nGive each its own folder."
            )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Targets:
    """Where rows go: sinks by their argument, the side output among them, and the checkpoint."""

    sinks: Mapping[str, Sink]
    sides: Sides
    checkpoint: str
    progress: str


def _targets(query: Query, wanted: Wanted) -> _Targets:
    """Return the arguments of a start, each checked by itself."""
    session = query._given_spark or query.given.session()
    local = session is None or is_local_by_default(session)
    sinks: dict[str, Sink] = {}
    if wanted.sink is not None or not wanted.downstream:
        sinks |= arguments.results_sinks(wanted.sink, local=local)
    sides = sides_of(wanted.sides, local=local)
    sinks |= sides.sinks
    checkpoint = arguments.checkpoint(wanted.checkpoint, local=local)
    progress = checkpoint
    if wanted.progress is not None:
        progress = arguments.checkpoint(wanted.progress, local=local)
    if session is not None:
        arguments.check_reachable(session, {"checkpoint": checkpoint, **sinks})
    return _Targets(sinks=sinks, sides=sides, checkpoint=checkpoint, progress=progress)


def _ready(query: Query, targets: _Targets, downstream: tuple[Attached, ...]) -> Ready:
    sides = targets.sides
    sinks = {**targets.sinks, **_reinjecting(query, sides)}
    sinks = checked_targets(sinks, targets.checkpoint, query.given.frames())
    results = [sink for argument, sink in sinks.items() if is_of_results(argument)]
    for argument, sink in sinks.items():
        if is_of_results(argument):
            tell_result_key(sink, query.physical, argument)
    check_start(
        sinks,
        targets.checkpoint,
        query.spark,
        lambda sink: results_of(query.physical, query._columns_for(sink)),
    )
    query._warn()
    frames = query._frames_by_name({})
    keyed = query._keyed(record_keys_of(results))
    typed = keyed._typed(frames)._routed(sides.routes)
    rows = typed._prepare(frames, keep_rows=sides.keep_rows)
    outlets = _outlets(wrap_user_sinks(sinks, query.spark))
    outlets = replace(outlets, downstream=tuple(_attached(query, each) for each in downstream))
    job = typed._job(rows, outlets, partitions=most_tasks(query.spark))
    if outlets.side and not sides.keep_rows:
        # Records look the same whether they show the row or not.
        shown = typed._prepare(frames, keep_rows=True)
        job = replace(job, original=shown.schema[ROW].dataType)
    return Ready(
        job=job,
        rows=rows,
        checkpoint=targets.checkpoint,
        progress=targets.progress,
        keep_rows=sides.keep_rows,
    )


def _outlets(sinks: Mapping[str, Sink]) -> Outlets:
    results = [sink for argument, sink in sinks.items() if is_of_results(argument)]
    side = {kind.name: sinks[kind.argument] for kind in KINDS if kind.argument in sinks}
    return Outlets(results=as_one(results), side=side)


def _attached(query: Query, attached: Attached) -> Downstream:
    """Return a query that reads the results of another one, ready to do so."""
    source = attached.check_reads(query)
    below = attached.query
    targets = _targets(below, attached.wanted)
    found = _ready(below, targets, attached.wanted.downstream)
    needed = {each.name for each in below.physical.prepare.tables}
    name = name_of(attached.name, found.checkpoint)
    return Downstream(
        name=name,
        job=found.job,
        checkpoint=found.checkpoint,
        source=source,
        tables={key: table for key, table in below.given.tables.items() if key in needed},
        keep_rows=found.keep_rows,
        watch=Watch(name, attached.on_batch),
    )


def _together(query: Query, first: Ready, beside: tuple[Attached, ...]) -> Ready:
    """Return a query ready to start with others over the same stream, which is read once."""
    name = query.physical.prepare.source.name
    stream = query.given.streams[name]
    assert not isinstance(stream, (str, ResultsOf)), "checked before"
    _check_plain(query, "sink")
    found = []
    for attached in beside:
        other = attached.query
        _check_plain(other, "beside")
        if (
            other.given.streams.get(name) is not stream
            or other.physical.prepare.source.name != name
        ):
            raise ConfigError(
                f"beside: a query reads another stream than {name}\n\nGive both queries the same "
                f"DataFrame under the same name: tidegate.sql(.., {name}=stream)."
            )
        targets = _targets(other, attached.wanted)
        found.append((attached, _ready(other, targets, attached.wanted.downstream)))
    parts = [Part(plan=each.job.plan, keep_rows=each.keep_rows) for _, each in found]
    first_part = Part(plan=first.job.plan, keep_rows=first.keep_rows)
    shared = prepare_together(in_session(stream, query._session), [first_part, *parts])
    own, *columns = shared.columns
    others = []
    for (attached, each), selected in zip(found, columns, strict=True):
        called = name_of(attached.name, each.checkpoint)
        others.append(
            Beside(
                name=called,
                job=each.job,
                checkpoint=each.checkpoint,
                columns=selected,
                watch=Watch(called, attached.on_batch),
            )
        )
    return replace(first, rows=shared.rows, columns=own, others=tuple(others))


def _check_plain(query: Query, argument: str) -> None:
    """Refuse a query that does more in FROM than to name its stream: its rows are its own."""
    prepare = query.physical.prepare
    if prepare.derives:
        raise ConfigError(
            f"{argument}: FROM does more than read {prepare.source.name}, so its rows cannot be "
            "prepared together with those of another query\n\nStart this query by itself."
        )


def _reinjecting(query: Query, sides: Sides) -> Mapping[str, Sink]:
    """The sinks by which rows go back to where they come from."""
    plan = query._routed(sides.routes).physical
    stream = query.given.streams[plan.prepare.source.name]
    return reinject_sinks(plan, None if isinstance(stream, (str, ResultsOf)) else stream)


def _check_stream(query: Query) -> None:
    name = query.physical.prepare.source.name
    stream = query.given.streams.get(name)
    if isinstance(stream, ResultsOf):
        raise ConfigError(
            f"{name} is another query, and a query that reads one is started with it\n\n"
            "Write upstream.start(sink=.., checkpoint=.., downstream=[query.attach(sink=.., "
            "checkpoint=..)])."
        )
    if stream is None or isinstance(stream, str) or not stream.isStreaming:
        raise ConfigError(
            f"{name} is not a streaming DataFrame\n\nGive tidegate.sql(..) one from "
            "spark.readStream, or use query.batch(..) for a table."
        )
