"""Replay: records of side output are checked, and their rows run through their statement again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions

from tidegate.api import arguments
from tidegate.api.tables import over_tables
from tidegate.engine.final import final_errors
from tidegate.engine.side_output.replay import corrections, has_fixed_windows
from tidegate.errors import ConfigError, ExecutionError
from tidegate.names import listed
from tidegate.plan.columns import MALFORMED
from tidegate.plan.guarded import MALFORMED_RECORD
from tidegate.plan.settings import TimeMode
from tidegate.plan.side_output import KINDS, RECORD
from tidegate.spark.isolation import in_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.api.query import Query

# The kinds that are run again unless others are named: rows of the other one have been counted.
REPLAYED = tuple(kind.name for kind in KINDS if kind.name != "duplicate")

_FAILED_RESULT = "failed_result"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Rows that are run again.

    Attributes:
        corrections: see ``Query.replay``.
        errors: records of those that fail again.
        rows: how many rows are run, by kind.
        skipped: how many records cannot be run again, by why: ``failed_result`` (it has no row) and
            ``malformed_record`` (its row is not known whole).
    """

    corrections: DataFrame
    errors: DataFrame
    rows: Mapping[str, int]
    skipped: Mapping[str, int]


@dataclass(slots=True)
class _Part:
    """The records of one kind and plan."""

    kind: str
    plan_id: str
    rows: int = 0
    skipped: dict[str, int] = field(default_factory=dict)


def replay(
    query: Query, records: DataFrame, *, kinds: Sequence[str] = REPLAYED, any_plan: bool = False
) -> Replay:
    """Return what ``Query.replay`` does, with the numbers beside it.

    Raises:
        ConfigError, ExecutionError: as ``Query.replay``.
    """
    _check_records(records, kinds)
    _check_statement(query)
    parts = _parts(records, kinds)
    if not parts:
        raise ConfigError(
            f"there are no records of kind {listed(kinds)}\n\nName another folder, or other kinds."
        )
    # Types that only Spark knows are part of a plan.
    frames = {**query.given.frames(), query.physical.prepare.source.name: _originals(records)}
    _check_plans(query._typed(frames), parts, any_plan=any_plan)
    _check_windows(query, parts)
    found = [_replayed(query, records, part) for part in parts if part.rows]
    if not found:
        raise ConfigError(
            "none of the records has a row that can be run again: they are failed results and "
            "malformed records\n\nMend the statement, or the files that the records come from."
        )
    return Replay(
        corrections=in_session(_union(each for each, _ in found), query.spark),
        errors=in_session(_union(each for _, each in found), query.spark),
        rows=_summed((part.kind, part.rows) for part in parts),
        skipped=_summed(pair for part in parts for pair in part.skipped.items()),
    )


def _check_records(records: DataFrame, kinds: Sequence[str]) -> None:
    arguments.frame("records", records)
    known = [kind.name for kind in KINDS]
    for kind in kinds:
        if kind not in known:
            raise ConfigError(f"there is no kind {kind!r}\n\nThe kinds are {listed(known)}.")
    needed = ("kind", "reason", "window", "original_event", "plan_id")
    missing = [name for name in needed if name not in records.columns]
    if missing or records.isStreaming:
        what = f"they have no column {missing[0]}" if missing else "they are a stream"
        raise ConfigError(
            f"records are not those of side output: {what}\n\nRead what a side sink has written, "
            f'e.g. spark.read.parquet("out/late"); its columns are {listed(RECORD)}.'
        )


def _check_statement(query: Query) -> None:
    prepare = query.physical.prepare
    if prepare.watermark.mode is TimeMode.PROCESSING:
        raise ExecutionError(
            "rows cannot be run again in processing time: their time has passed\n\nGive the query "
            'an event time: event_time_field = "..", or ON in the statement.'
        )
    if prepare.watermark.follows is not None:
        raise ExecutionError(
            f"rows cannot be run again: they are results of {prepare.source.name}, and records do "
            f"not tell their windows\n\nRun the rows of {prepare.source.name} again."
        )
    if query.physical.settings.event_time_metadata is not None:
        raise ExecutionError(
            "rows cannot be run again: their time is that of their file, which records do not "
            "tell\n\nPut the rows back into the input, or take the time from a column."
        )
    if prepare.from_clause.has_queries:
        raise ExecutionError(
            "rows cannot be run again: FROM has a query, and records show its rows, not those of "
            f"{prepare.source.name}\n\nWrite the statement without a query in FROM."
        )


def _parts(records: DataFrame, kinds: Sequence[str]) -> list[_Part]:
    """The records by kind and plan, counted."""
    chosen = records.where(functions.col("kind").isin(list(kinds)))
    counted = chosen.groupBy("kind", "plan_id", _why_not().alias("why")).count().collect()
    parts: dict[tuple[str, str], _Part] = {}
    for row in counted:
        part = parts.setdefault((row["kind"], row["plan_id"]), _Part(row["kind"], row["plan_id"]))
        if row["why"] is None:
            part.rows += row["count"]
        elif row["why"] == "original_event":
            raise ConfigError(
                f"{row['count']} {row['kind']} records have no original row\n\nThey were written "
                f"with side_output.{row['kind']}.include_original = false, and cannot be run again."
            )
        else:
            part.skipped[row["why"]] = row["count"]
    return [parts[key] for key in sorted(parts)]


def _why_not() -> Column:
    """Why a record cannot be run again, NULL if it can."""
    return functions.expr(
        f"CASE WHEN reason = '{MALFORMED_RECORD}' THEN '{MALFORMED_RECORD}' "
        f"WHEN original_event IS NOT NULL THEN NULL "
        f"WHEN kind = 'error' AND window IS NOT NULL THEN '{_FAILED_RESULT}' "
        "ELSE 'original_event' END"
    )


def _check_plans(query: Query, parts: Sequence[_Part], *, any_plan: bool) -> None:
    plan_id = query.physical.plan_id
    others = sorted({part.plan_id for part in parts} - {plan_id})
    if others and not any_plan:
        raise ConfigError(
            f"records of plan {listed(others)} are not of this query, which is plan {plan_id}\n\n"
            "Use the statement and settings that wrote them; or run them through this one with "
            "any_plan=True (--any-plan)."
        )


def _check_windows(query: Query, parts: Sequence[_Part]) -> None:
    if has_fixed_windows(query.physical) or all(part.kind != "late" for part in parts):
        return
    kind = query.physical.close.window.kind
    raise ExecutionError(
        f"late rows of {kind} windows cannot be run again: which windows they missed depends on "
        "the rows that came in time\n\nRun the statement over all rows of the time in question "
        "with query.batch(..), or leave out the kind late."
    )


def _replayed(query: Query, records: DataFrame, part: _Part) -> tuple[DataFrame, DataFrame]:
    """The corrections of one part, and records of the rows that fail again."""
    source = query.physical.prepare.source
    originals = _originals(
        records.where(
            (functions.col("kind") == part.kind)
            & functions.col("plan_id").eqNullSafe(part.plan_id)
            & _why_not().isNull()
        )
    )
    if source.malformed:
        originals = originals.withColumn(MALFORMED, functions.lit(None).cast("string"))
    rows, job = over_tables(query, {source.name: originals}, keep_rows=True)
    if query.physical.prepare.tables and rows.count() > part.rows:
        raise ExecutionError(
            f"rows cannot be run again: they find several rows of "
            f"{listed(table.name for table in query.physical.prepare.tables)}, and each of those "
            "has a record\n\nJoin tables on a key that is there once."
        )
    corrected = corrections(rows, job, kind=part.kind, plan_id=part.plan_id)
    return corrected, final_errors(rows, job)


def _originals(records: DataFrame) -> DataFrame:
    return records.select("original_event.*")


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda some, more: some.unionByName(more), frames)


def _summed(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for name, count in pairs:
        sums[name] = sums.get(name, 0) + count
    return sums
