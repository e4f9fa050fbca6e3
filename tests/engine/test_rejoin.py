"""Marks of rows come back to them in their order, whether they are broadcast or shuffled."""

from __future__ import annotations

import pytest

from tidegate.engine.rows import rejoin
from tidegate.engine.rows.rejoin import Marks, memory, rejoined, table_size


@pytest.mark.parametrize("size", [memory(10), memory(10_000_000)])
def test_rows_keep_their_order_and_get_their_marks(interpreted, size):
    rows = interpreted.range(0, 60, numPartitions=3).selectExpr("60 - id AS v")
    numbered = rows.selectExpr("*", "monotonically_increasing_id() AS place")
    frame = numbered.where("v % 7 = 0").selectExpr("place", "'seven' AS mark")
    marks = Marks(frame=frame, same="rows.place = marks.place", size=size)
    found = rejoined(numbered, "place", marks, ["rows.v", "marks.mark"])
    plan = found._jdf.queryExecution().sparkPlan().toString()
    assert ("BroadcastHashJoin" in plan) == (size <= rejoin.MOST_BYTES)
    # By partition, then by place in it: that is the order of arrival for what follows.
    told = found.selectExpr("monotonically_increasing_id() AS i", "v", "mark").collect()
    assert [(row.v, row.mark) for row in sorted(told)] == [
        (v, None if v % 7 else "seven") for v in range(60, 0, -1)
    ]


def test_the_size_of_a_table_is_known_of_files_and_not_of_python_objects(interpreted, tmp_path):
    interpreted.range(1000).write.parquet(str(tmp_path / "t"))
    assert 1000 < table_size(interpreted.read.parquet(str(tmp_path / "t"))) < 100_000
    assert table_size(interpreted.createDataFrame([(1,)], "v INT")) < rejoin.MOST_BYTES
