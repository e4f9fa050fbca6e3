"""The Python API: ``sql`` makes a ``Query`` from a statement.

A query can be explained, run as a stream, or run over a table. Here the statement, the plan, the
engine and the sinks come together.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tidegate.analysis.accumulators import check_definitions
from tidegate.analysis.analyzer import failure_of, unlogged
from tidegate.analysis.functions import user_functions
from tidegate.analysis.messages import in_words
from tidegate.analysis.types import column_types, refusal
from tidegate.api import arguments
from tidegate.api.chain import Attached, ResultsOf
from tidegate.api.inputs import Given
from tidegate.api.replay import REPLAYED, replay
from tidegate.api.side_output import SideOutputLike
from tidegate.api.starting import Wanted, ready
from tidegate.api.tables import Nowhere, over_tables
from tidegate.compile import Compiled, compile_statement
from tidegate.connectors.sinks import SinkLike
from tidegate.engine.batches import Launch
from tidegate.engine.final import final_errors, final_results
from tidegate.engine.job import Job, Outlet, Outlets, make_job
from tidegate.engine.rows.prepare import are_conditions, prepare
from tidegate.engine.stream import Run
from tidegate.engine.watch import OnBatch
from tidegate.errors import QueryError, Span
from tidegate.explain.display import Explanation, query_html
from tidegate.explain.render import explain_json
from tidegate.paths import StrPath
from tidegate.plan.logical import LogicalPlan
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.settings import Settings
from tidegate.plan.side_output import Route
from tidegate.planner.warnings import warnings
from tidegate.spark.isolation import Mirror, in_session
from tidegate.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


# What a stream or table may be given as.
StreamLike: TypeAlias = "DataFrame | str | Mapping[str, DataFrame] | Query"


def sql(  # noqa: PLR0913 - the public call; all but the statement are options by keyword
    text: str,
    *,
    settings: Settings | Mapping[str, object] | None = None,
    streams: Mapping[str, StreamLike] | None = None,
    tables: Mapping[str, DataFrame] | None = None,
    spark: SparkSession | None = None,
    origin: str = "query",
    **named: StreamLike,
) -> Query:
    """Return the query of a statement.

    Args:
        text: the statement.
        settings: settings of a transform, e.g. ``{"watermark_lag": "5s"}``.
        streams: streaming DataFrames by their name in the statement; a DDL schema (text) is enough
            for ``explain``, ``batch`` and a stepper. A ``Query`` stands for its results. Several
            DataFrames of the same columns, by names of their own (a dict), are read as one stream,
            and each has its own watermark; ``FROM a UNION ALL b`` does the same.
        tables: static DataFrames to join.
        spark: the session, needed when no DataFrame is given.
        origin: the name of the statement in messages.
        named: streams and tables by name; a static DataFrame is a table if a stream is also given.

    Raises:
        QueryError: the statement is wrong; if DataFrames are given, types are checked too.
        ConfigError: an argument or a setting is wrong.
    """
    text, typed = arguments.statement_text(text), arguments.settings_of(settings)
    spark = arguments.session(spark)
    arguments.text(origin, "origin", "Give the words that name the statement in messages.")
    given = Given.of(
        arguments.streams(streams),
        arguments.tables(tables),
        arguments.streams(named, "the streams and tables"),
    )
    session = spark or given.session()
    functions = () if session is None else user_functions(session)
    compiled = compile_statement(text, given.relations(), typed, origin=origin, functions=functions)
    given = given.uniting(compiled.bound.source)
    query = Query(compiled=compiled, given=given, spark=spark)
    stream = given.streams.get(compiled.bound.source.name)
    if isinstance(stream, str) or (isinstance(stream, ResultsOf) and stream.session is None):
        return query
    query.check_types()
    return query._typed(query._frames_by_name({}))


class Query:
    """A planned statement that has not been started; ``explain`` needs no Spark."""

    def __init__(
        self,
        *,
        compiled: Compiled,
        given: Given,
        spark: SparkSession | None,
        mirror: Mirror | None = None,
    ) -> None:
        self.compiled = compiled
        self.given = given
        self._given_spark = spark
        self._given_mirror = mirror

    @property
    def logical(self) -> LogicalPlan:
        """What the query does."""
        return self.compiled.logical

    @property
    def physical(self) -> PhysicalPlan:
        """How the query runs."""
        return self.compiled.physical

    def explain(self, form: Literal["text", "json"] = "text") -> Any:  # noqa: ANN401 - text or a dict
        """Return both plans, as text (in a notebook, as HTML) or as a dict for JSON."""
        arguments.one_of(form, "form", ("text", "json"))
        if form == "json":
            return explain_json(self.logical, self.physical)
        return Explanation.of(self.logical, self.physical)

    def __repr__(self) -> str:
        physical = self.physical
        window, source = physical.close.window.kind, physical.prepare.source.name
        return f"<Query: {window} window over {source}, plan {physical.plan_id}>"

    def _repr_html_(self) -> str:
        return query_html(self.logical, self.physical, self._known_columns())

    def _known_columns(self) -> list[tuple[str, str | None]]:
        """The columns of the results; their types, too, if that needs no Spark to be started."""
        if (self._given_spark or self.given.session()) is not None:
            with suppress(Exception):  # a notebook shows what is known, whatever Spark says
                return [(field.name, field.dataType.simpleString()) for field in self.schema]
        return [(item.name, None) for item in self.physical.finish.items]

    def check_types(self, frames: Mapping[str, DataFrame] | None = None) -> None:
        """Check the types of every expression with Spark's analyzer; nothing runs.

        Args:
            frames: the stream and the tables by their names in the statement, of which only the
                columns are used; by default those given to ``sql``.

        Raises:
            QueryError: a type is wrong; names the smallest expression that is.
            ConfigError: the setting ``event_time_field`` names a column that is not a time.
        """
        given = self._frames_by_name(arguments.tables(frames, "frames"))
        spark = next(iter(given.values())).sparkSession
        found = refusal(self.compiled, given, spark)
        if found is not None:
            raise found

    def _typed(self, frames: Mapping[str, DataFrame]) -> Query:
        """Return the query, planned again with the column types of FROM that Spark finds.

        Args:
            frames: the stream and the tables by their names in the statement.
        """
        if not self.compiled.lacks_types:
            return self
        needed = self._needed(frames)
        types = column_types(self.physical, needed, next(iter(needed.values())).sparkSession)
        return self._with(self.compiled.with_types(types))

    def _routed(self, routes: Sequence[Route]) -> Query:
        """Return the query with the routes of its side output."""
        return self._with(self.compiled.with_routes(routes))

    def _keyed(self, keys: Sequence[str]) -> Query:
        """Return the query with the keys of the records that its sinks send."""
        return self._with(self.compiled.with_record_keys(keys)) if keys else self

    def _with(self, compiled: Compiled) -> Query:
        return Query(
            compiled=compiled, given=self.given, spark=self._given_spark, mirror=self._mirror
        )

    @cached_property
    def schema(self) -> StructType:
        """The columns of the results, in order: names and types.

        Raises:
            QueryError: Spark's analyzer refuses an expression.
        """
        return self._columns_for(Nowhere())

    def _columns_for(self, sink: Outlet) -> StructType:
        """The columns of the frames that a sink of the results gets."""
        self.check_types()
        empty = self.given.empty(self._session)
        query = self._typed(empty)
        rows = query._prepare(empty)
        job = query._job(rows, Outlets(results=sink), partitions=1)
        return final_results(rows, job).schema

    def start(  # noqa: PLR0913 - the public call; all are options by keyword
        self,
        *,
        sink: SinkLike | Sequence[SinkLike] | None = None,
        checkpoint: StrPath | None = None,
        late: SideOutputLike | None = None,
        evicted: SideOutputLike | None = None,
        errors: SideOutputLike | None = None,
        duplicates: SideOutputLike | None = None,
        trigger: str | None = None,
        once: bool = False,
        name: str | None = None,
        on_batch: OnBatch | None = None,
        downstream: Sequence[Attached] = (),
        beside: Sequence[Attached] = (),
    ) -> Run:
        """Start the query as a stream and return its handle.

        Args:
            sink: where results go: a sink, a function of (frame, epoch), a folder for Parquet, or
                ``console``; or a list of these, each of which gets all results. Required.
            checkpoint: the folder of Spark's progress and of the state; a restart continues from
                it. Required.
            late: where late rows go: a sink, or a ``SideOutput`` with a sink and its limits;
                without it they are only counted.
            evicted: where rows beyond a quota go, likewise.
            errors: where rows with an error go, likewise.
            duplicates: where repeated rows go, likewise.
            trigger: the interval of batches, e.g. ``1s``; by default they follow at once.
            once: process the available input, then end.
            name: the name of the query in Spark.
            on_batch: called with a ``BatchReport`` after each batch.
            downstream: queries that read the results, each as its ``attach`` returns it; ``sink``
                may then be left out.
            beside: queries over the same stream, each as its ``attach`` returns it; the stream is
                read once for all of them.

        Raises:
            ConfigError: an argument is missing or wrong, or the stream is not a streaming
                DataFrame. Nothing has been written.
            QueryError: Spark's analyzer refuses an expression.
            StateError: the checkpoint holds the state of another query.
            ExecutionError: the engine does not run this plan yet.
        """
        given = {"late": late, "evicted": evicted, "errors": errors, "duplicates": duplicates}
        wanted = Wanted(
            sink=sink,
            sides=given,
            checkpoint=checkpoint,
            downstream=arguments.attached(downstream, "downstream"),
        )
        interval_us = arguments.trigger(trigger)
        once, name = arguments.flag(once, "once"), arguments.query_name(name)
        on_batch = arguments.function(on_batch, "on_batch", "report")
        found = ready(self, wanted, arguments.attached(beside, "beside"))
        launch = Launch(
            checkpoint=found.checkpoint,
            interval_us=interval_us,
            once=once,
            name=name,
            on_batch=on_batch,
        )
        return Run(found.group(), in_session(found.rows, self.spark), launch)

    def attach(  # noqa: PLR0913 - as ``start``
        self,
        *,
        sink: SinkLike | Sequence[SinkLike] | None = None,
        checkpoint: StrPath | None = None,
        late: SideOutputLike | None = None,
        evicted: SideOutputLike | None = None,
        errors: SideOutputLike | None = None,
        duplicates: SideOutputLike | None = None,
        name: str | None = None,
        on_batch: OnBatch | None = None,
        downstream: Sequence[Attached] = (),
    ) -> Attached:
        """Return the query, to be started with another one.

        It reads the results of the other one (``downstream``), or its stream (``beside``). Nothing
        is checked and nothing starts before ``start`` of the other query.

        Args:
            sink: where results go, as for ``start``.
            checkpoint: the folder of its state. Required.
            late: where late rows go; there are none in event time.
            evicted: where rows beyond a quota go.
            errors: where rows with an error go.
            duplicates: where repeated rows go.
            name: its name in metrics.
            on_batch: called with a ``BatchReport`` after each of its steps.
            downstream: queries that read its results in turn.

        Raises:
            ConfigError: an argument is wrong.
        """
        given = {"late": late, "evicted": evicted, "errors": errors, "duplicates": duplicates}
        wanted = Wanted(
            sink=sink,
            sides=given,
            checkpoint=checkpoint,
            downstream=arguments.attached(downstream, "downstream"),
        )
        return Attached(
            query=self,
            wanted=wanted,
            name=arguments.query_name(name),
            on_batch=arguments.function(on_batch, "on_batch", "report"),
        )

    def batch(self, **frames: DataFrame) -> DataFrame:
        """Return the final results over tables: what a stream returns once all windows have closed.

        Rows and results that fail are left out; ``batch_errors`` returns them.

        Args:
            frames: static DataFrames by their names in the statement; by default those given to
                ``sql``.

        Raises:
            ConfigError: the stream is missing or is not static.
            QueryError: Spark's analyzer refuses an expression.
            ExecutionError: the engine does not run this plan yet, or it uses processing time.
        """
        return in_session(final_results(*over_tables(self, frames)), self.spark)

    def batch_errors(self, **frames: DataFrame) -> DataFrame:
        """Return one record for each row and result that ``batch`` over the same tables leaves out.

        The records are those of side output, with the reason, the expression that failed and the
        original row. Unless ``error_policy`` is ``side_output``, only rows without a usable event
        time are left out.

        Args:
            frames: as for ``batch``.

        Raises:
            ConfigError, QueryError, ExecutionError: as ``batch``.
        """
        return in_session(final_errors(*over_tables(self, frames, keep_rows=True)), self.spark)

    def replay(
        self, records: DataFrame, *, kinds: Sequence[str] = REPLAYED, any_plan: bool = False
    ) -> DataFrame:
        """Return what rows of side output add to the windows that they missed: corrections.

        Args:
            records: records that side output of this query has written, as a static DataFrame.
            kinds: the kinds of them that are run again.
            any_plan: whether records of other plans are run, too.

        Returns:
            One row for each window and group, computed from the rows of the records alone:
            corrects_kind, corrects_plan_id, corrects_window_id, corrects_window_start,
            corrects_window_end, corrects_group_key, then the columns of the statement.

        Raises:
            ConfigError: the records are not those of this query, or lack the original rows.
            ExecutionError: the windows that late rows missed are not known, or the statement
                cannot run them again.
        """
        return replay(self, records, kinds=kinds, any_plan=any_plan).corrections

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about what is legal in the query but likely a mistake; ``start`` logs them."""
        return warnings(self.compiled.logical)

    def _warn(self) -> None:
        for warning in self.warnings:
            origin = self.compiled.statement.origin
            logging.getLogger("tidegate").warning("%s: %s", origin, warning)

    def _job(self, rows: DataFrame, outlets: Outlets, partitions: int) -> Job:
        check_definitions(self.physical, rows)
        with self._refusing({}):
            if not are_conditions(self.physical, rows):
                self.check_types()
            job = make_job(self.physical, rows, outlets, partitions)
        names = {field.name: field.dataType for field in rows.schema} | dict(job.finisher.types)
        types = {name: kind.simpleString() for name, kind in names.items()}
        plan = self.compiled.with_result_types(types).physical
        return replace(
            job,
            plan=plan,
            finisher=replace(job.finisher, plan=plan),
            explain=partial(explain_json, self.logical, plan),
        )

    def _prepare(
        self,
        frames: Mapping[str, DataFrame],
        **options: Any,  # noqa: ANN401 - options of ``prepare``, passed on
    ) -> DataFrame:
        used = self._needed(frames)
        with self._refusing(used):
            return prepare(self.physical, used, **options)

    @contextmanager
    def _refusing(self, frames: Mapping[str, DataFrame]) -> Iterator[None]:
        """Report errors of Spark's analyzer at their place in the statement."""
        from pyspark.errors import AnalysisException

        try:
            with unlogged():
                yield
        except AnalysisException as error:
            given = self._frames_by_name(frames)
            raise refusal(self.compiled, given, self._session) or self._refused(error) from error

    def _refused(self, error: PySparkException) -> QueryError:
        """Return the error for what Spark refuses outside of the user's expressions."""
        statement = self.compiled.statement
        what, mend = in_words("the statement", failure_of(error))
        return QueryError(
            what,
            sql=statement.text,
            span=Span(0, len(statement.text.split("\n")[0])),
            mend=mend,
            origin=statement.origin,
        )

    def _needed(self, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        """The frames that the statement reads."""
        needed = {relation.name for relation in self.physical.prepare.relations}
        return self._own({name: frame for name, frame in frames.items() if name in needed})

    def _frames_by_name(self, frames: Mapping[str, DataFrame] | None) -> dict[str, DataFrame]:
        """The frames by name; a stream given by a schema has no rows."""
        given = {**self.given.frames(), **(frames or {})}
        missing = [name for name in self.given.streams if name not in given]
        empty = self.given.empty(self._session) if missing else {}
        return self._own({**given, **{name: empty[name] for name in missing}})

    def _own(self, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        """The same frames in the session in which statements are analyzed."""
        session = self._session
        return {name: in_session(frame, session) for name, frame in frames.items()}

    @property
    def _session(self) -> SparkSession:
        """A private session, in which the user's settings cannot change what a statement means."""
        return self._mirror.current()

    @cached_property
    def _mirror(self) -> Mirror:
        return self._given_mirror or Mirror(self.spark, pinned=True)

    @property
    def spark(self) -> SparkSession:
        """The session of the query."""
        return self._given_spark or self.given.session() or local_session()
