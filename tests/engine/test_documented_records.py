"""The records in docs/side-output.md are those of a run, but for the clock."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import tidegate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "side-output.md"
SQL = "SELECT user, avg(ms / parts) AS each FROM clicks GROUP BY tumblingwindow('ss', 10), user"
SETTINGS = {
    "event_time_field": "ts",
    "dedup_key": "id",
    "dedup_horizon": "1m",
    "max_groups": 2,
}
BATCHES = (
    [("10:00:01", "ann", 5, 1, "c0"), ("10:00:21", "ann", 5, 1, "c1")],
    [
        ("10:00:04.5", "ann", 7, 1, "c2"),
        ("10:00:22", "bob", 7, 0, "c3"),
        ("10:00:21", "ann", 5, 1, "c1"),
        ("10:00:23", "bob", 5, 1, "c4"),
        ("10:00:24", "cid", 5, 1, "c5"),
    ],
)


def test_the_documented_records_are_those_of_a_run(spark: SparkSession, tmp_path: Path) -> None:
    documented = re.findall(r'(?ms)^\{"kind".*?\}$', PAGE.read_text())
    (tmp_path / "in").mkdir()
    for number, rows in enumerate(BATCHES):
        file = tmp_path / "in" / f"{number}.json"
        file.write_text("\n".join(map(_click, rows)))
        os.utime(file, (1_000_000_000 + number,) * 2)
    reader = spark.readStream.schema("ts TIMESTAMP, user STRING, ms INT, parts INT, id STRING")
    clicks = reader.option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    side = tidegate.FileSink(format="json", path=tmp_path / "side")
    run = tidegate.sql(SQL, settings=SETTINGS, clicks=clicks).start(
        sink=tidegate.MemorySink(),
        late=side,
        evicted=side,
        errors=side,
        duplicates=side,
        checkpoint=tmp_path / "checkpoint",
        once=True,
    )
    run.await_termination()
    files = sorted((tmp_path / "side").rglob("*.json"))
    written = [line for file in files for line in file.read_text().splitlines()]
    assert [_facts(text) for text in documented] == sorted(
        map(_facts, written), key=lambda facts: ORDER.index(str(facts["kind"]))
    ), "\n".join(written)
    assert SQL in PAGE.read_text()


ORDER = ("late", "evicted", "error", "duplicate")


def _click(row: tuple[str, str, int, int, str]) -> str:
    time, user, ms, parts, id = row
    click = {"ts": f"2026-01-01T{time}Z", "user": user, "ms": ms, "parts": parts, "id": id}
    return json.dumps(click)


def _facts(text: str) -> dict[str, object]:
    facts = json.loads(text)
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", facts["processing_time"])
    return {**facts, "processing_time": ""}
