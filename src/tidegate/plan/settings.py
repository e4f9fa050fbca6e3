"""The settings of one transform, typed.

``config/settings.py`` makes them from ``[transforms.NAME]`` or the ``settings`` of ``tg.sql(..)``.
Durations are microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ErrorPolicy(Enum):
    """What happens to a row whose expression fails."""

    SIDE_OUTPUT = "side_output"
    NULL = "null"
    FAIL = "fail"


class OnIdle(Enum):
    """What the watermark does if every shard is idle."""

    HOLD = "hold"
    ADVANCE = "advance"


class Lateness(Enum):
    """By which watermark a row is judged: the one before its batch, or the one at its place."""

    BATCH = "batch"
    RECORD = "record"


class TimeMode(Enum):
    """The time that windows are defined on."""

    EVENT = "event"
    PROCESSING = "processing"


class RowPath(Enum):
    """Whether aggregates use accumulators if they can, or always stored rows."""

    AUTO = "auto"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a transform.

    None means not set: the next authority or the default decides.
    """

    time: TimeMode | None = None
    event_time_field: str | None = None
    event_time_unit: str | None = None
    event_time_metadata: str | None = None
    null_event_time: str | None = None
    max_future_skew_us: int = 86_400_000_000
    watermark_lag_us: int | None = None
    allowed_lateness_us: int | None = None
    lateness: Lateness = Lateness.BATCH
    shard: str | None = None
    shard_expiry_us: int | None = None
    idle_timeout_us: int | None = None
    on_idle: OnIdle = OnIdle.HOLD
    clock_interval_us: int = 1_000_000
    max_groups: int | None = None
    max_rows_per_group: int | None = None
    error_policy: ErrorPolicy = ErrorPolicy.SIDE_OUTPUT
    dedup_key: str | None = None
    dedup_horizon_us: int | None = None
    streaming_aggregation: RowPath = RowPath.AUTO
    monitor_samples: int = 5


# The defaults.
DEFAULTS = Settings()
