"""A job that only pretends: it writes a checkpoint step by step as the engine would, without Spark.

Its query counts clicks by page in tumbling windows of ten seconds, with lag and lateness.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from inspection.checkpoints import plan_of, put_segment
from state.manifests import SECOND, local_files, manifest
from tidegate.metrics.report import Counts, Emissions, StepSummary
from tidegate.state.manifest import Segment, Tables, Writer
from tidegate.state.plans import put_plan
from tidegate.state.shard_map import Shard
from tidegate.state.watermark import WatermarkState
from tidegate.time import format_time

SIZE_US = 10 * SECOND
PLAN = plan_of(
    'tumbling size="10s" offset="0s"',
    keys={"_k0": "page"},
    merges={"count_1": "sum(count_1)"},
    values={"count(*)": "count_1"},
)
EXPLAINED = {
    "statement": "SELECT page, count(*) AS n FROM clicks GROUP BY tumblingwindow('ss', 10), page",
    "closes": "when W >= the window's end + 3s",
    "side_output": {"late": {"sink": "late_clicks"}, "error": {"sink": "metrics_only"}},
    "physical": {
        "id": "PhysicalDataSink#0",
        "parameters": {"name": "out"},
        "children": [
            {
                "id": "PhysicalStreamingAggregation#1",
                "parameters": {"kind": "tumbling", "size": 10},
                "keys": [{"name": "_k0", "expression": "page"}],
                "accumulators": [{"name": "_a0", "aggregate": "count(*)", "state": []}],
                "children": [
                    {
                        "id": "PhysicalWatermark#2",
                        "parameters": {},
                        "event_time": "ts, by the statement",
                        "lag": {"micros": 4_000_000, "authority": "sql"},
                        "children": [
                            {
                                "id": "PhysicalDataSource#3",
                                "parameters": {"name": "clicks"},
                                "columns": "ts TIMESTAMP, page STRING",
                                "children": [],
                            }
                        ],
                    }
                ],
            }
        ],
    },
}


@dataclass(slots=True, kw_only=True)
class PretendedJob:
    """Writes a checkpoint.

    Attributes:
        checkpoint: its folder.
        lag_us, lateness_us: of its query.
        kept: how many manifests stay.
    """

    checkpoint: Path
    lag_us: int = 4 * SECOND
    lateness_us: int = 3 * SECOND
    kept: int = 11
    explained: dict[str, Any] | None = field(default_factory=lambda: EXPLAINED)
    epoch: int = -1
    totals: Counts = field(default_factory=Counts)
    emitted: Emissions = field(default_factory=Emissions)
    segments: list[Segment] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    groups: dict[tuple[int, str], int] = field(default_factory=dict)
    watermark_us: int | None = None
    greatest_us: int | None = None
    writer: Writer = field(
        default_factory=lambda: Writer(
            id="aa",
            term=1,
            host=socket.gethostname(),
            pid=os.getpid(),
            started=datetime.now(UTC).isoformat(),
        )
    )

    def begin(self) -> None:
        """Claim the checkpoint."""
        files = local_files(self.checkpoint)
        files.put_if_absent("plan.json", PLAN.to_json())
        if self.explained is not None:
            put_plan(files, self.writer, self.explained)

    def step(self, clock_us: int, clicks: list[tuple[int, str]], **facts: Any) -> None:
        """Run a step with clicks: the event time of each, and its page."""
        if self.epoch < 0:
            self.begin()
        self.epoch += 1
        bound_us = self.bound_us
        taken: Counter[tuple[int, str]] = Counter()
        unused: list[tuple[str, str, int, str]] = []
        for time_us, page in clicks:
            start_us = time_us // SIZE_US * SIZE_US
            if page == "/error":
                unused.append(("error", "division_by_zero", time_us, page))
            elif bound_us is not None and start_us + SIZE_US <= bound_us:
                unused.append(("late", "allowed_lateness_exceeded", time_us, page))
            else:
                taken[start_us, page] += 1
            self.greatest_us = max(time_us, self.greatest_us or time_us)
        if taken:
            rows = [{"_pane": pane, "_k0": page, "count_1": n} for (pane, page), n in taken.items()]
            name = f"{self.epoch}-aa-batch"
            self.segments.append(put_segment(self.checkpoint, name, rows))
            for group, n in taken.items():
                self.groups[group] = self.groups.get(group, 0) + n
        if self.greatest_us is not None:
            self.watermark_us = max(self.greatest_us - self.lag_us, self.watermark_us or -(2**62))
        kinds = Counter(kind for kind, *_ in unused)
        self.totals += Counts(rows_in=len(clicks), accumulated=taken.total(), **kinds)
        self.reasons += Counter(reason for _, reason, *_ in unused)
        sample = [_record(*each) for each in unused[:5]]
        self._commit(clock_us, self._close(), sample, **facts)

    @property
    def bound_us(self) -> int | None:
        """Windows up to here have closed."""
        return None if self.watermark_us is None else self.watermark_us - self.lateness_us

    def _close(self) -> list[str]:
        """Close the windows that are due; return a sample of their results."""
        bound_us = self.bound_us
        due = [g for g in self.groups if bound_us is not None and g[0] + SIZE_US <= bound_us]
        windows = {start_us for start_us, _ in due}
        self.emitted += Emissions(closed_windows=len(windows), rows_out=len(due))
        results = [
            {"page": page, "n": self.groups.pop((start_us, page)), "start": format_time(start_us)}
            for start_us, page in due
        ]
        oldest = min((start for start, _ in self.groups), default=None)
        self.segments = [s for s in self.segments if oldest is not None and s.last_us >= oldest]
        return [json.dumps(result) for result in results[:5]]

    def _commit(self, clock_us: int, results: list[str], unused: list[str], **facts: Any) -> None:
        step = StepSummary(
            results=tuple(results),
            side_output=tuple(unused),
            open_windows=len({start for start, _ in self.groups}),
            duration_ms=180 + 7 * self.epoch % 60,
            phases_ms={"ingest": 120, "close": 40, "side_output": 0, "merge": 0, "commit": 20},
        )
        shard = Shard(event_time_us=self.greatest_us or 0, clock_us=clock_us)
        written = manifest(
            self.epoch,
            fingerprint=PLAN.fingerprint,
            tables=Tables(windows=tuple(self.segments)),
            schema={"_pane": "bigint", "_k0": "string", "count_1": "bigint"},
            clock_us=clock_us,
            watermark=WatermarkState(shards={"": shard}, watermark_us=self.watermark_us),
            bound_us=self.bound_us,
            writer=self.writer,
            totals=self.totals,
            emitted=self.emitted,
            reasons=dict(self.reasons),
            step=step,
        )
        put(self.checkpoint, replace(written, **facts))
        folder = self.checkpoint / "tidegate"
        old = folder / "manifests" / f"{self.epoch - self.kept}.json"
        old.unlink(missing_ok=True)
        shutil.rmtree(folder / "segments" / f"{self.epoch - 40}-aa-batch", ignore_errors=True)


def _record(kind: str, reason: str, time_us: int, page: str) -> str:
    """A record of side output, cut as the engine cuts it."""
    event = {"ts": format_time(time_us), "page": page}
    record = {"kind": kind, "reason": reason, "event_time": event["ts"], "original_event": event}
    return json.dumps({**record, "shard": None})[:1_000]


def put(checkpoint: Path, written: Any) -> None:
    """Write a manifest."""
    local_files(checkpoint).put_if_absent(f"manifests/{written.epoch}.json", written.to_json())
