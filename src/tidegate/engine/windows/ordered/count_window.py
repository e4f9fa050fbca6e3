"""Count windows: the rows of a partition are numbered, and the numbers determine the windows.

    countwindow(3)       1 2 3 | 4 5 6 | 7 ..        window k ends with row 3k
    countwindow(3, 2)    1 2 | 2 3 4 | 4 5 6 | ..    window k ends with row 2k, shows 3 rows

Row ``o`` is in each window ``k`` with ``o <= k * every < o + count``. The last rows of a partition
are carried over with their numbers; the next rows are numbered from there on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.engine.windows.ordered.log import NEW
from tidegate.engine.windows.ordered.operator import (
    CLOSES,
    RUNNING,
    STANDS,
    STOOD,
    WHOLE,
    WINDOW,
    Partition,
)

# BIGINT, from 1: the number of a row in its partition; NULL in the state until it is released.
ORDINAL = "_ordinal"
CARRIED_ORDINAL = "_carried_ordinal"

# BIGINT: the number of the partition's last row, now and at the previous close.
REACHED, REACHED_BEFORE = "_reached", "_reached_before"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountScan:
    """Every ``every``-th row shows the last ``count`` rows. See ``Scan``."""

    count: int
    every: int

    @property
    def flushes(self) -> bool:
        return False

    def columns(self) -> Mapping[str, str]:
        return {ORDINAL: "CAST(NULL AS BIGINT)"}

    def scanned(self, rows: str, partition: Partition) -> str:
        # Carried rows precede all others of their partition and include its previous last row.
        reached_before = f"coalesce({partition.scan(f'max({CARRIED_ORDINAL})', WHOLE)}, 0)"
        held, new = (
            partition.scan(f"count_if({condition})", WHOLE) for condition in (f"NOT {NEW}", NEW)
        )
        place = f"{partition.scan('row_number()', RUNNING)} - {held}"
        numbered = (
            f"SELECT *, {place} AS _place, {new} AS _released, "
            f"{reached_before} AS {REACHED_BEFORE} "
            f"FROM (SELECT * EXCEPT ({ORDINAL}), {ORDINAL} AS {CARRIED_ORDINAL} FROM ({rows}))"
        )
        counted = (
            f"SELECT *, IF({NEW}, {REACHED_BEFORE} + _place, {CARRIED_ORDINAL}) AS {ORDINAL}, "
            f"{REACHED_BEFORE} + _released AS {REACHED} FROM ({numbered})"
        )
        ends = f"{ORDINAL} % {self.every} = 0"
        return (
            f"SELECT *, {NEW} AND {ends} AS {CLOSES}, "
            f"{ORDINAL} = {REACHED} AND NOT {ends} AS {STANDS}, "
            f"NOT {NEW} AND {ORDINAL} = {REACHED_BEFORE} AND NOT {ends} AS {STOOD} FROM ({counted})"
        )

    def closed(self, scanned: str, *, end: bool) -> str:
        if self.count == self.every:
            window = f"({ORDINAL} - 1) div {self.count}"
            ended = "true" if end else f"NOT {self._is_left()}"
            return (
                f"SELECT *, {window} AS {WINDOW} FROM ({scanned}) "
                f"WHERE {window} >= {REACHED_BEFORE} div {self.count} AND {ended}"
            )
        return f"SELECT *, explode({self._windows(end=end)}) AS {WINDOW} FROM ({scanned})"

    def carried(self, scanned: str) -> str:
        return f"SELECT * FROM ({scanned}) WHERE {self._is_left()}"

    def appended(self, scanned: str) -> str:
        # The last row holds the current number, so it is kept even if it has filled a window.
        wanted = f"{self._is_left()} OR {ORDINAL} = {REACHED}"
        return f"SELECT * FROM ({scanned}) WHERE {NEW} AND ({wanted})"

    def _windows(self, *, end: bool) -> str:
        """The windows of a row that end now; with gaps between windows it may have none."""
        first_own = f"({ORDINAL} + {self.every - 1}) div {self.every}"
        last_own = f"({ORDINAL} + {self.count - 1}) div {self.every}"
        first = f"greatest({first_own}, {REACHED_BEFORE} div {self.every} + 1)"
        last = f"least({last_own}, {REACHED} div {self.every})"
        windows = f"IF({first} <= {last}, sequence({first}, {last}), array())"
        if not end:
            return windows
        # Rows after the last full window end one more, which shows the last rows like any other.
        left = f"{REACHED} % {self.every} <> 0 AND {self._is_left()}"
        return f"concat({windows}, IF({left}, array({REACHED} div {self.every} + 1), array()))"

    def _is_left(self) -> str:
        """The condition that a coming window may show the row."""
        if self.count == self.every:
            return f"({ORDINAL} > {REACHED} - {REACHED} % {self.count})"
        return f"({ORDINAL} > {REACHED} - {self.count})"
