"""Watches checkpoints in the background: looks for new manifests, reads the state of some.

One thread looks for manifests, every second. Another reads the state of the transforms that
somebody has asked for lately, so a large one delays nobody.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from tidegate.inspection.folders import readers_in
from tidegate.monitor.follower import Follower
from tidegate.paths import local_path
from tidegate.state.reader import StateReader

_LOG = logging.getLogger("tidegate")

# How often manifests are looked for, and how often elsewhere than on a local disk.
POLL_SECONDS = 1.0
REMOTE_POLL_SECONDS = 10.0

# A transform is read on for this long after somebody has asked for it.
ASKED_SECONDS = 30.0

# Makes readers of checkpoints that are not on this machine, by the names of their transforms.
RemoteReaders = Callable[[str], Mapping[str, StateReader]]


class Watch:
    """Watches the checkpoints in some folders, each of a transform or of a pipeline.

    A folder may be empty yet; transforms are added when they begin.

    Args:
        folders: the folders.
        remote: makes readers of folders that are not on this machine.
    """

    def __init__(self, folders: Sequence[str], remote: RemoteReaders | None = None) -> None:
        self._folders = list(dict.fromkeys(folders))
        self._remote = remote
        self._told: set[str] = set()
        self._followers: dict[str, Follower] = {}
        self._asked: dict[str, float] = {}
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def followers(self) -> Mapping[str, Follower]:
        """The transforms by their ids, in the order of the folders."""
        return self._followers

    def ask(self, id: str) -> Follower | None:
        """Return a transform whose state is wanted; None if there is none."""
        found = self._followers.get(id)
        if found is not None:
            self._asked[id] = time.monotonic()
        return found

    def look(self) -> None:
        """Look once for new transforms and manifests."""
        self._discover(with_remote=True)
        for follower in self._followers.values():
            follower.poll()

    def read(self) -> None:
        """Read once the states that are wanted."""
        since = time.monotonic() - ASKED_SECONDS
        for id, asked in list(self._asked.items()):
            if asked < since:
                del self._asked[id]
            else:
                self._followers[id].read()

    def start(self) -> None:
        """Watch in threads of its own until ``stop``."""
        for work, name in ((self._look_on, "manifests"), (self._read_on, "state")):
            thread = threading.Thread(target=work, name=f"tidegate-monitor-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End the threads."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(timeout=5)

    def _look_on(self) -> None:
        next_remote = 0.0
        while not self._stopping.is_set():
            with_remote = time.monotonic() >= next_remote
            if with_remote:
                next_remote = time.monotonic() + REMOTE_POLL_SECONDS
            self._discover(with_remote=with_remote)
            for follower in list(self._followers.values()):
                if follower.reader.is_local or with_remote:
                    follower.poll()
            self._stopping.wait(POLL_SECONDS)

    def _read_on(self) -> None:
        with suppress(ImportError):  # it is told when it is needed
            import_module("pyarrow.parquet")  # takes a second, so not when somebody waits
        while not self._stopping.is_set():
            self.read()
            self._stopping.wait(POLL_SECONDS / 2)

    def _discover(self, *, with_remote: bool) -> None:
        known = {str(each.reader.checkpoint) for each in self._followers.values()}
        added = dict(self._followers)
        for folder in self._folders:
            for name, reader in self._readers(folder, with_remote=with_remote).items():
                if str(reader.checkpoint) not in known:
                    known.add(str(reader.checkpoint))
                    added[_free_id(name, reader, added)] = Follower(name, reader)
        if len(added) > len(self._followers):
            self._followers = added  # Replaced, because other threads look at it.

    def _readers(self, folder: str, *, with_remote: bool) -> Mapping[str, StateReader]:
        path = local_path(folder)
        if path is not None:
            return readers_in(path)
        if self._remote is None or not with_remote:
            return {}
        try:
            return self._remote(folder)
        except Exception as error:  # the store may be away, and come back
            log = _LOG.debug if folder in self._told else _LOG.warning
            log("%s cannot be read, and is tried again: %s", folder, error)
            self._told.add(folder)
            return {}


def _free_id(name: str, reader: StateReader, taken: Mapping[str, Follower]) -> str:
    """An id for a transform: its name, with that of its folder if there is another one."""
    if name not in taken:
        return name
    longer = f"{Path(str(reader.checkpoint)).resolve().parent.name}/{name}"
    number, found = 1, longer
    while found in taken:
        number += 1
        found = f"{longer} ({number})"
    return found
