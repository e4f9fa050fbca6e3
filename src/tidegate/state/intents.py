"""Intents: the decisions of a step, written before any of its results are.

A step's clock, watermark and bound determine which windows it closes. Once results may have
reached a sink, the next attempt at the epoch must close the same windows, even if the process was
killed and restarted with another lag or lateness, or if the step was a drain that nobody requests
again. For a sink that cannot replace what it has written there is no other way, and every other
sink works with it too.

An intent is the file ``intents/<epoch>-<term>.json``. It is valid until there is a manifest of its
epoch; if there are several, the one with the greatest term is valid.

An intent may also hold the state with the rows of its batch, before any window closes. Spark then
takes the batch for done while the step is finished beside the next one. After a crash the step is
finished from the intent, and no row is read again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from tidegate.state.files import Files
from tidegate.state.manifest import MANIFEST_VERSION, Manifest, check_version, reading

FOLDER = "intents"

# The version of an intent that holds a state; a release that would run its batch again refuses it.
TAKEN_VERSION = 4

_NAME = re.compile(r"(\d+)-(\d+)\.json")


class StepKind(StrEnum):
    """Why a step runs."""

    # Spark has a batch.
    BATCH = "batch"
    # The end of the stream: every window closes.
    DRAIN = "drain"
    # Open state windows are emitted.
    FLUSH = "flush"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The decisions of a step.

    Attributes:
        epoch: the step.
        kind: why it runs.
        batch_id: Spark's batch; for a drain or flush, the one before it.
        query_id, offsets_hash: identify the batch, see ``SparkBatch``.
        clock_us: its clock.
        watermark_us: the watermark after it.
        bound_us: windows with an end up to here close.
        taken: the state with the rows of the batch, before any window closes, if Spark need not run
            the batch again; None: it does.
    """

    epoch: int
    kind: StepKind
    batch_id: int
    query_id: str | None = None
    offsets_hash: str | None = None
    clock_us: int | None = None
    watermark_us: int | None = None
    bound_us: int | None = None
    taken: Manifest | None = None

    @property
    def is_batch(self) -> bool:
        """Whether it belongs to a batch of Spark."""
        return self.kind is StepKind.BATCH

    def to_json(self) -> str:
        """Return the text of the file."""
        if self.taken is None:
            data = asdict(self)
            del data["taken"]
            return json.dumps({"version": MANIFEST_VERSION, **data}, indent=1)
        data = asdict(replace(self, taken=None)) | {"taken": self.taken.as_json()}
        return json.dumps({"version": TAKEN_VERSION, **data}, indent=1)

    @staticmethod
    def from_json(text: str, *, path: str) -> Intent:
        """Read the text of a file; ``path`` is for the message.

        Raises:
            StateError: the text is not an intent, or has a version that this release does not read.
        """
        with reading(path, "intent"):
            data = json.loads(text)
            version = data.pop("version")
            if version != TAKEN_VERSION:
                check_version(version, path)
            taken = data.pop("taken", None)
            return Intent(
                kind=StepKind(data.pop("kind")),
                taken=None if taken is None else Manifest.of_json(taken),
                **data,
            )


def put_intent(files: Files, intent: Intent, term: int) -> None:
    """Write an intent.

    Raises:
        OSError: it cannot be written.
    """
    files.put_if_absent(intent_name(intent.epoch, term), intent.to_json())


def find_intent(files: Files, epoch: int) -> Intent | None:
    """Return the intent of an epoch, None when there is none.

    Raises:
        OSError: it cannot be read.
        StateError: it is damaged.
    """
    terms = intent_terms(files).get(epoch)
    if not terms:
        return None
    name = intent_name(epoch, max(terms))
    return Intent.from_json(files.read(name), path=files.where(name))


def intent_terms(files: Files) -> Mapping[int, list[int]]:
    """Return the terms of all intents by epoch."""
    found: dict[int, list[int]] = {}
    for entry in files.entries(FOLDER):
        match = _NAME.fullmatch(entry.name)
        if match is not None:
            found.setdefault(int(match[1]), []).append(int(match[2]))
    return found


def intent_name(epoch: int, term: int) -> str:
    """Return the name of an intent."""
    return f"{FOLDER}/{epoch}-{term}.json"
