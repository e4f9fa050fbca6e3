"""Ctrl-C and SIGTERM: the first ends a run after the current batch, a second one at once.

Both may be sent to the whole process group (by a terminal or systemd) and so also to Spark's JVM,
which would exit before the batch has ended. PySpark starts the JVM so that it ignores Ctrl-C, and
a JVM ignores SIGTERM if it was ignored when the JVM was started.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Sets an event on the first signal; the second has its default effect."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch for signals, and restore the previous handlers afterwards."""
        before = {number: signal.getsignal(number) for number in ENDING}
        self.watch()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def watch(self) -> None:
        """Watch for signals from now on; called again after Spark starts, which takes Ctrl-C."""
        for number in ENDING:
            signal.signal(number, self._take)

    @contextmanager
    def kept_from_processes(self) -> Iterator[None]:
        """Make processes that are started meanwhile ignore SIGTERM; our own gets it afterwards."""
        # Linux keeps a blocked signal pending even if it would be ignored.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            yield
        finally:
            self.watch()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def _take(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.asked.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.asked.set()
