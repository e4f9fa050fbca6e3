"""Pools of Spark's scheduler: which query gets a free core.

Spark gives free cores to the oldest job, so a batch of three tasks would wait behind the hundred
tasks of another query. Its fair scheduler gives them to the pool with the fewest running tasks
instead (``spark.scheduler.mode = FAIR``, which ``local_session`` sets), so queries run in different
pools. Without it pools have no effect.

Among pools with equally few running tasks Spark takes the first one *by name*. With more queries
than cores those with later names would wait for as long as the others have anything to do. So each
batch takes a pool anew, with a later name than the batches that began before it. Spark never
forgets a pool, hence their number is bounded and names begin again, with those that Spark prefers
to all that are in use:

    names    000 001 002 ..     .. 126 127 | 128 ..    255
                 D   E              A   B  | C

Here A and B began first, D and E later and yet they go first: they have overtaken A and B. A query
overtakes a batch four times; then it goes behind, as with C. So while a batch waits, each other
query begins with five batches at most. Where there is no name behind, several share the last pool,
in which Spark takes the oldest job; while many queries catch up that is one batch in six.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

POOL = "spark.scheduler.pool"

# How many pools there are. Names begin again after half of them; the rest is behind all of these.
POOLS = 256

_PREFIX = "tidegate-"


# How often a query overtakes a batch.
OVERTAKES = 4


@dataclass(eq=False, slots=True)
class Turn:
    """The place of a batch among those that run.

    Attributes:
        query: whose batch.
        place: the number of its pool; Spark prefers lower ones.
        overtaken_by: how often each query has begun later and gone first.
        holders: how many threads have it.
    """

    query: str
    place: int
    overtaken_by: Counter[str] = field(default_factory=Counter)
    holders: int = 1

    @property
    def pool(self) -> str:
        """The name of its pool."""
        return f"{_PREFIX}{self.place:03d}"


class Turns:
    """The places of all batches that run in this process.

    Args:
        pools: how many places there are.
    """

    def __init__(self, pools: int = POOLS) -> None:
        self._last = pools - 1
        self._first_behind = pools // 2
        self._next = 0
        self._running: list[Turn] = []
        self._lock = threading.Lock()

    def begin(self, query: str) -> Turn:
        """Return the place of a batch that begins."""
        with self._lock:
            place = self._behind(query)
            if place is None:
                place = self._next
                self._next = (place + 1) % self._first_behind
            for turn in self._running:
                if turn.place > place:
                    turn.overtaken_by[query] += 1
            begun = Turn(query, place)
            self._running.append(begun)
            return begun

    def _behind(self, query: str) -> int | None:
        """A place behind the batches that a query may not overtake; None: the next one is."""
        waiting = (turn for turn in self._running if turn.overtaken_by[query] >= OVERTAKES)
        behind = max((turn.place for turn in waiting), default=-1) + 1
        if behind <= self._next:
            return None
        taken = {turn.place for turn in self._running}
        free = (place for place in range(behind, self._last) if place not in taken)
        return next(free, self._last)

    def share(self, turn: Turn) -> None:
        """Let one more thread have a turn."""
        with self._lock:
            turn.holders += 1

    def end(self, turn: Turn) -> None:
        """Note that a thread no longer needs its turn."""
        with self._lock:
            turn.holders -= 1
            if not turn.holders:
                self._running.remove(turn)


# All sessions of a process share one Spark.
_TURNS = Turns()


@contextmanager
def turn_of(query: str, context: SparkContext) -> Iterator[Turn | None]:
    """Let the jobs of the current thread have a turn of their own meanwhile.

    Yields:
        It; None in a pool that the user has set for this thread, or for that which started it.
    """
    pool = context.getLocalProperty(POOL)
    if pool is not None and not pool.startswith(_PREFIX):
        yield None
        return
    turn = _TURNS.begin(query)
    try:
        # Left as it is afterwards: the next batch sets its own.
        context.setLocalProperty(POOL, turn.pool)
        yield turn
    finally:
        _TURNS.end(turn)


class Shared:
    """The turn of a batch, for a thread that goes on with it.

    It is held from when this is created, in the thread of the batch.

    Args:
        turn: it; None if there is none.
        context: Spark's.
    """

    def __init__(self, turn: Turn | None, context: SparkContext) -> None:
        self._turn = turn
        self._context = context
        self._pool = context.getLocalProperty(POOL)
        if turn is not None:
            _TURNS.share(turn)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Let the jobs of the current thread run in the pool meanwhile."""
        try:
            if self._pool is not None:
                self._context.setLocalProperty(POOL, self._pool)
            yield
        finally:
            if self._turn is not None:
                _TURNS.end(self._turn)
