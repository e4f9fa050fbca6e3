"""How a running query ends, for every kind of window: stop, flush and drain, and going on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from tidegate.connectors.sinks import MemorySink

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# The window of 0 to 4 is open after these: nothing has moved the watermark past it.
FIRST = [(0, 1), (2, 2), (4, 3)]
WINDOWS = {
    "tumbling": "tumblingwindow('ss', 10)",
    "hopping": "hoppingwindow('ss', 10, 20)",
    "cumulate": "cumulatewindow('ss', 10, 10)",
    "session": "sessionwindow('ss', 5)",
    "sliding": "slidingwindow('ss', 5, 2) OVER (WHEN v = 3)",
    "state": "statewindow(v = 1, v = 9)",
    "count": "countwindow(4)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A query over files."""

    query: tidegate.Query
    folder: Path

    def take(self, rows: list[tuple[int, int]]) -> tuple[list[int], tidegate.Run]:
        """Run over what there is; return the counts of its windows."""
        lines = (json.dumps({"ts": f"2026-01-01 00:00:{ts:02}", "v": v}) for ts, v in rows)
        (self.folder / "in" / f"{rows[0][0]}.json").write_text("\n".join(lines))
        emitted, run = self.start(once=True)
        run.await_termination()
        return [row["n"] for row in emitted.rows()], run

    def start(self, **options: Any) -> tuple[MemorySink, tidegate.Run]:
        """Start the query."""
        sink = MemorySink()
        return sink, self.query.start(
            sink=sink, checkpoint=str(self.folder / "checkpoint"), **options
        )


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_stop_keeps_a_flush_emits_states_a_drain_emits_all_and_later_rows_are_late(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    stream = Stream(
        query=tidegate.sql(
            f"SELECT count(*) AS n FROM r GROUP BY {WINDOWS[kind]}",
            settings={"event_time_field": "ts"},
            r=spark.readStream.schema("ts TIMESTAMP, v BIGINT").json(str(tmp_path / "in")),
        ),
        folder=tmp_path,
    )
    emitted, _ = stream.take(FIRST)
    assert emitted == []

    sink, run = stream.start()
    run.stop()
    assert sink.rows() == []
    run.stop(flush=True)
    # The row at W has not been released yet: the machine has not seen it.
    assert [row["n"] for row in sink.rows()] == ([2] if kind == "state" else [])
    assert run.status["state_rows"] > 0
    run.drain()
    drained = sorted(row["n"] for row in sink.rows())
    assert drained == ([2] if kind == "state" else [3])
    assert run.open_windows == 0
    # Windows of rows to come look back on those that have been drained.
    assert run.status["state_rows"] == (3 if kind == "sliding" else 0)

    emitted, run = stream.take([(3, 3), (30, 0)])
    assert emitted == []
    # For the same reason a row whose own window has closed still counts in the others.
    assert run.status["partial" if kind == "sliding" else "late"] == 1
    assert run.watermark == "2026-01-01T00:00:30Z"
