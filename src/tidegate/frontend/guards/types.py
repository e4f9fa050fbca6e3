"""Types of Spark SQL as sqlglot reads them, nested ones too."""

from __future__ import annotations

import re
from functools import cache

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from tidegate.plan.types import INTERVAL, SqlType, decimal_of, simple_type

# Sqlglot's names of some of Spark's types.
_OF_SQLGLOT = {
    "TEXT": "STRING",
    "VARCHAR": "STRING",
    "CHAR": "STRING",
    "TIMESTAMPTZ": "TIMESTAMP",
    "TIMESTAMPLTZ": "TIMESTAMP",
    "TIMESTAMPNTZ": "TIMESTAMP_NTZ",
    "VARBINARY": "BINARY",
}


@cache
def read_type(text: str | None) -> SqlType | None:
    """Return a type from DDL or from Spark's name for it; None if it is not understood."""
    if not text:
        return None
    return simple_type(text) or _nested_type(text.strip())


def _nested_type(text: str) -> SqlType | None:
    try:
        return type_of(exp.DataType.from_str(text, dialect="spark"))
    except (ParseError, TokenError, ValueError):
        return None


def type_of(node: exp.Expr | None) -> SqlType | None:
    """Return the type that a node of the tree names; None if it is not understood."""
    if not isinstance(node, exp.DataType) or not isinstance(node.this, exp.DType):
        return None
    name = _OF_SQLGLOT.get(node.this.name, node.this.name)
    parts = list(node.expressions)
    known = [type_of(each) for each in parts]
    match name:
        case "DECIMAL":
            if not all(re.fullmatch("[0-9]{1,9}", each.name) for each in parts):
                return None
            digits = [int(each.name) for each in parts]
            precision, scale, *_ = [*digits, 0] if digits else (10, 0)
            found = decimal_of(precision, scale)
        case "ARRAY":
            found = SqlType(name=name, element=known[0] if parts else None)
        case "MAP":
            key, value = known if len(parts) == 2 else (None, None)
            found = SqlType(name=name, key=key, element=value)
        case "STRUCT":
            fields = ((each.name.lower(), type_of(each.args.get("kind"))) for each in parts)
            found = SqlType(name=name, fields=tuple(fields))
        case _:
            found = INTERVAL if name.startswith("INTERVAL") else SqlType(name=name)
    return found
