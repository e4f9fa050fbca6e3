"""Cleaning up: after each commit, delete the files that no kept manifest names.

Cleaning up never stops a query: a deletion that fails is retried in later batches. Leftovers of
crashed attempts are deleted too, once they are so old that nobody can still be writing them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from tidegate.errors import StateError
from tidegate.state.damage import FOLDER as SEGMENTS
from tidegate.state.files import Files
from tidegate.state.intents import FOLDER as INTENTS
from tidegate.state.intents import intent_name, intent_terms
from tidegate.state.manifest import Manifest, Writer
from tidegate.state.manifest_log import FOLDER as MANIFESTS
from tidegate.state.manifest_log import ManifestLog, manifest_name, numbers
from tidegate.state.plans import plan_name
from tidegate.state.writers import FOLDER as WRITERS

_LOG = logging.getLogger("tidegate")

# How many manifests are kept, with all files that they name: the newest and ten older ones.
KEPT_MANIFESTS = 11

# After this many failed calls the rest is left to the next batch: each failure may take long.
MOST_FAILURES = 3

# A file that no manifest names counts as a leftover once it is this old.
GRACE_SECONDS = 3_600


class Cleaner:
    """Deletes files that are no longer needed, for the process that writes a checkpoint.

    Attributes:
        failures: how many calls have failed so far.
    """

    def __init__(self, files: Files, writer: Writer) -> None:
        self.failures = 0
        self._files = files
        self._writer = writer
        self._log = ManifestLog(files)
        # For each kept manifest, by epoch: the names of its segments.
        self._kept: dict[int, frozenset[str]] = {}
        # The terms of the intents that this process knows of, by epoch.
        self._intents: dict[int, list[str]] = {}
        # Names to delete, in order.
        self._due: dict[str, None] = {}
        self._next_sweep: float | None = 0.0

    def add_intent(self, epoch: int) -> None:
        """Record an intent that this process wrote."""
        self._intents.setdefault(epoch, []).append(intent_name(epoch, self._writer.term))

    def clean_up(self, now: Manifest, written: Iterable[str]) -> int:
        """Delete what is no longer needed after a commit; return how many calls failed.

        Args:
            now: the manifest that was just committed.
            written: the segments that this process has written since the previous commit.
        """
        before = self.failures
        try:
            self._look(now, written)
        except (OSError, StateError) as error:
            self._note(error)
        failed = 0
        for name in tuple(self._due):
            del self._due[name]
            try:
                self._files.delete(name)
            except OSError as error:
                self._due[name] = None
                self._note(error)
                failed += 1
                if failed == MOST_FAILURES:
                    break
        return self.failures - before

    def _note(self, error: Exception) -> None:
        self.failures += 1
        log = _LOG.warning if self.failures == 1 else _LOG.debug
        log(
            "cleaning up checkpoint %s failed and will be retried in later batches: %s",
            self._files.where(""),
            error,
        )

    def _look(self, now: Manifest, written: Iterable[str]) -> None:
        if not self._kept:
            # Older manifests too: what they name and the kept ones do not has to be deleted. Read
            # all or none: what a skipped manifest names would never be deleted.
            epochs = self._log.epochs()[-2 * KEPT_MANIFESTS :]
            self._kept = {epoch: _names(self._log.read(epoch)) for epoch in epochs}
        self._kept[now.epoch] = _names(now)
        candidates = set(written)
        while len(self._kept) > KEPT_MANIFESTS:
            oldest = min(self._kept)
            candidates |= self._kept.pop(oldest)
            # Manifests first, so that none names a file that is gone.
            self._due[manifest_name(oldest)] = None
        oldest = min(self._kept)
        for epoch in [epoch for epoch in self._intents if epoch < oldest]:
            self._due |= dict.fromkeys(self._intents.pop(epoch))
        live = frozenset().union(*self._kept.values())
        self._due |= dict.fromkeys(f"{SEGMENTS}/{name}" for name in sorted(candidates - live))
        if self._next_sweep is not None and time.monotonic() >= self._next_sweep:
            self._sweep(oldest, live)

    def _sweep(self, oldest: int, live: frozenset[str]) -> None:
        """Find leftovers of crashed attempts and of other processes' failed deletions."""
        others = (epoch for epoch in self._log.epochs() if epoch < oldest)
        self._due |= dict.fromkeys(manifest_name(epoch) for epoch in others)
        for epoch, terms in intent_terms(self._files).items():
            names = [intent_name(epoch, term) for term in terms]
            if epoch < oldest:
                self._due |= dict.fromkeys(names)
            else:
                self._intents[epoch] = names
        terms = numbers(self._files, WRITERS)
        past = [term for term in terms if term <= self._writer.term - KEPT_MANIFESTS]
        self._due |= dict.fromkeys(f"{WRITERS}/{term}.json" for term in past)
        self._due |= dict.fromkeys(map(plan_name, past))
        young = False
        if max(terms, default=0) <= self._writer.term:  # Else a newer process cleans up.
            for entry in self._files.entries(SEGMENTS):
                if entry.name in live or _writer_of(entry.name) == self._writer.id:
                    continue
                if time.time() - entry.modified_s < GRACE_SECONDS:
                    young = True
                else:
                    self._due[f"{SEGMENTS}/{entry.name}"] = None
            for folder in (MANIFESTS, INTENTS, WRITERS):
                for entry in self._files.unfinished(folder):
                    if time.time() - entry.modified_s >= GRACE_SECONDS:
                        self._due[f"{folder}/{entry.name}"] = None
        self._next_sweep = time.monotonic() + GRACE_SECONDS if young else None


def segment_name(epoch: int, writer: Writer, what: str) -> str:
    """Return the name of a segment, which has its writer in it."""
    return f"{epoch}-{writer.id}-{what}"


def epoch_of(segment: str) -> int:
    """Return the step that wrote a segment."""
    return int(segment.partition("-")[0])


def _writer_of(segment: str) -> str:
    return segment.split("-")[1] if segment.count("-") > 1 else ""


def _names(manifest: Manifest) -> frozenset[str]:
    return frozenset(segment.name for segment in manifest.segments)
