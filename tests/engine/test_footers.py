"""The footers of Parquet files tell what is in their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.spark.footers import ColumnStats, footers_of, stats_of_all

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS = {
    "whole": "IF(id % 3 = 0, NULL, CAST(id AS INT) - 50)",
    "far": f"IF(id = 5, {2**63 - 1}, {-(2**63 - 1)})",
    "real": "CAST(id AS FLOAT) / 4",
    "not_a_number": "IF(id = 7, double('NaN'), id)",
    "text": "concat('k', lpad(id, 3, '0'), IF(id = 99, char(233), ''))",
    "long_text": "repeat(CAST(id AS STRING), 5000)",
    "nothing": "CAST(NULL AS BIGINT)",
    "pair": "struct(id AS a)",
}


def test_a_footer_tells_the_bounds_and_counts_of_columns(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    rows = interpreted.range(0, 100, numPartitions=1)
    frame = rows.selectExpr(*(f"{sql} AS {name}" for name, sql in COLUMNS.items()))
    frame.write.parquet(str(tmp_path / "one"))
    [file] = (tmp_path / "one").glob("*.parquet")
    [footer] = footers_of(interpreted, [str(file)], [*COLUMNS, "missing"], at_once=False)
    assert footer.rows == 100
    assert footer.columns == {
        "whole": ColumnStats(values=66, least=-49, greatest=48),
        "far": ColumnStats(values=100, least=-(2**63 - 1), greatest=2**63 - 1),
        "real": ColumnStats(values=100, least=0.0, greatest=24.75),
        "not_a_number": ColumnStats(values=100),
        "text": ColumnStats(values=100, least=b"k000", greatest="k099é".encode()),
        "long_text": ColumnStats(values=None),
        "nothing": ColumnStats(values=0),
    }


def test_a_footer_tells_of_all_its_row_groups(interpreted: SparkSession, tmp_path: Path) -> None:
    rows = interpreted.range(0, 4_000, numPartitions=1)
    frame = rows.selectExpr("3999 - id AS n", "IF(id < 3000, NULL, id) AS late", "uuid() AS text")
    frame.write.option("parquet.block.size", 4_096).parquet(str(tmp_path / "many"))
    [file] = (tmp_path / "many").glob("*.parquet")
    [footer] = footers_of(interpreted, [str(file)], ["n", "late"], at_once=False)
    assert footer.rows == 4_000
    assert footer.columns["n"] == ColumnStats(values=4_000, least=0, greatest=3_999)
    assert footer.columns["late"] == ColumnStats(values=1_000, least=3_000, greatest=3_999)


def test_footers_of_several_files_come_in_their_order(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    interpreted.range(0, 60, numPartitions=4).write.parquet(str(tmp_path / "several"))
    files = sorted(map(str, (tmp_path / "several").glob("*.parquet")))
    found = footers_of(interpreted, files, ["id"], at_once=True)
    assert [each.columns["id"].least for each in found] == [0, 15, 30, 45]
    assert footers_of(interpreted, files, ["id"], at_once=False) == found


def test_what_one_part_does_not_tell_is_not_told_together() -> None:
    few = ColumnStats(values=2, least=1, greatest=5)
    assert stats_of_all([few, ColumnStats(values=3, least=-4, greatest=2)]) == ColumnStats(
        values=5, least=-4, greatest=5
    )
    assert stats_of_all([few, ColumnStats(values=0)]) == few
    assert stats_of_all([few, ColumnStats(values=3)]) == ColumnStats(values=5)
    assert stats_of_all([few, ColumnStats(values=None)]) == ColumnStats(values=None)
    assert stats_of_all([]) == ColumnStats(values=0)
