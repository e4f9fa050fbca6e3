"""Queries that read one stream in one query of Spark, which reads each batch once for all.

Spark's progress belongs to the first. The others have only their state, which names the batches of
Spark that are in it, as the state of the first does. If one of them fails, Spark runs the batch
again, and those that have committed it only read it through.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.engine.stepper import FinishedIn, OnStep, Stepper
from tidegate.errors import naming

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.engine.job import Job
    from tidegate.engine.watch import Watch
    from tidegate.state.batch import SparkBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A query that reads the same stream as the one that is started.

    Attributes:
        name: its name in metrics and messages.
        job: what to run.
        checkpoint: the folder of its state.
        columns: what it selects from the rows to get its prepared rows.
        watch: is told of each step.
    """

    name: str
    job: Job
    checkpoint: str
    columns: tuple[str, ...]
    watch: Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The queries that run in one query of Spark.

    Attributes:
        job: what the first one runs.
        checkpoint: its checkpoint.
        columns: as those of ``Beside``; None if it is alone, and the rows are its own.
        others: the others.
        has_progress: whether Spark's progress is in the checkpoint of the first; else it is in that
            of a query that is no longer in the group.
    """

    job: Job
    checkpoint: str
    columns: tuple[str, ...] | None = None
    others: tuple[Beside, ...] = ()
    has_progress: bool = True

    @property
    def needs_ticks(self) -> bool:
        """Whether the passing of time alone can do something in one of them."""
        return self.job.needs_ticks or any(each.job.needs_ticks for each in self.others)

    def steppers(self, spark: SparkSession, report: OnStep, beside: FinishedIn) -> Steppers:
        """Return their steppers.

        Args:
            spark: the session of the batches.
            report: called with the report of each step of the first.
            beside: as that of ``Stepper``, for the first.

        Raises:
            StateError: a checkpoint holds the state of another query, or cannot be read.
        """
        first = Stepper(self.job, self.checkpoint, spark, report, beside)
        others = (Stepper(b.job, b.checkpoint, spark, b.watch.report) for b in self.others)
        return Steppers(group=self, first=first, others=tuple(others))


@dataclass(frozen=True, slots=True, kw_only=True)
class Steppers:
    """The steppers of a group, in order."""

    group: Group
    first: Stepper
    others: tuple[Stepper, ...]

    @property
    def all(self) -> tuple[Stepper, ...]:
        """The first and the others."""
        return (self.first, *self.others)

    def by_name(self) -> dict[str, tuple[Stepper, Watch]]:
        """Return the steppers of the others, and of all that read results, by their names."""
        found: dict[str, tuple[Stepper, Watch]] = {}

        def add_below(stepper: Stepper) -> None:
            for link in stepper.links:
                found[link.downstream.name] = (link.stepper, link.downstream.watch)
                add_below(link.stepper)

        add_below(self.first)
        for beside, stepper in zip(self.group.others, self.others, strict=True):
            found[beside.name] = (stepper, beside.watch)
            add_below(stepper)
        return found

    def lack(self, batch_id: int) -> bool:
        """Return whether the state of one of them lacks a batch of Spark."""
        # One that was never run begins with the next batch.
        others = [each.state.batch_id for each in self.others if each.state.batch_id >= 0]
        return min((self.first.state.batch_id, *others)) < batch_id

    def limit_tasks(self, most: int) -> None:
        """Set the maximum number of tasks of a shuffle from now on."""
        for each in self.all:
            each.limit_tasks(most)

    @property
    def may_run_ahead(self) -> bool:
        """Whether a step may be finished beside the next one: that of a query alone."""
        return self.group.columns is None

    def run(
        self, batch: SparkBatch, rows: DataFrame | None, *, is_followed: bool = False
    ) -> int | None:
        """Run the step of each; return the number of rows, None if the first had run before.

        Args:
            batch: the batch.
            rows: its rows, prepared for all; None if only time passes.
            is_followed: whether another batch is certain to follow, see ``Stepper.run_ahead``.

        Raises:
            StateError: as ``Stepper.run``.
        """
        columns = self.group.columns
        if not self.group.has_progress:
            batch = replace(batch, joined=True)
        if columns is None:
            if is_followed and rows is not None:
                return self.first.run_ahead(batch, rows)
            report = self.first.run(batch, rows)
            return None if report is None else report.rows_in
        with _read_once(rows) as kept:
            report = self.first.run(batch, None if kept is None else kept.selectExpr(*columns))
            for beside, stepper in zip(self.group.others, self.others, strict=True):
                own = None if kept is None else kept.selectExpr(*beside.columns)
                with naming(beside.name):
                    stepper.run(replace(batch, joined=True), own)
        return None if report is None else report.rows_in

    @property
    def have_taken(self) -> bool:
        """Whether an earlier process has taken in a batch and not finished its step."""
        return any(each.has_taken for each in self.all)

    def finish_taken(self) -> None:
        """Finish such a step.

        Raises:
            StateError: as ``Stepper.run``.
        """
        for each in self.all:
            each.finish_taken()

    @property
    def are_finishing(self) -> bool:
        """Whether a step is being finished beside the next one."""
        return any(each.is_finishing for each in self.all)

    @property
    def have_failed_beside(self) -> bool:
        """Whether finishing a step beside the next one has failed."""
        return any(each.has_failed_beside for each in self.all)

    def are_finished_by(self, until: float) -> bool:
        """Wait for such a step, at most until a time of ``monotonic``; whether it has ended."""
        return all(each.is_finished_by(until) for each in self.all)

    def settle(self) -> None:
        """Wait for the step that is finished beside the next one; raise what it raised."""
        for each in self.all:
            each.settle()

    def drain(self) -> None:
        """Close and emit every window, one query after the other."""
        for each in self.all:
            each.drain()

    def flush(self) -> None:
        """Emit open state windows, one query after the other."""
        for each in self.all:
            each.flush()

    def stop_merging(self) -> None:
        """Give up what is being merged beside the steps."""
        for each in self.all:
            each.stop_merging()

    def check_not_displaced(self) -> None:
        """Check that no other process has claimed a checkpoint since.

        Raises:
            StateError: one has; the message names it.
        """
        for each in self.all:
            each.check_not_displaced()


@contextmanager
def _read_once(rows: DataFrame | None) -> Iterator[DataFrame | None]:
    """Keep rows, which the step of the first query reads while it takes them in."""
    if rows is None:
        yield None
        return
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()
