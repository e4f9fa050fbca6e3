"""Marks of rows come back to them, and the rows keep their places."""

from __future__ import annotations

from tidegate.engine.rows.rejoin import Marks, rejoined

PLACE = "monotonically_increasing_id() AS place"


def test_rows_keep_their_places_and_get_their_marks(interpreted):
    numbered = interpreted.range(0, 60, numPartitions=3).selectExpr("60 - id AS v", PLACE)
    frame = numbered.where("v % 7 = 0").selectExpr("place", "'seven' AS mark")
    marks = Marks(frame=frame, same="rows.place = marks.place")
    found = rejoined(numbered, marks, ["rows.v", "rows.place AS was", "marks.mark"])
    told = found.selectExpr("*", PLACE).collect()
    assert len(told) == 60
    assert all(row.place == row.was for row in told)
    assert all(row.mark == (None if row.v % 7 else "seven") for row in told)
