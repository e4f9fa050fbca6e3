"""Temporary views over frames, set without a command of Spark.

Spark's own call plans and runs a command, and tells its listeners: 3 ms, and the statement that
reads the view takes twice as long. Here the view goes straight into the catalog of the session,
which takes 0.3 ms, and statements over it get the very same plan.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tidegate.spark.calls import OTHER_SPARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger("tidegate")


class Views:
    """Sets temporary views in the sessions of a JVM.

    The first view of each name is set by Spark, whose description of it later ones take over; so
    are all views where the catalog of this Spark is another one.
    """

    def __init__(self, jvm: Any) -> None:  # noqa: ANN401 - py4j's view of the JVM
        self._relation = jvm.org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation
        self._some = jvm.scala.Some
        self._described: dict[str, Any] = {}
        self._is_other = False

    def set(self, name: str, frame: DataFrame) -> None:
        """Set a view, in place of one that has the name.

        Args:
            name: its name.
            frame: its rows; it is set in the session of these.
        """
        described = self._described.get(name)
        try:
            if described is not None and not self._is_other:
                view = self._relation(described, self._some(frame._jdf.logicalPlan()))
                self._catalog(frame).createTempView(name, view, True)
                return
        except OTHER_SPARK as error:
            _LOG.debug("views are set by commands: %s", error)
            self._is_other = True
        frame._jdf.createOrReplaceTempView(name)
        if not self._is_other:
            self._learn(name, frame)

    def _learn(self, name: str, frame: DataFrame) -> None:
        try:
            self._described[name] = self._catalog(frame).getRawTempView(name).get().tableMeta()
        except OTHER_SPARK as error:
            _LOG.debug("views are set by commands: %s", error)
            self._is_other = True

    @staticmethod
    def _catalog(frame: DataFrame) -> Any:  # noqa: ANN401 - a JVM object
        session: Any = frame.sparkSession._jsparkSession
        return session.sessionState().catalog()


_views = lru_cache(maxsize=1)(Views)


def set_view(name: str, frame: DataFrame) -> None:
    """Set a temporary view in the session of a frame, in place of one that has the name."""
    _views(frame.sparkSession._jvm).set(name, frame)
