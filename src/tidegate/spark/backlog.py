"""Whether the source of a query has more rows at hand than the running batch takes.

Spark knows once it has planned a batch: a source of files keeps those that it has left for later
batches, and a topic the offsets that it found. If it cannot be told, there is no more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

_LOG = logging.getLogger("tidegate")

# Spark's classes are its own affair, and another version may have others. A class that is missing
# is a package to py4j, and calling that is a TypeError.
_OTHER_SPARK = (PySparkException, Py4JError, TypeError, AttributeError)


class Backlog:
    """Looks at the sources of a running query of Spark.

    Args:
        execution: Spark's ``StreamExecution`` of the query.
    """

    def __init__(self, execution: Any) -> None:  # noqa: ANN401 - a JVM object
        self._execution = execution
        self._looks: list[Callable[[], bool]] | None = None

    def has_more(self) -> bool:
        """Return whether there are rows for another batch, while one runs."""
        try:
            if self._looks is None:
                self._looks = self._find()
            return any(look() for look in self._looks)
        except _OTHER_SPARK as error:
            _LOG.debug("the backlog of a source is not known: %s", error)
            self._looks = []
            return False

    def _find(self) -> list[Callable[[], bool]]:
        found: list[Callable[[], bool]] = []
        sources = self._execution.sources().iterator()
        while sources.hasNext():
            source = sources.next()
            make = _LOOKS.get(source.getClass().getSimpleName())
            if make is not None:
                found.append(make(self._execution, source))
        return found


def _files(execution: Any, source: Any) -> Callable[[], bool]:  # noqa: ANN401 - JVM objects
    """Whether a source has listed files that it has not read."""

    def field(name: str) -> Any:  # noqa: ANN401 - a JVM object
        found = source.getClass().getDeclaredField(name)
        found.setAccessible(True)
        return found

    unread, listed = field("unreadFiles"), field("allFilesForTriggerAvailableNow")

    def look() -> bool:
        left = unread.get(source)
        if left is not None:
            return bool(left.nonEmpty())
        # With availableNow: all files there were at the start of the run, in the order in which
        # they are read. How many have been seen says nothing: those of earlier runs are among them,
        # and Spark forgets old ones (maxFileAge).
        files = listed.get(source)
        if files is None or files.isEmpty():
            return False
        last = files.last()
        return bool(source.seenFiles().isNewFile(last.path(), last.timestamp()))

    return look


def _topic(execution: Any, source: Any) -> Callable[[], bool]:  # noqa: ANN401 - JVM objects
    """Whether a topic had offsets beyond those of the batch when it was planned."""

    def look() -> bool:
        latest, planned = source.reportLatestOffset(), execution.availableOffsets().get(source)
        if latest is None or planned.isEmpty():
            return False
        return bool(latest.json() != planned.get().json())

    return look


_LOOKS: Mapping[str, Callable[[Any, Any], Callable[[], bool]]] = {
    "FileStreamSource": _files,
    "KafkaMicroBatchStream": _topic,
}
