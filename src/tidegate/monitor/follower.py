"""Follows a checkpoint: its manifests, the history, and what is read of the state."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from tidegate.engine.windows.panes.grid import PaneGrid, pane_grid
from tidegate.errors import StateError
from tidegate.inspection.checkpoint import Checkpoint
from tidegate.inspection.fingerprint import window_of
from tidegate.inspection.next_windows import NextWindows, next_windows
from tidegate.monitor.history import History, Point
from tidegate.monitor.samples import SampledRow, Samples
from tidegate.monitor.timeline import SeenWindow, Timeline
from tidegate.plan.windows import Cumulate, Hopping, Session, Tumbling
from tidegate.processes import is_running
from tidegate.state.manifest import Manifest, Writer
from tidegate.state.plan_file import PlanFile
from tidegate.state.reader import StateReader
from tidegate.state.shard_map import Shard

# Open windows that are listed.
MOST_WINDOWS = 100

# Up to so many rows the states between two looks are read, too.
SMALL_STATE = 20_000

# Reading the state keeps a core busy for this share of the time at most.
READING_SHARE = 0.1


class Status(Enum):
    """What is known of the process that writes a checkpoint."""

    WAITING = "waiting"  # nothing has been committed yet
    RUNNING = "running"
    ENDED = "ended"
    ELSEWHERE = "elsewhere"  # it is on another machine


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOf:
    """What was read of the state of an epoch, besides its manifest.

    Attributes:
        epoch: the epoch, -1 before anything was read.
        windows: its open windows.
        shards: its shards.
        problem: why something could not be read.
    """

    epoch: int = -1
    windows: NextWindows = field(default_factory=NextWindows)
    shards: Mapping[str, Shard] = field(default_factory=dict)
    problem: str | None = None


class Follower:
    """Follows one checkpoint, for several threads.

    ``poll`` is quick; ``read`` takes as long as the state is large. Each is done by one thread at
    a time. What they find replaces what was there, so that others may look on.

    Args:
        name: the name of the transform.
        reader: the checkpoint.

    Attributes:
        since_s: since when it is followed, seconds since 1970.
        manifest: the newest manifest that could be read, without a table of shards.
        committed_s: when it was written.
        problem: why a newer one could not be read.
        plan: what the state means.
        explained: the plan of the process that wrote the manifest, as EXPLAIN has it.
        state: what was read of the state.
    """

    def __init__(self, name: str, reader: StateReader) -> None:
        self.name = name
        self.reader = reader
        self.since_s = time.time()
        self.manifest: Manifest | None = None
        self.committed_s: float | None = None
        self.problem: str | None = None
        self.plan: PlanFile | None = None
        self.explained: Mapping[str, Any] | None = None
        self.state = StateOf()
        self._history = History()
        self._samples = Samples()
        self._timeline = Timeline()
        self._next_read = 0.0
        self._lock = threading.Lock()
        self._polling, self._reading = threading.Lock(), threading.Lock()

    @property
    def status(self) -> Status:
        """Whether the process that wrote the newest manifest runs."""
        if self.manifest is None or self.manifest.writer is None:
            return Status.WAITING
        return _status_of(self.manifest.writer)

    def points(self, after: int = -1) -> list[Point]:
        """Return the history after an epoch."""
        with self._lock:
            return self._history.after(after)

    def results(self) -> list[SampledRow]:
        """Return the newest results that were sampled, the newest first."""
        with self._lock:
            return list(reversed(self._samples.results))

    def side_output(self) -> list[SampledRow]:
        """Return the newest records of side output that were sampled, the newest first."""
        with self._lock:
            return list(reversed(self._samples.side_output))

    def windows(self) -> list[SeenWindow]:
        """Return the windows that were seen: closed ones, then open ones."""
        with self._lock:
            bound_us = None if self.manifest is None else self.manifest.bound_us
            return self._timeline.windows(bound_us, self._history.points, _grid(self.plan))

    def poll(self) -> None:
        """Look for newer manifests."""
        try:
            with self._polling:
                self._poll()
        except StateError as error:
            self.problem = str(error)
        except Exception as error:  # a damaged file may hold anything
            self.problem = f"{self.reader.checkpoint} cannot be read: {error}"

    def _poll(self) -> None:
        commits = self.reader.commits()
        known = -1 if self.manifest is None else self.manifest.epoch
        newest = max(commits, default=-1)
        if newest < known:
            # A rollback, or another checkpoint in its place.
            self.manifest, self.plan, self.explained = None, None, None
            with self._lock:
                self._timeline.forget()
                self._samples = Samples()
            self.state = StateOf()
        for epoch in sorted(commits):
            if epoch == newest or epoch > known:
                self._take(epoch, commits[epoch], is_newest=epoch == newest)
        self.problem = None if commits or known < 0 else f"{self.reader.checkpoint} has gone"

    def _take(self, epoch: int, committed_s: float, *, is_newest: bool) -> None:
        before = self.manifest
        if before is not None and before.epoch == epoch and self.committed_s == committed_s:
            return
        try:
            manifest = self.reader.head(epoch)
        except StateError:
            if is_newest:
                raise
            return  # It may just have been deleted, as newer ones have come.
        if self.plan is None or before is None or before.plan_id != manifest.plan_id:
            self.plan = self.reader.plan()
        if self.explained is None or before is None or before.writer != manifest.writer:
            self.explained = None
            with suppress(StateError):  # Only the drawing of the plan lacks it.
                self.explained = self.reader.explained(manifest.writer)
        with self._lock:
            self._history.add(manifest)
            self._samples.add(manifest)
        self.manifest, self.committed_s = manifest, committed_s

    def read(self) -> bool:
        """Read the state of the newest manifest, unless that was done or it is too early again.

        Returns:
            Whether anything was read.
        """
        with self._reading:
            return self._read()

    def _read(self) -> bool:
        manifest, plan = self.manifest, self.plan
        if manifest is None or plan is None or manifest.epoch == self.state.epoch:
            return False
        # What cannot be read once cannot be read until there is a newer manifest.
        started, before_s = time.monotonic(), time.thread_time()
        if started < self._next_read:
            return False
        self._look_back(manifest, plan)
        problem, windows, shards = None, NextWindows(), manifest.watermark.shards
        try:
            windows = self._windows_of(manifest, plan)
            if manifest.tables.shards:
                shards = self.reader.with_shards(manifest).watermark.shards
        except Exception as error:  # of pyarrow too, if a file is damaged
            if self.manifest is not manifest:
                return False  # Its files may have been deleted; the newer one is next.
            problem = str(error)
        with self._lock, suppress(TypeError):
            self._timeline.see(windows, manifest.bound_us, growing=_grows(plan))
        self.state = StateOf(epoch=manifest.epoch, windows=windows, shards=shards, problem=problem)
        now, busy_s = time.monotonic(), time.thread_time() - before_s
        self._next_read = now + max(now - started, busy_s / READING_SHARE)
        return True

    def _look_back(self, manifest: Manifest, plan: PlanFile) -> None:
        """See which windows were open since the last look; some have closed already.

        That is in kept manifests whose state is small, and at first in the oldest one.
        """
        with suppress(Exception):  # It is only a look, and files may be deleted at any moment.
            known = self.state.epoch
            for epoch in sorted(self.reader.commits()):
                if not known < epoch < manifest.epoch:
                    continue
                before = self.reader.head(epoch)
                rows = sum(segment.rows for segment in before.tables.of_windows)
                if rows <= SMALL_STATE or known < 0:
                    windows = self._windows_of(before, plan)
                    with self._lock:
                        self._timeline.see(windows, before.bound_us, growing=_grows(plan))
                known = max(known, 0)

    def _windows_of(self, manifest: Manifest, plan: PlanFile) -> NextWindows:
        if not self.reader.is_local:
            return NextWindows(note="not listed: the checkpoint is not on this machine")
        checkpoint = Checkpoint(reader=self.reader, manifest=manifest, plan=plan)
        return next_windows(checkpoint, MOST_WINDOWS)


def _grid(plan: PlanFile | None) -> PaneGrid | None:
    """The grid on which the windows of a state lie; None for kinds without one."""
    with suppress(StateError):
        window = None if plan is None else window_of(plan.fingerprint)
        if isinstance(window, Tumbling | Hopping | Cumulate):
            return pane_grid(window)
    return None


def _grows(plan: PlanFile) -> bool:
    """Whether the windows of a state have ends that move."""
    return plan.fingerprint.get("window", "").startswith(Session.kind)


def _status_of(writer: Writer) -> Status:
    if writer.host != socket.gethostname():
        return Status.ELSEWHERE
    try:
        running = is_running(writer.pid, datetime.fromisoformat(writer.started))
    except (ValueError, OverflowError, TypeError):
        running = False
    return Status.RUNNING if running else Status.ENDED
