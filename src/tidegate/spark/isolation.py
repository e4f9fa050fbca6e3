"""Isolation of the user's Spark session from what Tidegate does in Spark.

* Our statements are analyzed in a session of their own, and their views are visible only there.
* In it, settings that change the meaning of a statement have Spark's defaults (``PINNED``), for
  which our statements are written. Other settings are the user's.
* Frames move between sessions as plans: ``in_session``.
* Frames that the user receives (results, and the frames of sinks) belong to a session with the
  user's settings.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.spark.calls import calls_of

# Prefixes of settings that change what statements mean, or how state is read.
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

# Only one start at a time may change settings of the user's session.
_ONE_START = threading.Lock()

# Held while settings of a user's session are changed for a start, changed back, or copied.
_SETTINGS = threading.Lock()

# During a start: its session, and the settings of the user that are in it otherwise.
_CHANGED: list[tuple[Any, Any]] = []


def private_session(spark: SparkSession) -> SparkSession:
    """Return a session with the functions and settings of another one, except pinned settings.

    Its settings and views are visible nowhere else.
    """
    session: Any = spark._jsparkSession
    private = SparkSession(spark.sparkContext, session.cloneSession())
    pin(private)
    return private


def pin(spark: SparkSession) -> None:
    """Set the pinned settings of one of our sessions to Spark's defaults."""
    conf: Any = spark._jsparkSession.sessionState().conf()
    for name in _pinned(conf):
        conf.unsetConf(name)
    # Its default depends on the environment.
    conf.setConfString("spark.sql.ansi.enabled", "true")


def in_session(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """Return the frame of the same plan in another session."""
    plan: Any = frame._jdf.logicalPlan()
    session: Any = spark._jsparkSession
    if frame.sparkSession._jsparkSession.equals(session):
        return frame
    return DataFrame(calls_of(spark).frame_of(session, plan), spark)


@contextmanager
def starting(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change a user's session while Spark clones it for a query that starts.

    Args:
        spark: the session of the user.
        settings: settings to make unless the user has made them; pinned settings are unset too.
    """
    session: Any = spark._jsparkSession
    conf: Any = session.sessionState().conf()
    with _ONE_START:
        with _SETTINGS:
            theirs = {name: conf.getConfString(name) for name in _pinned(conf)}
            ours = {name: value for name, value in settings.items() if not conf.contains(name)}
            jvm: Any = spark._jvm
            _CHANGED.append((session, jvm.java.util.HashMap(conf.settings())))
        try:
            with _SETTINGS:
                for name in theirs:
                    conf.unsetConf(name)
                for name, value in ours.items():
                    conf.setConfString(name, value)
            yield
        finally:
            with _SETTINGS:
                for name in ours:
                    conf.unsetConf(name)
                for name, value in theirs.items():
                    conf.setConfString(name, value)
                _CHANGED.clear()


def _settings_of_user(session: Any) -> Any:  # noqa: ANN401 - JVM objects
    """The settings of a session, or during a start those from before it."""
    for changed, before in _CHANGED:
        if changed.equals(session):
            return before
    return session.sessionState().conf().settings()


def most_tasks(spark: SparkSession, conf: Any = None) -> int:  # noqa: ANN401 - a JVM object
    """Return the maximum number of tasks of a shuffle: the user's setting, else the current cores.

    Args:
        spark: the user's session.
        conf: its ``SQLConf``, if the caller has it; that saves two round trips to the JVM.
    """
    if conf is None:
        conf = spark._jsparkSession.sessionState().conf()
    if conf.contains(PARTITIONS):
        return int(conf.getConfString(PARTITIONS))
    return spark.sparkContext.defaultParallelism


class Mirror:
    """A session with the current settings of another one, and views of its own.

    Args:
        spark: the other session.
        pinned: whether pinned settings have Spark's defaults.
    """

    def __init__(self, spark: SparkSession, *, pinned: bool) -> None:
        self._original: Any = spark._jsparkSession
        self._copy = SparkSession(spark.sparkContext, self._original.cloneSession())
        self._pinned = pinned
        self._seen: Any = None

    def current(self) -> SparkSession:
        """Return the session, with the current settings of the other one."""
        with _SETTINGS:
            theirs = _settings_of_user(self._original)
            if self._seen is None or not self._seen.equals(theirs):
                copy: Any = self._copy._jsparkSession
                jvm: Any = self._copy._jvm
                self._seen = jvm.java.util.HashMap(theirs)
                conf: Any = copy.sessionState().conf()
                conf.clear()  # py4j's own clear of a map takes a round trip for each entry.
                conf.settings().putAll(self._seen)
                if self._pinned:
                    pin(self._copy)
        return self._copy


def _pinned(conf: Any) -> list[str]:  # noqa: ANN401 - a JVM object
    names: str = conf.getAllConfs().keys().mkString("\n")
    return [name for name in names.split("\n") if name.startswith(PINNED)]


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks can run at once; ``spark.default.parallelism`` may be any number."""
    context: Any = spark.sparkContext._jsc.sc()
    profile = context.resourceProfileManager().defaultResourceProfile()
    # None run as long as no executor has come.
    return int(context.maxNumConcurrentTasks(profile)) or spark.sparkContext.defaultParallelism
