"""Windows on panes: panes of one segment are not merged, and the answers are the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

import tidegate
from sql_metrics import READ, SqlMetrics
from tidegate.cases.stepper import CaseStepper, Outcome
from tidegate.engine.merging import MERGE_FACTOR
from tidegate.engine.windows.panes import operator as paned
from tidegate.engine.windows.panes.grid import shared_ranges
from tidegate.engine.windows.state_rows import Partials

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
SCHEMA = "ts TIMESTAMP, k STRING, v BIGINT, d DECIMAL(12, 2), x DOUBLE"
CLOCK_US = 4_000_000_000_000_000
SQL = """
SELECT k, window_start() AS s, count(*) AS n, sum(v) AS total, sum(d) AS money, avg(d) AS mean,
    min(x) AS low, max(x) AS high, first(v) AS one, last(v) AS other, stddev(x) AS spread,
    collect_set(v) AS some, count(DISTINCT v) AS values, mode(v) AS usual,
    approx_count_distinct(v) AS about, median(x) AS middle
FROM r GROUP BY tumblingwindow('ss', 10), k
"""


@pytest.mark.parametrize(
    ("ranges", "shared"),
    [
        ([], []),
        ([(0, 9)], []),
        ([(0, 9), (10, 19)], []),
        ([(0, 10), (10, 19)], [(10, 10)]),
        ([(10, 19), (0, 30), (25, 40)], [(10, 19), (25, 30)]),
        ([(0, 9), (0, 9), (0, 9)], [(0, 9)]),
        ([(0, 20), (5, 15), (10, 30)], [(5, 20)]),
    ],
)
def test_ranges_in_two_segments_are_shared(ranges, shared):
    assert shared_ranges(ranges) == shared


def test_only_panes_shared_by_segments_are_merged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Mock(side_effect=Partials.whole, autospec=True)
    monkeypatch.setattr(Partials, "whole", lambda *arguments: whole(*arguments))
    merged = answers(spark, tmp_path / "merged")
    assert not whole.called
    monkeypatch.setattr(paned, "FEW_PARTIALS", 0)
    apart = answers(spark, tmp_path / "apart")
    assert whole.call_count == 2

    # Seconds 0 to 10 and 20 to 30 are of one batch, 10 to 20 of both.
    assert [sorted(start for _, start in batch) for batch in merged] == [
        [START] * 3,
        [START + timedelta(seconds=10)] * 3 + [START + timedelta(seconds=20)] * 3,
    ]
    assert apart == merged


def answers(spark: SparkSession, checkpoint: Path) -> list[dict[tuple, tuple]]:
    """The rows of each batch by key and start; lists in any order."""
    query = tidegate.sql(
        SQL,
        streams={"r": SCHEMA},
        settings={"event_time_field": "ts", "watermark_lag": "1s"},
        spark=spark,
    )
    stepper = CaseStepper(query, checkpoint=str(checkpoint), partitions=2)
    batches = []
    for seconds in (range(13), range(9, 32)):
        rows = [
            (START + timedelta(seconds=s), f"k{i}", None if i == s else s % 3 + i, s / 4, s * i / 8)
            for s in seconds
            for i in range(3)
        ]
        rows = [(t, k, v, f"{d:.2f}", x) for t, k, v, d, x in rows]
        frame = spark.createDataFrame(rows, SCHEMA.replace("DECIMAL(12, 2)", "STRING"))
        frame = frame.withColumn("d", frame.d.cast("DECIMAL(12, 2)"))
        outcome = stepper.batch(frame, CLOCK_US)
        batches.append(
            {
                (row["k"], row["s"].replace(tzinfo=UTC)): tuple(
                    sorted(value) if isinstance(value, list) else value for value in row[2:]
                )
                for row in outcome.rows
            }
        )
    return batches


@pytest.mark.parametrize("window", ["hoppingwindow('ss', 60, 10)", "tumblingwindow('ss', 10)"])
def test_a_close_beside_many_open_windows_reads_the_pages_of_those_that_are_due(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: str
) -> None:
    monkeypatch.setattr(paned, "FEW_PARTIALS", 0)
    query = tidegate.sql(
        f"SELECT k, count(*) AS n, window_end() AS e FROM r GROUP BY {window}, k",
        streams={"r": "ts TIMESTAMP, k STRING"},
        settings={"event_time_field": "ts", "watermark_lag": "600s"},
        spark=spark,
    )
    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=2)
    at = f"timestamp_millis({int(START.timestamp())}000L + "

    def batch(rows: str) -> Outcome:
        return stepper.batch(spark.sql(rows), CLOCK_US)

    # Ten minutes of groups of one row, in no order; small batches until they are merged.
    rows = f"{at} 10L * id) AS ts, CAST(id AS STRING) AS k FROM range(60000)"
    batch(f"SELECT {rows} ORDER BY hash(id)")
    for number in range(1, MERGE_FACTOR):
        batch(f"SELECT {at} 600000L + {number}) AS ts, 'other' AS k")
    with SqlMetrics(spark) as seen:
        closed = batch(f"SELECT {at} 610500L) AS ts, 'another' AS k")
    assert len(closed.rows) == 1_000
    # A page has 20,000 rows, and there are at most two files.
    assert max(seen.of(READ)) <= 2 * 20_000 + 10
