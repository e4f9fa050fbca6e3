"""The manifest: a small JSON file for each batch that says what the state is after it.

The newest manifest alone defines the state: a file that no manifest names is not part of it. A
manifest is created atomically and never overwritten, so a reader sees all of it or nothing, and
only one of two writers succeeds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from tidegate.errors import StateError
from tidegate.metrics.report import Counts, Dropped, Emissions, StepSummary
from tidegate.state.shard_map import Shard
from tidegate.state.watermark import WatermarkState

# The version of manifests, intents, ``plan.json`` and segments. The files of shards have their own.
MANIFEST_VERSION = 3

# Shards that a manifest itself holds; more are in the table ``shards``.
MOST_SHARDS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile:
    """A Parquet file of a segment, and how many bytes it has."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """State rows that were written together; its files are never changed.

    Attributes:
        name: its folder under ``segments``; a name is used only once.
        level: 0 when written by a batch, one more each time it is merged with others.
        first_us: the least value of its time column (``_pane`` for partials).
        last_us: the greatest value of it.
        rows: how many of its rows windows may still need.
        windows: how many windows in it are open, if the operator that wrote it counts them.
        behind_us: with lateness exact to the record, a bound of ``_after`` in its rows: no row of
            it came after a window that ends later had closed. None: no row came behind.
        files: its files.
    """

    name: str
    level: int = 0
    first_us: int
    last_us: int
    rows: int
    windows: int = 0
    behind_us: int | None = None
    files: tuple[StateFile, ...] = ()

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in self.files)

    def came_behind(self, bound_us: int | None) -> bool:
        """Whether a row of it may have come after a window that ends after a bound had closed."""
        return self.behind_us is not None and (bound_us is None or self.behind_us > bound_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables of the state, each a list of segments, oldest first.

    Attributes:
        windows: the partials or rows that windows are made of.
        log: the rows that ordered windows (state, count) carry over from one close to the next.
        duplicates: the keys of rows, each with the time at which it was first seen.
        quotas: the groups that a quota keeps out of a window, though their rows are stored.
        shards: the shards of the watermark, where they are too many for the manifest,
            see ``tidegate.state.shards``.
    """

    windows: tuple[Segment, ...] = ()
    log: tuple[Segment, ...] = ()
    duplicates: tuple[Segment, ...] = ()
    quotas: tuple[Segment, ...] = ()
    shards: tuple[Segment, ...] = ()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments of all tables."""
        return (*self.windows, *self.log, *self.duplicates, *self.quotas, *self.shards)

    @property
    def of_rows(self) -> tuple[Segment, ...]:
        """The segments of all tables whose rows come from rows of the stream."""
        return replace(self, shards=()).segments

    @property
    def of_windows(self) -> tuple[Segment, ...]:
        """The segments that hold rows of windows."""
        return (*self.windows, *self.log)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Tables:
        """Read the tables of a manifest."""
        names = [each.name for each in fields(Tables)]
        return Tables(**{name: tuple(_segment(each) for each in data[name]) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A process that has claimed a checkpoint.

    Attributes:
        id: random; part of the name of every segment that the process writes.
        term: the number of its claim; only the process with the greatest term may write.
        host: the machine.
        pid: the process.
        started: when it claimed the checkpoint, ISO 8601 UTC.
    """

    id: str
    term: int
    host: str
    pid: int
    started: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (since {self.started})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The state after a step.

    Attributes:
        epoch: the number of the step: the batch id, plus one for each drain before it. It names the
            manifest and the results of the step.
        checkpoint_id: random hex, the same in all manifests of a checkpoint; sinks use it as the
            owner of what they wrote.
        batch_id: the last batch of Spark that is in the state; -1 before the first.
        query_id: the id of the streaming query whose batch it is, None without a streaming query.
        offsets_hash: a hash of the offsets that the batch reads up to; None likewise.
        fingerprint: what shapes the state, see ``PhysicalPlan.fingerprint``.
        plan_id: its hash.
        clock_us: the clock of the step, which goes back only over a gap.
        machine_us: the timestamp of Spark's batch, from which the clock is derived.
        gaps: the intervals over which the clock jumped ahead, see ``tidegate.engine.clock``.
        watermark: the shards and the watermark.
        bound_us: windows with an end up to here have closed; None while there is no watermark.
        unshown: the first and the last pane of the rows that no provisional result shows yet, see
            ``tidegate.engine.early``; None where there are none.
        writer: who wrote it; None in the state before the first step.
        schema: the columns of the state and their types (DDL), in their order.
        tables: the state.
        totals: rows so far, by fate.
        dropped: records of side output so far that were not written, by cause.
        emitted: what was emitted so far.
        reasons: how many records of side output gave each reason, of those that were written.
        step: how the step went; None in a manifest of an earlier release.
    """

    epoch: int
    checkpoint_id: str = ""
    batch_id: int
    query_id: str | None = None
    offsets_hash: str | None = None
    fingerprint: Mapping[str, str]
    plan_id: str
    clock_us: int | None = None
    machine_us: int | None = None
    gaps: tuple[tuple[int, int], ...] = ()
    watermark: WatermarkState = field(default_factory=WatermarkState)
    bound_us: int | None = None
    unshown: tuple[int, int] | None = None
    writer: Writer | None = None
    schema: Mapping[str, str] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)
    totals: Counts = field(default_factory=Counts)
    dropped: Dropped = field(default_factory=Dropped)
    emitted: Emissions = field(default_factory=Emissions)
    reasons: Mapping[str, int] = field(default_factory=dict)
    step: StepSummary | None = None

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments of all tables."""
        return self.tables.segments

    def to_json(self) -> str:
        """Return the text of the file."""
        return json.dumps({"version": MANIFEST_VERSION, **self.as_json()}, indent=1)

    def as_json(self) -> dict[str, Any]:
        """Return what the file says, without the shards if there is a table of them."""
        shards = {} if self.tables.shards else dict(self.watermark.shards)
        return asdict(replace(self, watermark=replace(self.watermark, shards=shards)))

    @staticmethod
    def from_json(text: str, *, path: str) -> Manifest:
        """Read the text of a file; ``path`` is for the message.

        Raises:
            StateError: the text is not a manifest, or has a version that this release does not
                read.
        """
        with reading(path, "manifest"):
            data = json.loads(text)
            check_version(data.pop("version"), path)
            return Manifest.of_json(data)

    @staticmethod
    def of_json(data: dict[str, Any]) -> Manifest:
        """Read what a file says, which ``data`` then does not any more.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: it is not a manifest.
        """
        return Manifest(
            watermark=watermark_from_json(data.pop("watermark")),
            writer=Writer(**data.pop("writer")),
            tables=Tables.from_json(data.pop("tables")),
            totals=Counts(**data.pop("totals")),
            dropped=Dropped(**data.pop("dropped", {})),
            emitted=Emissions(**data.pop("emitted", {})),
            step=_step(data.pop("step", None)),
            gaps=tuple((first, last) for first, last in data.pop("gaps")),
            unshown=_range(data.pop("unshown", None)),
            **data,
        )


def watermark_from_json(data: Mapping[str, Any]) -> WatermarkState:
    """Read the watermark of a manifest or an intent."""
    return WatermarkState(
        shards={name: Shard(**shard) for name, shard in data["shards"].items()},
        watermark_us=data["watermark_us"],
        by=data["by"],
    )


@contextmanager
def reading(path: str, kind: str) -> Iterator[None]:
    """Report a file whose text cannot be parsed.

    Raises:
        StateError: names the file.
    """
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(
            f"{path} is not a valid {kind}: {error}\n\nThe file was changed or truncated. "
            "Restore it from a copy of the checkpoint, or start with a new checkpoint."
        ) from error


def check_version(version: object, path: str) -> None:
    """Refuse a file of another version.

    Raises:
        StateError: names both versions and the ways out.
    """
    if version != MANIFEST_VERSION:
        raise StateError(
            f"{path} has state version {version}, but this release reads version "
            f"{MANIFEST_VERSION}\n\nContinue with the release that wrote it, or use that release "
            "to end the query with a drain, which emits every open window, and then start this "
            "release with a new checkpoint."
        )


def _range(data: Sequence[int] | None) -> tuple[int, int] | None:
    if data is None:
        return None
    first, last = data
    return first, last


def _step(data: Mapping[str, Any] | None) -> StepSummary | None:
    if data is None:
        return None
    samples = {name: tuple(data.get(name, ())) for name in ("results", "side_output")}
    return StepSummary(**{**data, **samples})


def _segment(data: Mapping[str, Any]) -> Segment:
    files = tuple(StateFile(**file) for file in data["files"])
    return Segment(**{**data, "files": files})


def check_fingerprint(
    manifest: Manifest, fingerprint: Mapping[str, str], *, checkpoint: str
) -> None:
    """Refuse a checkpoint that holds the state of a different query.

    Raises:
        StateError: names each difference, with both values.
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
