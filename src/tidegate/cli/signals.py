"""Ctrl-C and SIGTERM: the first lets a run end after the batch in hand, a second ends it at once.

Both may be sent to the whole process group (a terminal, systemd), and so to Spark's JVM too, which
would be gone before the batch has ended. PySpark lets it ignore Ctrl-C; a JVM also leaves SIGTERM
alone if it was ignored when the JVM was started.
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
    """Sets an event on the first signal; the second has the effect that it has by default."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch for signals; what was done on them before is done again afterwards."""
        before = {number: signal.getsignal(number) for number in ENDING}
        self.watch()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def watch(self) -> None:
        """Watch for signals from here on; a Spark context that starts takes Ctrl-C for itself."""
        for number in ENDING:
            signal.signal(number, self._take)

    @contextmanager
    def kept_from_processes(self) -> Iterator[None]:
        """Let processes that are started here ignore SIGTERM; ours takes it afterwards."""
        # Linux keeps a signal that is blocked, also where it would be ignored.
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
