"""Delta tables as sinks and as sources: each epoch is there once, whatever happens between."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

import tidegate
from systems.flows import SQL, Flow, clicks, crashing
from tidegate import ConfigError, DeltaSink, ExecutionError
from tidegate.cli import main
from tidegate.connectors.sources import open_stream
from tidegate.plan.pipeline import SourceConfig
from tidegate.plan.settings import ErrorPolicy
from tidegate.plan.statement import Relation

USERS = [("ann", "bob"), ("ann", "ann"), ("bob", "cid"), ("dan",)]


@pytest.fixture
def flow(tmp_path):
    flow = Flow(folder=tmp_path)
    for minute, users in enumerate(USERS):
        flow.add(clicks(minute, *users))
    return flow


def answers(spark, folder) -> Counter[tuple[object, ...]]:
    table = spark.read.format("delta").load(str(folder))
    return Counter((row["user"], row["n"], row["s"].minute) for row in table.collect())


EXPECTED = Counter(
    (user, users.count(user), minute) for minute, users in enumerate(USERS) for user in {*users}
)


def test_a_query_that_fails_after_each_write_leaves_each_result_once(spark, flow, monkeypatch):
    table = flow.folder / "table"
    left = crashing(monkeypatch, "after_results", range(1, 4))
    for _ in range(3):
        with pytest.raises(ExecutionError):
            flow.run(spark, DeltaSink(path=table))
    assert left == []
    flow.run(spark, DeltaSink(path=table), drain=True)
    assert answers(spark, table) == EXPECTED


def test_two_queries_share_a_table_and_one_that_was_rolled_back_is_refused(spark, flow, tmp_path):
    table = flow.folder / "table"
    other = Flow(folder=tmp_path / "other")
    other.folder.mkdir()
    other.add(clicks(30, "fay"))
    sink = DeltaSink(path=table)
    other.run(spark, sink, drain=True)
    flow.run(spark, sink, drain=True)
    assert sink._app is None, (
        "each query has a sink of its own, or one would skip the other's epochs"
    )
    assert answers(spark, table) == EXPECTED + Counter([("fay", 1, 30)])

    jvm = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(table))
    nothing = jvm.scala.Option.empty()
    versions = log.update(False, nothing, nothing).transactions()
    (app,) = (key for key in versions.keys().mkString(" ").split() if versions.apply(key) == 4)
    DeltaSink(path=table).open(app, 4)
    with pytest.raises(ConfigError, match="has epoch 4 of this checkpoint, which ends at epoch 3"):
        DeltaSink(path=table).open(app, 3)


def test_results_and_late_rows_in_one_table_are_refused(spark, flow):
    table = flow.folder / "table"
    with pytest.raises(ConfigError, match="are one folder"):
        flow.run(spark, DeltaSink(path=table), late=DeltaSink(path=table))


def test_late_rows_go_to_a_delta_table(spark, flow):
    flow.add(clicks(0, "late"))
    flow.run(
        spark, DeltaSink(path=flow.folder / "table"), late=DeltaSink(path=flow.folder / "late")
    )
    late = spark.read.format("delta").load(str(flow.folder / "late")).collect()
    assert [row["original_event"]["user"] for row in late] == ["late"]


def test_a_delta_table_is_a_source(spark, tmp_path):
    table = tmp_path / "table"
    source = SourceConfig(
        name="r", format="delta", relation=Relation(name="r", columns=None), path=str(table)
    )
    sink = tidegate.MemorySink()
    for minute, users in enumerate(USERS):
        rows = [(f"2026-01-01 10:{minute:02}:{i:02}", user, i) for i, user in enumerate(users)]
        frame = spark.createDataFrame(rows, "ts STRING, user STRING, v BIGINT")
        frame.selectExpr("CAST(ts AS TIMESTAMP) AS ts", "user", "v").write.format("delta").mode(
            "append"
        ).save(str(table))
        stream = open_stream(spark, source, ErrorPolicy.SIDE_OUTPUT)
        run = tidegate.sql(SQL, streams={"r": stream}).start(
            sink=sink, checkpoint=str(tmp_path / "checkpoint"), once=True
        )
        run.await_termination()
    run.stop(drain=True)
    found = Counter((row["user"], row["n"], row["s"].minute) for row in sink.rows())
    assert found == EXPECTED


REPLAYED = """\
[pipeline]
checkpoint = "checkpoint"

[sources.clicks]
format = "json"
path = "in"
schema = "ts TIMESTAMP, user STRING"
max_files_per_trigger = 1

[transforms.counts]
sql = "SELECT user, count(*) AS n FROM clicks GROUP BY tumblingwindow('ss', 10), user"
event_time_field = "ts"
side_output.late.sink = "late"

[sinks.out]
from = "counts"
format = "json"
path = "out"

[sinks.late]
format = "delta"
path = "late"
"""


@pytest.mark.usefixtures("spark")
def test_the_records_of_a_table_are_run_again(tmp_path):
    (tmp_path / "in").mkdir()
    for number, time in enumerate(("10:00:01", "10:01:00", "10:00:02.000003")):
        file = tmp_path / "in" / f"{number}.json"
        file.write_text(json.dumps({"ts": f"2026-01-01T{time}Z", "user": "ann"}))
        os.utime(file, (1_000_000_000 + number,) * 2)
    pipeline = tmp_path / "pipeline.toml"
    pipeline.write_text(REPLAYED)
    assert CliRunner().invoke(main, ["run", str(pipeline), "--once"]).exit_code == 0
    for number, records in enumerate(("late", str(tmp_path / "late"))):
        into = str(tmp_path / f"corrections-{number}")
        words = ["replay", str(pipeline), records, "--into", into, "--format", "json"]
        ended = CliRunner().invoke(main, words)
        assert ended.output == f"late: 1 rows run again\n1 corrections in {into}\n"
        (file,) = Path(into).glob("*.json")
        assert json.loads(file.read_text())["n"] == 1
