"""Statements over frames: names in braces are frames, but not in what a user quotes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import tidegate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_text_of_a_statement_that_looks_like_a_frame_stays_a_text(spark: SparkSession) -> None:
    query = tidegate.sql(
        "SELECT '{frame} it''s' AS text, count(*) AS n FROM r "
        "WHERE k <> \"{frame}\" GROUP BY tumblingwindow('ss', 10) HAVING max(k) = '{rows}'",
        streams={"r": "ts TIMESTAMP, k STRING"},
        settings={"event_time_field": "ts"},
        spark=spark,
    )
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    rows = spark.createDataFrame(
        [(moment, k) for k in ("{rows}", "{frame}", "{rows}")], "ts TIMESTAMP, k STRING"
    )

    assert [tuple(row) for row in query.batch(r=rows).collect()] == [("{frame} it's", 2)]
