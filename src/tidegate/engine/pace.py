"""The pace of a query: batches follow each other at least the trigger's interval apart.

Spark's own trigger waits until the machine's clock has reached a time. If that clock is set back in
the meantime, no batch starts until it has caught up. So Spark is asked for batches as fast as
possible, and the wait is here, by a clock that is never set: after a batch in this module, and in
Spark (``POLLING``) where it has looked for rows and found none.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tidegate.engine.gate import Gate

# How long Spark waits where it has found no rows.
POLLING = "spark.sql.streaming.pollingDelay"

# How often a wait looks whether the query is still to go on.
_LOOK_SECONDS = 0.2


def polling(interval_us: int) -> dict[str, str]:
    """Return the settings of Spark under which it looks for rows once in an interval."""
    return {POLLING: f"{interval_us // 1_000}ms"} if interval_us >= 1_000 else {}


class Pace:
    """Keeps batches apart.

    Args:
        interval_us: from the start of a batch to that of the next; 0: no wait.
    """

    def __init__(self, interval_us: int) -> None:
        self._seconds = interval_us / 1_000_000
        # When the next batch may start.
        self._next = time.monotonic()

    def starts(self) -> None:
        """Take note that a batch starts."""
        now = time.monotonic()
        # A batch comes a little after the wait before it; that does not add up.
        on_time = now - self._next < self._seconds
        self._next = (self._next if on_time else now) + self._seconds

    def wait(self, gate: Gate, is_active: Callable[[], bool]) -> None:
        """Wait after a batch until the next one may start, or the query is to end."""
        while (left := self._next - time.monotonic()) > 0:
            if gate.wait_until_closed(min(left, _LOOK_SECONDS)) or not is_active():
                return
