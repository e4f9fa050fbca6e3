"""Guards of functions that no table describes, because their failures depend on their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tidegate.frontend.guards.calls import Call, as_wanted, given, guarded_by_table
from tidegate.frontend.guards.casts import cast_fails
from tidegate.frontend.guards.functions import SIGNATURES
from tidegate.frontend.guards.operations import (
    absolute,
    arithmetic,
    arithmetic_type,
    as_operands,
    cast,
    comparable,
    element_from_one,
    negated,
)
from tidegate.frontend.guards.parts import (
    Fault,
    Part,
    null_where_it_fails,
    unless,
)
from tidegate.plan.guarded import (
    DIVISION_BY_ZERO,
    INVALID_CAST,
    INVALID_INDEX,
    OVERFLOW,
    RAISED,
)
from tidegate.plan.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    MOST_DIGITS,
    STRING,
    TIMESTAMP,
    VOID,
    SqlType,
    common_type,
)

# BIGINT values that are a TIMESTAMP, by the function that reads them.
_GREATEST = {"timestamp_seconds": 9_223_372_036_854, "timestamp_millis": 9_223_372_036_854_775}
_UNICODE = re.compile(r"'utf-?(8|16|32)(-?[bl]e)?'", re.IGNORECASE)


def guarded_call(call: Call) -> Part:
    """Return a guarded call to a Spark function; one with too few arguments is left to Spark."""
    least, most = _ARITY.get(call.name, (0, len(call.parts)))
    if not least <= len(call.parts) <= most:
        return call.kept()
    return SPECIAL.get(call.name, guarded_by_table)(call)


def _element_at(call: Call) -> Part:
    if len(call.parts) != 2:
        return call.kept()
    holder, index = call.parts
    if holder.type is not None and holder.type.name == "MAP":
        return replace(call.kept(), type=holder.type.element)
    if holder.type is None or holder.type.name != "ARRAY":
        return call.netted(INVALID_INDEX)
    index = as_wanted(index, INT)
    return call.with_faults(element_from_one(holder, index, call.written), (holder, index))


def _remainder(call: Call) -> Part:
    operands = as_operands(call.parts) if len(call.parts) == 2 else None
    if operands is None:
        return call.netted(DIVISION_BY_ZERO)
    left, right = operands
    own = arithmetic("%", left, right, call.written)
    kind = arithmetic_type("%", left, right)
    if own is None:
        return replace(call.kept(operands), type=kind)
    if call.name == "pmod":
        fault = (DIVISION_BY_ZERO, call.written)
        own = unless(own.faults[0].when, call.kept(operands).text, kind, fault)
    return call.with_faults(own, operands)


def _negative(call: Call) -> Part:
    if not _is_number(call):
        return _of_text(call)
    own = negated(call.parts[0], call.written)
    if own is None:
        return replace(call.kept(), type=call.parts[0].type)
    return call.with_faults(own)


def _absolute(call: Call) -> Part:
    if not _is_number(call):
        return _of_text(call)
    own = absolute(call.parts[0], call.kept().text, call.written)
    if own is None:
        return replace(call.kept(), type=call.parts[0].type)
    return call.with_faults(own)


def _rounded(call: Call) -> Part:
    if not _is_number(call):
        return _of_text(call)
    kind = call.parts[0].type
    scale = call.parts[1].literal if len(call.parts) > 1 else "0"
    if kind is None or kind.name == "INTERVAL" or scale is None:
        return call.netted()
    fits = not kind.is_decimal or kind.precision < MOST_DIGITS
    if not kind.is_float and not (fits and scale.isdigit()):
        return call.netted()
    return replace(call.kept(), type=_rounded_type(call, kind))


def _rounded_type(call: Call, kind: SqlType) -> SqlType | None:
    if call.name in ("round", "bround"):
        return None if kind.is_decimal else kind
    return BIGINT if len(call.parts) == 1 and not kind.is_decimal else None


def _is_number(call: Call) -> bool:
    kind = call.parts[0].type if call.parts else None
    return kind is None or not kind.is_text


def _of_text(call: Call) -> Part:
    """Guard a numeric function on text, which Spark casts to DOUBLE."""
    first = as_wanted(call.parts[0], DOUBLE)
    return replace(call.kept((first, *call.parts[1:])), type=DOUBLE)


def _concat(call: Call) -> Part:
    kinds = [part.type for part in call.parts]
    whole = next((kind for kind in kinds if kind and kind.name in ("ARRAY", "BINARY")), None)
    return replace(call.kept(), type=whole or (None if None in kinds else STRING))


def _map(call: Call) -> Part:
    keys, values = call.parts[::2], call.parts[1::2]
    literals = [key.literal for key in keys if key.literal is not None]
    as_given = comparable(values)
    if len(set(literals)) < len(keys) or as_given is None or comparable(keys) != keys:
        return call.netted()
    parts = [part for pair in zip(keys, as_given, strict=False) for part in pair]
    kind = SqlType(
        name="MAP",
        key=common_type([key.type for key in keys]),
        element=common_type([value.type for value in as_given]),
    )
    return replace(call.kept(parts), type=kind)


def _from_text(call: Call) -> Part:
    """Guard from_json and the like, which fail only if an option asks for it."""
    asked = len(call.parts) > 2 and "failfast" in call.written.lower()
    return call.netted(INVALID_CAST) if asked or call.parts[1].literal is None else call.kept()


def _regexp_replace(call: Call) -> Part:
    pattern, replacement = (part.literal for part in call.parts[1:3])
    position = call.parts[3].literal if len(call.parts) > 3 else "1"
    # A group that the pattern does not have is an error if the pattern matches.
    plain = replacement is not None and not re.search(r"[$\\]", replacement)
    return call.kept() if pattern and plain and position else call.netted()


def _regexp_extract(call: Call) -> Part:
    pattern = call.parts[1].literal
    group = call.parts[2].literal if len(call.parts) > 2 else "1"
    if pattern is None or group is None or not re.fullmatch("[0-9]{1,9}", group):
        return call.netted()
    opening = re.findall(r"(?<!\\)\((?!\?)", pattern)
    return call.kept() if int(group) <= len(opening) else call.netted()


def _encode(call: Call) -> Part:
    is_unicode = len(call.parts) == 2 and _UNICODE.fullmatch(call.parts[1].text)
    return call.kept() if is_unicode else call.netted()


def _unix_timestamp(call: Call) -> Part:
    if not call.parts:
        return call.kept()
    first, *rest = call.parts
    if first.type is not None and first.type.is_time:
        return call.kept()
    if first.type is None or (rest and rest[0].literal is None):
        return call.netted()
    pattern = rest[0].text if rest else "'yyyy-MM-dd HH:mm:ss'"
    tried = f"unix_timestamp(try_to_timestamp({first.text}, {pattern}))"
    own = null_where_it_fails(tried, call.parts[:1], BIGINT, (INVALID_CAST, call.written))
    return call.with_faults(own)


def _since_1970(call: Call) -> Part:
    part = call.parts[0]
    if part.type is None or part.type.is_decimal or part.type.is_text:
        return call.netted()
    if part.type != BIGINT:
        return call.kept()
    most = _GREATEST[call.name]
    fails = f"{part.operand} > {most} OR {part.operand} < -{most}"
    own = unless(fails, call.kept().text, TIMESTAMP, (OVERFLOW, call.written))
    return call.with_faults(own)


def _zoned_timestamp(call: Call) -> Part:
    if len(call.parts) > 1:
        return call.netted()
    kind = "TIMESTAMP_NTZ" if call.name.endswith("ntz") else "TIMESTAMP"
    wanted = SqlType(name=kind)
    if cast_fails(call.parts[0].type, wanted) is None:
        return call.kept()
    return call.with_faults(cast(call.parts[0], wanted, kind, call.written))


def _date_part(call: Call) -> Part:
    kind = call.parts[1].type if len(call.parts) > 1 else None
    if kind is None or kind.is_text or call.parts[0].literal is None:
        return call.netted(INVALID_CAST)
    return replace(call.kept(), type=part_type(call.parts[0].literal))


def part_type(field: str) -> SqlType:
    """Return the type of a part of a date or time."""
    seconds = field.strip("'\"").lower() in ("s", "sec", "second", "seconds", "secs")
    return SqlType(name="DECIMAL", precision=8, scale=6) if seconds else INT


def _with_unit(call: Call) -> Part:
    """Guard date_add, datediff and their synonyms; with a unit they compute on TIMESTAMPs."""
    if len(call.parts) > 2:
        return call.netted()
    parts = given(call, SIGNATURES[call.name].parameters)
    return call.netted() if parts is None else call.kept(parts)


def _raise_error(call: Call) -> Part:
    fault = Fault(when="true", reason=RAISED, detail=call.written)
    return call.with_faults(Part(text="NULL", type=VOID, faults=(fault,)))


def _assert_true(call: Call) -> Part:
    when = f"{call.parts[0].operand} IS NOT TRUE"
    fault = Fault(when=when, reason=RAISED, detail=call.written)
    return call.with_faults(Part(text="NULL", type=VOID, faults=(fault,)))


def _equal_null(call: Call) -> Part:
    known = comparable(call.parts) == call.parts
    return replace(call.kept(), type=BOOLEAN) if known else call.netted(INVALID_CAST)


def _tried(call: Call) -> Part:
    """Guard try_add and the like: they also yield NULL for text that is not a number."""
    operands = as_operands(call.parts)
    if operands is None:
        return call.kept()
    quiet = [
        replace(operand, faults=part.faults)
        for operand, part in zip(operands, call.parts, strict=True)
    ]
    return replace(call.kept(quiet), type=_tried_type(call, quiet))


def _tried_type(call: Call, parts: list[Part]) -> SqlType | None:
    symbol = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "mod": "%"}
    left, right = parts
    return arithmetic_type(symbol[call.name.removeprefix("try_")], left, right)


# How many arguments a call needs at least and takes at most, if a guard counts on it.
_ARITY: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("equal_null", "mod", "pmod"), (2, 2)),
    **dict.fromkeys(("try_add", "try_divide", "try_mod", "try_multiply", "try_subtract"), (2, 2)),
    **dict.fromkeys(("from_csv", "from_json", "from_xml", "encode"), (2, 3)),
    **dict.fromkeys(("regexp_extract", "regexp_extract_all"), (2, 3)),
    "regexp_replace": (3, 4),
}

SPECIAL: dict[str, Callable[[Call], Part]] = {
    "abs": _absolute,
    "assert_true": _assert_true,
    "bround": _rounded,
    "ceil": _rounded,
    "ceiling": _rounded,
    "concat": _concat,
    "date_add": _with_unit,
    "date_diff": _with_unit,
    "date_part": _date_part,
    "dateadd": _with_unit,
    "datediff": _with_unit,
    "datepart": _date_part,
    "element_at": _element_at,
    "encode": _encode,
    "equal_null": _equal_null,
    "floor": _rounded,
    "from_csv": _from_text,
    "from_json": _from_text,
    "from_xml": _from_text,
    "map": _map,
    "mod": _remainder,
    "negative": _negative,
    "pmod": _remainder,
    "raise_error": _raise_error,
    "regexp_extract": _regexp_extract,
    "regexp_extract_all": _regexp_extract,
    "regexp_replace": _regexp_replace,
    "round": _rounded,
    "timestamp_millis": _since_1970,
    "timestamp_seconds": _since_1970,
    "to_timestamp_ltz": _zoned_timestamp,
    "to_timestamp_ntz": _zoned_timestamp,
    "to_unix_timestamp": _unix_timestamp,
    **dict.fromkeys(("try_add", "try_divide", "try_mod", "try_multiply", "try_subtract"), _tried),
    "unix_timestamp": _unix_timestamp,
}
