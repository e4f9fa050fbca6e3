"""Intents: what a step has decided, written down before anything of it goes out.

Which windows a step closes follows from its clock, its watermark and its bound. Once results have
gone out, whatever comes next must close the same windows in the same epoch, even if the process was
killed in between and comes back with another lag or lateness, or the step was a drain that nobody
asks for again. A sink that cannot take back what it has written leaves no other way; one that can
is spared nothing by it, so intents serve both.

An intent is ``intents/<epoch>-<term>.json``. It counts as long as there is no manifest of its
epoch; of several the one with the greatest term counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from tidegate.state.files import Files
from tidegate.state.manifest import MANIFEST_VERSION, check_version, reading, watermark_from_json
from tidegate.state.watermark import WatermarkState

FOLDER = "intents"

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
    """What a step has decided.

    Attributes:
        epoch: the step.
        kind: why it runs.
        batch_id: the batch of Spark; of a drain or flush the one before.
        query_id, offsets_hash: what ties it to Spark, see ``SparkBatch``.
        clock_us: its clock.
        watermark: the watermark after it.
        bound_us: windows with an end up to here close.
    """

    epoch: int
    kind: StepKind
    batch_id: int
    query_id: str | None = None
    offsets_hash: str | None = None
    clock_us: int | None = None
    watermark: WatermarkState = field(default_factory=WatermarkState)
    bound_us: int | None = None

    @property
    def is_batch(self) -> bool:
        """Whether it is of a batch, which Spark runs again."""
        return self.kind is StepKind.BATCH


def put_intent(files: Files, intent: Intent, term: int) -> None:
    """Write an intent down.

    Raises:
        OSError: it cannot be written.
    """
    text = json.dumps({"version": MANIFEST_VERSION, **asdict(intent)}, indent=1)
    files.put_if_absent(intent_name(intent.epoch, term), text)


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
    path = files.where(name)
    text = files.read(name)
    with reading(path, "intent"):
        data = json.loads(text)
        check_version(data.pop("version"), path)
        watermark = watermark_from_json(data.pop("watermark"))
        return Intent(watermark=watermark, kind=StepKind(data.pop("kind")), **data)


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
