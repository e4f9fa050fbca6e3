"""Finishing: turns the groups of closed windows into result rows.

It evaluates the accumulators, HAVING, LIMIT and ORDER BY within each window, and the select list,
for all kinds of windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import Window, functions

from tidegate.names import in_backticks
from tidegate.plan.aggregates.planned import PlannedAccumulator, evaluation
from tidegate.plan.columns import (
    END,
    EPOCH,
    ERROR,
    FINAL,
    INSTANCE,
    ORDER,
    RANK,
    RECORD_KEYS,
    RESULT_ID,
    RESULT_KEYS,
    START,
    TRIGGER,
    WINDOW_END,
    WINDOW_ID,
    WINDOW_START,
    WINDOW_TIME,
    WINDOW_TRIGGER,
)
from tidegate.plan.guarded import Guarded, first_error
from tidegate.plan.settings import ErrorPolicy
from tidegate.plan.stages import IngestPartials, IngestRows
from tidegate.plan.windows import Count, Sliding, State
from tidegate.spark.statements import by_reference, selected

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from tidegate.plan.physical import PhysicalPlan
    from tidegate.plan.statement import Aggregate, OrderItem


@dataclass(frozen=True, slots=True, kw_only=True)
class Finisher:
    """The ``Finish`` stage of a plan, with the types that Spark gives its aggregates.

    Attributes:
        plan: the plan.
        types: the type of each aggregate, by its name.
        identified: whether results also have ``RESULT_ID`` and ``RESULT_KEYS``.
        timed: whether results also have ``WINDOW_TIME``, for a query that reads them.
    """

    plan: PhysicalPlan
    types: Mapping[str, DataType]
    identified: bool = False
    timed: bool = False

    @property
    def guards(self) -> Mapping[str, Guarded]:
        """Its expressions that can fail, by their text; guarded, they are NULL when they fail."""
        return self.plan.finish.guards

    def finish(self, groups: DataFrame, epoch: int, *, final: bool = True) -> DataFrame:
        """Return the rows of the result for groups of closed windows, or of open ones.

        Args:
            groups: ``_start_us``, ``_end_us``, keys, and merged state columns, aggregates, or the
                values of rows; of some kinds also ``_instance`` and ``_trigger_us``.
            epoch: the value of ``emit_epoch()``.
            final: the value of ``is_final()``.
        """
        if self.can_fail:
            return self.results(self.closed(groups, epoch, final=final))
        return self._results(self._closed(groups, epoch, final=final))

    @property
    def can_fail(self) -> bool:
        """Whether a result can be an error because one of its expressions can fail."""
        side_output = self.plan.side_output.error_policy is ErrorPolicy.SIDE_OUTPUT
        return side_output and any(each.error is not None for each in self.guards.values())

    def closed(self, groups: DataFrame, epoch: int, *, final: bool = True) -> DataFrame:
        """Return the inputs of the result rows, and the error of each in ``_err``, NULL if none.

        Columns: ``_start``, ``_end``, ``_id``, ``_epoch``, ``_final``, keys and the values of
        aggregates.
        """
        error = first_error(self._guards_of_values(), self._guard_of_having())
        assert error is not None, "called only if a result can fail"
        closed = self._closed(groups, epoch, final=final)
        return closed.selectExpr("*", f"{error} AS {ERROR}")

    def results(self, closed: DataFrame) -> DataFrame:
        """Return the result rows without errors, from ``closed``."""
        return self._results(closed.where(f"{ERROR} IS NULL"))

    def _closed(self, groups: DataFrame, epoch: int, *, final: bool) -> DataFrame:
        columns = self._closed_columns(epoch, groups.columns)
        return groups.selectExpr(*columns, f"{str(final).lower()} AS {FINAL}")

    def _results(self, closed: DataFrame) -> DataFrame:
        stage = self.plan.finish
        if stage.having is not None:
            closed = closed.where(self._safe(stage.having.sql))
        if stage.limit is not None:
            closed = self._limited(closed, stage.limit)
        if stage.order_by:
            # Sort in one partition, which needs no sampling job: an ordered result is small.
            closed = closed.repartition(1).sortWithinPartitions(
                WINDOW_END, WINDOW_START, *self._order()
            )
        more = [*(self._identity() if self.identified else ()), *self._time()]
        return selected(closed, *self.items, *more)

    @property
    def items(self) -> list[str]:
        """The select list, as expressions over a closed window."""
        return [
            f"{self._safe(item.expression.sql)} AS {in_backticks(item.name)}"
            for item in self.plan.finish.items
        ]

    def closed_rows(self, groups: DataFrame, epoch: int) -> DataFrame:
        """Return ``closed`` without errors, also where no result can be one."""
        if self.can_fail:
            return self.closed(groups, epoch).where(f"{ERROR} IS NULL")
        return self._closed(groups, epoch, final=True)

    def _identity(self) -> list[str]:
        """The columns that identify a result: its window, its keys and its record."""
        keys = dict(self.plan.side_output.group_key)
        records = {
            text: f"CAST({self._safe(key.sql)} AS STRING)"
            for text, key in self.plan.finish.record_keys
        }
        named = {RESULT_KEYS: keys, RECORD_KEYS: records}
        return [
            f"{WINDOW_ID} AS {RESULT_ID}",
            *(f"{_struct(values)} AS {name}" for name, values in named.items() if values),
        ]

    def _time(self) -> list[str]:
        """The last instant of a result's window; some kinds show it as the end."""
        if not self.timed:
            return []
        shows_last = isinstance(self.plan.close.window, Sliding | State | Count)
        return [f"unix_micros({WINDOW_END}){'' if shows_last else ' - 1'} AS {WINDOW_TIME}"]

    @property
    def drops_rows(self) -> bool:
        """Whether HAVING, LIMIT or an error may leave out groups."""
        stage = self.plan.finish
        return self.can_fail or stage.having is not None or stage.limit is not None

    def _closed_columns(self, epoch: int, present: list[str]) -> list[str]:
        # Kinds whose windows may have equal bounds distinguish them by an instance.
        parts = [START, END, *([INSTANCE] if INSTANCE in present else [])]
        columns = [
            f"timestamp_micros({START}) AS {WINDOW_START}",
            f"timestamp_micros({END}) AS {WINDOW_END}",
            f"md5(concat_ws('|', '{self.plan.plan_id}', {', '.join(parts)})) AS {WINDOW_ID}",
            f"{by_reference(epoch, END)} AS {EPOCH}",
        ]
        if TRIGGER in present:
            columns.append(f"timestamp_micros({TRIGGER}) AS {WINDOW_TRIGGER}")
        if ORDER in present:
            columns.append(ORDER)
        return [*columns, *self._keys, *self._values()]

    @property
    def _keys(self) -> list[str]:
        return [key.name for key in self.plan.ingest.keys]

    def _values(self) -> list[str]:
        """The columns that items, HAVING and ORDER BY are over, besides keys and bounds."""
        match self.plan.ingest:
            case IngestPartials(accumulators=accumulators):
                return [self._evaluated(accumulator) for accumulator in accumulators]
            case IngestRows(is_row_query=True, arguments=arguments):
                return [argument.name for argument in arguments]
            case IngestRows(aggregates=aggregates):
                return [aggregate.name for aggregate in aggregates]

    def _evaluated(self, accumulator: PlannedAccumulator) -> str:
        name = accumulator.aggregate.name
        native_type = self.types[name].simpleString() if name in self.types else None
        return f"{evaluation(accumulator, native_type)} AS {name}"

    def _safe(self, sql: str) -> str:
        return self.guards[sql].safe if sql in self.guards else sql

    def _guards_of_values(self) -> list[Guarded]:
        texts = [value.sql for value in self.plan.finish.values]
        return [self.guards[text] for text in dict.fromkeys(texts) if text in self.guards]

    def _guard_of_having(self) -> Guarded | None:
        having = self.plan.finish.having
        return None if having is None else self.guards.get(having.sql, Guarded(safe=having.sql))

    def _order(self) -> list[Column]:
        return [
            _ordered(functions.expr(self._safe(item.expression.sql)), item)
            for item in self.plan.finish.order_by
        ]

    def _limited(self, closed: DataFrame, limit: int) -> DataFrame:
        # Without ORDER BY any rows will do; by keys or arrival, a replay picks the same ones.
        ties = [ORDER] if ORDER in closed.columns else self._keys
        window = Window.partitionBy(WINDOW_ID).orderBy(*self._order(), *ties, WINDOW_ID)
        ranked = closed.withColumn(RANK, functions.row_number().over(window))
        return ranked.where(f"{RANK} <= {limit}")


def native_types(rows: DataFrame, aggregates: Iterable[Aggregate]) -> dict[str, DataType]:
    """Return the type that Spark itself gives each aggregate, by the aggregate's name.

    Accumulators are evaluated to the same types, e.g. a decimal average with the same scale.
    """
    calls = {each.name: f"{each.function}({', '.join(each.args) or '*'})" for each in aggregates}
    found = _types(rows, calls)
    if found is not None:
        return found
    # Some are not functions of Spark; their type is that of their accumulators' evaluation.
    return {
        name: type_
        for each in calls
        for name, type_ in (_types(rows, {each: calls[each]}) or {}).items()
    }


def _types(rows: DataFrame, calls: Mapping[str, str]) -> dict[str, DataType] | None:
    """Return the types of aggregates, None if Spark does not resolve all of them."""
    if not calls:
        return {}
    columns = [functions.expr(call).alias(name) for name, call in calls.items()]
    try:
        schema = rows.groupBy().agg(*columns).schema
    except AnalysisException:
        return None
    return {field.name: field.dataType for field in schema}


def _struct(values: Mapping[str, str]) -> str:
    """A struct of expressions by the names of its fields."""
    pairs = (f"'{_escaped(name)}', {value}" for name, value in values.items())
    return f"named_struct({', '.join(pairs)})"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _ordered(column: Column, item: OrderItem) -> Column:
    if item.descending:
        return column.desc_nulls_first() if item.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if item.nulls_first else column.asc_nulls_last()
