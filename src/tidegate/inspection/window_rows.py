"""What open windows hold: their groups with the values so far, or their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from tidegate.inspection.checkpoint import Checkpoint
from tidegate.inspection.open_windows import OpenWindow
from tidegate.inspection.shown import time_text, utc_rows
from tidegate.inspection.values import NEEDS_SPARK, Values
from tidegate.plan.columns import ORDER
from tidegate.state.plan_file import PlanFile

# Returns the values of groups of partials, by the text of the call.
Evaluate: TypeAlias = Callable[
    [Sequence[Sequence[Mapping[str, Any]]], PlanFile, Mapping[str, str]], list[dict[str, Any]]
]


def window_rows(
    checkpoint: Checkpoint, windows: Sequence[OpenWindow], evaluate: Evaluate | None = None
) -> list[dict[str, Any]]:
    """Return what windows hold: a dict for each group, or for each row where rows are kept.

    It has the ``window`` (START/END), the values of its ``key`` and of PARTITION BY by their texts,
    and the ``values``: of each aggregate so far by the text of its call; of a row its event time
    and what is kept of it.

    Args:
        checkpoint: the checkpoint.
        windows: open windows of it.
        evaluate: evaluates values that need Spark; by default they stay ``NEEDS_SPARK``.

    Raises:
        StateError: a file is damaged.
    """
    # A state of whole rows has their order of arrival.
    if ORDER in checkpoint.manifest.schema:
        return [entry for window in windows for entry in _whole_rows(checkpoint, window)]
    return _groups(checkpoint, windows, evaluate)


def interval(window: OpenWindow) -> str:
    """Return the bounds of a window as an interval of ISO 8601."""
    return f"{time_text(window.start_us)}/{time_text(window.end_us)}"


def _groups(
    checkpoint: Checkpoint, windows: Sequence[OpenWindow], evaluate: Evaluate | None
) -> list[dict[str, Any]]:
    plan, schema = checkpoint.plan, checkpoint.manifest.schema
    groups = [(window, rows) for window in windows for rows in window.groups.values()]
    partials = [utc_rows(rows, schema) for _, rows in groups]
    values = [Values(plan, schema).of(rows) for rows in partials]
    lacking = [call for call in plan.values if any(each[call] is NEEDS_SPARK for each in values)]
    if evaluate is not None and lacking:
        needed = replace(plan, values={call: plan.values[call] for call in lacking})
        found = evaluate(partials, needed, schema)
        values = [mine | theirs for mine, theirs in zip(values, found, strict=True)]
    return [
        {"window": interval(window), "key": _keys(plan, rows[0]), "values": of_group}
        for (window, _), rows, of_group in zip(groups, partials, values, strict=True)
    ]


def _whole_rows(checkpoint: Checkpoint, window: OpenWindow) -> list[dict[str, Any]]:
    """Return the rows of a window, each with its event time and the values that are kept of it."""
    plan, schema = checkpoint.plan, checkpoint.manifest.schema
    kept = {name: text for name, text in plan.columns.items() if name.startswith("_x")}
    return [
        {
            "window": interval(window),
            "key": _keys(plan, row),
            "values": {"event time": time_text(row[ORDER]["t"])}
            | {text: row[name] for name, text in kept.items() if name in row},
        }
        for rows in window.groups.values()
        for row in utc_rows(rows, schema)
    ]


def _keys(plan: PlanFile, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the keys and of PARTITION BY, by their texts."""
    partition = {name: text for name, text in plan.columns.items() if name.startswith("_p")}
    names = {**partition, **plan.keys}
    return {text: row[name] for name, text in names.items() if name in row}
