"""The files of the state: what is written is read again, whatever a filter lets Parquet skip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.spark.isolation import private_session
from tidegate.spark.statements import is_one_of
from tidegate.state.manifest import Segment
from tidegate.state.plan_file import PlanFile
from tidegate.state.store import StateStore

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_a_column_with_a_large_dictionary_can_be_filtered(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = private_session(spark)
    store = StateStore(session, str(tmp_path), PlanFile(plan_id="p", fingerprint={}))
    store.claim(-1)
    # In order, each value several times, so that Parquet makes a dictionary of them: 640 KB.
    rows = session.range(0, 960_000, numPartitions=1).selectExpr("id DIV 12 AS _pane", "id AS n")
    name, files = store.write_segment(0, "batch", rows)
    segment = Segment(name=name, files=files, first_us=0, last_us=79_999, rows=960_000)
    state = store.read_segments([segment], rows.schema)
    assert state.where(is_one_of("_pane", [5, 70_000])).count() == 24
    assert state.where("_pane < 10L OR _pane IN (7L, 79000L)").count() == 132
