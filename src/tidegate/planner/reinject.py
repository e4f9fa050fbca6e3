"""Checks whether rows of a plan can go back to its input."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.plan.logical import Authority
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.side_output import KINDS, Route
from tidegate.planner.shards import kafka_column


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A route that does not fit its statement: the key that is wrong, what is wrong, the mend."""

    kind: str
    key: str
    what: str
    mend: str


def refused_route(plan: PhysicalPlan) -> Refused | None:
    """Return what is wrong with a route of a plan, None if nothing is."""
    routes = [route for route in plan.side_output.routes if route.reinjects]
    if routes and plan.prepare.source.upstream is not None:
        return Refused(
            kind=routes[0].kind,
            key="sink",
            what=f"rows cannot go back: they are results of {plan.prepare.source.name}",
            mend="Name a sink instead of reinject.",
        )
    found = (_refused(plan, route) for route in routes)
    return next((each for each in found if each is not None), None)


def _refused(plan: PhysicalPlan, route: Route) -> Refused | None:
    stream = plan.prepare.source.name
    example = f'reinject_to = "{stream}"'
    asks = {kind.name for kind in KINDS if kind.asks_to_reinject}

    def refuse(key: str, what: str, mend: str) -> Refused:
        return Refused(kind=route.kind, key=key, what=what, mend=mend)

    if route.reinject_to is None:
        return refuse("sink", 'sink = "reinject" needs reinject_to', f"Add {example}.")
    if route.reinject_to != stream:
        return refuse(
            "reinject_to",
            f'reinject_to is "{route.reinject_to}", but the statement reads {stream}',
            f"Rows go back to where they came from: write {example}.",
        )
    if route.kind in asks and not route.allow_reinject:
        return refuse(
            "sink",
            f"{route.kind} rows would be {route.kind} again when they come back",
            "If you know that they will be in time by then, set allow_reinject = true.",
        )
    if not route.include_original:
        return refuse(
            "include_original",
            "include_original is false, but the original row is what goes back",
            "Remove include_original, or name a sink instead of reinject.",
        )
    why = _unfit(plan)
    if why is not None:
        return refuse("sink", f"rows cannot go back: {why[0]}", why[1])
    return None


def _unfit(plan: PhysicalPlan) -> tuple[str, str] | None:
    """Return why rows of a statement cannot go back to its input, and the mend."""
    source = plan.prepare.source
    authority = plan.watermark.event_time.authority
    if authority is Authority.METADATA and kafka_column(source.columns or (), "timestamp"):
        return (
            "a record that goes back gets a new timestamp, which is its event time here",
            'Name an event time that the record carries, e.g. event_time_field = "ts".',
        )
    mend = "Name a sink instead of reinject."
    if source.united:
        return (
            f"{source.name} unites several streams, and a record does not say which is its own",
            mend,
        )
    if plan.prepare.derives:
        return (
            f"FROM does more than read {source.name}, so its rows need not be those of the input",
            mend,
        )
    return None
