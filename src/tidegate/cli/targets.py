"""The sinks of a transform and what each guarantees, as ``check`` and ``explain`` show them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.connectors.table import sink_kind
from tidegate.names import listed
from tidegate.plan.pipeline import PipelineConfig, TransformConfig
from tidegate.plan.side_output import KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where rows go: what it takes, its name, its format and its guarantee."""

    takes: str
    sink: str
    format: str
    guarantee: str

    def text(self) -> str:
        """Return a line for people."""
        return f"{self.takes} go to {self.sink} ({self.format}): {self.guarantee}"


def targets_of(config: PipelineConfig, transform: TransformConfig) -> Iterator[Target]:
    """Yield where the results and the side output of a transform go."""
    takers = [("results", sink.name) for sink in config.sinks_of(transform.name)]
    side = transform.side_output
    for name in side.sinks:
        kinds = [kind.name for kind in KINDS if side.sink_of(kind.name) == name]
        takers.append((f"{listed(kinds)} rows", name))
    for takes, name in takers:
        format = config.sinks[name].format
        guarantee = sink_kind(format).guarantee.value
        yield Target(takes=takes, sink=name, format=format, guarantee=guarantee)
