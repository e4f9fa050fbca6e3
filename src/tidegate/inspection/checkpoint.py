"""A checkpoint and the manifest of it that is looked at."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.inspection.open_windows import OpenWindow, OpenWindows
from tidegate.state.manifest import Manifest
from tidegate.state.plan_file import PlanFile
from tidegate.state.reader import StateReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint, and the manifest of it that is shown."""

    reader: StateReader
    manifest: Manifest
    plan: PlanFile

    def open_windows(self, start_us: int) -> list[OpenWindow]:
        """Return the open windows with a given start."""
        return OpenWindows(self.reader, self.manifest, self.plan).all(start_us)

    def counted_windows(self) -> list[OpenWindow]:
        """Return all open windows; their rows may have no other columns than those of groups."""
        return OpenWindows(self.reader, self.manifest, self.plan, counts_only=True).all()
