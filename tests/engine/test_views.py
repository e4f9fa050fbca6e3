"""Views that are set without a command of Spark read what Spark's own would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.spark.views import Views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_view_takes_the_place_of_one_with_other_columns(spark: SparkSession) -> None:
    views = Views(spark._jvm)
    for rows in ("range(3)", "(SELECT 'a' AS text, id FROM range(2))", "(SELECT 1D AS id)"):
        frame = spark.sql(f"SELECT * FROM {rows}")
        views.set("_tidegate_test", frame)
        found = spark.table("_tidegate_test")
        assert found.schema == frame.schema
        assert sorted(found.collect()) == sorted(frame.collect())
        mine = plan_of(spark, "_tidegate_test")
        frame.createOrReplaceTempView("_tidegate_test")
        assert mine == plan_of(spark, "_tidegate_test")
    assert views.are_direct
    spark.catalog.dropTempView("_tidegate_test")


def test_where_the_catalog_is_another_one_spark_sets_the_views(spark: SparkSession) -> None:
    views = Views(spark._jvm)
    views.set("_tidegate_test", spark.range(1))
    assert views.are_direct
    missing: Any = spark._jvm
    views._relation = missing.org.apache.spark.NoSuchRelation
    views.set("_tidegate_test", spark.range(7))
    assert spark.table("_tidegate_test").count() == 7
    assert not views.are_direct
    spark.catalog.dropTempView("_tidegate_test")


def plan_of(spark: SparkSession, view: str) -> str:
    """The optimized plan of a statement over a view, without the numbers of its columns."""
    frame: Any = spark.sql(f"SELECT id, count(*) AS n FROM {view} GROUP BY id")
    plan = frame._jdf.queryExecution().optimizedPlan().canonicalized()
    return str(plan.toString())
