"""Refuses quotas that would have no effect: whoever sets one expects it to do something."""

from __future__ import annotations

from tidegate.errors import ConfigError
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.windows import Cumulate, Hopping, Session, Sliding, Tumbling, Window


def check_quotas(plan: PhysicalPlan) -> None:
    """Refuse a quota that would have no effect.

    Raises:
        ConfigError: names the setting, its value and the reason.
    """
    settings, window = plan.settings, plan.close.window
    if settings.max_groups is not None:
        given = f"max_groups = {settings.max_groups}"
        _check_kind(given, window)
        if not plan.ingest.keys:
            raise ConfigError(
                f"{given}: without keys every window is one group\n\nRemove the setting, or add "
                "the keys to GROUP BY."
            )
    if settings.max_rows_per_group is not None:
        given = f"max_rows_per_group = {settings.max_rows_per_group}"
        _check_kind(given, window)
        if plan.max_rows is None:
            raise ConfigError(
                f"{given}: the statement needs no rows of a group, so none are kept\n\nRemove the "
                "setting. It is for statements that select rows, and for aggregates such as "
                "collect_list and median."
            )


def _check_kind(given: str, window: Window) -> None:
    """Refuse a quota for windows that cannot evict a row when it comes."""
    if isinstance(window, Tumbling | Hopping | Cumulate | Session):
        return
    why, mend = f"{window.kind} windows have no such limit", ""
    if isinstance(window, Sliding):
        why = (
            "a row is in the sliding windows of all rows near it, later ones among them, so it "
            "cannot be evicted when it comes"
        )
        mend = " LIMIT in the statement limits the results of each window."
    raise ConfigError(
        f"{given}: {why}\n\nRemove the setting. It is for tumbling, hopping, cumulate and session "
        f"windows.{mend}"
    )
