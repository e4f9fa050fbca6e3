"""Why ``run`` would refuse planned statements, told without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tidegate.cli.planning import Planned, plan_transform
from tidegate.connectors.table import sink_kind
from tidegate.errors import ConfigError, TidegateError
from tidegate.names import listed
from tidegate.plan.pipeline import PipelineConfig
from tidegate.planner.reinject import Refused, refused_route


def unready(plans: Iterable[Planned], file: Path | None) -> Iterator[TidegateError]:
    """Yield the errors for which ``run`` would refuse planned statements, without Spark."""
    config = None
    if file is not None and file.suffix != ".sql":
        from tidegate.config import check_places, load_config

        config = load_config(file)
        try:
            check_places(config)
        except ConfigError as error:
            yield error
    for planned in plans:
        refused = unrunnable(planned, config)
        if refused is not None:
            yield refused


def unrunnable(planned: Planned, config: PipelineConfig | None) -> TidegateError | None:
    """Return why a plan cannot be run, None if it can; ``config`` has its place."""
    if config is None:
        return None
    checks = (_not_taken, _append_only, _not_reinjectable, _not_together)
    return next((found for check in checks if (found := check(planned, config))), None)


def _not_taken(planned: Planned, config: PipelineConfig) -> TidegateError | None:
    """Return that nothing takes the results of a transform, None if something does."""
    from tidegate.config import explain_at

    plans = (plan_transform(config, each) for each in config.transforms.values())
    if config.sinks_of(planned.name) or any(plan.reads == planned.name for plan in plans):
        return None
    what = (
        f'no sink takes its results\n\nAdd [sinks.NAME] with from = "{planned.name}" and a format.'
    )
    return ConfigError(explain_at(config, ("transforms", planned.name, ""), what))


def _not_reinjectable(planned: Planned, config: PipelineConfig) -> TidegateError | None:
    """Return why rows of a transform cannot go back to their input, None if nothing forbids it."""
    from tidegate.config import explain_at

    plan = planned.compiled.physical
    if not plan.side_output.reinjects:
        return None
    refused = refused_route(plan)
    if refused is None:
        others = [each for each in config.transforms.values() if each.name != planned.name]
        plans = (plan_transform(config, each) for each in others)
        stream = plan.prepare.source.name
        read = ((p.name, p.compiled.physical.prepare.source) for p in plans)
        readers = [name for name, each in read if stream in (each.name, *each.members)]
        if not readers:
            return None
        kind = next(route.kind for route in plan.side_output.routes if route.reinjects)
        refused = Refused(
            kind=kind,
            key="reinject_to",
            what=f"rows cannot go back to {stream}: {listed(readers)} reads it too, and would "
            "count them twice",
            mend="Name a sink instead of reinject.",
        )
    path = ("transforms", planned.name, "side_output", refused.kind, refused.key)
    return ConfigError(explain_at(config, path, f"{refused.what}\n\n{refused.mend}"))


def _append_only(planned: Planned, config: PipelineConfig) -> TidegateError | None:
    """Return why a sink of a transform cannot take early results, None if all can."""
    from tidegate.config import explain_at

    sinks = config.sinks_of(planned.name)
    sink = next((each for each in sinks if not sink_kind(each.format).replaces_results), None)
    if sink is None or planned.compiled.physical.close.early_us is None:
        return None
    return ConfigError(
        explain_at(
            config,
            ("sinks", sink.name, "format"),
            f'format = "{sink.format}": it cannot take the provisional results of EMIT EARLY, '
            "because it does not replace a result by a later one of the same window and keys\n\n"
            "Leave EMIT EARLY out.",
        )
    )


def _not_together(planned: Planned, config: PipelineConfig) -> TidegateError | None:
    """Return why a transform cannot read its source with another one, None if it can."""
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
