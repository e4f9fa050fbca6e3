"""Keeping apart what the user sets and sees in a Spark session, and what Tidegate does.

* Statements of ours are analyzed in a session of their own. Their views are seen nowhere else.
* Settings that change what a statement means have Spark's defaults there (``PINNED``), since our
  statements are written for those. Other settings are the user's.
* Frames move between sessions as plans: ``at_home``.
* What the user is given, results and the frames of sinks, belongs to a session with the user's
  settings.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

# Beginnings of the names of settings that change what statements mean, or how state is read.
PINNED = tuple(
    f"spark.sql.{name}"
    for name in (
        "analyzer.",
        "ansi.",
        "caseSensitive",
        "charAsVarchar",
        "collation.",
        "crossJoin.",
        "decimalOperations.",
        "files.ignore",
        "function.",
        "groupBy",
        "lateralColumnAlias.",
        "legacy.",
        "mapKeyDedupPolicy",
        "optimizer.",
        "orderByOrdinal",
        "parser.",
        "preserveCharVarcharTypeInfo",
        "readSideCharPadding",
        "retainGroupColumns",
        "session.collation",
        "stableDerivedColumnAlias.",
        "timestampType",
        "variable.",
    )
)

PARTITIONS = "spark.sql.shuffle.partitions"

# Starts and the settings that they need for a moment come one after the other.
_ONE_START = threading.Lock()


def private_session(spark: SparkSession) -> SparkSession:
    """Return a session with the functions of another, and its settings but for those pinned.

    What is set in it, and its views, are seen nowhere else.
    """
    session: Any = spark._jsparkSession
    private = SparkSession(spark.sparkContext, session.cloneSession())
    pin(private)
    return private


def pin(spark: SparkSession) -> None:
    """Give pinned settings of a session of ours Spark's defaults."""
    conf: Any = spark._jsparkSession.sessionState().conf()
    for name in _pinned(conf):
        conf.unsetConf(name)
    # Its default depends on the environment.
    conf.setConfString("spark.sql.ansi.enabled", "true")


def at_home(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """Return the frame of the same plan in another session."""
    plan: Any = frame._jdf.logicalPlan()
    session: Any = spark._jsparkSession
    if frame.sparkSession._jsparkSession.equals(session):
        return frame
    jvm: Any = spark._jvm
    companion: Any = getattr(jvm.org.apache.spark.sql.classic, "Dataset$")
    return DataFrame(getattr(companion, "MODULE$").ofRows(session, plan), spark)


@contextmanager
def starting(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set up a user's session for the moment in which Spark makes that of a query from it.

    Args:
        spark: the session of the user.
        settings: what is set unless the user has set it; pinned settings are unset besides.
    """
    conf: Any = spark._jsparkSession.sessionState().conf()
    with _ONE_START:
        theirs = {name: conf.getConfString(name) for name in _pinned(conf)}
        ours = {name: value for name, value in settings.items() if not conf.contains(name)}
        try:
            for name in theirs:
                conf.unsetConf(name)
            for name, value in ours.items():
                conf.setConfString(name, value)
            yield
        finally:
            for name in ours:
                conf.unsetConf(name)
            for name, value in theirs.items():
                conf.setConfString(name, value)


def most_tasks(spark: SparkSession, conf: Any = None) -> int:  # noqa: ANN401 - a JVM object
    """Return the most tasks of a shuffle: as set by the user, else the cores of the moment.

    Args:
        spark: the user's session.
        conf: its ``SQLConf``, where that is at hand; it saves two round trips to the JVM.
    """
    if conf is None:
        conf = spark._jsparkSession.sessionState().conf()
    if conf.contains(PARTITIONS):
        return int(conf.getConfString(PARTITIONS))
    return spark.sparkContext.defaultParallelism


class Mirror:
    """A session with the settings that another one has at the moment, and views of its own.

    Args:
        spark: the other session.
        pinned: whether pinned settings have Spark's defaults.
    """

    def __init__(self, spark: SparkSession, *, pinned: bool) -> None:
        self._original: Any = spark._jsparkSession
        self._copy = SparkSession(spark.sparkContext, self._original.cloneSession())
        self._pinned = pinned
        self._seen: Any = None
        self._lock = threading.Lock()

    def current(self) -> SparkSession:
        """Return the session, with the settings of the other one as they are now."""
        with self._lock:
            theirs: Any = self._original.sessionState().conf().settings()
            if self._seen is None or not self._seen.equals(theirs):
                copy: Any = self._copy._jsparkSession
                jvm: Any = self._copy._jvm
                self._seen = jvm.java.util.HashMap(theirs)
                settings: Any = copy.sessionState().conf().settings()
                settings.clear()
                settings.putAll(self._seen)
                if self._pinned:
                    pin(self._copy)
        return self._copy


def _pinned(conf: Any) -> list[str]:  # noqa: ANN401 - a JVM object
    names: str = conf.getAllConfs().keys().mkString("\n")
    return [name for name in names.split("\n") if name.startswith(PINNED)]
