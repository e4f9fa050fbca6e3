"""The numbers of a batch: ``step`` returns them, metrics and progress show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Rows by fate.

    ``accumulated`` includes ``partial`` rows (late for some of their windows) and rows without an
    event time of their own (``processing_time_fallback``).

    ``rows_in = accumulated + late + error + duplicate + evicted + filtered + outside_windows``
    """

    rows_in: int = 0
    accumulated: int = 0
    late: int = 0
    error: int = 0
    duplicate: int = 0
    evicted: int = 0
    filtered: int = 0
    outside_windows: int = 0
    partial: int = 0
    processing_time_fallback: int = 0

    def __add__(self, other: Counts) -> Counts:
        mine, theirs = asdict(self), asdict(other)
        return Counts(**{name: mine[name] + theirs[name] for name in mine})

    def __sub__(self, other: Counts) -> Counts:
        mine, theirs = asdict(self), asdict(other)
        return Counts(**{name: mine[name] - theirs[name] for name in mine})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Records of side output that had a sink and were not written, by cause.

    ``rate_limit``: more than the limit allows; ``timeout``: the write took too long;
    ``sink_failed``: the sink failed. Those of batches that stay away from a sink after a failure
    count with the cause of that failure. ``not_reinjected``: a row that is to go back to its input
    and has been there before, or cannot be put there.
    """

    rate_limit: int = 0
    timeout: int = 0
    sink_failed: int = 0
    not_reinjected: int = 0

    def __add__(self, other: Dropped) -> Dropped:
        mine, theirs = asdict(self), asdict(other)
        return Dropped(**{name: mine[name] + theirs[name] for name in mine})

    @property
    def total(self) -> int:
        """All of them."""
        return sum(asdict(self).values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Emissions:
    """What was emitted, added up over steps; the fields are those of ``BatchReport``."""

    closed_windows: int = 0
    rows_out: int = 0
    early_rows: int = 0
    result_errors: int = 0

    def __add__(self, other: Emissions) -> Emissions:
        mine, theirs = asdict(self), asdict(other)
        return Emissions(**{name: mine[name] + theirs[name] for name in mine})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSummary:
    """What a manifest says about the step that wrote it, for those who look on.

    Attributes:
        kind: ``batch``, ``drain`` or ``flush``.
        open_windows: windows open after it.
        duration_ms: how long it took until its manifest was written.
        phases_ms: the milliseconds of each of ``PHASES`` until then.
        results: a few of its final results, as JSON that may be cut short.
        side_output: a few of the records of side output that it wrote, likewise.
    """

    kind: str = "batch"
    open_windows: int = 0
    duration_ms: int = 0
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    results: tuple[str, ...] = ()
    side_output: tuple[str, ...] = ()


# The phases of a step, in their order.
PHASES = ("ingest", "close", "side_output", "merge", "commit")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport(Counts):
    """One batch: its counts, the watermark after it, what closed, and how long it took.

    ``kind`` is ``batch``, ``drain`` or ``flush``; the latter two have the id of the batch before.
    ``watermark_us`` is None before the first row with an event time; ``event_time_us`` is the
    greatest event time seen so far, None before the first one and in processing time; ``rows_out``
    counts result rows after HAVING and LIMIT, ``early_rows`` those of EMIT EARLY, which are
    provisional; ``closed_windows`` counts distinct closed windows, before HAVING;
    ``result_errors`` counts groups that became error records because an expression of their result
    failed; ``dropped`` counts records of side output that were not written, by cause, and
    ``side_dropped`` all of them; ``reasons`` counts those that were written, by reason;
    ``open_from_us`` is the start of the oldest pane in the state,
    None if the state is empty; ``clean_up_failures`` counts old files that could not be deleted,
    which is tried again later; ``merges`` counts merges of segments. ``phases_ms`` has the
    milliseconds of each of ``PHASES``; reading what was lazy counts where it is written.
    """

    kind: str = "batch"
    batch_id: int
    epoch: int
    clock_us: int | None
    watermark_us: int | None
    event_time_us: int | None = None
    closed_windows: int = 0
    rows_out: int = 0
    early_rows: int = 0
    result_errors: int = 0
    dropped: Dropped = field(default_factory=Dropped)
    reasons: Mapping[str, int] = field(default_factory=dict)
    open_windows: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    segments: int = 0
    merges: int = 0
    open_from_us: int | None = None
    clock_leaps: int = 0
    clean_up_failures: int = 0
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    duration_ms: int = 0

    @property
    def side_dropped(self) -> int:
        """How many records of side output were not written."""
        return self.dropped.total

    @property
    def counts(self) -> Counts:
        """The counts alone."""
        names = asdict(Counts())
        return Counts(**{name: getattr(self, name) for name in names})
