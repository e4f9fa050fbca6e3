"""Finishing: from the groups of closed windows to the rows of the result.

Evaluate the accumulators, HAVING, LIMIT and ORDER BY within each window, and the select list. All
kinds of windows end here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import Window, functions

from tidegate.engine.rows.prepare import ERROR
from tidegate.engine.windows.operator import END, INSTANCE, START, TRIGGER
from tidegate.plan.aggregates.planned import ORDER, PlannedAccumulator, evaluation
from tidegate.plan.guarded import Guarded, first_error
from tidegate.plan.logical import FilterStage
from tidegate.plan.physical import (
    PhysicalFilter,
    PhysicalProject,
    PhysicalStreamingAggregation,
)
from tidegate.plan.settings import ErrorPolicy
from tidegate.spark.statements import by_reference

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from tidegate.plan.physical import PhysicalPlan
    from tidegate.plan.statement import Aggregate, OrderItem

RANK = "_rank"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finisher:
    """The part of a plan above its windows, with the types that Spark gives its aggregates.

    ``guards`` are those of its expressions that can fail, by their text: then the value is NULL.
    """

    plan: PhysicalPlan
    types: Mapping[str, DataType]
    guards: Mapping[str, Guarded] = field(default_factory=dict)

    def finish(self, groups: DataFrame, epoch: int) -> DataFrame:
        """Return the rows of the result for groups of closed windows.

        Args:
            groups: ``_start_us``, ``_end_us``, keys, and merged state columns, aggregates, or the
                values of rows; of some kinds also ``_instance`` and ``_trigger_us``.
            epoch: the value of ``emit_epoch()``.
        """
        if self.can_fail:
            return self.results(self.closed(groups, epoch))
        return self._results(self._closed(groups, epoch))

    @property
    def can_fail(self) -> bool:
        """Whether a result can be an error: one of its expressions can fail."""
        side_output = self.plan.settings.error_policy is ErrorPolicy.SIDE_OUTPUT
        return side_output and any(each.error is not None for each in self.guards.values())

    def closed(self, groups: DataFrame, epoch: int) -> DataFrame:
        """Return what results are made of, with the error of each, ``_err``; NULL is none.

        Columns: ``_start``, ``_end``, ``_id``, ``_epoch``, keys and the values of aggregates.
        """
        error = first_error(self._guards_of_values(), self._guard_of_having())
        assert error is not None, "asked only where a result can fail"
        return self._closed(groups, epoch).selectExpr("*", f"{error} AS {ERROR}")

    def results(self, closed: DataFrame) -> DataFrame:
        """Return the rows of the result that are no errors, from ``closed``."""
        return self._results(closed.where(f"{ERROR} IS NULL"))

    def _closed(self, groups: DataFrame, epoch: int) -> DataFrame:
        return groups.selectExpr(*self._closed_columns(epoch, groups.columns))

    def _results(self, closed: DataFrame) -> DataFrame:
        having = self._predicate(FilterStage.HAVING)
        if having is not None:
            closed = closed.where(having)
        if self.plan.query.limit is not None:
            closed = self._limited(closed, self.plan.query.limit)
        if self.plan.query.order_by:
            # One partition and no sampling job: an ordered result is small, or nobody would read
            # it.
            closed = closed.repartition(1).sortWithinPartitions("_end", "_start", *self._order())
        project = self.plan.find(PhysicalProject)
        assert project is not None, "every plan has a projection"
        return closed.selectExpr(
            *(
                f"{self._safe(item.expression.sql)} AS {_quoted(item.name)}"
                for item in project.items
            )
        )

    @property
    def drops_rows(self) -> bool:
        """Whether HAVING, LIMIT or an error may leave out groups."""
        having = self._predicate(FilterStage.HAVING)
        return self.can_fail or having is not None or self.plan.query.limit is not None

    def _closed_columns(self, epoch: int, present: list[str]) -> list[str]:
        # Windows of equal bounds are told apart by their instance, where a kind has one.
        parts = [START, END, *([INSTANCE] if INSTANCE in present else [])]
        columns = [
            f"timestamp_micros({START}) AS _start",
            f"timestamp_micros({END}) AS _end",
            f"md5(concat_ws('|', '{self.plan.plan_id}', {', '.join(parts)})) AS _id",
            f"{by_reference(epoch, END)} AS _epoch",
        ]
        if TRIGGER in present:
            columns.append(f"timestamp_micros({TRIGGER}) AS _trigger")
        if ORDER in present:
            columns.append(ORDER)
        return [*columns, *self._keys, *self._values()]

    @property
    def _keys(self) -> list[str]:
        return [key.name for key in self.plan.query.keys]

    def _values(self) -> list[str]:
        """The columns that items, HAVING and ORDER BY are over, besides keys and bounds."""
        streaming = self.plan.find(PhysicalStreamingAggregation)
        if streaming is not None:
            return [self._evaluated(accumulator) for accumulator in streaming.accumulators]
        if self.plan.query.is_row_query:
            return [argument.name for argument in self.plan.query.arguments]
        return [aggregate.name for aggregate in self.plan.query.aggregates]

    def _evaluated(self, accumulator: PlannedAccumulator) -> str:
        name = accumulator.aggregate.name
        native_type = self.types[name].simpleString() if name in self.types else None
        return f"{evaluation(accumulator, native_type)} AS {name}"

    def _predicate(self, stage: FilterStage) -> str | None:
        filters = (node for node in self.plan.nodes() if isinstance(node, PhysicalFilter))
        predicate = next((node.predicate for node in filters if node.stage is stage), None)
        return None if predicate is None else self._safe(predicate)

    def _safe(self, sql: str) -> str:
        return self.guards[sql].safe if sql in self.guards else sql

    def _guards_of_values(self) -> list[Guarded]:
        query = self.plan.query
        texts = [item.expression.sql for item in query.items]
        texts += [item.expression.sql for item in query.order_by]
        return [self.guards[text] for text in dict.fromkeys(texts) if text in self.guards]

    def _guard_of_having(self) -> Guarded | None:
        having = self.plan.query.having
        return None if having is None else self.guards.get(having.sql, Guarded(safe=having.sql))

    def _order(self) -> list[Column]:
        return [
            _ordered(functions.expr(self._safe(item.expression.sql)), item)
            for item in self.plan.query.order_by
        ]

    def _limited(self, closed: DataFrame, limit: int) -> DataFrame:
        # Without ORDER BY any rows will do; keys or arrival make it the same ones after a replay.
        ties = [ORDER] if ORDER in closed.columns else self._keys
        window = Window.partitionBy("_id").orderBy(*self._order(), *ties, "_id")
        ranked = closed.withColumn(RANK, functions.row_number().over(window))
        return ranked.where(f"{RANK} <= {limit}")


def native_types(rows: DataFrame, aggregates: Iterable[Aggregate]) -> dict[str, DataType]:
    """Return the type that Spark itself gives each aggregate, by the aggregate's name.

    Accumulators are evaluated to the same type: a decimal average keeps its scale, a sum its width.
    """
    calls = {each.name: f"{each.function}({', '.join(each.args) or '*'})" for each in aggregates}
    found = _types(rows, calls)
    if found is not None:
        return found
    # Some are no functions of Spark's: what their accumulators evaluate to is their type.
    return {
        name: type_
        for each in calls
        for name, type_ in (_types(rows, {each: calls[each]}) or {}).items()
    }


def _types(rows: DataFrame, calls: Mapping[str, str]) -> dict[str, DataType] | None:
    """Return the types of aggregates; None where Spark does not resolve all of them."""
    if not calls:
        return {}
    columns = [functions.expr(call).alias(name) for name, call in calls.items()]
    try:
        schema = rows.groupBy().agg(*columns).schema
    except AnalysisException:
        return None
    return {field.name: field.dataType for field in schema}


def _ordered(column: Column, item: OrderItem) -> Column:
    if item.descending:
        return column.desc_nulls_first() if item.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if item.nulls_first else column.asc_nulls_last()


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
