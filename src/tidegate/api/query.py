"""The Python API: ``sql`` makes a ``Query`` from a statement.

A query can be explained, run as a stream, or run over a table. Here the statement, the plan, the
engine and the sinks come together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tidegate.analysis.functions import user_functions
from tidegate.api import arguments
from tidegate.api.chain import Attached, ResultsOf
from tidegate.api.inputs import Given
from tidegate.api.planned import PlannedQuery
from tidegate.api.replay import REPLAYED, replay
from tidegate.api.side_output import SideOutputLike
from tidegate.api.starting import Wanted, ready
from tidegate.api.tables import over_tables
from tidegate.compile import compile_statement
from tidegate.connectors.sinks import SinkLike
from tidegate.engine.batches import Launch
from tidegate.engine.final import final_errors, final_results
from tidegate.engine.stream import Run
from tidegate.engine.watch import OnBatch
from tidegate.explain.display import Explanation, query_html
from tidegate.explain.render import explain_json
from tidegate.paths import StrPath
from tidegate.plan.settings import Settings
from tidegate.spark.isolation import in_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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


class Query(PlannedQuery):
    """A planned statement that has not been started; ``explain`` needs no Spark."""

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
        progress: StrPath | None = None,
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
            progress: the folder of Spark's progress, if it is not the checkpoint: where this query
                has run beside another one, the checkpoint of that one.

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
            progress=progress,
        )
        interval_us = arguments.trigger(trigger)
        once, name = arguments.flag(once, "once"), arguments.query_name(name)
        on_batch = arguments.function(on_batch, "on_batch", "report")
        found = ready(self, wanted, arguments.attached(beside, "beside"))
        launch = Launch(
            checkpoint=found.progress,
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
