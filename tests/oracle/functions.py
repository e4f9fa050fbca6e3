"""Scalar functions: the type of the result from the types of the arguments, and the value.

A NULL argument gives NULL, unless ``sees_null``. COALESCE, IF and the like are in ``calls.py``,
because they do not evaluate all their arguments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal

from .values import RowError, as_text, cast, family, micros, moment, order_key, widest

Kinds = list[str]


@dataclass(frozen=True)
class Function:
    type: Callable[[Kinds], str]
    compute: Callable[..., object]
    sees_null: bool = False


def always(kind: str) -> Callable[[Kinds], str]:
    return lambda kinds: kind


def first(kinds: Kinds) -> str:
    return kinds[0]


def item(kinds: Kinds) -> str:
    return kinds[0][6:-1] or "NULL"


def numeric(function: Callable[..., float]) -> Function:
    """A function of doubles that is NULL where it is not defined."""

    def compute(*args: object) -> object:
        try:
            return function(*map(float, args))
        except ValueError:
            return None

    return Function(always("DOUBLE"), compute)


def whole(kinds: Kinds) -> str:
    return "BIGINT" if family(kinds[0]) != "DECIMAL" else "DECIMAL(38,0)"


def rounded(mode: str) -> Callable[..., object]:
    return lambda x: int(Decimal(x).to_integral_value(mode)) if math.isfinite(x) else 0


def round_half_up(x: object, places: int = 0) -> object:
    if isinstance(x, float) and not math.isfinite(x):
        return x
    exact = Decimal(repr(x)) if isinstance(x, float) else Decimal(x)
    result = exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return type(x)(result) if not isinstance(x, Decimal) else result


def modulo(a: object, b: object) -> object:
    """The remainder with the sign of the dividend."""
    if b == 0:
        raise RowError("division_by_zero")
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b)
    return a - b * int(Decimal(a) / Decimal(b)) if isinstance(a, Decimal) else int(math.fmod(a, b))


def substring(text: str, start: int, length: int | None = None) -> str:
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if length is None else begin + length
    return text[max(0, begin) : max(0, end)]


def truncate(unit: str, time: object) -> datetime | None:
    """``date_trunc``; an unknown unit gives NULL."""
    start = TRUNCATED.get(unit.lower())
    return None if start is None else start(_to(time, "TIMESTAMP"))


def _day(time: datetime) -> datetime:
    return time.replace(hour=0, minute=0, second=0, microsecond=0)


TRUNCATED: dict[str, Callable[[datetime], datetime]] = {
    "year": lambda t: _day(t).replace(month=1, day=1),
    "quarter": lambda t: _day(t).replace(month=(t.month - 1) // 3 * 3 + 1, day=1),
    "month": lambda t: _day(t).replace(day=1),
    "week": lambda t: _day(t) - timedelta(days=t.weekday()),
    "day": _day,
    "hour": lambda t: t.replace(minute=0, second=0, microsecond=0),
    "minute": lambda t: t.replace(second=0, microsecond=0),
    "second": lambda t: t.replace(microsecond=0),
    "millisecond": lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000),
}


def field(name: str) -> Function:
    """A part of a date or time, e.g. ``year(ts)``."""

    def compute(value: object) -> int:
        time = cast(value, "STRING", "TIMESTAMP") if isinstance(value, str) else value
        match name:
            case "quarter":
                return (time.month - 1) // 3 + 1
            case "dayofweek":
                return time.isoweekday() % 7 + 1
            case "dayofyear":
                return time.timetuple().tm_yday
            case "week" | "weekofyear":
                return time.isocalendar().week
        return getattr(time, "day" if name == "dayofmonth" else name)

    return Function(always("INT"), compute)


def in_order(values: list, ascending: bool = True) -> list:
    return sorted(values, key=order_key, reverse=not ascending)


def nulls_last(values: list) -> list:
    return sorted(values, key=lambda v: (v is None, order_key(v)))


def element(values: list, index: int) -> object:
    if index == 0 or abs(index) > len(values):
        raise RowError("invalid_index")
    return values[index - 1 if index > 0 else index]


def concat(*args: object) -> object:
    if args and isinstance(args[0], list):
        return [x for arg in args for x in arg]
    return "".join(map(as_text, args))


def concat_ws(separator: str, *args: object) -> str:
    return separator.join(as_text(arg) for arg in args if arg is not None)


def least(*args: object) -> object:
    return min((a for a in args if a is not None), key=order_key, default=None)


def greatest(*args: object) -> object:
    return max((a for a in args if a is not None), key=order_key, default=None)


def common(kinds: Kinds) -> str:
    return widest(*kinds)


FLOOR = Function(whole, rounded(ROUND_FLOOR))
CEIL = Function(whole, rounded(ROUND_CEILING))
SIZE = Function(always("INT"), len)
LENGTH = Function(always("INT"), len)
LOWER = Function(always("STRING"), str.lower)
UPPER = Function(always("STRING"), str.upper)
SUBSTRING = Function(always("STRING"), substring)
POWER = numeric(pow)
TO_TIMESTAMP = Function(always("TIMESTAMP"), lambda x: _to(x, "TIMESTAMP"))
TO_DATE = Function(always("DATE"), lambda x: _to(x, "DATE"))


def _to(value: object, kind: str) -> object:
    source = (
        "STRING"
        if isinstance(value, str)
        else "TIMESTAMP"
        if isinstance(value, datetime)
        else "DATE"
    )
    return cast(value, source, kind)


def _days(value: object) -> date:
    return _to(value, "DATE")


FUNCTIONS: dict[str, Function] = {
    "abs": Function(first, abs),
    "sign": numeric(lambda x: float((x > 0) - (x < 0))),
    "floor": FLOOR,
    "ceil": CEIL,
    "ceiling": CEIL,
    "round": Function(first, round_half_up),
    "sqrt": numeric(math.sqrt),
    "exp": numeric(math.exp),
    "ln": numeric(math.log),
    "log10": numeric(math.log10),
    "log2": numeric(math.log2),
    "pow": POWER,
    "power": POWER,
    "mod": Function(common, modulo),
    "pmod": Function(common, lambda a, b: modulo(modulo(a, b) + b, b)),
    "least": Function(common, least, sees_null=True),
    "greatest": Function(common, greatest, sees_null=True),
    "lower": LOWER,
    "lcase": LOWER,
    "upper": UPPER,
    "ucase": UPPER,
    "length": LENGTH,
    "char_length": LENGTH,
    "trim": Function(always("STRING"), lambda x: x.strip(" ")),
    "ltrim": Function(always("STRING"), lambda x: x.lstrip(" ")),
    "rtrim": Function(always("STRING"), lambda x: x.rstrip(" ")),
    "substr": SUBSTRING,
    "substring": SUBSTRING,
    "left": Function(always("STRING"), lambda x, n: x[: max(0, n)]),
    "right": Function(always("STRING"), lambda x, n: x[-n:] if n > 0 else ""),
    "replace": Function(always("STRING"), lambda x, a, b="": x.replace(a, b)),
    "reverse": Function(first, lambda x: x[::-1]),
    "concat": Function(lambda k: k[0] if family(k[0]) == "ARRAY" else "STRING", concat),
    "concat_ws": Function(always("STRING"), concat_ws, sees_null=True),
    "contains": Function(always("BOOLEAN"), lambda x, y: y in x),
    "startswith": Function(always("BOOLEAN"), lambda x, y: x.startswith(y)),
    "endswith": Function(always("BOOLEAN"), lambda x, y: x.endswith(y)),
    "instr": Function(always("INT"), lambda x, y: x.find(y) + 1),
    "split": Function(always("ARRAY<STRING>"), lambda x, y: re.split(y, x)),
    "isnull": Function(always("BOOLEAN"), lambda x: x is None, sees_null=True),
    "isnotnull": Function(always("BOOLEAN"), lambda x: x is not None, sees_null=True),
    "isnan": Function(always("BOOLEAN"), lambda x: isinstance(x, float) and math.isnan(x)),
    **{
        name: field(name)
        for name in (
            "year quarter month day dayofmonth dayofweek dayofyear weekofyear hour minute second"
        ).split()
    },
    "date_trunc": Function(always("TIMESTAMP"), truncate),
    "to_date": TO_DATE,
    "date": TO_DATE,
    "to_timestamp": TO_TIMESTAMP,
    "timestamp": TO_TIMESTAMP,
    "date_add": Function(always("DATE"), lambda d, n: _days(d) + timedelta(days=n)),
    "date_sub": Function(always("DATE"), lambda d, n: _days(d) - timedelta(days=n)),
    "datediff": Function(always("INT"), lambda a, b: (_days(a) - _days(b)).days),
    "unix_micros": Function(always("BIGINT"), micros),
    "unix_millis": Function(always("BIGINT"), lambda x: micros(x) // 1_000),
    "unix_seconds": Function(always("BIGINT"), lambda x: micros(x) // 1_000_000),
    "unix_timestamp": Function(always("BIGINT"), lambda x: micros(x) // 1_000_000),
    "timestamp_micros": Function(always("TIMESTAMP"), moment),
    "timestamp_millis": Function(always("TIMESTAMP"), lambda x: moment(x * 1_000)),
    "timestamp_seconds": Function(always("TIMESTAMP"), lambda x: moment(int(x * 1_000_000))),
    "array": Function(lambda k: f"ARRAY<{widest(*k)}>", lambda *x: list(x), sees_null=True),
    "size": SIZE,
    "cardinality": SIZE,
    "array_contains": Function(always("BOOLEAN"), lambda x, y: y in x),
    "array_distinct": Function(first, lambda x: list(dict.fromkeys(x))),
    "array_join": Function(
        always("STRING"), lambda x, s: s.join(as_text(v) for v in x if v is not None)
    ),
    "array_sort": Function(first, nulls_last),
    "sort_array": Function(first, in_order),
    "element_at": Function(item, element),
    "theta_sketch_estimate": Function(always("BIGINT"), len, sees_null=False),
}
