"""State windows: a state machine for each partition, as a prefix scan.

    row        1    2    3    4    5    6    7
    open       .    x    x    .    .    .    x
    emit       x    .    .    .    x    x    x
    machine    -   [2    3    4    5]   -   [7 ..

Each row is a function on {inactive, active}: open alone sets, emit alone resets, both toggle (an
inactive machine starts, an active one emits), neither keeps. So the state before a row is what the
last set or reset row left, inverted once for each toggle since: two running window functions. A
third numbers the windows.

The rows of an active machine are carried over. The first of them started it and none emitted, so
scanning them again leads to the same state, and nothing else need be remembered. An inactive
machine leaves no rows. When rows are appended to a log, the row that emitted is appended too, and
emits again when it is scanned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.engine.windows.ordered.log import NEW
from tidegate.engine.windows.ordered.operator import (
    BEFORE,
    CLOSES,
    RUNNING,
    STANDS,
    STOOD,
    WHOLE,
    WINDOW,
    Partition,
)
from tidegate.plan.columns import EMIT, OPEN

_TOGGLES = f"({OPEN} AND {EMIT})"


@dataclass(frozen=True, slots=True)
class StateScan:
    """The machines. See ``Scan``."""

    @property
    def flushes(self) -> bool:
        return True

    def columns(self) -> Mapping[str, str]:
        # A condition that is NULL counts as false.
        return {name: f"coalesce({name}, false)" for name in (OPEN, EMIT)}

    def scanned(self, rows: str, partition: Partition) -> str:
        turned = f"{partition.scan(f'count_if{_TOGGLES}', RUNNING)} % 2 = 1"
        # What the last set or reset row left, expressed relative to the toggles before it.
        left = f"last(IF({OPEN} = {EMIT}, NULL, {OPEN} <> _turned), true)"
        active = f"coalesce({partition.scan(left, BEFORE)}, false) <> (_turned <> {_TOGGLES})"
        starts, emits = f"(NOT _active AND {OPEN})", f"(_active AND {EMIT})"
        started = partition.scan(f"count_if{starts}", RUNNING)
        emitted = partition.scan(f"count_if{emits}", WHOLE)
        before = partition.scan(f"count_if({emits} AND NOT {NEW})", WHOLE)
        machines = (
            f"SELECT *, {active} AS _active FROM (SELECT *, {turned} AS _turned FROM ({rows}))"
        )
        kept = (
            f"SELECT *, {started} AS {WINDOW}, {emitted} AS _emitted, {before} AS _emitted_before "
            f"FROM ({machines}) WHERE _active OR {OPEN}"
        )
        return (
            f"SELECT *, {emits} AND {NEW} AS {CLOSES}, "
            f"{starts} AND {WINDOW} > _emitted AS {STANDS}, "
            f"{starts} AND NOT {NEW} AND {WINDOW} > _emitted_before AS {STOOD} FROM ({kept})"
        )

    def closed(self, scanned: str, *, end: bool) -> str:
        condition = f"{WINDOW} > _emitted_before" + ("" if end else f" AND {WINDOW} <= _emitted")
        return f"SELECT * FROM ({scanned}) WHERE {condition}"

    def carried(self, scanned: str) -> str:
        return f"SELECT * FROM ({scanned}) WHERE {WINDOW} > _emitted"

    def appended(self, scanned: str) -> str:
        # The last row that emitted makes the machine inactive whatever is carried before it; alone
        # it must not open a window.
        open_again = f"{OPEN} AND {WINDOW} > _emitted"
        wanted = f"{WINDOW} > _emitted OR ({CLOSES} AND {WINDOW} = _emitted)"
        return (
            f"SELECT * EXCEPT ({OPEN}), {open_again} AS {OPEN} FROM ({scanned}) "
            f"WHERE {NEW} AND ({wanted})"
        )
