"""Which casts can fail, and why."""

from __future__ import annotations

from tidegate.plan.guarded import INVALID_CAST, OVERFLOW
from tidegate.plan.types import INTEGRALS, NESTED, SqlType

# The number of digits that always fit an integer type.
_SURE_DIGITS = {name: digits - 1 for name, digits in INTEGRALS.items()} | {"BIGINT": 18}
# The greatest number of seconds since 1970 in a TIMESTAMP.
_DIGITS_OF_SECONDS = 13


def cast_fails(given: SqlType | None, wanted: SqlType) -> str | None:
    """Return the reason for which a cast can fail; None if it never fails.

    A cast from an unknown type can fail.
    """
    if wanted.name in ("STRING", "VARIANT") or given == wanted or (given and given.name == "VOID"):
        return None
    if given is None:
        return INVALID_CAST
    if given.is_text or given.name == "VARIANT" or wanted.name in NESTED:
        return None if given.is_text and wanted.name == "BINARY" else INVALID_CAST
    return OVERFLOW if _overflows(given, wanted) else None


def _overflows(given: SqlType, wanted: SqlType) -> bool:
    if wanted.name in ("BOOLEAN", "BINARY") or wanted.is_float:
        return False
    if wanted.is_integral:
        return _overflows_integral(given, wanted)
    if wanted.is_decimal:
        return _overflows_decimal(given, wanted)
    if wanted.is_time:
        return not (given.is_time or given.is_integral)
    return True


def _overflows_integral(given: SqlType, wanted: SqlType) -> bool:
    if given.name == "BOOLEAN":
        return False
    if given.is_integral:
        return given.whole_digits > wanted.whole_digits
    if given.is_decimal:
        return given.whole_digits > _SURE_DIGITS[wanted.name]
    return not (given.is_time and wanted.name == "BIGINT")


def _overflows_decimal(given: SqlType, wanted: SqlType) -> bool:
    room = wanted.whole_digits
    if given.name == "BOOLEAN":
        return room < 1
    if given.is_decimal:
        # Rounding may carry into one more digit.
        return given.whole_digits + (1 if given.scale > wanted.scale else 0) > room
    if given.is_integral:
        return given.whole_digits > room
    return not (given.is_time and room >= _DIGITS_OF_SECONDS)
