"""Replaying: rows of side output run through their statement again, by themselves.

A window that has closed stays as it was emitted. What its late rows would have added is computed
from them alone: a correction, which names the window and the group that it belongs to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.engine.final import at_present, within_limits
from tidegate.engine.side_output.records import group_key_sql
from tidegate.plan.columns import WINDOW_END, WINDOW_ID, WINDOW_START
from tidegate.plan.windows import Cumulate, Hopping, Tumbling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.job import Job
    from tidegate.plan.physical import PhysicalPlan
    from tidegate.plan.stages import Finish

# The columns of a correction, before those of the statement.
CORRECTS = (
    "corrects_kind",
    "corrects_plan_id",
    "corrects_window_id",
    "corrects_window_start",
    "corrects_window_end",
    "corrects_group_key",
)


def has_fixed_windows(plan: PhysicalPlan) -> bool:
    """Whether the windows of a row follow from its time alone, so that each row knows its own."""
    return isinstance(plan.close.window, Tumbling | Hopping | Cumulate)


def corrections(rows: DataFrame, job: Job, *, kind: str, plan_id: str) -> DataFrame:
    """Return a row for each window and group of some rows, computed from these rows alone.

    HAVING and LIMIT are left out, since they are about whole windows.

    Args:
        rows: prepared rows.
        job: the job of the statement.
        kind: the kind of side output that they come from.
        plan_id: the plan that wrote them; ids of windows are those that it gave.

    Returns:
        The columns of ``CORRECTS``, then those of the statement. ``corrects_window_id`` is NULL
        where a window depends on other rows than its own.
    """
    plan = replace(job.plan, plan_id=plan_id, finish=_of_single_rows(job.plan.finish))
    finisher = replace(job.finisher, plan=plan)
    # Of what was removed and is run again on purpose every row counts.
    whole = kind in ("duplicate", "evicted")
    taken = (rows, at_present(), None) if whole else within_limits(rows, job)
    groups = job.operator.final_groups(*taken)
    closed = finisher.closed_rows(groups, epoch=0)
    window_id = WINDOW_ID if has_fixed_windows(plan) else "CAST(NULL AS STRING)"
    values = (
        f"'{kind}'",
        f"'{plan_id}'",
        window_id,
        WINDOW_START,
        WINDOW_END,
        group_key_sql(plan),
    )
    named = (f"{value} AS {name}" for name, value in zip(CORRECTS, values, strict=True))
    return closed.selectExpr(*named, *finisher.items)


def _of_single_rows(finish: Finish) -> Finish:
    """The select list alone."""
    texts = {item.expression.sql for item in finish.items}
    guards = {text: guarded for text, guarded in finish.guards.items() if text in texts}
    return replace(finish, having=None, order_by=(), limit=None, guards=guards)
