"""Which spans a close needs: by their times, and by the keys of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions

from tidegate.engine.tasks import are_few
from tidegate.engine.windows.sessions.chains import LAST
from tidegate.spark.statements import by_reference
from tidegate.state.manifest import Segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def reaching(segments: Sequence[Segment], time_us: int) -> tuple[Segment, ...]:
    """Segments with a span whose last row is not before a time."""
    return tuple(segment for segment in segments if segment.last_us >= time_us)


def before(
    spans: DataFrame, us: int, segments: Sequence[Segment] = (), *, time: str = LAST
) -> DataFrame:
    """Spans of segments whose last row (or the one at ``time``) is before a time."""
    return spans.where(f"{time} < {_constant(us, time, segments)}")


def open_from(spans: DataFrame, us: int, segments: Sequence[Segment] = ()) -> DataFrame:
    """Spans of segments whose last row is not before a time."""
    return spans.where(f"{LAST} >= {_constant(us, LAST, segments)}")


def between(
    spans: DataFrame, from_us: int, us: int, segments: Sequence[Segment], *, time: str = LAST
) -> DataFrame:
    """``open_from`` and ``before`` in one call."""
    is_open = f"{LAST} >= {_constant(from_us, LAST, segments)}"
    return spans.where(f"{is_open} AND {time} < {_constant(us, time, segments)}")


def _constant(us: int, beside: str, segments: Sequence[Segment]) -> str:
    """A time as Spark SQL: for many rows a literal, which lets Parquet skip what it excludes.

    Then Spark compiles the filter for every batch, which takes a few milliseconds.
    """
    return by_reference(us, beside) if are_few(segments) else f"{us}L"


def of_same_keys(near: DataFrame, due: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The spans of keys that have a due span, of which there are few: others need no shuffle.

    Also a few others, because keys are compared by a hash, which is quicker: they may be NULL, and
    Spark joins by one BIGINT with less work than by anything else. But texts with a collation may
    be equal where their hashes differ.
    """
    if any("collate" in near.schema[key].dataType.simpleString() for key in keys):
        found = due.selectExpr(*(f"{key} AS _due{key}" for key in keys))
        same = " AND ".join(f"{key} <=> _due{key}" for key in keys)
    else:
        hashed = f"xxhash64({', '.join(keys)})"
        found, same = due.selectExpr(f"{hashed} AS _due"), f"{hashed} = _due"
    return near.join(functions.broadcast(found), functions.expr(same), "left_semi")


def ends_before(last: str, us: int) -> str:
    """The condition (Spark SQL) that the last row of a span is before a time."""
    return f"{last} < {by_reference(us, last)}"
