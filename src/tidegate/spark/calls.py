"""Calls into Spark's JVM that each batch makes several times, looked up once.

PySpark looks up the class and the method anew for every call, and makes a Scala sequence even for
nothing: some twenty round trips of 20 to 50 microseconds where one or two are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
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
        self.row = sql.api.python.PythonSQLUtils.toPyRow
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

    def _texts(self, texts: tuple[str, ...]) -> Any:  # noqa: ANN401 - a JVM object
        found = self._list()
        for text in texts:
            found.add(text)
        return self._sequence(found)


_calls = lru_cache(maxsize=1)(Calls)


def calls_of(spark: SparkSession) -> Calls:
    """Return the calls of the JVM of a session."""
    return _calls(spark._jvm)
