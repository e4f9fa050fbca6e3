"""Routing: the side output of a batch to its sinks."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from tidegate.engine.side_output.records import Judged, failed_results, side_output
from tidegate.plan.side_output import KINDS, SideOutputKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.job import Job, Outlet
    from tidegate.engine.windows.operator import Ingested

_LOG = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """The rows and results of a batch that may have to go to side output.

    Attributes:
        failed: how many results failed; they are among ``closed`` (see ``Finisher.closed``).
    """

    ingested: Ingested
    judged: Judged
    failed: int = 0
    closed: DataFrame | None = None

    def count(self, kind: SideOutputKind) -> int:
        """Return how many records of a kind there are."""
        return self._rows_of(kind) + (self.failed if kind.has_results else 0)

    def records(self, kinds: Iterable[SideOutputKind], job: Job) -> DataFrame:
        """Return the records of some kinds, of which there is one at least."""
        parts = []
        of_rows = [kind.name for kind in kinds if self._rows_of(kind)]
        if of_rows and self.ingested.judged is not None:
            parts.append(side_output(self.ingested.judged(), self.judged, of_rows))
        if self.failed and self.closed is not None and any(kind.has_results for kind in kinds):
            parts.append(failed_results(self.closed, self.judged, job.original))
        return reduce(lambda some, more: some.unionByName(more), parts)

    def _rows_of(self, kind: SideOutputKind) -> int:
        count: int = getattr(self.ingested.counts, kind.name)
        return count


def goes_out(unused: Unused, job: Job) -> bool:
    """Return whether a sink takes records of the batch."""
    return bool(_by_sink(unused, job))


def write_side_output(unused: Unused, job: Job) -> int:
    """Write the side output that has a sink; return how many records a failing sink dropped.

    Kinds that share a sink are written at once: an epoch of a sink is one write.
    """
    dropped = 0
    epoch = unused.judged.start.epoch
    for outlet, kinds in _by_sink(unused, job):
        try:
            outlet.write(unused.records(kinds, job), epoch)
        except Exception:
            # A failing side sink does not stop the pipeline; its rows are counted as dropped.
            dropped += sum(unused.count(kind) for kind in kinds)
            names = " and ".join(kind.name for kind in kinds)
            _LOG.warning("side sink of %s rows failed in epoch %d", names, epoch, exc_info=True)
    return dropped


def _by_sink(unused: Unused, job: Job) -> list[tuple[Outlet, list[SideOutputKind]]]:
    """The sinks to which rows go, each with its kinds."""
    found: list[tuple[Outlet, list[SideOutputKind]]] = []
    for kind in KINDS:
        outlet = job.outlets.side.get(kind.name)
        if outlet is None or not unused.count(kind):
            continue
        sharing = next((kinds for other, kinds in found if other == outlet), None)
        if sharing is None:
            found.append((outlet, [kind]))
        else:
            sharing.append(kind)
    return found
