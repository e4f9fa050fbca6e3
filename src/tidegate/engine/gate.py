"""The gate: lets batches in one at a time, until it is closed; then the batch inside ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TurnedAway(Exception):
    """A batch came after the gate was closed. Nothing of it has been done.

    Spark logs an exception of ``foreachBatch`` as a failure of the query, unless the query is being
    stopped and the text tells of a Java call that was interrupted. It is that of a stop, so its
    text says so.
    """

    def __init__(self) -> None:
        super().__init__(
            "py4j.protocol.Py4JJavaError: An error occurred while calling foreachBatch: "
            "java.lang.InterruptedException: the query is being stopped"
        )


class Gate:
    """Stands between the thread of Spark that brings batches and those that want the query to end.

    Attributes:
        turned_away: whether a batch came too late. Spark takes that for a failure of the query.
    """

    def __init__(self) -> None:
        self.turned_away = False
        self._changed = threading.Condition()
        self._closed = False
        self._inside: int | None = None

    @property
    def is_closed(self) -> bool:
        """Whether no further batch gets in."""
        return self._closed

    @property
    def holds_me(self) -> bool:
        """Whether the thread that asks is the one inside: a sink or a watcher calls."""
        return self._inside == threading.get_ident()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Go in for a batch.

        Raises:
            TurnedAway: the gate is closed.
        """
        with self._changed:
            if self._closed:
                self.turned_away = True
                raise TurnedAway
            self._inside = threading.get_ident()
        yield from self._leaving()

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """Be inside, also where the gate is closed: for what follows the last batch."""
        with self._changed:
            self._changed.wait_for(lambda: self._inside is None)
            self._inside = threading.get_ident()
        yield from self._leaving()

    def _leaving(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self._changed:
                self._inside = None
                self._changed.notify_all()

    def close(self) -> None:
        """Let no further batch in."""
        with self._changed:
            self._closed = True

    def reopen(self) -> None:
        """Let batches in again."""
        with self._changed:
            self._closed = self.turned_away = False

    def wait_until_empty(self) -> None:
        """Wait until the batch that is inside has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._inside is None)
