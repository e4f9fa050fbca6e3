"""Which queries support ``lateness = "record"``, and why others do not."""

from __future__ import annotations

from tidegate.errors import ConfigError
from tidegate.plan.logical import WatermarkSpec
from tidegate.plan.settings import Settings
from tidegate.plan.windows import Sliding, Window

_OR_BATCH = 'Or set lateness = "batch", the default.'


def check_lateness(spec: WatermarkSpec, window: Window, settings: Settings) -> None:
    """Refuse ``lateness = "record"`` where the answers would still depend on the batches.

    Raises:
        ConfigError: says why, and what to do.
    """
    if not spec.by_record:
        return
    refused = _refused(spec, window, settings)
    if refused is not None:
        why, mend = refused
        raise ConfigError(f'lateness = "record": {why}\n\n{mend} {_OR_BATCH}')


def _refused(spec: WatermarkSpec, window: Window, settings: Settings) -> tuple[str, str] | None:
    match window:
        case Sliding() if not spec.emit_on_close:
            return (
                "a sliding window without lookahead is emitted at once, with the rows that have "
                "come in its batch",
                "Add EMIT ON WINDOW CLOSE or a lookahead.",
            )
    if settings.max_groups is not None or settings.max_rows_per_group is not None:
        return (
            "not implemented yet together with max_groups and max_rows_per_group",
            "Leave them out.",
        )
    return None
