"""What the results of a statement are to another one that reads them."""

from __future__ import annotations

from tidegate.plan.columns import WINDOW_END, WINDOW_START
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.statement import Column
from tidegate.plan.upstream import ResultTime, Upstream
from tidegate.planner.guards import result_types

_TIMES = {WINDOW_START: ResultTime.START, WINDOW_END: ResultTime.END}


def upstream_of(name: str, plan: PhysicalPlan) -> Upstream:
    """Return what a statement is told of a transform that it reads.

    Args:
        name: the name of the transform in FROM.
        plan: its plan.
    """
    items = plan.finish.items
    times = {item.name.lower(): _TIMES.get(item.expression.sql) for item in items}
    return Upstream(
        name=name,
        window=plan.close.window,
        mode=plan.watermark.mode,
        at_once=not plan.watermark.emit_on_close,
        early=plan.close.early_us is not None,
        columns={column: time for column, time in times.items() if time is not None},
    )


def result_columns(plan: PhysicalPlan) -> tuple[Column, ...]:
    """Return the columns of the results; a type that only Spark knows is ''."""
    return tuple(
        Column(name=name, type=kind if kind is not None and _is_whole(kind) else "")
        for name, kind in result_types(plan).items()
    )


def _is_whole(kind: str) -> bool:
    """Whether a type is known with those of its parts."""
    return ".." not in kind and kind not in ("STRUCT", "MAP")
