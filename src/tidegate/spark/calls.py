"""Calls into Spark's JVM that each batch makes several times, looked up once.

PySpark looks up the class and the method anew for every call, and makes a Scala sequence even for
nothing: some twenty round trips of 20 to 50 microseconds where one or two are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# What is raised where the insides of Spark, which are its own affair, are not as expected. A class
# that is missing is a package to py4j, and calling that is a TypeError.
OTHER_SPARK = (PySparkException, Py4JError, TypeError)

# So many lists of columns are kept.
_TEXTS = 200


class Calls:
    """Functions and classes of a JVM.

    Attributes:
        expression: a column from Spark SQL text.
        observation: makes an observation.
        row: a row of the JVM, pickled.
        serve: serves the items of an iterator of the JVM, BINARY or None, at a socket.
        path: makes a path of Hadoop.
        no_columns: an empty sequence of columns.
        frame_of: makes a dataset of a session and a logical plan.
        planned: makes a logical node of one that gives its columns, and a physical plan.
        texts: returns a sequence of texts, made once for each tuple.
    """

    def __init__(self, jvm: Any) -> None:  # noqa: ANN401 - py4j's view of the JVM
        sql = jvm.org.apache.spark.sql
        self.expression = sql.functions.expr
        self.observation = sql.Observation
        self.frame_of = sql.classic.Dataset.ofRows
        self.planned = sql.execution.adaptive.LogicalQueryStage
        self._scan = sql.execution.RDDScanExec
        physical = sql.catalyst.plans.physical
        catalyst = sql.catalyst.expressions
        self._ascending = getattr(getattr(catalyst, "Ascending$"), "MODULE$")
        self._order = getattr(getattr(catalyst, "SortOrder$"), "MODULE$").apply
        self._one_partition = getattr(getattr(physical, "SinglePartition$"), "MODULE$")
        self._none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
        self.row = sql.api.python.PythonSQLUtils.toPyRow
        self.serve = jvm.org.apache.spark.api.python.PythonRDD.serveIterator
        self.path = jvm.org.apache.hadoop.fs.Path
        self._parquet = jvm.org.apache.parquet
        self._list = jvm.java.util.ArrayList
        self._sequence = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        self.no_columns = self.columns(())
        # Column lists are the same batch after batch.
        self.texts = lru_cache(maxsize=_TEXTS)(self._texts)

    def columns(self, expressions: Sequence[str]) -> Any:  # noqa: ANN401 - a JVM object
        """Return a sequence of columns from Spark SQL texts."""
        found = self._list()
        for each in expressions:
            found.add(self.expression(each))
        return self._sequence(found)

    def in_place(self, columns: Any, rows: Any, order: Sequence[str] = ()) -> Any:  # noqa: ANN401
        """Return a physical node of columns and their RDD that Spark takes for one partition.

        Args:
            columns: the columns.
            rows: the RDD.
            order: the names of columns by which Spark takes the rows for sorted.
        """
        orders = self.no_columns
        if order:
            by_name = {each.name(): each for each in map(columns.apply, range(columns.size()))}
            listed = self._list()
            for name in order:
                listed.add(self._order(by_name[name], self._ascending, self.no_columns))
            orders = self._sequence(listed)
        return self._scan(columns, rows, "rows in place", self._one_partition, orders, self._none)

    # Looked up when they are needed, since a Spark may have Parquet elsewhere.

    @cached_property
    def parquet_file(self) -> Any:  # noqa: ANN401 - a JVM object
        """Makes a file of Parquet from a path and Hadoop's settings."""
        return self._parquet.hadoop.util.HadoopInputFile.fromPath

    @cached_property
    def parquet_reader(self) -> Any:  # noqa: ANN401 - a JVM object
        """Makes a reader of a file of Parquet, with options."""
        return self._parquet.hadoop.ParquetFileReader.open

    @cached_property
    def parquet_options(self) -> Any:  # noqa: ANN401 - a JVM object
        """Options for a reader; to find those of Hadoop would take 4 ms a file."""
        return self._parquet.ParquetReadOptions.builder().build()

    def _texts(self, texts: tuple[str, ...]) -> Any:  # noqa: ANN401 - a JVM object
        found = self._list()
        for text in texts:
            found.add(text)
        return self._sequence(found)


_calls = lru_cache(maxsize=1)(Calls)


def calls_of(spark: SparkSession) -> Calls:
    """Return the calls of the JVM of a session."""
    return _calls(spark._jvm)
