"""Values and their Spark SQL types: NULL is None, a TIMESTAMP an aware datetime.

Types are text: TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL(p,s) STRING BOOLEAN TIMESTAMP DATE
INTERVAL ARRAY<T> STRUCT NULL.
"""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
EXACT = Context(prec=60, rounding=ROUND_HALF_UP)

# From narrow to wide; a DECIMAL is between the integers and the floats.
_WIDTH = ["NULL", "TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE"]
_ALIASES = {
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
}
_STAMP = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?(?:Z|UTC)?"
)


class RowError(Exception):
    """An expression failed on a row; ``reason`` is the word of the side output."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def moment(time_us: int) -> datetime:
    return EPOCH + timedelta(microseconds=time_us)


def type_name(text: str) -> str:
    """One spelling for each type."""
    text = re.sub(r"\s+", "", text).upper().replace("NUMERIC", "DECIMAL")
    text = _ALIASES.get(text, text)
    if text == "DECIMAL":
        return "DECIMAL(10,0)"
    if re.fullmatch(r"(VARCHAR|CHAR)\(\d+\)|TEXT", text):
        return "STRING"
    return {"TIMESTAMPTZ": "TIMESTAMP", "TIMESTAMPLTZ": "TIMESTAMP"}.get(text, text)


def family(kind: str) -> str:
    return kind.partition("(")[0].partition("<")[0]


def is_number(kind: str) -> bool:
    return family(kind) in _WIDTH[1:]


def precision(kind: str) -> tuple[int, int]:
    """The precision and scale of a number that is not a float."""
    digits = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20, "NULL": 1}
    if kind in digits:
        return digits[kind], 0
    found = re.fullmatch(r"DECIMAL\((\d+),(-?\d+)\)", kind)
    assert found is not None, kind
    return int(found[1]), int(found[2])


def decimal_type(digits: int, scale: int) -> str:
    """A DECIMAL bounded to 38 digits, giving up fraction digits beyond six first, as Spark does."""
    if digits <= 38:
        return f"DECIMAL({digits},{scale})"
    kept = max(38 - (digits - scale), min(scale, 6))
    return f"DECIMAL(38,{kept})"


def widest(*kinds: str) -> str:
    """The type that holds values of all the types: what CASE, COALESCE and IN compare in."""
    known = [k for k in dict.fromkeys(kinds) if k != "NULL"]
    if len(known) <= 1:
        return known[0] if known else "NULL"
    if all(is_number(k) for k in known):
        top = max((family(k) for k in known), key=_WIDTH.index)
        if top != "DECIMAL":
            return top
        whole = max(precision(k)[0] - precision(k)[1] for k in known)
        scale = max(precision(k)[1] for k in known)
        return decimal_type(whole + scale, scale)
    others = [k for k in known if k != "STRING"]
    if len(others) == 1 and "STRING" in known:
        return {"TINYINT": "BIGINT", "SMALLINT": "BIGINT", "INT": "BIGINT"}.get(
            others[0], others[0]
        )
    if set(known) == {"DATE", "TIMESTAMP"}:
        return "TIMESTAMP"
    return known[0]


def fit(value: object, kind: str) -> object:
    """A number as a value of a type, or RowError when it does not fit."""
    name = family(kind)
    if value is None or not is_number(kind):
        return value
    if name in INTEGER_BITS:
        whole = int(value)
        if not -(1 << INTEGER_BITS[name] - 1) <= whole < 1 << INTEGER_BITS[name] - 1:
            raise RowError("overflow")
        return whole
    if name == "DOUBLE":
        return float(value)
    if name == "FLOAT":
        return struct.unpack("f", struct.pack("f", float(value)))[0]
    digits, scale = precision(kind)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise RowError("overflow")
        value = repr(value)
    rounded = EXACT.quantize(Decimal(value), Decimal(1).scaleb(-scale))
    if abs(rounded) >= Decimal(10) ** (digits - scale):
        raise RowError("overflow")
    return rounded


def cast(value: object, source: str, target: str) -> object:
    """CAST as Spark does it with ANSI on."""
    if value is None or source == target:
        return value
    if isinstance(value, list):
        return [cast(item, source[6:-1], target[6:-1]) for item in value]
    goal = family(target)
    if goal == "STRING":
        return as_text(value)
    if isinstance(value, str):
        return _from_text(value.strip(), target)
    if goal in ("TIMESTAMP", "DATE"):
        return _as_time(value, goal)
    return bool(value) if goal == "BOOLEAN" else _as_number(value, target)


def _as_time(value: object, goal: str) -> object:
    if not isinstance(value, date):
        value = moment(int(Decimal(value) * 1_000_000))
    if goal == "DATE":
        return value.date() if isinstance(value, datetime) else value
    if isinstance(value, datetime):
        return value
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


def _as_number(value: object, target: str) -> object:
    if not is_number(target):
        return value
    whole = family(target) in INTEGER_BITS
    if isinstance(value, datetime):
        seconds = Decimal(micros(value)) / 1_000_000
        value = math.floor(seconds) if whole else seconds
    if isinstance(value, float) and whole and not math.isfinite(value):
        raise RowError("overflow")
    return fit(value, target)


def as_text(value: object) -> str:
    """A value as CAST(.. AS STRING) shows it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        fraction = f"{value.microsecond:06d}".rstrip("0")
        return f"{value:%Y-%m-%d %H:%M:%S}" + (f".{fraction}" if fraction else "")
    if isinstance(value, list):
        return "[" + ", ".join("null" if item is None else as_text(item) for item in value) + "]"
    return str(value)


def _from_text(text: str, target: str) -> object:
    goal = family(target)
    try:
        if goal in INTEGER_BITS:
            if not re.fullmatch(r"[+-]?\d+", text):
                raise RowError("invalid_cast")
            return fit(int(text), target)
        if goal == "DECIMAL":
            return fit(Decimal(text), target)
        if goal in ("FLOAT", "DOUBLE"):
            return fit(float(text), target)
        if goal == "BOOLEAN":
            words = {"true": True, "t": True, "yes": True, "y": True, "1": True}
            words |= {"false": False, "f": False, "no": False, "n": False, "0": False}
            return words[text.lower()]
        found = _STAMP.fullmatch(text)
        if found is None:
            raise RowError("invalid_cast")
        year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
        micro = int((found[7] or "0").ljust(6, "0")[:6])
        stamp = datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC)
        return stamp.date() if goal == "DATE" else stamp
    except (ValueError, KeyError, InvalidOperation, OverflowError) as error:
        raise RowError("invalid_cast") from error
    except RowError as error:
        # Text out of the range of the type is also a bad cast, not an overflow.
        raise RowError("invalid_cast") from error


def order_key(value: object) -> object:
    """What a value is ordered by: NULL first, NaN after every number, arrays item by item."""
    if isinstance(value, list):
        return [order_key(item) for item in value]
    if isinstance(value, dict):
        return [order_key(item) for item in value.values()]
    if value is None:
        return (0, 0)
    if isinstance(value, float) and math.isnan(value):
        return (2, 0)
    return (1, value)
