"""Ctrl-C and SIGTERM: the first ends a run after the current batch, a second one at once.

While Spark starts there is no batch, so then the first one ends that; but not the start of Java,
which takes a second or two: Spark's launcher, if interrupted, leaves a Java behind that never ends.

Both may be sent to the whole process group (by a terminal or systemd) and so also to Spark's JVM,
which would exit before the batch has ended. PySpark starts the JVM so that it ignores Ctrl-C, and
a JVM ignores SIGTERM if it was ignored when the JVM was started. A JVM ends when the process that
started it has ended, however that came.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)


class StopRequested(BaseException):
    """A signal ends the start of Spark; py4j would log a ``KeyboardInterrupt`` with its stack."""


class Signals:
    """Sets an event on the first signal; the second has its default effect."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._starting = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch for signals, and restore the previous handlers afterwards."""
        before = {number: signal.getsignal(number) for number in ENDING}
        self._watch()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def starting_java(self) -> Iterator[None]:
        """Start Java in the block; it is made to ignore SIGTERM."""
        _deafen_children()
        _Deaf.children = True
        try:
            yield
        finally:
            _Deaf.children = False

    @contextmanager
    def starting_spark(self) -> Iterator[None]:
        """Start Spark in the block, which a signal ends.

        Raises:
            StopRequested: a signal has come, now or before.
        """
        self._starting = True
        try:
            if self.asked.is_set():
                raise StopRequested
            yield
        finally:
            self._starting = False
            # Spark has put a handler of its own in place.
            self._watch()

    def _watch(self) -> None:
        for number in ENDING:
            signal.signal(number, self._take)

    def _take(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.asked.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.asked.set()
        if self._starting:
            raise StopRequested


class _Deaf:
    """Whether processes that are started now ignore SIGTERM."""

    children = False
    is_hooked = False


def _deafen_children() -> None:
    """Let Python call ``_become_deaf`` in new processes; such a hook stays forever.

    PySpark starts the JVM with a ``preexec_fn``, and only then does ``subprocess`` run hooks.
    """
    if not _Deaf.is_hooked:
        os.register_at_fork(after_in_child=_become_deaf)
        _Deaf.is_hooked = True


def _become_deaf() -> None:
    if _Deaf.children:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
