"""Warnings about what is legal but likely a mistake, for ``check``, EXPLAIN and a start."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidegate.names import nearest
from tidegate.plan.logical import Authority, LogicalPlan, Watermark
from tidegate.plan.settings import TimeMode
from tidegate.plan.windows import Hopping, State
from tidegate.time import format_duration


def warnings(plan: LogicalPlan) -> tuple[str, ...]:
    """Return the warnings about a plan: what is likely wrong, and what to write then."""
    return tuple(warning for check in CHECKS for warning in check(plan))


def _processing_time(plan: LogicalPlan) -> Iterator[str]:
    spec = next(node.spec for node in plan.nodes() if isinstance(node, Watermark))
    if spec.mode is TimeMode.PROCESSING and spec.event_time.authority is Authority.DEFAULT:
        yield (
            "windows are in processing time, because nothing names an event time. Set "
            'event_time_field, or time = "processing" if that is meant.'
        )


def _gaps(plan: LogicalPlan) -> Iterator[str]:
    window = plan.query.statement.window
    if isinstance(window, Hopping) and window.slide > window.size:
        size, slide = (
            format_duration(count * window.time_unit.micros)
            for count in (window.size, window.slide)
        )
        yield (
            f"a window of {size} starts every {slide}, so rows between two windows are in none. "
            f"If windows of {slide} every {size} are meant, swap the two: HOP(ts, slide, size), "
            "hoppingwindow(unit, size, slide)."
        )


def _keys_of_a_state_window(plan: LogicalPlan) -> Iterator[str]:
    """``GROUP BY k, statewindow(..)`` groups the rows of a window; one machine sees all k."""
    window = plan.query.statement.window
    if not isinstance(window, State):
        return
    split = {_spelled(sql) for sql in window.partition_by}
    keys = [key.expression.sql for key in plan.query.keys]
    lacking = [sql for sql in keys if _spelled(sql) not in split]
    if lacking:
        partition = ", ".join([*window.partition_by, *lacking])
        yield (
            f"GROUP BY {', '.join(lacking)} does not split the state window: one machine sees the "
            "rows of all groups. For a machine per group, write "
            f"statewindow({window.open}, {window.emit}) OVER (PARTITION BY {partition})."
        )


def _words_taken_for_calls(plan: LogicalPlan) -> Iterator[str]:
    relations = (plan.query.source, *plan.query.tables)
    names = [column.name for each in relations for column in each.columns or ()]
    for call in plan.query.calls:
        word = call.sql.lower()
        begins = next((name for name in names if name.lower().startswith(word)), None)
        near = begins or nearest(word, names, cutoff=0.8)
        if near is not None:
            yield (
                f"{call.sql} means Spark's function {word}(), because no column has this name. "
                f"Write {near} if the column is meant, {word}() if not."
            )


# Each yields its warnings about a plan.
CHECKS: tuple[Callable[[LogicalPlan], Iterator[str]], ...] = (
    _processing_time,
    _gaps,
    _keys_of_a_state_window,
    _words_taken_for_calls,
)


def _spelled(sql: str) -> str:
    return "".join(sql.casefold().replace("`", "").split())
