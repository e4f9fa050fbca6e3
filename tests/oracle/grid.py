"""Windows on a grid (tumbling, hopping, cumulating), and sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .kinds import Cumulate, Hops, Session
from .placing import Closed, Kind, Limits, Placement, Row, passed, reached


class GridKind(Kind):
    """Tumbling, hopping and cumulating windows: a list of rows for each window."""

    def __init__(self, window: Hops | Cumulate, limits: Limits) -> None:
        super().__init__(limits)
        self.window = window
        self.open: dict[tuple[int, int], list[Row]] = {}
        # The ends of windows with rows that no early result shows.
        self.unshown: set[int] = set()

    def windows_of(self, time: int) -> list[tuple[int, int]]:
        """All windows that a time belongs to, by their end; Python's ``%`` floors."""
        window = self.window
        if isinstance(window, Cumulate):
            base = time - (time - window.offset) % window.size
            ends = range(base + window.step, base + window.size + 1, window.step)
            return [(base, end) for end in ends if time < end]
        last = time - (time - window.offset) % window.slide
        starts = range(last, time - window.size, -window.slide)
        return sorted((start, start + window.size) for start in starts)

    def place(self, rows: list[Row], before: int | None) -> Placement:
        result = Placement()
        for row in rows:
            windows = self.windows_of(row.time)
            if not windows:
                result.outside += 1
                continue
            still_open = [w for w in windows if not reached(before, w[1] + self.limits.lateness)]
            if not still_open:
                result.add_late(row, before, windows[-1][1] + self.limits.lateness)
                continue
            refusals = [self._put(row, window) for window in still_open]
            if all(refusals):
                result.evicted.append((row, refusals[0] or ""))
                continue
            result.accumulated += 1
            result.partial += len(still_open) < len(windows) or any(refusals)
        return result

    def _put(self, row: Row, window: tuple[int, int]) -> str | None:
        rows = self.open.get(window, [])
        groups = {r.key_text for r in rows}
        if (
            self.limits.max_groups is not None
            and row.key_text not in groups
            and len(groups) >= self.limits.max_groups
        ):
            return "max_groups"
        mine = sum(r.key_text == row.key_text for r in rows)
        if self.limits.max_rows is not None and mine >= self.limits.max_rows:
            return "max_rows_per_group"
        self.open[window] = [*rows, row]
        self.unshown.add(window[1])
        return None

    def early(self) -> list[Closed]:
        """The open windows from the first to the last one that has rows not shown yet."""
        ends, self.unshown = self.unshown, set()
        return [
            Closed(start, end, rows)
            for (start, end), rows in self.open.items()
            if ends and min(ends) <= end <= max(ends)
        ]

    def close(self, watermark: int | None) -> list[Closed]:
        return self._take(lambda end: reached(watermark, end + self.limits.lateness))

    def drain(self) -> tuple[list[Closed], int | None]:
        ends = [end for _, end in self.open]
        return self._take(lambda end: True), max(ends) + self.limits.lateness if ends else None

    def _take(self, is_due: Callable[[int], bool]) -> list[Closed]:
        due = [window for window in self.open if is_due(window[1])]
        return [Closed(window[0], window[1], self.open.pop(window)) for window in due]


class SessionKind(Kind):
    """Sessions: the open ones of each key, each a list of rows."""

    def __init__(self, window: Session, limits: Limits) -> None:
        super().__init__(limits)
        self.gap = window.gap
        self.open: dict[str, list[list[Row]]] = {}

    def chains(self, rows: Iterable[Row]) -> list[list[Row]]:
        """Rows of a key, cut where two neighbors are more than the gap apart."""
        chains: list[list[Row]] = []
        for row in sorted(rows, key=lambda r: r.place):
            if chains and row.time - chains[-1][-1].time <= self.gap:
                chains[-1].append(row)
            else:
                chains.append([row])
        return chains

    def closed_at(self, chain: list[Row]) -> int:
        return chain[-1].time + self.gap + self.limits.lateness

    def place(self, rows: list[Row], before: int | None) -> Placement:
        result = Placement()
        late: dict[int, int] = {}
        for key in dict.fromkeys(row.key_text for row in rows):
            known = [row for session in self.open.get(key, []) for row in session]
            for chain in self.chains([*known, *(row for row in rows if row.key_text == key)]):
                if passed(before, self.closed_at(chain)):
                    late.update({row.order: self.closed_at(chain) for row in chain})
        taken: list[Row] = []
        for row in rows:
            if row.order in late:
                result.add_late(row, before, late[row.order])
            elif row.key_text not in self.open and self._is_full():
                result.evicted.append((row, "max_groups"))
            elif self._put(row):
                taken.append(row)
            else:
                result.evicted.append((row, "max_rows_per_group"))
        # A row that is in time only because of one that has been evicted is late.
        for chain in self._take_open(lambda chain: passed(before, self.closed_at(chain))):
            for row in chain:
                result.add_late(row, before, self.closed_at(chain))
                taken.remove(row)
        result.accumulated += len(taken)
        return result

    def _put(self, row: Row) -> bool:
        """Let a row join the sessions that it is within the gap of; False: it is one too many."""
        sessions = self.open.get(row.key_text, [])
        joined = [s for s in sessions if s[0].time - self.gap <= row.time <= s[-1].time + self.gap]
        rows = [each for session in joined for each in session]
        if self.limits.max_rows is not None and len(rows) >= self.limits.max_rows:
            return False
        others = [session for session in sessions if session not in joined]
        whole = sorted([*rows, row], key=lambda r: r.place)
        self.open[row.key_text] = sorted([*others, whole], key=lambda s: s[0].place)
        return True

    def join(self, row: Row, before: int | None) -> Placement:
        """Take a row that is judged by the watermark at its place.

        It joins the sessions of its key in reach that are open by that watermark, and makes one of
        them; they may be closed later, when the watermark of all shards has passed.
        """
        result = Placement()
        sessions = self.open.get(row.key_text, [])
        joined = [
            session
            for session in sessions
            if session[0].time - self.gap <= row.time <= session[-1].time + self.gap
            and not passed(before, self.closed_at(session))
        ]
        alone = self.closed_at([row])
        if not joined and passed(before, alone):
            result.add_late(row, before, alone)
            return result
        apart = [session for session in sessions if session not in joined]
        whole = sorted([row, *(each for s in joined for each in s)], key=lambda r: r.place)
        self.open[row.key_text] = [*apart, whole]
        result.accumulated += 1
        return result

    def _is_full(self) -> bool:
        return self.limits.max_groups is not None and len(self.open) >= self.limits.max_groups

    def close(self, watermark: int | None) -> list[Closed]:
        return self._take(lambda chain: passed(watermark, self.closed_at(chain)))

    def drain(self) -> tuple[list[Closed], int | None]:
        moments = [self.closed_at(chain) + 1 for chains in self.open.values() for chain in chains]
        return self._take(lambda chain: True), max(moments, default=None)

    def _take(self, is_due: Callable[[list[Row]], bool]) -> list[Closed]:
        chains = self._take_open(is_due)
        return [Closed(chain[0].time, chain[-1].time + self.gap, chain) for chain in chains]

    def _take_open(self, is_due: Callable[[list[Row]], bool]) -> list[list[Row]]:
        due = []
        for key, chains in list(self.open.items()):
            due.extend(chain for chain in chains if is_due(chain))
            self.open[key] = [chain for chain in chains if not is_due(chain)]
            if not self.open[key]:
                del self.open[key]
        return due
