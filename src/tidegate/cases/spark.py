"""Runs cases on Spark: hands batches to the step directly, without a streaming query."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

from tidegate.cases.model import (
    COUNTERS,
    FAR_AHEAD_US,
    Case,
    CaseError,
    Column,
    EngineFactory,
    Observed,
    SideRow,
)
from tidegate.cases.stepper import CaseStepper
from tidegate.names import in_backticks
from tidegate.plan.columns import WINDOW_ID
from tidegate.plan.settings import TimeMode
from tidegate.plan.statement import Expression
from tidegate.time import from_datetime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.api.query import Query
    from tidegate.cases.stepper import CaseStepper, Outcome

# Shuffle partitions of the first run and of those after a stop; results must not depend on them.
PARTITIONS = (2, 3, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRuns:
    """How cases run on Spark; with ``resume_always`` every batch is followed by a stop."""

    spark: SparkSession
    resume_always: bool = False

    def factory(self) -> EngineFactory:
        """Return a factory for ``run_case``."""
        return lambda case: SparkCaseEngine(case, self)


def plan_only(case: Case) -> NoReturn:
    """Make no engine: for a case that must be refused before Spark is asked about anything.

    Raises:
        QueryError: the statement is refused.
        ConfigError: a setting is refused.
        CaseError: the statement is not refused without Spark.
    """
    from tidegate.api.query import sql

    sql(case.query, settings=dict(case.settings), streams=_schemas(case))
    raise CaseError(
        "the statement is not refused without Spark",
        path=case.path,
        line=case.line,
        mend="Run the case on Spark.",
    )


class SparkCaseEngine:
    """The query of one case on Spark, with a checkpoint of its own that ``close`` removes.

    Raises:
        QueryError: the statement is refused.
        ConfigError: a setting is refused.
        ExecutionError: the engine does not run this plan yet.
    """

    def __init__(self, case: Case, runs: SparkRuns) -> None:
        from tidegate.api.query import sql

        self._case = case
        self._runs = runs
        self._query = sql(
            case.query,
            settings=dict(case.settings),
            streams=_schemas(case),
            tables={table.name: self._frame(table.columns, table.rows) for table in case.tables},
            spark=runs.spark,
        )
        self._directory = tempfile.TemporaryDirectory(prefix="tidegate-case-")
        self._starts = 0
        self._counts: Counter[str] = Counter(dict.fromkeys(COUNTERS, 0))
        try:
            self._stepper = self._start()
            self._names = _shown(self._query)
        except Exception:
            self._directory.cleanup()
            raise

    def batch(self, rows: tuple[tuple[object, ...], ...], clock_us: int | None) -> Observed:
        if clock_us is None and self._query.physical.watermark.mode is TimeMode.PROCESSING:
            raise CaseError(
                "the batch has no clock, but the query runs in processing time",
                path=self._case.path,
                line=self._case.line,
                mend='Write "batch at 10:00:20".',
            )
        frame = self._frame(self._case.stream.columns, rows)
        clock_us = FAR_AHEAD_US if clock_us is None else clock_us
        observed = self._observe(self._stepper.batch(frame, clock_us))
        if self._runs.resume_always:
            self.stop()
        return observed

    def clock(self, clock_us: int) -> Observed:
        return self._observe(self._stepper.clock(clock_us))

    def stop(self) -> None:
        self._stepper.close()
        self._stepper = self._start()

    def drain(self) -> Observed:
        return self._observe(self._stepper.drain())

    def flush(self) -> Observed:
        return self._observe(self._stepper.flush())

    def counts(self) -> Mapping[str, int]:
        return dict(self._counts)

    def close(self) -> None:
        self._stepper.close()
        self._directory.cleanup()

    def _start(self) -> CaseStepper:
        partitions = PARTITIONS[self._starts % len(PARTITIONS)]
        self._starts += 1
        return CaseStepper(self._query, checkpoint=self._directory.name, partitions=partitions)

    def _frame(
        self, columns: tuple[Column, ...], rows: tuple[tuple[object, ...], ...]
    ) -> DataFrame:
        return self._runs.spark.sql(_values_sql(columns, rows))

    def _observe(self, outcome: Outcome) -> Observed:
        for name in COUNTERS:
            self._counts[name] += getattr(outcome.report, name)
        side: dict[str, tuple[SideRow, ...]] = {}
        for record in outcome.side:
            row = SideRow(
                original=_values(record.original or {}),
                reason=record.reason,
                late_by_ms=record.late_by_ms,
            )
            side[record.kind] = (*side.get(record.kind, ()), row)
        return Observed(
            columns=self._names,
            emitted=tuple(_values(row.asDict()) for row in outcome.rows),
            side=side,
            watermark_us=outcome.report.watermark_us,
        )


def _shown(query: Query) -> tuple[str, ...]:
    """The columns of the result, without the id that EMIT EARLY adds: no case can tell it."""
    early = query.compiled.statement.early
    hidden = {
        item.name
        for item in query.physical.finish.items
        if early is not None and item.expression == Expression(sql=WINDOW_ID, span=early.span)
    }
    return tuple(name for name in query.schema.fieldNames() if name not in hidden)


def _schemas(case: Case) -> dict[str, str]:
    columns = (f"{in_backticks(column.name)} {column.type}" for column in case.stream.columns)
    return {case.stream.name: ", ".join(columns)}


def _values(row: Mapping[str, object]) -> dict[str, object]:
    return {name: _value(value) for name, value in row.items()}


def _value(value: object) -> object:
    """Return a value of a Spark row; naive times are in the machine's zone and become UTC."""
    match value:
        case datetime():
            return value.astimezone(UTC)
        case list():
            return [_value(item) for item in value]
        case _:
            return value


def _values_sql(columns: tuple[Column, ...], rows: tuple[tuple[object, ...], ...]) -> str:
    """Return a VALUES statement for rows; a DataFrame of a Python list would use Python workers."""
    names = ", ".join(in_backticks(column.name) for column in columns)
    if not rows:
        nothing = ", ".join(f"CAST(NULL AS {c.type}) AS {in_backticks(c.name)}" for c in columns)
        return f"SELECT {nothing} WHERE false"
    values = ", ".join(
        "(" + ", ".join(_literal(v, c.type) for v, c in zip(row, columns, strict=True)) + ")"
        for row in rows
    )
    return f"SELECT * FROM VALUES {values} AS rows({names})"


def _literal(value: object, ddl: str) -> str:
    match value:
        case None:
            text = "NULL"
        case datetime() if ddl.upper() == "TIMESTAMP":
            text = f"timestamp_micros({from_datetime(value)}L)"
        case datetime():
            text = f"TIMESTAMP_NTZ '{value.replace(tzinfo=None).isoformat(sep=' ')}'"
        case list() | tuple():
            inside = ddl[ddl.index("<") + 1 : ddl.rindex(">")]
            text = f"array({', '.join(_literal(item, inside) for item in value)})"
        case bool():
            text = str(value).lower()
        case _:
            escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
            text = f"'{escaped}'"
    return f"CAST({text} AS {ddl})"
