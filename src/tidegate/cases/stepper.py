"""Runs a query batch by batch without a Spark streaming query, for cases and tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.engine.job import Outlets
from tidegate.engine.stepper import Stepper
from tidegate.plan.side_output import KINDS
from tidegate.spark.isolation import in_session, private_session
from tidegate.state.batch import SparkBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from tidegate.api.query import Query
    from tidegate.metrics.report import BatchReport


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRecord:
    """A record of side output; ``window`` is (start, end) of the row's last window."""

    kind: str
    reason: str
    late_by_ms: int | None
    window: tuple[str, str] | None
    group_key: dict[str, object] | None
    original: dict[str, object] | None
    detail: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The output of one step."""

    report: BatchReport
    rows: Sequence[Row]
    side: Sequence[SideRecord]


@dataclass(frozen=True, slots=True)
class Collector:
    """An outlet that hands the frame of an epoch to a function."""

    take: Callable[[DataFrame], None]

    def write(self, frame: DataFrame, epoch: int) -> None:
        del epoch  # A stepper gives what each step gives, one after the other.
        self.take(frame)


class CaseStepper:
    """Runs a query batch by batch on a checkpoint and collects the output of each step."""

    def __init__(self, query: Query, *, checkpoint: str, partitions: int) -> None:
        empty = query.given.empty(query._session)
        self._query = query._typed(empty)
        self._rows: list[Row] = []
        self._side: list[SideRecord] = []
        side = {kind.name: Collector(self._take_side) for kind in KINDS}
        outlets = Outlets(results=Collector(self._take_rows), side=side)
        self._spark = private_session(query.spark)
        rows = self._query._prepare(empty, keep_rows=True)
        job = self._query._job(rows, outlets, partitions)
        self._stepper = Stepper(job, checkpoint, self._spark)

    def batch(self, frame: DataFrame, clock_us: int) -> Outcome:
        """Run the next batch with rows of the stream, at a clock."""
        name = self._query.physical.prepare.source.name
        rows = self._query._prepare({**self._query.given.tables, name: frame}, keep_rows=True)
        return self._outcome(self._stepper.run(self._next(clock_us), in_session(rows, self._spark)))

    def clock(self, clock_us: int) -> Outcome:
        """Let time pass without rows."""
        return self._outcome(self._stepper.run(self._next(clock_us), None))

    def drain(self) -> Outcome:
        """Close and emit every window."""
        return self._outcome(self._stepper.drain())

    def flush(self) -> Outcome:
        """Emit open state windows."""
        return self._outcome(self._stepper.flush())

    def close(self) -> None:
        """Release resources; the checkpoint stays."""

    def _next(self, clock_us: int) -> SparkBatch:
        return SparkBatch(batch_id=self._stepper.state.batch_id + 1, clock_us=clock_us)

    def _outcome(self, report: BatchReport | None) -> Outcome:
        assert report is not None, "the next batch is never a replay"
        outcome = Outcome(report=report, rows=tuple(self._rows), side=tuple(self._side))
        self._rows.clear()
        self._side.clear()
        return outcome

    def _take_rows(self, frame: DataFrame) -> None:
        self._rows.extend(frame.collect())

    def _take_side(self, frame: DataFrame) -> None:
        for record in frame.collect():
            original, window, group = (
                record[name] for name in ("original_event", "window", "group_key")
            )
            self._side.append(
                SideRecord(
                    kind=record["kind"],
                    reason=record["reason"],
                    late_by_ms=record["late_by_ms"],
                    window=None if window is None else (window["start"], window["end"]),
                    group_key=None if group is None else group.asDict(),
                    original=None if original is None else original.asDict(),
                    detail=record["error_detail"],
                )
            )
