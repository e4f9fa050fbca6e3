"""The settings of one transform, typed.

They are what ``[transforms.NAME]`` and the settings given to ``tg.sql(..)`` mean. Durations are
microseconds here; ``config/settings.py`` reads them from text and checks the rest.
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
    """What the watermark does when every shard is idle."""

    HOLD = "hold"
    ADVANCE = "advance"


class TimeMode(Enum):
    """Which time windows are on."""

    EVENT = "event"
    PROCESSING = "processing"


class RowPath(Enum):
    """Whether aggregates run by accumulators where they can, or over rows kept whole."""

    AUTO = "auto"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a transform.

    None means: not set, the next authority decides or the default holds.
    """

    time: TimeMode | None = None
    event_time_field: str | None = None
    event_time_unit: str | None = None
    event_time_metadata: str | None = None
    null_event_time: str | None = None
    max_future_skew_us: int = 86_400_000_000
    watermark_lag_us: int | None = None
    allowed_lateness_us: int | None = None
    shard: str | None = None
    idle_timeout_us: int | None = None
    on_idle: OnIdle = OnIdle.HOLD
    clock_interval_us: int = 1_000_000
    max_groups: int | None = None
    max_rows_per_group: int | None = None
    error_policy: ErrorPolicy = ErrorPolicy.SIDE_OUTPUT
    dedup_key: str | None = None
    dedup_horizon_us: int | None = None
    streaming_aggregation: RowPath = RowPath.AUTO


# What holds where nothing is set.
DEFAULTS = Settings()
