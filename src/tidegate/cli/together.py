"""Whether transforms of a pipeline file can read their source together, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.errors import ConfigError, TidegateError

if TYPE_CHECKING:
    from tidegate.cli.planning import Planned
    from tidegate.plan.pipeline import PipelineConfig


def not_together(planned: Planned, config: PipelineConfig) -> TidegateError | None:
    """Return why a transform cannot read its source with another one, None if it can."""
    from tidegate.cli.planning import plan_transform
    from tidegate.config import explain_at

    other = config.transforms[planned.name].reads_with
    if other is None:
        return None
    found = _apart(planned, plan_transform(config, config.transforms[other]))
    if found is None:
        return None
    what, mend = found
    path = ("transforms", planned.name, "reads_with")
    return ConfigError(explain_at(config, path, f'reads_with = "{other}": {what}\n\n{mend}'))


def _apart(planned: Planned, first: Planned) -> tuple[str, str] | None:
    mend = "Leave reads_with out."
    for each in (planned, first):
        prepare = each.compiled.physical.prepare
        if prepare.derives or each.reads is not None:
            return f"FROM of {each.name} does more than read a source", mend
    mine, theirs = (each.compiled.physical for each in (planned, first))
    one, two = mine.prepare.source, theirs.prepare.source
    if (one.name, one.members) != (two.name, two.members):
        return f"{planned.name} reads {one.name}, {first.name} reads {two.name}", mend
    if mine.side_output.error_policy is not theirs.side_output.error_policy:
        return (
            "their error_policy differs, which says how a malformed record is read",
            "Give both the same error_policy, or leave reads_with out.",
        )
    return None
