"""Types of Spark SQL: their names, their components, and the types of operations on them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.names import in_backticks, path

# Spark's type names; Spark checks what follows one, ``(10,2)`` or ``<STRING>``.
TYPE_NAMES = (
    "ARRAY BIGINT BINARY BOOLEAN BYTE CHAR CHARACTER DATE DEC DECIMAL DOUBLE FLOAT INT INTEGER "
    "INTERVAL LONG MAP NUMERIC REAL SHORT SMALLINT STRING STRUCT TIME TIMESTAMP TIMESTAMP_LTZ "
    "TIMESTAMP_NTZ TINYINT VARCHAR VARIANT"
).split()

# Other names of the numbers.
NUMBER_SYNONYMS = {
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
}

# Integer types: the digits of their DECIMAL, and the suffix of their literals.
INTEGRALS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
SUFFIXES = {"TINYINT": "Y", "SMALLINT": "S", "INT": "", "BIGINT": "L"}
FLOATS = ("FLOAT", "DOUBLE")
TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
INTERVALS = ("INTERVAL",)
NESTED = ("ARRAY", "MAP", "STRUCT")

# Limits of a DECIMAL.
MOST_DIGITS = 38
_LEAST_SCALE = 6

_SYNONYMS = {
    **NUMBER_SYNONYMS,
    "TIMESTAMP_LTZ": "TIMESTAMP",
    "CHAR": "STRING",
    "CHARACTER": "STRING",
    "VARCHAR": "STRING",
    "NULL": "VOID",
}
_SIMPLE = re.compile(r"(?P<name>\w+)\s*(?:\(\s*(?P<first>\d+)\s*(?:,\s*(?P<second>\d+)\s*)?\))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlType:
    """A type: ``name`` in capitals, e.g. ``BIGINT``, and its components.

    Attributes:
        name: one of Spark's names; every interval is ``INTERVAL``, every text ``STRING``.
        precision: digits of a DECIMAL.
        scale: digits after the point of a DECIMAL.
        element: type of an ARRAY's elements or a MAP's values; None if unknown.
        key: type of a MAP's keys.
        fields: types of a STRUCT's fields by name in lower case.
    """

    name: str
    precision: int = 0
    scale: int = 0
    element: SqlType | None = None
    key: SqlType | None = None
    fields: tuple[tuple[str, SqlType | None], ...] = ()

    @property
    def is_integral(self) -> bool:
        """Whether values are integers."""
        return self.name in INTEGRALS

    @property
    def is_float(self) -> bool:
        """Whether values are floating-point numbers; these become infinite, never overflow."""
        return self.name in FLOATS

    @property
    def is_decimal(self) -> bool:
        """Whether values are DECIMALs."""
        return self.name == "DECIMAL"

    @property
    def is_number(self) -> bool:
        """Whether values are numbers."""
        return self.is_integral or self.is_float or self.is_decimal

    @property
    def is_text(self) -> bool:
        """Whether values are text."""
        return self.name == "STRING"

    @property
    def is_time(self) -> bool:
        """Whether values are points in time."""
        return self.name in TIMES

    @property
    def whole_digits(self) -> int:
        """The digits before the decimal point."""
        return INTEGRALS.get(self.name, self.precision - self.scale)

    @property
    def ddl(self) -> str | None:
        """The type as DDL for ``read_type``; None if a part of it is unknown."""
        inner = [each for _, each in self.fields]
        inner += [self.element] if self.name in ("ARRAY", "MAP") else []
        inner += [self.key] if self.name == "MAP" else []
        texts = ["" if each is None else each.ddl or "" for each in inner]
        if not all(texts):
            return None
        match self.name:
            case "DECIMAL":
                return f"DECIMAL({self.precision},{self.scale})"
            case "ARRAY":
                return f"ARRAY<{texts[0]}>"
            case "MAP":
                return f"MAP<{texts[1]},{texts[0]}>"
            case "STRUCT":
                names = (in_backticks(name) for name, _ in self.fields)
                named = zip(names, texts, strict=True)
                return f"STRUCT<{', '.join(f'{name}: {text}' for name, text in named)}>"
        return self.name

    def field(self, name: str) -> SqlType | None:
        """Return the type of a field, None if unknown."""
        if self.name == "ARRAY" and self.element is not None:
            inner = self.element.field(name)
            return None if inner is None else SqlType(name="ARRAY", element=inner)
        return dict(self.fields).get(name.lower())


BOOLEAN = SqlType(name="BOOLEAN")
STRING = SqlType(name="STRING")
BINARY = SqlType(name="BINARY")
INT = SqlType(name="INT")
BIGINT = SqlType(name="BIGINT")
DOUBLE = SqlType(name="DOUBLE")
DATE = SqlType(name="DATE")
TIMESTAMP = SqlType(name="TIMESTAMP")
INTERVAL = SqlType(name="INTERVAL")
VOID = SqlType(name="VOID")


def simple_type(text: str) -> SqlType | None:
    """Return a type from DDL or from Spark's name for it; None if it is nested."""
    bare = text.strip()
    if bare.upper().startswith("INTERVAL"):
        return INTERVAL
    if bare.upper().startswith("STRING"):
        return STRING
    match = _SIMPLE.fullmatch(bare)
    if match is None:
        return None
    name = _SYNONYMS.get(match["name"].upper(), match["name"].upper())
    if name == "DECIMAL":
        return decimal_of(int(match["first"] or 10), int(match["second"] or 0))
    return SqlType(name=name)


def column_type(parts: Sequence[str], columns: Mapping[str, SqlType | None]) -> SqlType | None:
    """Return the type of a column or of a field in one.

    Args:
        parts: the name as written, e.g. ``t, a, x`` for the field x of the column a of t.
        columns: types by their ``path``, with or without the name of the table.
    """
    for start, end in ((0, 2), (0, 1), (1, 2)):
        name = path(*parts[start:end])
        if end <= len(parts) and name in columns:
            found = columns[name]
            for field in parts[end:]:
                found = None if found is None else found.field(field)
            return found
    return None


def as_decimal(kind: SqlType) -> SqlType:
    """Return the DECIMAL that Spark uses for a numeric type."""
    return kind if kind.is_decimal else decimal_of(INTEGRALS[kind.name], 0)


def decimal_result(operator: str, left: SqlType, right: SqlType) -> tuple[SqlType, bool]:
    """Return the DECIMAL type of an operation on two DECIMALs, and whether a result may not fit."""
    scale = max(left.scale, right.scale)
    match operator:
        case "+" | "-":
            digits = max(left.whole_digits, right.whole_digits) + scale + 1
        case "*":
            digits, scale = left.precision + right.precision + 1, left.scale + right.scale
        case "/":
            scale = max(_LEAST_SCALE, left.scale + right.precision + 1)
            digits = left.whole_digits + right.scale + scale
        case _:
            return decimal_of(min(left.whole_digits, right.whole_digits) + scale, scale), False
    if digits <= MOST_DIGITS:
        return decimal_of(digits, scale), False
    whole = digits - scale
    return decimal_of(MOST_DIGITS, max(MOST_DIGITS - whole, min(scale, _LEAST_SCALE))), True


def common_type(kinds: Sequence[SqlType | None]) -> SqlType | None:
    """Return the common type of several types, None if unknown."""
    known = [kind for kind in kinds if kind is not None and kind != VOID]
    if len(known) < sum(kind != VOID for kind in kinds):
        return None
    if not known:
        return VOID
    common = known[0]
    for kind in known[1:]:
        wider = _wider(common, kind)
        if wider is None:
            return None
        common = wider
    return common


def text_becomes(other: SqlType) -> SqlType | None:
    """Return the type that Spark casts text to beside another type; None if it stays text."""
    if other.is_integral:
        return BIGINT
    if other.is_number:
        return DOUBLE
    return other if other.is_time or other.name == "BOOLEAN" else None


def _wider(left: SqlType, right: SqlType) -> SqlType | None:
    if left == right:
        return left
    if left.is_text or right.is_text:
        return text_becomes(right if left.is_text else left)
    if left.is_number and right.is_number:
        return _wider_number(left, right)
    if left.is_time and right.is_time:
        name = "TIMESTAMP" if TIMESTAMP in (left, right) else "TIMESTAMP_NTZ"
        return SqlType(name=name)
    return None


def _wider_number(left: SqlType, right: SqlType) -> SqlType:
    if left.is_float or right.is_float:
        return DOUBLE
    if left.is_integral and right.is_integral:
        return max(left, right, key=lambda kind: kind.whole_digits)
    one, two = as_decimal(left), as_decimal(right)
    scale = max(one.scale, two.scale)
    digits = max(one.whole_digits, two.whole_digits) + scale
    return decimal_of(min(digits, MOST_DIGITS), scale)


def decimal_of(precision: int, scale: int) -> SqlType:
    """Return the DECIMAL with these digits, ``scale`` of them after the point."""
    return SqlType(name="DECIMAL", precision=precision, scale=scale)


def literal_type(text: str, *, is_string: bool) -> SqlType:
    """Return the type of a literal without a suffix."""
    if is_string:
        return STRING
    if "e" in text.lower():
        return DOUBLE
    whole, _, fraction = text.partition(".")
    if "." in text:
        whole = whole.lstrip("0")
        return decimal_of(max(len(whole) + len(fraction), 1), len(fraction))
    number = int(text)
    return INT if number < 2**31 else BIGINT if number < 2**63 else decimal_of(len(text), 0)
