"""Spark's analyzer, asked about queries that never run."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from tidegate.names import in_backticks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_CONDITION = re.compile(r"\s*\[[\w.]+\]\s*")
_INTERNAL = re.compile(r"(?:; line \d+|\n|\s*SQLSTATE:).*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What Spark says about a query: its error condition, the facts by name, the whole message."""

    condition: str
    facts: Mapping[str, str]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Analyzer:
    """Asks about queries over named frames; ``views`` are the temp views that hold them."""

    spark: SparkSession
    views: Mapping[str, str]
    _known: dict[str, StructType | Failure] = field(default_factory=dict)

    def ask(self, query: str, ctes: Sequence[str] = ()) -> StructType | Failure:
        """Return the columns of a query, or why there are none.

        Args:
            query: a SELECT over the frames and what ``ctes`` define.
            ctes: definitions of a WITH clause; one may have the name of another before it, or of a
                frame, and read that.
        """
        named = ", ".join(
            f"{in_backticks(name)} AS (SELECT * FROM {view})" for name, view in self.views.items()
        )
        for definition in reversed(ctes):
            query = f"SELECT * FROM (WITH {definition} {query})"
        text = f"WITH {named} {query}"
        if text not in self._known:
            self._known[text] = self._answer(text)
        return self._known[text]

    def _answer(self, text: str) -> StructType | Failure:
        try:
            return self.spark.sql(text).schema
        except PySparkException as error:
            return failure_of(error)
        except Py4JJavaError as error:
            # PySpark has no class for some errors, such as that of a misplaced lambda.
            said = str(error.java_exception.getMessage())
            return Failure(condition="", facts={}, message=_bare(said))


@contextmanager
def analyzer(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[Analyzer]:
    """Give an analyzer of queries over frames, by the names that the queries use."""
    views = {name: f"_tidegate_{uuid4().hex}" for name in frames}
    with unlogged():
        try:
            for name, view in views.items():
                frames[name].createOrReplaceTempView(view)
            yield Analyzer(spark=spark, views=views)
        finally:
            for view in views.values():
                spark.catalog.dropTempView(view)


@contextmanager
def unlogged() -> Iterator[None]:
    """Keep PySpark from printing what it raises in this thread, with a stack trace of the JVM."""
    log = PySparkLogger.getLogger("SQLQueryContextLogger")
    thread = threading.get_ident()

    def is_of_another(_: logging.LogRecord) -> bool:
        return threading.get_ident() != thread

    log.addFilter(is_of_another)
    try:
        yield
    finally:
        log.removeFilter(is_of_another)


def failure_of(error: PySparkException) -> Failure:
    """Return what an error of Spark says."""
    return Failure(
        condition=error.getCondition() or "",
        facts=error.getMessageParameters() or {},
        message=_bare(str(error)),
    )


def _bare(message: str) -> str:
    """The message without its condition, and without the plan and the place in Spark's text."""
    return _INTERNAL.sub("", _CONDITION.sub("", message, count=1)).strip().rstrip(".")
