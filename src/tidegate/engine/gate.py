"""The gate: admits batches one at a time until it is closed; a batch inside may still finish."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Which thread the current one works for.
_WORKS = threading.local()


@contextmanager
def working_for(thread: int) -> Iterator[None]:
    """Let what the current thread calls count as called by another one, which waits for it."""
    _WORKS.employer = thread
    try:
        yield
    finally:
        del _WORKS.employer


class TurnedAway(Exception):
    """A batch came after the gate was closed; nothing of it has been run.

    Spark logs an exception in ``foreachBatch`` as a failure of the query, unless the query is being
    stopped and the text says that a Java call was interrupted. Hence the text of this one.
    """

    def __init__(self) -> None:
        super().__init__(
            "py4j.protocol.Py4JJavaError: An error occurred while calling foreachBatch: "
            "java.lang.InterruptedException: the query is being stopped"
        )


class Gate:
    """Synchronizes Spark's thread, which brings batches, with threads that stop the query.

    Attributes:
        turned_away: whether a batch came too late, which Spark reports as a failure of the query.
    """

    def __init__(self) -> None:
        self.turned_away = False
        self._changed = threading.Condition()
        self._closed = False
        self._inside: int | None = None
        # The thread that finishes a step beside the next batch.
        self._beside: int | None = None
        self._is_recalled = False

    @property
    def is_closed(self) -> bool:
        """Whether no further batch is admitted."""
        return self._closed

    @property
    def holds_me(self) -> bool:
        """Whether the calling thread is inside, or works for it: a sink or ``on_batch`` calls."""
        me = getattr(_WORKS, "employer", threading.get_ident())
        return me in (self._inside, self._beside)

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Let the current thread count as inside: it finishes a step beside the batch inside.

        Raises:
            TurnedAway: meanwhile it has closed the gate, so the batch inside may not go on.
        """
        self._beside = threading.get_ident()
        try:
            yield
        finally:
            self._beside = None
        if self._is_recalled:
            self.turned_away = True
            raise TurnedAway

    def close_inside(self) -> None:
        """Admit no further batch, on behalf of a thread that is inside.

        If that one finishes a step beside the next batch, the next batch turns back.
        """
        self._is_recalled = self._beside == getattr(_WORKS, "employer", threading.get_ident())
        self.close()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Enter with a batch.

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
        """Enter even if the gate is closed: for work after the last batch."""
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
        """Admit no further batch."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def reopen(self) -> None:
        """Admit batches again."""
        with self._changed:
            self._closed = self.turned_away = self._is_recalled = False

    def wait_until_closed(self, seconds: float) -> bool:
        """Wait until the gate is closed; False when ``seconds`` were not enough."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed, seconds)

    def wait_until_empty(self) -> None:
        """Wait until the batch inside has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._inside is None)
