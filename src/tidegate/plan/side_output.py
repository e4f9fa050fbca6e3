"""The kinds of side output and where each goes; settings, arguments, counts and docs follow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tidegate.plan.guarded import MALFORMED_RECORD, ROW_ERROR_REASONS

# Words that stand in the place of a sink's name.
METRICS_ONLY = "metrics_only"
REINJECT = "reinject"

# The files of rows that have gone back to their input begin with this; the source knows them by it.
REINJECTED_FILES = "tidegate-reinjected-"


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOutputKind:
    """A kind of rows that could not be used.

    Attributes:
        name: its key under ``side_output``, its counter in ``Counts`` and the ``kind`` of a record.
        argument: the argument of ``Query.start`` that takes its sink.
        example: the name of a sink, for help texts.
        reasons: the reasons that its records can give.
        has_results: whether failed results are also records of this kind.
        asks_to_reinject: whether reinjecting needs ``allow_reinject``: a late row stays late.
    """

    name: str
    argument: str
    example: str
    reasons: tuple[str, ...]
    has_results: bool = False
    asks_to_reinject: bool = False


KINDS = (
    SideOutputKind(
        name="late",
        argument="late",
        example="late_rows",
        reasons=("allowed_lateness_exceeded",),
        asks_to_reinject=True,
    ),
    SideOutputKind(
        name="evicted",
        argument="evicted",
        example="evicted_rows",
        reasons=("max_groups", "max_rows_per_group"),
    ),
    SideOutputKind(
        name="error",
        argument="errors",
        example="bad_rows",
        reasons=(
            "null_event_time",
            "future_event_time",
            "event_time_out_of_range",
            MALFORMED_RECORD,
            *ROW_ERROR_REASONS,
        ),
        has_results=True,
    ),
    SideOutputKind(
        name="duplicate",
        argument="duplicates",
        example="repeated_rows",
        reasons=("duplicate_key",),
    ),
)

# The columns of a record, in their order. ``group_key`` is a STRUCT of the keys by their text in
# the statement, ``original_event`` one of the columns of the source; times are ISO 8601 UTC.
RECORD = (
    "kind",
    "reason",
    "event_time",
    "processing_time",
    "watermark",
    "late_by_ms",
    "window",
    "windows",
    "group_key",
    "original_event",
    "error_detail",
    "plan_id",
    "shard",
)


class Drop(Enum):
    """Why a record of side output was not written; the value is its counter in ``Dropped``."""

    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    SINK_FAILED = "sink_failed"
    NOT_REINJECTED = "not_reinjected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where the rows of a kind go, and within which limits.

    Attributes:
        kind: the name of the kind.
        sink: the name of a sink for people to read, ``metrics_only`` or ``reinject``.
        by_default: whether nobody has chosen ``metrics_only``: then the first such row is told.
        include_original: whether records have the original row.
        rate_limit: the most records a second of the clock; None: no limit.
        timeout_us: how long a write may take in a batch.
        reinject_to: the stream to whose input the rows go back.
        allow_reinject: whether rows of a kind that asks may go back.
    """

    kind: str
    sink: str = METRICS_ONLY
    by_default: bool = False
    include_original: bool = True
    rate_limit: int | None = None
    timeout_us: int = 30_000_000
    reinject_to: str | None = None
    allow_reinject: bool = False

    @property
    def reinjects(self) -> bool:
        """Whether the rows themselves go back to their input, instead of records to a sink."""
        return self.sink == REINJECT

    @property
    def writes(self) -> bool:
        """Whether records are written somewhere, not only counted."""
        return self.sink != METRICS_ONLY

    def allowance(self, before_us: int | None, clock_us: int | None) -> int | None:
        """Return how many records a batch may write; None: no limit.

        It follows from the two clocks alone, so a replay allows the same. What is left of one batch
        is no use to a later one.

        >>> route = Route(kind="late", rate_limit=10)
        >>> route.allowance(1_000_000, 1_250_000), route.allowance(1_250_000, 1_500_000)
        (2, 3)

        Args:
            before_us: the clock of the batch before; None: there was none, and a second counts.
            clock_us: the clock of the batch.
        """
        if self.rate_limit is None or clock_us is None:
            return None
        if before_us is None:
            return self.rate_limit
        # Of whole records up to an instant, so that short batches together get what is theirs.
        upto, before = (self.rate_limit * us // 1_000_000 for us in (clock_us, before_us))
        return max(0, upto - before)


def route_of(routes: Iterable[Route], kind: str) -> Route:
    """Return the route of a kind; one that is not named is counted only."""
    found = (route for route in routes if route.kind == kind)
    return next(found, Route(kind=kind, by_default=True))
