"""Which queries support ``lateness = "record"``, and why others do not."""

from __future__ import annotations

from tidegate.errors import ConfigError
from tidegate.plan.logical import WatermarkSpec
from tidegate.plan.settings import Settings
from tidegate.plan.windows import Session, Sliding, Window

_OR_BATCH = 'Or set lateness = "batch", the default.'


def check_lateness(spec: WatermarkSpec, window: Window, settings: Settings) -> None:
    """Refuse ``lateness = "record"`` where it cannot be had.

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
        case Session() if settings.max_groups is not None:
            return (
                "max_groups of sessions is the number of keys with an open session, and exact to "
                "the record these end between the rows of a batch, so which keys there is room for "
                "would have to be followed row by row, over all keys",
                "Leave max_groups out.",
            )
        case Session() if settings.max_rows_per_group is not None:
            return (
                "not implemented yet for sessions together with max_rows_per_group",
                "Leave max_rows_per_group out.",
            )
    return None
