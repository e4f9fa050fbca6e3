"""Steps that are finished beside the next batch give what they give one after the other."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import pytest

import tidegate as tg
from tidegate.connectors.sinks import FileSink
from tidegate.engine.batches import Batches

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FILES, ROWS = 6, 40
AGGREGATES = "k, count(*) AS n, sum(v) AS v, first(v) AS f"
SETTINGS = {"event_time_field": "ts", "watermark_lag": "2s"}


@dataclass(frozen=True, kw_only=True)
class Law:
    """A query, and its settings beside those of all."""

    group_by: str
    settings: dict[str, object] = field(default_factory=dict)


LAWS = {
    "tumbling": Law(group_by="tumblingwindow('ss', 5), k"),
    "hopping": Law(group_by="hoppingwindow('ss', 10, 5), k"),
    # A late row of a session asks the state before its batch whether the session goes on.
    "session": Law(group_by="sessionwindow('ss', 3), k"),
    "sliding": Law(group_by="slidingwindow('ss', 4) OVER (PARTITION BY k), k"),
    "state": Law(group_by="statewindow(v > 80, v < 20) OVER (PARTITION BY k), k"),
    "count": Law(group_by="countwindow(7) OVER (PARTITION BY k), k"),
    "duplicates": Law(
        group_by="tumblingwindow('ss', 5), k",
        settings={"dedup_key": "v", "dedup_horizon": "20s"},
    ),
    "quota": Law(group_by="tumblingwindow('ss', 5), k", settings={"max_groups": 2}),
    "lateness by record": Law(
        group_by="tumblingwindow('ss', 5), k", settings={"lateness": "record"}
    ),
    "shards": Law(group_by="tumblingwindow('ss', 5), k", settings={"shard": "k"}),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of rows that come out of order, some of them late."""
    folder = tmp_path_factory.mktemp("rows")
    chance = random.Random(20261129)
    for number in range(FILES):
        lines = []
        for _ in range(ROWS):
            second = max(0, number * 6 + chance.randint(-9, 6))
            row = {"k": chance.choice("abc"), "v": chance.randint(0, 100)}
            lines.append(json.dumps({"ts": f"2026-01-01 00:00:{second:02}", **row}))
        path = folder / f"{number}.json"
        path.write_text("\n".join(lines), "utf-8")
        os.utime(path, (time.time() - 600 + number,) * 2)
    return folder


# The others run with ``make test-all``.
QUICK = ("session",)


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=() if each in QUICK else pytest.mark.whole) for each in LAWS],
)
def test_what_is_finished_later_is_the_same(
    name: str, spark: SparkSession, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = answers(LAWS[name], spark, rows, tmp_path / "ahead")
    monkeypatch.setattr(Batches, "_is_followed", lambda self: False)
    assert ahead == answers(LAWS[name], spark, rows, tmp_path / "plain")
    intents = (tmp_path / "ahead" / "checkpoint" / "tidegate" / "intents").glob("*.json")
    taken = sum('"taken"' in path.read_text("utf-8") for path in intents)
    assert taken == FILES - 1


def answers(
    law: Law, spark: SparkSession, rows: Path, folder: Path
) -> tuple[dict[str, Counter[str]], list[dict[str, object]]]:
    """Run a query to its end; return its results by epoch, and what it counted in each."""
    stream = (
        spark.readStream.schema("ts TIMESTAMP, k STRING, v BIGINT")
        .option("maxFilesPerTrigger", 1)
        .json(str(rows))
    )
    query = tg.sql(
        f"SELECT {AGGREGATES} FROM r GROUP BY {law.group_by}",
        settings=SETTINGS | law.settings,
        streams={"r": stream},
    )
    sink = FileSink(format="json", path=str(folder / "out"))
    run = query.start(sink=sink, checkpoint=str(folder / "checkpoint"), once=True)
    run.await_termination()
    run.drain()
    results: dict[str, Counter[str]] = {}
    for path in (folder / "out").glob("emit_epoch=*/*.json"):
        lines = path.read_text("utf-8").splitlines()
        results.setdefault(path.parent.name, Counter()).update(lines)
    timed = ("clock_us", "phases_ms", "duration_ms", "state_bytes")
    reports = [
        {name: value for name, value in asdict(each).items() if name not in timed}
        for each in run.reports
    ]
    return results, reports
