"""Queries that read the results of queries: the inputs of the one, the downstream of the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.engine.final import final_results
from tidegate.errors import ConfigError
from tidegate.plan.columns import WINDOW_TIME
from tidegate.plan.statement import Relation
from tidegate.planner.results import result_columns, upstream_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidegate.api.query import Query
    from tidegate.api.starting import Wanted
    from tidegate.engine.watch import OnBatch


@dataclass(frozen=True, slots=True, eq=False)
class ResultsOf:
    """The results of a query, as the stream that another one reads."""

    query: Query

    @property
    def session(self) -> SparkSession | None:
        """The session of the query, None if it has none yet."""
        return self.query._given_spark or self.query.given.session()

    @property
    def schema(self) -> StructType:
        """The columns of the results, and the hidden one."""
        from pyspark.sql.types import LongType, StructType

        return StructType(list(self.query.schema)).add(WINDOW_TIME, LongType())

    def relation(self, name: str) -> Relation:
        """Return the results as a relation; without a session some types are not known."""
        from tidegate.api.unions import columns_of_schema

        plan = self.query.physical
        return Relation(
            name=name,
            columns=result_columns(plan)
            if self.session is None
            else columns_of_schema(self.query.schema),
            upstream=upstream_of(name, plan),
        )

    def over_tables(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        """Return the final results over tables, with the hidden column.

        Args:
            frames: by their names in the statement of the query.
        """
        from tidegate.api.tables import over_tables

        rows, job = over_tables(self.query, frames)
        return final_results(rows, replace(job, finisher=replace(job.finisher, timed=True)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attached:
    """A query that is to read the results of another one, made by ``Query.attach``.

    Attributes:
        query: the query.
        wanted: where its rows go.
        name: its name in metrics.
        on_batch: called with the report of each of its steps.
    """

    query: Query
    wanted: Wanted
    name: str | None
    on_batch: OnBatch | None

    def check_reads(self, upstream: Query) -> str:
        """Return the name by which the query reads another one.

        Raises:
            ConfigError: it does not.
        """
        name = self.query.physical.prepare.source.name
        given = self.query.given.streams.get(name)
        if not isinstance(given, ResultsOf) or given.query is not upstream:
            raise ConfigError(
                f"downstream: {name} is not the query that is started\n\nMake the downstream query "
                f"with it: tidegate.sql(.., {name}=query), then "
                "query.start(downstream=[that.attach(..)])."
            )
        return name
