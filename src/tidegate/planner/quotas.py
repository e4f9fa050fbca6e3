"""Refuses quotas that would have no effect: whoever sets one expects it to do something."""

from __future__ import annotations

from tidegate.errors import ConfigError
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.windows import Cumulate, Hopping, Session, Tumbling


def check_quotas(plan: PhysicalPlan) -> None:
    """Refuse a quota that would have no effect.

    Raises:
        ConfigError: names the setting, its value and the reason.
    """
    settings, window = plan.settings, plan.close.window
    on_grid = isinstance(window, Tumbling | Hopping | Cumulate)
    if settings.max_groups is not None:
        given = f"max_groups = {settings.max_groups}"
        if not on_grid and not isinstance(window, Session):
            raise ConfigError(
                f"{given}: {window.kind} windows have no such limit\n\nRemove the setting. It is "
                "for tumbling, hopping, cumulate and session windows."
            )
        if not plan.ingest.keys:
            raise ConfigError(
                f"{given}: without keys every window is one group\n\nRemove the setting, or add "
                "the keys to GROUP BY."
            )
    if settings.max_rows_per_group is not None:
        given = f"max_rows_per_group = {settings.max_rows_per_group}"
        if not on_grid:
            raise ConfigError(
                f"{given}: {window.kind} windows have no such limit\n\nRemove the setting. It is "
                "for tumbling, hopping and cumulate windows."
            )
        if plan.max_rows is None:
            raise ConfigError(
                f"{given}: the statement needs no rows of a group, so none are kept\n\nRemove the "
                "setting. It is for statements that select rows, and for aggregates such as "
                "collect_list and median."
            )
