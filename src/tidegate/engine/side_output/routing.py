"""Routing: the side output of a batch to its sinks, within the limits of each kind."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions

from tidegate.engine.samples import Numbers, Sample, samples_due, with_sample
from tidegate.engine.side_output.delivery import Parcel
from tidegate.engine.side_output.records import (
    Judged,
    failed_results,
    rows_to_reinject,
    side_output,
)
from tidegate.metrics.report import Dropped
from tidegate.names import in_backticks
from tidegate.plan.side_output import KINDS, RECORD, Drop, Route, SideOutputKind
from tidegate.spark.observe import observed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.engine.job import Job, Outlet
    from tidegate.engine.windows.operator import Ingested

_LOG = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """The rows and results of a batch that may have to go to side output.

    Attributes:
        clock_before_us: the clock of the batch before.
        failed: how many results failed; they are among ``closed`` (see ``Finisher.closed``).
    """

    ingested: Ingested
    judged: Judged
    clock_before_us: int | None = None
    failed: int = 0
    closed: DataFrame | None = None

    def count(self, kind: SideOutputKind) -> int:
        """Return how many records of a kind there are."""
        return self._rows_of(kind) + (self.failed if kind.has_results else 0)

    def gone(self, kind: SideOutputKind) -> int:
        """Return how many of them are of rows that an earlier process took in and no one has now.

        That process had no sink for them, or its limit did not allow any.
        """
        return 0 if self.ingested.judged is not None else self._rows_of(kind)

    def allowance(self, route: Route) -> int | None:
        """Return how many records of a kind the batch may write; None: all."""
        return route.allowance(self.clock_before_us, self.judged.start.clock_us)

    def records(self, kinds: Iterable[SideOutputKind]) -> DataFrame:
        """Return the records of some kinds, of which there is one at least."""
        parts = []
        of_rows = [kind.name for kind in kinds if self._rows_of(kind)]
        if of_rows and self.ingested.judged is not None:
            parts.append(side_output(self.ingested.judged(), self.judged, of_rows))
        if self.failed and self.closed is not None and any(kind.has_results for kind in kinds):
            parts.append(failed_results(self.closed, self.judged))
        return _union(parts)

    def rows_back(self, kinds: Iterable[SideOutputKind]) -> DataFrame:
        """Return the original rows of some kinds that can go back to their input."""
        assert self.ingested.judged is not None, "a step without rows has none to put back"
        names = [kind.name for kind in kinds]
        return rows_to_reinject(self.ingested.judged(), self.judged, names)

    def _rows_of(self, kind: SideOutputKind) -> int:
        count: int = getattr(self.ingested.counts, kind.name)
        return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of the side output of a step.

    Attributes:
        dropped: records that were not written, by cause.
        reasons: records that were written, by reason.
        sample: a few of these, as JSON.
    """

    dropped: Dropped
    reasons: Mapping[str, int]
    sample: tuple[str, ...]

    def added_to(self, reasons: Mapping[str, int]) -> Mapping[str, int]:
        """Return the reasons of earlier steps and of this one."""
        return dict(Counter(reasons) + Counter(self.reasons))


@dataclass(slots=True, kw_only=True)
class WatchedRecords:
    """The records that a sink gets, sampled and counted by reason while they are written.

    Attributes:
        make: makes them.
        counts: whether they are counted.
        most: how many a sample has.
    """

    make: Callable[[], DataFrame]
    counts: bool
    most: int
    _numbers: Numbers = dict
    _sample: Sample = tuple

    def records(self) -> DataFrame:
        """Return the records."""
        made, counting = self.make(), _REASONS if self.counts else {}
        records, self._numbers, self._sample = with_sample(made, RECORD, self.most, counting)
        return records

    def reasons(self) -> Counter[str]:
        """Return how many there were for each reason."""
        found = self._numbers().get("reasons", ())
        return Counter({each["item"]: int(each["count"]) for each in found})

    def sample(self) -> tuple[str, ...]:
        """Return a few of them."""
        return self._sample()


# Exact, since there are fewer reasons than that.
_REASONS = {"reasons": "approx_top_k(reason, 50)"}


@dataclass(slots=True, kw_only=True)
class _Share:
    """What one sink gets of a batch: kinds as a whole, and kinds of which it gets so many."""

    outlet: Outlet
    timeout_us: int
    names: list[str] = field(default_factory=list)
    rows: int = 0
    reinjects: bool = False
    whole: list[SideOutputKind] = field(default_factory=list)
    limited: list[tuple[SideOutputKind, int]] = field(default_factory=list)


def goes_out(unused: Unused, job: Job) -> bool:
    """Return whether a sink takes records of the batch."""
    return bool(_shares(unused, job))


def write_side_output(unused: Unused, job: Job) -> Written:
    """Write the side output that has a sink; return what was written, and what was not.

    Kinds that share a sink are written at once: an epoch of a sink is one write.
    """
    written: list[WatchedRecords] = []
    _tell_of_counted(unused, job)
    _tell_of_gone(unused, job)
    dropped = _over_limit(unused, job)
    for share in _shares(unused, job):
        put_back: list[Callable[[], int]] = []
        watched = WatchedRecords(
            make=partial(_records, unused, share),
            counts=job.plan.settings.monitor_samples > 0,
            most=samples_due(unused.clock_before_us, unused.judged.start.clock_us, job.plan),
        )
        parcel = Parcel(
            records=partial(_rows_back, unused, share, put_back)
            if share.reinjects
            else watched.records,
            rows=share.rows,
            epoch=unused.judged.start.epoch,
            timeout_us=share.timeout_us,
            words=" and ".join(share.names),
        )
        cause = job.outlets.deliveries.to(share.outlet).deliver(parcel)
        if cause is not None:
            dropped[cause.value] += share.rows
        elif share.reinjects:
            dropped[Drop.NOT_REINJECTED.value] += share.rows - sum(count() for count in put_back)
        else:
            written.append(watched)
    return Written(
        dropped=Dropped(**dropped),
        reasons=sum((each.reasons() for each in written), Counter()),
        sample=tuple(row for each in written for row in each.sample()),
    )


def _shares(unused: Unused, job: Job) -> list[_Share]:
    """What each sink gets that gets something."""
    found: list[_Share] = []
    for kind, outlet, route in _routed(unused, job):
        count, allowance = unused.count(kind) - unused.gone(kind), unused.allowance(route)
        most = count if allowance is None else min(count, allowance)
        if not most:
            continue
        share = next((each for each in found if each.outlet == outlet), None)
        if share is None:
            share = _Share(outlet=outlet, timeout_us=route.timeout_us, reinjects=route.reinjects)
            found.append(share)
        share.timeout_us = min(share.timeout_us, route.timeout_us)
        share.names.append(f"{kind.name} rows")
        share.rows += most
        if most == count:
            share.whole.append(kind)
        else:
            share.limited.append((kind, most))
    return found


def _routed(unused: Unused, job: Job) -> Iterable[tuple[SideOutputKind, Outlet, Route]]:
    """The kinds that have a sink and records, with their routes."""
    for kind in KINDS:
        outlet = job.outlets.side.get(kind.name)
        if outlet is not None and unused.count(kind):
            yield kind, outlet, job.plan.side_output.route(kind.name)


def _records(unused: Unused, share: _Share) -> DataFrame:
    parts = [unused.records(share.whole)] if share.whole else []
    for kind, most in share.limited:
        # The same ones whenever the batch is run: the earliest.
        records = unused.records([kind])
        parts.append(records.orderBy("event_time", _text(records)).limit(most))
    return _union(parts)


def _rows_back(unused: Unused, share: _Share, put_back: list[Callable[[], int]]) -> DataFrame:
    """The rows that go back to their input; ``put_back`` gets a count of them, for afterwards."""
    parts = [unused.rows_back(share.whole)] if share.whole else []
    for kind, most in share.limited:
        rows = unused.rows_back([kind])
        parts.append(rows.orderBy(_text(rows)).limit(most))
    watched, numbers = observed(_union(parts), {"rows": "count(1)"})
    put_back.append(lambda: int(numbers()["rows"]))
    return watched


def _text(rows: DataFrame) -> Column:
    """A row as text, which orders rows of any types in the same way whenever a batch is run."""
    return functions.to_json(functions.struct(*(rows[in_backticks(name)] for name in rows.columns)))


def _union(parts: list[DataFrame]) -> DataFrame:
    return reduce(lambda some, more: some.unionByName(more), parts)


def _over_limit(unused: Unused, job: Job) -> Counter[str]:
    """How many records are more than their limits allow; told once for each kind."""
    dropped: Counter[str] = Counter()
    for kind, _, route in _routed(unused, job):
        allowance = unused.allowance(route)
        over = 0 if allowance is None else max(0, unused.count(kind) - allowance)
        dropped[Drop.RATE_LIMIT.value] += over
        if over and job.outlets.deliveries.tells_first(f"{kind.name}.rate_limit"):
            _LOG.warning(
                "more %s rows than side_output.%s.rate_limit = %d a second: %d of %d are dropped "
                "in epoch %d, and further ones are counted (side_dropped)",
                kind.name,
                kind.name,
                route.rate_limit,
                over,
                unused.count(kind),
                unused.judged.start.epoch,
            )
    return dropped


def _tell_of_gone(unused: Unused, job: Job) -> None:
    """Tell of records that a sink does not get, because their rows were taken in before."""
    for kind, _, _ in _routed(unused, job):
        if unused.gone(kind):
            _LOG.warning(
                "%d %s rows of epoch %d are only counted: they had been taken in when the query "
                "ended, without this sink for them",
                unused.gone(kind),
                kind.name,
                unused.judged.start.epoch,
            )


def _tell_of_counted(unused: Unused, job: Job) -> None:
    """Tell of the first rows of each kind that are counted only because nobody chose anything."""
    for kind in KINDS:
        if job.outlets.side.get(kind.name) is not None or not unused.count(kind):
            continue
        route = job.plan.side_output.route(kind.name)
        if route.by_default and job.outlets.deliveries.tells_first(f"{kind.name}.sink"):
            _LOG.warning(
                "%s rows are counted and dropped, as side_output.%s.sink (in Python %s=..) names "
                'no sink for them; "metrics_only" means that without this warning',
                kind.name,
                kind.name,
                kind.argument,
            )
