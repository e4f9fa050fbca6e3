"""Queries that read the results of another one: each step of that one gives them a step.

The upstream's step is their batch: its results are the rows, its clock is the clock, and what its
closing says is their watermark. They commit before the upstream does. So if the upstream runs its
step again, they have either committed it, and only read the rows through, or they run it again too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.engine.rows.prepare import prepare
from tidegate.errors import naming
from tidegate.spark.isolation import in_session
from tidegate.state.batch import SparkBatch, offsets_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.job import Job
    from tidegate.engine.stepper import Stepper
    from tidegate.engine.watch import Watch
    from tidegate.state.intents import Intent


@dataclass(frozen=True, slots=True, kw_only=True)
class Downstream:
    """A query that is ready to read the results of another one.

    Attributes:
        name: its name in metrics and messages.
        job: what to run.
        checkpoint: the folder of its state.
        source: the name of the upstream in FROM.
        tables: the static tables that it joins, by name.
        keep_rows: whether its side output shows original rows.
        watch: is told of each step.
    """

    name: str
    job: Job
    checkpoint: str
    source: str
    tables: Mapping[str, DataFrame]
    keep_rows: bool
    watch: Watch


class Link:
    """Runs the steps of a downstream query, one for each step of its upstream.

    Args:
        downstream: the query.
        stepper: runs its steps.
        is_silent: whether an epoch of the upstream had no results because it only forgot shards.
    """

    def __init__(
        self, downstream: Downstream, stepper: Stepper, is_silent: Callable[[int], bool]
    ) -> None:
        self.downstream = downstream
        self.stepper = stepper
        self._is_silent = is_silent

    def take(self, results: DataFrame | None, step: Intent, owner: str) -> None:
        """Run the step for a step of the upstream.

        Args:
            results: its final results with ``WINDOW_TIME``, computed already; None if it has none.
            step: its decisions.
            owner: the id of its checkpoint.

        Raises:
            StateError: the state is not of the step before.
        """
        if step.clock_us is None:
            return  # the end of a stream that has had no batch
        follows = self.downstream.job.plan.watermark.follows
        batch = SparkBatch(
            batch_id=step.epoch,
            clock_us=step.clock_us,
            query_id=owner,
            offsets_hash=_hash_of(step),
            upstream=self.downstream.source,
            watermark_us=None if follows is None else follows.watermark_us(step.bound_us),
            after=self._before(step.epoch),
        )
        with naming(self.downstream.name):
            self.stepper.run(batch, None if results is None else self._prepared(results))

    def _before(self, epoch: int) -> int:
        """The epoch of the upstream from which an epoch goes on: the one before, or an earlier."""
        known, before = self.stepper.state.batch_id, epoch - 1
        while 0 <= known < before and self._is_silent(before):
            before -= 1
        return before

    def _prepared(self, results: DataFrame) -> DataFrame:
        downstream = self.downstream
        tables = {
            name: in_session(table, results.sparkSession)
            for name, table in downstream.tables.items()
        }
        frames = {**tables, downstream.source: results}
        return prepare(downstream.job.plan, frames, keep_rows=downstream.keep_rows)


def _hash_of(step: Intent) -> str:
    """A hash of what the upstream's step has read."""
    return offsets_hash(
        (step.kind, str(step.batch_id), step.query_id or "", step.offsets_hash or "")
    )
