"""The history of a transform: a point for each step that was seen, made of two manifests.

A checkpoint keeps its eleven newest manifests; what came before them is known only to those who
looked on. So the history begins with the oldest kept manifest and is a ring in memory.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, fields
from typing import Any

from tidegate.metrics.report import Counts, Emissions
from tidegate.state.manifest import Manifest

# At a step a second, half an hour.
MOST_POINTS = 1_800


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What happened between two manifests, which are mostly those of two steps in a row.

    Attributes:
        epoch: the later one.
        kind: ``batch``, ``drain`` or ``flush``; None if its manifest does not say.
        clock_us: its clock.
        seconds: the clock's way since the earlier one; None if it is unknown or has not moved.
        watermark_us: the watermark after it.
        bound_us: windows up to here have closed.
        counts: rows by fate.
        emitted: what was emitted.
        side_dropped: records of side output that were not written.
        open_windows: windows open after it; None if its manifest does not say.
        duration_ms: how long the later step took; None likewise.
    """

    epoch: int
    kind: str | None
    clock_us: int | None
    seconds: float | None
    watermark_us: int | None
    bound_us: int | None
    counts: Counts
    emitted: Emissions
    side_dropped: int
    open_windows: int | None
    duration_ms: int | None

    @property
    def lag_us(self) -> int | None:
        """How far the watermark is behind the clock."""
        if self.clock_us is None or self.watermark_us is None:
            return None
        return self.clock_us - self.watermark_us

    def rate(self, rows: int) -> float | None:
        """Return rows of this point per second; None if its time is unknown."""
        return None if self.seconds is None else rows / self.seconds

    def to_json(self) -> dict[str, Any]:
        """Return it for the page."""
        return {
            "epoch": self.epoch,
            "kind": self.kind,
            "clock_us": self.clock_us,
            "seconds": self.seconds,
            "watermark_us": self.watermark_us,
            "lag_us": self.lag_us,
            "open_windows": self.open_windows,
            "duration_ms": self.duration_ms,
            "side_dropped": self.side_dropped,
            **asdict(self.counts),
            **asdict(self.emitted),
        }


class History:
    """The points of a transform, oldest first; the first manifest gives none."""

    def __init__(self) -> None:
        self._points: deque[Point] = deque(maxlen=MOST_POINTS)
        self._last: Manifest | None = None

    @property
    def points(self) -> list[Point]:
        """All of them."""
        return list(self._points)

    def after(self, epoch: int) -> list[Point]:
        """Return the points of later epochs."""
        return [point for point in self._points if point.epoch > epoch]

    def add(self, manifest: Manifest) -> None:
        """Add a newer manifest; one that is older begins again, after a rollback."""
        before = self._last
        if before is not None and _follows(before, manifest):
            self._points.append(point_of(before, manifest))
        elif before is not None:
            kept = [point for point in self._points if point.epoch <= manifest.epoch]
            same = before.checkpoint_id == manifest.checkpoint_id
            self._points = deque(kept if same else (), maxlen=MOST_POINTS)
        elif manifest.epoch == 0:
            self._points.append(point_of(_nothing(manifest), manifest))
        self._last = manifest


def point_of(before: Manifest, after: Manifest) -> Point:
    """Return what happened between two manifests."""
    seconds = None
    if before.clock_us is not None and after.clock_us is not None:
        moved_us = after.clock_us - before.clock_us
        seconds = moved_us / 1_000_000 if moved_us > 0 else None
    step = after.step
    return Point(
        epoch=after.epoch,
        kind=None if step is None else step.kind,
        clock_us=after.clock_us,
        seconds=seconds,
        watermark_us=after.watermark.watermark_us,
        bound_us=after.bound_us,
        counts=Counts(**_more(before.totals, after.totals)),
        emitted=Emissions(**_more(before.emitted, after.emitted)),
        side_dropped=max(0, after.dropped.total - before.dropped.total),
        open_windows=None if step is None else step.open_windows,
        duration_ms=None if step is None else step.duration_ms,
    )


def _follows(before: Manifest, after: Manifest) -> bool:
    return after.checkpoint_id == before.checkpoint_id and after.epoch > before.epoch


def _nothing(first: Manifest) -> Manifest:
    """The state before a first manifest."""
    return Manifest(
        epoch=-1, batch_id=-1, fingerprint=first.fingerprint, plan_id="", clock_us=first.clock_us
    )


def _more(before: Counts | Emissions, after: Counts | Emissions) -> dict[str, int]:
    names = [field.name for field in fields(after)]
    return {name: max(0, getattr(after, name) - getattr(before, name)) for name in names}
