"""Ticks: which plans need them, and that a run that takes what there is has none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import tidegate
from tidegate.connectors.sinks import MemorySink

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

EVENT, CLOCK = {"event_time_field": "ts"}, {"time": "processing"}
IDLE = {**EVENT, "idle_timeout": "10s"}


@pytest.mark.parametrize(
    ("window", "settings", "needed"),
    [
        ("tumblingwindow('ss', 1)", EVENT, False),
        ("tumblingwindow('ss', 1)", IDLE, True),
        ("tumblingwindow('ss', 1)", CLOCK, True),
        ("hoppingwindow('ss', 2, 1)", CLOCK, True),
        ("cumulatewindow('ss', 2, 1)", CLOCK, True),
        ("sessionwindow('ss', 1)", EVENT, False),
        ("sessionwindow('ss', 1)", CLOCK, True),
        ("slidingwindow('ss', 1)", CLOCK, False),
        ("slidingwindow('ss', 1) EMIT ON WINDOW CLOSE", CLOCK, True),
        ("slidingwindow('ss', 1, 1)", CLOCK, True),
        ("slidingwindow('ss', 1, 1)", EVENT, False),
        ("statewindow(v > 0, v < 0)", CLOCK, False),
        ("statewindow(v > 0, v < 0)", IDLE, True),
        ("countwindow(3)", CLOCK, False),
    ],
)
def test_ticks_are_for_plans_in_which_time_alone_closes_windows(
    window: str, settings: dict[str, str], needed: bool
) -> None:
    query = tidegate.sql(
        f"SELECT count(*) AS n FROM r GROUP BY {window}",
        streams={"r": "ts TIMESTAMP, v BIGINT"},
        settings=settings,
    )
    assert query.physical.needs_ticks is needed


def test_a_once_run_has_no_ticks_and_its_windows_wait(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text(json.dumps({"v": 1}))
    stream = spark.readStream.schema("v BIGINT").json(str(tmp_path / "in"))
    query = tidegate.sql(
        "SELECT count(*) AS n FROM r GROUP BY slidingwindow('ss', 1, 1)",
        settings=CLOCK,
        r=stream,
    )
    sink = MemorySink()
    run = query.start(sink=sink, checkpoint=str(tmp_path / "checkpoint"), once=True)
    run.await_termination()
    (source,) = run.query.lastProgress["sources"]
    assert "FileStreamSource" in source["description"]
    assert not sink.rows()
    assert run.open_windows == 1
    run.drain()
    assert [row["n"] for row in sink.rows()] == [1]
