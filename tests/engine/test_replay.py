"""Replay: corrections and results together are the answer, and what has none is refused."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import tidegate as tg
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

HOPS = """
    SELECT k, count(*) AS n, window_id() AS id FROM r
    GROUP BY hoppingwindow('ss', 20, 10), k ON ts
"""
COLUMNS = "ts TIMESTAMP, k STRING"


@pytest.mark.whole
def test_results_and_corrections_together_are_the_answer_over_all_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    batches = [[("15", "a"), ("25", "a")], [("01", "a"), ("05", "b"), ("12", "a")], [("02", "b")]]
    for number, rows in enumerate(batches):
        file = folder / f"{number}.json"
        texts = (json.dumps({"ts": f"2026-01-01T12:00:{second}Z", "k": k}) for second, k in rows)
        file.write_text("\n".join(texts))
        os.utime(file, (1_700_000_000 + number,) * 2)
    stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(str(folder))
    query = tg.sql(HOPS, streams={"r": stream}, spark=spark)
    results, late = tg.MemorySink(), tmp_path / "late"
    run = query.start(sink=results, late=late, checkpoint=tmp_path / "checkpoint", once=True)
    run.await_termination()
    run.drain()
    assert run.status["late"] == 3

    def counts(*rows: Row) -> Counter[tuple[str, str]]:
        found: Counter[tuple[str, str]] = Counter()
        for row in rows:
            found[row["id"], row["k"]] += row["n"]
        return found

    corrections = query.replay(spark.read.parquet(str(late))).collect()
    assert all(row["corrects_window_id"] == row["id"] for row in corrections)
    answer = query.batch(r=spark.read.schema(COLUMNS).json(str(folder))).collect()
    # A row that was late for one of its windows only is in no side output: here it is 12:00:12.
    missing = counts(*answer) - counts(*results.rows(), *corrections)
    assert sum(missing.values()) == run.status["partial"] == 1


def records(spark: SparkSession, plan_id: str, *rows: str, columns: str = COLUMNS) -> DataFrame:
    """Records as a side sink writes them; a row is ``kind, reason, window, original``."""
    values = ", ".join(f"({row})" for row in rows)
    return spark.sql(
        "SELECT kind, reason, "
        "IF(has_window, named_struct('start', '', 'end', ''), NULL) AS window, "
        f"from_json(row, '{columns}') AS original_event, '{plan_id}' AS plan_id "
        f"FROM VALUES {values} AS rows(kind, reason, has_window, row)"
    )


ROW = """'{"ts": "2026-01-01T12:00:01Z", "k": "a"}'"""
LATE = f"'late', 'allowed_lateness_exceeded', true, {ROW}"
ERROR = f"'error', 'division_by_zero', false, {ROW}"


def test_error_rows_of_windows_that_depend_on_other_rows_have_corrections_without_an_id(
    spark: SparkSession,
) -> None:
    sql = "SELECT k, count(*) AS n FROM r GROUP BY sessionwindow('ss', 5), k ON ts"
    query = tg.sql(sql, streams={"r": COLUMNS}, spark=spark)
    plan_id = query.physical.plan_id
    result = "'error', 'overflow', true, CAST(NULL AS STRING)"
    malformed = f"'error', 'malformed_record', false, {ROW}"
    (row,) = query.replay(records(spark, plan_id, ERROR, result, malformed)).collect()
    assert (row["corrects_window_id"], row["n"]) == (None, 1)
    with pytest.raises(TidegateError, match="late rows of session windows cannot be run again"):
        query.replay(records(spark, plan_id, LATE))
    with pytest.raises(TidegateError, match="none of the records has a row"):
        query.replay(records(spark, plan_id, result, malformed))


@pytest.mark.parametrize(
    ("sql", "settings", "what"),
    [
        (HOPS.replace(" ON ts", ""), {"time": "processing"}, "run again in processing time"),
        (HOPS.replace(" ON ts", ""), {"event_time_metadata": "file"}, "time is that of their file"),
        (HOPS.replace("FROM r", "FROM (SELECT * FROM r)"), {}, "FROM has a query"),
    ],
    ids=["processing time", "time of the file", "a query in FROM"],
)
def test_a_statement_that_cannot_run_rows_again_is_refused(
    spark: SparkSession, sql: str, settings: dict[str, str], what: str
) -> None:
    query = tg.sql(sql, streams={"r": COLUMNS}, settings=settings, spark=spark)
    with pytest.raises(TidegateError, match=what):
        query.replay(records(spark, query.physical.plan_id, LATE))


def test_records_that_cannot_be_run_again_are_refused(spark: SparkSession) -> None:
    query = tg.sql(HOPS, streams={"r": COLUMNS}, spark=spark)
    plan_id = query.physical.plan_id

    def refusal(frame: DataFrame, **options: object) -> str:
        with pytest.raises(TidegateError) as refused:
            query.replay(frame, **options)  # type: ignore[arg-type]
        return str(refused.value)

    assert "they have no column kind" in refusal(spark.range(1))
    assert "there is no kind 'lat'" in refusal(records(spark, plan_id, LATE), kinds=["lat"])
    assert "there are no records of kind evicted" in refusal(
        records(spark, plan_id, LATE), kinds=["evicted"]
    )
    bare = "'late', 'allowed_lateness_exceeded', true, CAST(NULL AS STRING)"
    assert "1 late records have no original row" in refusal(records(spark, plan_id, LATE, bare))
    assert f"records of plan old are not of this query, which is plan {plan_id}" in refusal(
        records(spark, "old", LATE)
    )


@pytest.mark.whole
def test_a_join_that_finds_several_rows_is_refused(spark: SparkSession) -> None:
    sql = (
        "SELECT count(*) AS n FROM r JOIN t ON r.k = t.k GROUP BY tumblingwindow('ss', 10) ON r.ts"
    )
    once = spark.sql("SELECT * FROM VALUES ('a') AS t(k)")
    twice = spark.sql("SELECT * FROM VALUES ('a'), ('a') AS t(k)")
    for table, several in ((once, False), (twice, True)):
        query = tg.sql(sql, streams={"r": COLUMNS}, tables={"t": table}, spark=spark)
        frame = records(spark, query.physical.plan_id, LATE)
        if several:
            with pytest.raises(TidegateError, match="they find several rows of t"):
                query.replay(frame)
        else:
            assert [row["n"] for row in query.replay(frame).collect()] == [1]
