"""A planned statement over its inputs: what the engine runs, and what Spark checks."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

from tidegate.analysis.accumulators import check_definitions
from tidegate.analysis.analyzer import failure_of, unlogged
from tidegate.analysis.messages import in_words
from tidegate.analysis.types import column_types, refusal
from tidegate.api import arguments
from tidegate.api.inputs import Given
from tidegate.api.tables import Nowhere
from tidegate.compile import Compiled
from tidegate.engine.final import final_results
from tidegate.engine.job import Job, Outlet, Outlets, make_job
from tidegate.engine.rows.prepare import are_conditions, prepare
from tidegate.errors import QueryError, Span
from tidegate.explain.render import explain_json
from tidegate.plan.logical import LogicalPlan
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.side_output import Route
from tidegate.planner.warnings import warnings
from tidegate.spark.isolation import Mirror, in_session
from tidegate.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class PlannedQuery:
    """A statement with its plans and its inputs; ``Query`` runs it."""

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

    def _typed(self, frames: Mapping[str, DataFrame]) -> Self:
        """Return the query, planned again with the column types of FROM that Spark finds.

        Args:
            frames: the stream and the tables by their names in the statement.
        """
        if not self.compiled.lacks_types:
            return self
        needed = self._needed(frames)
        types = column_types(self.physical, needed, next(iter(needed.values())).sparkSession)
        return self._with(self.compiled.with_types(types))

    def _routed(self, routes: Sequence[Route]) -> Self:
        """Return the query with the routes of its side output."""
        return self._with(self.compiled.with_routes(routes))

    def _keyed(self, keys: Sequence[str]) -> Self:
        """Return the query with the keys of the records that its sinks send."""
        return self._with(self.compiled.with_record_keys(keys)) if keys else self

    def _with(self, compiled: Compiled) -> Self:
        return type(self)(
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
