"""The files of the state: what is written is read again, whatever a filter lets Parquet skip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.engine.rows.key_search import DIFFERENCES, WRITE_OPTIONS
from tidegate.spark.isolation import private_session
from tidegate.spark.statements import is_one_of
from tidegate.state.manifest import Segment
from tidegate.state.plan_file import PlanFile
from tidegate.state.store import StateStore

if TYPE_CHECKING:
    from collections.abc import Mapping
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


def test_numbers_written_as_differences_are_read_again(spark: SparkSession, tmp_path: Path) -> None:
    store = StateStore(spark, str(tmp_path), PlanFile(plan_id="p", fingerprint={}))
    store.claim(-1)
    number = "IF(id % 1000 = 999, NULL, id - 30000)"
    numbers = spark.range(0, 60_000, numPartitions=1).selectExpr(
        f"CAST({number} DIV 256 AS TINYINT) AS tiny",
        f"CAST({number} AS SMALLINT) AS small",
        f"CAST({number} AS INT) AS whole",
        f"{number} AS big",
        f"IF(id % 2 = 0, {2**63 - 1}, {-(2**63 - 1)}) - id % 7 * IF(id % 2 = 0, 1, -1) AS far",
        f"date_add(DATE '1970-01-01', CAST({number} AS INT)) AS day",
        f"timestamp_micros({number}) AS at",
        f"CAST(timestamp_micros({number}) AS TIMESTAMP_NTZ) AS at_ntz",
    )

    def written(options: Mapping[str, str]) -> Segment:
        name, files = store.write_segment(0, "keys", numbers, options)
        return Segment(name=name, files=files, first_us=0, last_us=0, rows=60_000)

    segment = written(DIFFERENCES)
    assert segment.bytes < written(WRITE_OPTIONS).bytes / 2
    found = store.read_segments([segment], numbers.schema)
    assert found.exceptAll(numbers).isEmpty()
    assert numbers.exceptAll(found).isEmpty()
    # Pages of 20,000 rows, of which Parquet skips two.
    assert found.where("big BETWEEN 100 AND 5999").count() == 5_894
