"""Sliding windows: what is read for a batch, and what leaves the state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.api.query import sql
from tidegate.cases.stepper import CaseStepper
from tidegate.engine import tasks
from tidegate.engine.windows.sliding.panes import PaneRange, Parts, widths
from tidegate.engine.windows.sliding.range_frames import FramedRows, framed
from tidegate.engine.windows.sliding.range_join import Reach
from tidegate.plan.aggregates.planned import ACCUMULATORS
from tidegate.time import from_datetime

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

lengths = st.integers(0, 20) | st.integers(0, 10_000_000)


@given(lookback=lengths, lookahead=lengths, first=st.integers(-(10**8), 10**8), span=lengths)
def test_the_ranges_read_cover_every_window_once(
    lookback: int, lookahead: int, first: int, span: int
) -> None:
    reach = Reach(lookback_us=lookback, lookahead_us=lookahead, partition=())
    last = first + span
    parts = Parts.of(reach, first, last)

    pieces = sorted(parts.whole + parts.shared, key=lambda piece: piece.start_us)
    assert pieces[0].start_us == first - lookback
    assert pieces[-1].end_us == last + lookahead + 1
    for piece, following in pairwise(pieces):
        assert piece.end_us == following.start_us
    for piece in parts.shared:
        assert last - lookback <= piece.start_us
        assert piece.end_us <= first + lookahead + 1
        assert piece.end_us <= first or piece.start_us > last
        assert last - lookback <= parts.at_us <= first + lookahead


@given(lookback=lengths, lookahead=lengths, first=st.integers(-(10**8), 10**8), span=lengths)
def test_few_panes_cover_the_shared_range(
    lookback: int, lookahead: int, first: int, span: int
) -> None:
    reach = Reach(lookback_us=lookback, lookahead_us=lookahead, partition=())
    parts = Parts.of(reach, first, first + span)

    panes = sorted(parts.panes, key=lambda pane: pane.range.start_us)
    for pane in panes:
        assert pane.range.start_us % pane.width_us == pane.range.end_us % pane.width_us == 0
    covered = sum(pane.range.end_us - pane.range.start_us for pane in panes)
    assert covered == sum(piece.end_us - piece.start_us for piece in parts.shared)
    assert len({pane.range.start_us for pane in panes}) == len(panes)
    narrowest = widths(reach.us)[-1]
    assert narrowest > 1
    if reach.us >= 1024 * narrowest:
        assert sum(len(pane.starts) for pane in panes) <= 2 * (2 * 7 * 2 + 16)


@given(lookback=lengths, lookahead=lengths, first=st.integers(-(10**8), 10**8), span=lengths)
def test_rows_read_one_by_one_are_in_no_shared_pane(
    lookback: int, lookahead: int, first: int, span: int
) -> None:
    reach = Reach(lookback_us=lookback, lookahead_us=lookahead, partition=())
    parts = Parts.of(reach, first, first + span)
    narrowest = widths(reach.us)[-1]

    for whole in parts.whole:
        around = PaneRange.around(whole, narrowest).range
        assert around.start_us <= whole.start_us
        assert whole.end_us <= around.end_us
        for shared in parts.shared:
            assert around.end_us <= shared.start_us or shared.end_us <= around.start_us


@pytest.mark.parametrize("name", sorted(ACCUMULATORS))
def test_the_merge_of_every_accumulator_can_run_over_a_frame(name: str) -> None:
    for part in ACCUMULATORS[name].parts:
        assert framed(part.merge, "OVER w").count("OVER w") >= 1


def test_the_frame_follows_each_aggregate_and_nothing_else() -> None:
    merge = "aggregate(collect_list(p), 0, (a, b) -> a + concat(')', b)) + sum((p + 1))"
    assert framed(merge, "OVER w") == (
        "aggregate(collect_list(p) OVER w, 0, (a, b) -> a + concat(')', b)) + sum((p + 1)) OVER w"
    )


@pytest.mark.parametrize("mode", ["event", "processing"])
def test_rows_leave_the_state_even_if_no_row_triggers(
    mode: str, spark: SparkSession, tmp_path: Path
) -> None:
    query = sql(
        "SELECT count(*) AS n FROM r GROUP BY slidingwindow('ss', 10) OVER (WHEN v < 0)",
        streams={"r": "ts TIMESTAMP, v BIGINT"},
        settings={"time": mode, "event_time_field": "ts"},
        spark=spark,
    )
    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=2)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    kept = []
    for second in (0, 4, 8, 12, 40):
        moment = start + timedelta(seconds=second)
        rows = spark.createDataFrame([(moment, 1)], "ts TIMESTAMP, v BIGINT")
        outcome = stepper.batch(rows, clock_us=from_datetime(moment))
        assert not outcome.rows
        kept.append((outcome.report.state_rows, outcome.report.segments))
    assert kept == [(1, 1), (2, 2), (3, 3), (3, 3), (1, 1)]


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.whole)])
def test_partials_of_rows_and_panes_are_shuffled_once_and_few_are_not(
    few: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not few:
        # As much state as is worth a shuffle: edges row by row, batches between them, merged panes.
        monkeypatch.setattr(tasks, "FEW_ROWS", 0)
        monkeypatch.setattr(tasks, "ROWS_PER_TASK", 10)
    plans = []
    windows = FramedRows.windows

    def planned(self, *args):
        frame = windows(self, *args)
        plans.append(frame._jdf.queryExecution().executedPlan().toString())
        return frame

    monkeypatch.setattr(FramedRows, "windows", planned)
    query = sql(
        "SELECT k, count(*) AS n, sum(v) AS s FROM r "
        "GROUP BY slidingwindow('mi', 20) OVER (PARTITION BY k), k",
        streams={"r": "ts TIMESTAMP, k BIGINT, v DOUBLE"},
        settings={"event_time_field": "ts"},
        spark=spark,
    )
    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=2)
    for minute in range(11):
        moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
        rows = [(moment + timedelta(seconds=s), s % 3, float(s)) for s in range(60)]
        frame = spark.createDataFrame(rows, "ts TIMESTAMP, k BIGINT, v DOUBLE")
        outcome = stepper.batch(frame, clock_us=from_datetime(moment))

    assert {row["n"] for row in outcome.rows if row["k"] == 2} == set(range(201, 221))
    assert plans[-1].count("Scan parquet") == 3
    assert plans[-1].count("Exchange") == (0 if few else 3)
    # Of panes and of batches between the edges: rows at the edges are not aggregated.
    assert plans[-1].count("HashAggregate") == 4
