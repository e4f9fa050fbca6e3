"""Whether a query fits a checkpoint, and what differs if it does not; without Spark.

The fingerprint says what shapes the state; everything else about a query may change. Without Spark
some types are not known, and they decide which accumulators an aggregate has and how a time is
read; what therefore cannot be compared is compared when the query starts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.stages import IngestPartials
from tidegate.state.manifest import Manifest
from tidegate.state.plan_file import PlanFile
from tidegate.state.reader import StateReader
from tidegate.state.schema import can_be_read_as

# What may change without losing the state.
MAY_CHANGE = (
    "the select list, HAVING, ORDER BY, LIMIT",
    "WHERE",
    "lag and allowed lateness, idle_timeout and on_idle, max_future_skew, dedup_horizon",
    "sinks, side output and its routing, error_policy",
    "trigger, cores, partitions, the number of executors",
)

_ACCUMULATORS, _EVENT_TIME = "accumulators", "event_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something that shapes the state: what it is in the checkpoint, and in the query."""

    what: str
    in_checkpoint: str
    in_query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How a query fits a checkpoint.

    Attributes:
        checkpoint: the checkpoint.
        epoch: its newest epoch; None: a start begins a new checkpoint.
        differences: why it does not fit; empty if it does.
        unknown: what only a start can compare.
    """

    checkpoint: str
    epoch: int | None
    differences: tuple[Difference, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the query can go on, as far as can be told without Spark."""
        return not self.differences


def fit_of(plan: PhysicalPlan, checkpoint: Path, *, ticks: bool = False) -> Fit:
    """Return how a plan fits a checkpoint.

    Args:
        plan: the plan.
        checkpoint: the checkpoint.
        ticks: whether a query that runs with it needs ticks.

    Raises:
        StateError: the checkpoint cannot be read.
    """
    reader = StateReader(checkpoint)
    if not reader.epochs():
        return Fit(checkpoint=str(checkpoint), epoch=None)
    manifest, written = reader.manifest(), reader.plan()
    differences, unknown = [], []
    before, now = manifest.fingerprint, plan.fingerprint
    for name in dict.fromkeys((*before, *now)):
        old, new = before.get(name, "nothing"), now.get(name, "nothing")
        if old == new:
            continue
        if name == _ACCUMULATORS:
            old, new = _aggregates_before(written, old), _aggregates_now(plan, new)
            if _words(old) == _words(new):
                arguments = ", ".join(_untyped(plan))
                if arguments:
                    unknown.append(f"{name}: the types of {arguments} decide")
                    continue
                old, new = before[name], now[name]
        if name == _EVENT_TIME and plan.prepare.source.columns is None:
            unknown.append(f"{name}: the types of the columns of {plan.prepare.source.name} decide")
            continue
        differences.append(Difference(what=name, in_checkpoint=old, in_query=new))
    differences += _types(plan, manifest)
    if ticks or plan.needs_ticks:
        differences += _sources(checkpoint)
    return Fit(
        checkpoint=str(checkpoint),
        epoch=manifest.epoch,
        differences=tuple(differences),
        unknown=tuple(unknown),
    )


def _aggregates_before(written: PlanFile, held: str) -> str:
    """The aggregates that a state was made for; its columns if it keeps rows."""
    return ", ".join(sorted(written.values)) if not _keeps_rows(held) else _rows(held)


def _aggregates_now(plan: PhysicalPlan, held: str) -> str:
    if isinstance(plan.ingest, IngestPartials):
        return ", ".join(sorted(aggregate.text for aggregate in plan.ingest.aggregates))
    return _rows(held)


def _keeps_rows(held: str) -> bool:
    return held.startswith("rows of ")


def _rows(held: str) -> str:
    columns = json.loads(held.removeprefix("rows of "))
    return f"whole rows, with {', '.join(columns)}" if columns else "whole rows"


def _words(text: str) -> str:
    """A text without blanks and in lower case, so that a call is equal however it is written."""
    return re.sub(r"\s+", "", text).lower()


def _untyped(plan: PhysicalPlan) -> list[str]:
    return [each.expression.sql for each in plan.ingest.arguments if each.type is None]


def _types(plan: PhysicalPlan, manifest: Manifest) -> Iterator[Difference]:
    """Keys and kept values whose type is known and cannot be read from the state."""
    if not manifest.segments:
        return
    known = {
        column.name.lower(): column.type.lower() for column in plan.prepare.source.columns or ()
    }
    keys = [(key.name, key.expression.sql) for key in plan.ingest.keys]
    values = [(each.name, each.expression.sql) for each in plan.ingest.arguments]
    for name, text in (*keys, *values):
        before, now = manifest.schema.get(name), known.get(text.strip("`").lower())
        if before is None or now is None or can_be_read_as(before, _simple(now)):
            continue
        yield Difference(what=f"type of {text}", in_checkpoint=before, in_query=now)


def _simple(type_: str) -> str:
    """The name that Spark has for a type as people write it."""
    text = re.sub(r"\s+", "", type_)
    return {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}.get(
        text, {"real": "float", "dec": "decimal(10,0)", "decimal": "decimal(10,0)"}.get(text, text)
    )


def _sources(checkpoint: Path) -> Iterable[Difference]:
    """Ticks: Spark cannot add a source to a checkpoint."""
    planned = (checkpoint / "offsets").glob("*")
    numbers = [int(each.name) for each in planned if each.name.isdecimal()]
    if not numbers:
        return []
    _, _, *offsets = (checkpoint / "offsets" / str(max(numbers))).read_text("utf-8").split("\n")
    if len(offsets) > 1:
        return []
    ticks = "ticks, for idle_timeout, EMIT EARLY or processing time"
    return [Difference(what="sources", in_checkpoint="without ticks", in_query=f"with {ticks}")]
