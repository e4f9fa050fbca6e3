"""Telling others of the steps of a query: metrics, and the user's ``on_batch``."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from tidegate.metrics.recorder import RECORDER
from tidegate.metrics.shards import StepShards

if TYPE_CHECKING:
    from tidegate.metrics.report import BatchReport
    from tidegate.state.watermark import WatermarkState

OnBatch: TypeAlias = "Callable[[BatchReport], object]"

_LOG = logging.getLogger("tidegate")


class Watch:
    """Passes on the reports of steps; what only watches never stops a query.

    Attributes:
        last_step: when the last step was committed, None before the first; by a clock that is never
            set.
        failed_watches: how often ``on_batch`` failed.
        clock_leaps: how often the machine's clock has leapt.
        clean_up_failures: how many calls that clean up the checkpoint have failed.

    Args:
        name: the name of the query in metrics.
        on_batch: called with each report.
    """

    def __init__(self, name: str, on_batch: OnBatch | None) -> None:
        self.last_step: float | None = None
        self.failed_watches = 0
        self.clock_leaps = 0
        self.clean_up_failures = 0
        self._name = name
        self._on_batch = on_batch

    def report(self, report: BatchReport, shards: StepShards | None = None) -> None:
        """Record a report and call ``on_batch``; if that fails, the query goes on.

        Args:
            report: the report of a step.
            shards: the shards after it, None if the query has none.
        """
        self.last_step = time.monotonic()
        self.clock_leaps += report.clock_leaps
        self.clean_up_failures += report.clean_up_failures
        with suppress(Exception):
            RECORDER.record(self._name, report, shards)
        if self._on_batch is None:
            return
        try:
            self._on_batch(report)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and _in_main_thread():
                raise  # Ctrl-C, while somebody waits for a drain
            self.failed_watches += 1
            if self.failed_watches == 1:
                with suppress(Exception):
                    _LOG.warning(
                        "on_batch failed: %s: %s; the query goes on, and further failures are "
                        "only counted, in status as failed_watches",
                        type(error).__name__,
                        error,
                    )


def shards_of(before: WatermarkState, after: WatermarkState) -> StepShards | None:
    """Return the shards before and after a step; None if the stream is one shard."""
    if after.by is None:
        return None
    # What another expression made are not these shards.
    known = before.shards if before.by == after.by else {}
    return StepShards(before=known, after=after.shards)


def name_of(name: str | None, checkpoint: str) -> str:
    """Return the name of a query in metrics: its own, else the last part of its checkpoint."""
    return name or checkpoint.rstrip("/").rpartition("/")[2]


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
