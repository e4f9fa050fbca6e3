"""Side output in EXPLAIN: where each kind of unusable rows goes, and within which limits."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.explain.facts import Json
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.side_output import METRICS_ONLY, Route
from tidegate.time import format_duration


def side_output_lines(plan: PhysicalPlan) -> tuple[str, ...]:
    """Return one line for each kind; none where the routes come with the start."""
    routes = plan.side_output.routes
    width = max((len(route.kind) for route in routes), default=0)
    return tuple(f"{route.kind:<{width}} -> {', '.join(_words(route))}" for route in routes)


def side_output_json(plan: PhysicalPlan) -> dict[str, Json]:
    """Return the same for JSON, by kind."""
    return {
        route.kind: {
            "sink": route.sink,
            "include_original": route.include_original,
            "rate_limit": route.rate_limit,
            "timeout_us": route.timeout_us,
            "reinject_to": route.reinject_to,
        }
        for route in plan.side_output.routes
    }


def _words(route: Route) -> Iterator[str]:
    if not route.writes:
        yield f"{METRICS_ONLY}: counted and dropped"
        return
    yield f"back to {route.reinject_to}, once" if route.reinjects else route.sink
    if not route.include_original:
        yield "without the original row"
    if route.rate_limit is not None:
        yield f"at most {route.rate_limit} records a second"
    yield f"at most {format_duration(route.timeout_us)} in a batch"
