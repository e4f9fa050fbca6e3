"""The manifest: one small JSON file a batch that says what the state is after it.

State is what the newest manifest says, nothing else: a segment that no manifest names does not
exist. Manifests are written whole and put in place atomically, so a reader sees all of one or
nothing of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from tidegate.errors import StateError
from tidegate.metrics.report import Counts
from tidegate.state.watermark import Shard, WatermarkState

# The shape of manifests and of the segments they name.
MANIFEST_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """An immutable Parquet folder of state.

    Attributes:
        name: the folder under ``segments``.
        level: 0 as a batch wrote it, one more for each time it was merged with others.
        first_us: the least value of its time column (``_pane`` of partials).
        last_us: the greatest.
        rows: how many rows it holds.
        windows: how many open windows, where the operator that wrote it says so.
    """

    name: str
    level: int
    first_us: int
    last_us: int
    rows: int
    windows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The state after a batch.

    Attributes:
        epoch: the number of the step: the batch id, plus one for each drain before it. It names the
            manifest, the segments and the results of the step.
        batch_id: the last batch of Spark that is in the state; -1 before the first.
        fingerprint: what shapes the state, see ``PhysicalPlan.fingerprint``.
        plan_id: its hash.
        clock_us: the greatest clock so far.
        watermark: the shards and the watermark.
        bound_us: windows with an end up to here have closed; None while there is no watermark.
        segments: the state.
        totals: rows so far, by fate.
    """

    epoch: int
    batch_id: int
    fingerprint: Mapping[str, str]
    plan_id: str
    clock_us: int | None = None
    watermark: WatermarkState = field(default_factory=WatermarkState)
    bound_us: int | None = None
    segments: tuple[Segment, ...] = ()
    totals: Counts = field(default_factory=Counts)

    def to_json(self) -> str:
        """Return the text of the file."""
        return json.dumps({"version": MANIFEST_VERSION, **asdict(self)}, indent=1)

    @staticmethod
    def from_json(text: str, *, path: str) -> Manifest:
        """Read the text of a file; ``path`` is for the message.

        Raises:
            StateError: the text is no manifest, or one of a version that this release does not
                read.
        """
        try:
            data = json.loads(text)
            version = data.pop("version")
            if version != MANIFEST_VERSION:
                raise StateError(
                    f"{path} is a manifest of version {version}, this release reads version "
                    f"{MANIFEST_VERSION}\n\nUse the release that wrote it, or start with another "
                    "checkpoint."
                )
            watermark = data.pop("watermark")
            return Manifest(
                watermark=WatermarkState(
                    shards={name: Shard(**shard) for name, shard in watermark["shards"].items()},
                    watermark_us=watermark["watermark_us"],
                ),
                segments=tuple(Segment(**segment) for segment in data.pop("segments")),
                totals=Counts(**data.pop("totals")),
                **data,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateError(
                f"{path} is not a manifest: {error}\n\nThe file was changed or cut short. Restore "
                "it from a copy of the checkpoint, or start with a new checkpoint."
            ) from error


def check_fingerprint(
    manifest: Manifest, fingerprint: Mapping[str, str], *, checkpoint: str
) -> None:
    """Refuse a checkpoint whose state another query shaped.

    Raises:
        StateError: names each thing that differs, with both values.
    """
    before = manifest.fingerprint
    names = [
        name for name in {**before, **fingerprint} if before.get(name) != fingerprint.get(name)
    ]
    if not names:
        return
    lines = "\n".join(
        f"  {name}: {before.get(name, 'nothing')}  in the checkpoint\n"
        f"  {' ' * len(name)}  {fingerprint.get(name, 'nothing')}  in the query"
        for name in names
    )
    raise StateError(
        f"checkpoint {checkpoint} holds the state of another query; this differs: "
        f"{', '.join(names)}\n\n{lines}\n\n"
        "Start the changed query with a new checkpoint, or change it back."
    )
