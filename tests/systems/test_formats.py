"""A format of Spark that no table lists: its rows arrive, those of a replayed epoch again."""

from __future__ import annotations

import pytest

from systems.flows import Flow, clicks, crashing
from tidegate import ExecutionError, FormatSink


def test_another_format_of_spark_is_written_at_least_once(spark, tmp_path, monkeypatch):
    flow = Flow(folder=tmp_path)
    for minute, user in enumerate(["ann", "bob", "cid"]):
        flow.add(clicks(minute, user))
    folder = str(tmp_path / "out")
    crashing(monkeypatch, "after_results", [2])
    with pytest.raises(ExecutionError):
        flow.run(spark, FormatSink(format="avro", path=folder))
    flow.run(spark, FormatSink(format="avro", path=folder), drain=True)
    users = [row["user"] for row in spark.read.format("avro").load(folder).collect()]
    assert sorted(users) == ["ann", "bob", "bob", "cid"]
