"""Guards of single operations: a form that yields NULL, and the condition under which it fails."""

from __future__ import annotations

from dataclasses import replace

from tidegate.frontend.grammar.source import in_brackets
from tidegate.frontend.guards.casts import cast_fails
from tidegate.frontend.guards.parts import (
    Fault,
    Part,
    netted,
    null_where_it_fails,
    over,
    unless,
)
from tidegate.plan.guarded import DIVISION_BY_ZERO, INVALID_CAST, INVALID_INDEX, OVERFLOW
from tidegate.plan.types import (
    BIGINT,
    DOUBLE,
    INTEGRALS,
    INTERVAL,
    STRING,
    SUFFIXES,
    VOID,
    SqlType,
    as_decimal,
    decimal_result,
    text_becomes,
)

_TRY = {
    "+": "try_add",
    "-": "try_subtract",
    "*": "try_multiply",
    "/": "try_divide",
    "%": "try_mod",
}
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


def cast(part: Part, wanted: SqlType, type_text: str, detail: str) -> Part:
    """Return a part cast to a simple type, with the faults of the cast alone."""
    reason = cast_fails(part.type, wanted)
    tried = f"try_cast({part.text} AS {type_text})"
    made = null_where_it_fails(tried, (part,), wanted, (reason or INVALID_CAST, detail))
    if reason is None:
        return replace(made, text=f"CAST({part.text} AS {type_text})", faults=())
    if wanted.is_decimal and part.type is not None and part.type.is_float:
        # NaN and infinity become a NULL DECIMAL without an error.
        finite = f"NOT isnan({part.text}) AND abs({part.text}) < double('Infinity')"
        return replace(made, faults=tuple(each.only_if(finite) for each in made.faults))
    return made


def is_nonzero(part: Part) -> bool:
    """Whether a part is a literal number other than 0."""
    try:
        return part.literal is not None and float(part.literal) != 0
    except ValueError:
        return False


def arithmetic(operator: str, left: Part, right: Part, written: str) -> Part | None:
    """Return ``left operator right`` with its own faults; None: it cannot fail."""
    kind, overflows = _result(operator, left.type, right.type)
    if left.type is None or right.type is None:
        # Spark would cast text, and share the cast with other expressions outside the net.
        reason = DIVISION_BY_ZERO if operator in "/%" else OVERFLOW
        return netted(written, kind, (reason, written))
    divides = operator in "/%" and not is_nonzero(right)
    if not overflows and not divides:
        return None
    tried = f"{_TRY[operator]}({left.text}, {right.text})"
    faults = []
    if divides:
        faults.append(_by_zero(left, right, written))
    if overflows:
        made = null_where_it_fails(tried, (left, right), kind, (OVERFLOW, written))
        faults += made.faults
    return Part(text=tried, type=kind, faults=tuple(faults))


def arithmetic_type(operator: str, left: Part, right: Part) -> SqlType | None:
    """Return the type of ``left operator right``, None if unknown."""
    return _result(operator, left.type, right.type)[0]


def whole_division(left: Part, right: Part, call: str, written: str) -> Part | None:
    """Return ``left div right``; None: it cannot fail.

    The only overflow of integers is -9223372036854775808 div -1.
    """
    kinds = [left.type, right.type]
    if None in kinds:
        return netted(written, BIGINT, (DIVISION_BY_ZERO, written))
    by_zero: tuple[Fault, ...] = ()
    if not is_nonzero(right):
        by_zero = (_by_zero(left, right, written),)
    if not all(kind is not None and kind.is_integral for kind in kinds):
        caught = netted(written, BIGINT, (OVERFLOW, written))
        return replace(caught, faults=by_zero + caught.faults)
    faults = by_zero
    if left.type == BIGINT and right.literal is None:
        least = f"{right.operand} = -1 AND {left.operand} = {_least('BIGINT')}"
        faults += (Fault(when=least, reason=OVERFLOW, detail=written),)
    if not faults:
        return None
    fails = " OR ".join(
        each.when if len(faults) == 1 else in_brackets(each.when) for each in faults
    )
    made = unless(fails, call, BIGINT, (OVERFLOW, written))
    return replace(made, faults=faults)


def negated(part: Part, written: str) -> Part | None:
    """Return ``-part``; None: it cannot fail."""
    if part.type is None or part.type == INTERVAL:
        return netted(written, part.type, (OVERFLOW, written))
    if part.literal is not None or not part.type.is_integral:
        return None
    tried = f"try_subtract(0{SUFFIXES[part.type.name]}, {part.text})"
    return null_where_it_fails(tried, (part,), part.type, (OVERFLOW, written))


def absolute(part: Part, call: str, written: str) -> Part | None:
    """Return ``abs(part)``; None: it cannot fail."""
    if part.type is None or part.type == INTERVAL:
        return netted(written, part.type, (OVERFLOW, written))
    if not part.type.is_integral:
        return None
    return unless(
        f"{part.operand} = {_least(part.type.name)}", call, part.type, (OVERFLOW, written)
    )


def element(array: Part, index: Part, call: str, written: str) -> Part:
    """Return ``array[index]`` of an ARRAY; indexes start at 0."""
    beyond = f"{index.operand} >= array_size({array.text})"
    if index.literal is None or not index.literal.isdigit():
        beyond = f"{index.operand} < 0 OR {beyond}"
    kind = array.type.element if array.type is not None else None
    is_int = index.type is not None and INTEGRALS.get(index.type.name, 99) <= INTEGRALS["INT"]
    made = unless(beyond, call, kind, (INVALID_INDEX, written))
    return replace(made, text=f"get({array.text}, {index.text})") if is_int else made


def element_from_one(array: Part, index: Part, written: str) -> Part:
    """Return ``element_at(array, index)`` of an ARRAY, counted from 1 or, if negative, its end."""
    size = f"array_size({array.text})"
    beyond = f"{index.operand} > {size} OR {index.operand} < -{size}"
    kind = array.type.element if array.type is not None else None
    tried = f"try_element_at({array.text}, {index.text})"
    if is_nonzero(index):
        made = unless(beyond, tried, kind, (INVALID_INDEX, written))
        return replace(made, text=tried)
    made = unless(f"{index.operand} = 0", tried, kind, (INVALID_INDEX, written))
    fault = Fault(when=f"{index.operand} = 0 OR {beyond}", reason=INVALID_INDEX, detail=written)
    return replace(made, faults=(fault,))


def _by_zero(left: Part, right: Part, written: str) -> Fault:
    known = [left.known] if left.known is not None else []
    when = " AND ".join([f"{right.operand} = 0", *known])
    return Fault(when=when, reason=DIVISION_BY_ZERO, detail=written)


def _least(name: str) -> str:
    return f"-{2 ** (_BITS[name] - 1)}{SUFFIXES[name]}"


def _result(
    operator: str, left: SqlType | None, right: SqlType | None
) -> tuple[SqlType | None, bool]:
    """Return the type of an operation, and whether it can overflow."""
    if left is None or right is None:
        return (DOUBLE if operator == "/" and _is_number(left, right) else None), True
    if left.is_number and right.is_number:
        return _of_numbers(operator, left, right)
    if left.is_time or right.is_time:
        return _of_times(operator, left, right)
    return (INTERVAL if INTERVAL in (left, right) else None), True


def _is_number(*kinds: SqlType | None) -> bool:
    return any(kind is not None and kind.is_number and not kind.is_decimal for kind in kinds)


def _of_numbers(operator: str, left: SqlType, right: SqlType) -> tuple[SqlType, bool]:
    if left.is_float or right.is_float:
        return DOUBLE, False
    if left.is_integral and right.is_integral:
        if operator == "/":
            return DOUBLE, False
        wider = max(left, right, key=lambda kind: kind.whole_digits)
        return wider, operator != "%"
    return decimal_result(operator, as_decimal(left), as_decimal(right))


def _of_times(operator: str, left: SqlType, right: SqlType) -> tuple[SqlType | None, bool]:
    if left.is_time and right.is_time:
        return INTERVAL, True
    time, other = (left, right) if left.is_time else (right, left)
    # Spark adds days to a DATE without an overflow check.
    days = other.is_integral and time.name == "DATE" and operator in "+-"
    return (time if days or time.name != "DATE" else None), not days


def as_operands(parts: tuple[Part, ...]) -> tuple[Part, ...] | None:
    """Return the operands of an operation, with text cast as Spark would cast it.

    None if the cast that Spark would insert is unknown.
    """
    others = [each.type for each in parts if each.type is None or not each.type.is_text]
    if len(others) == len(parts) or not others:
        return parts
    kinds = [None if kind is None else text_becomes(kind) for kind in others]
    if None in kinds:
        binary = all(kind is not None and kind.name in ("BINARY", "VOID") for kind in others)
        return parts if binary else None
    wanted = kinds[0]
    if wanted is None or any(kind != wanted for kind in kinds):
        return None
    return tuple(
        _cast_text(each, wanted) if each.type is not None and each.type.is_text else each
        for each in parts
    )


def comparable(parts: tuple[Part, ...]) -> tuple[Part, ...] | None:
    """Return parts cast to one type, with the faults of the casts; None if a cast is unknown."""
    unknown = [part for part in parts if part.type is None]
    if not unknown:
        return as_operands(parts)
    others = [part for part in parts if part.type is not None and part.type != VOID]
    # A text literal can be cast for all rows or for none.
    is_text = all(part.type == STRING and part.literal is not None for part in others)
    return parts if len(unknown) == 1 and is_text else None


def _cast_text(part: Part, wanted: SqlType) -> Part:
    made = cast(part, wanted, wanted.name, part.written)
    return replace(over(made, (part,)), written=part.written)
