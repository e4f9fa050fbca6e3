"""Scalar expressions by sqlglot, with every function left as it is written."""

from __future__ import annotations

from sqlglot import ErrorLevel, TokenType, exp, parse_one
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError


class Refused(Exception):
    """The statement is wrong; the message says what and where."""


class Plain(Spark):
    """Spark SQL in which ``f(..)`` is always an Anonymous node with the name as written."""

    class Parser(Spark.Parser):
        FUNCTIONS = {}  # noqa: RUF012 - sqlglot's own way to say it
        NO_PAREN_FUNCTIONS = {}  # noqa: RUF012
        FUNCTION_PARSERS = {  # noqa: RUF012
            name: Spark.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST", "EXTRACT")
        }

        def _parse_term(self, parse_mod: bool = True) -> exp.Expression | None:
            this = super()._parse_term(parse_mod)
            ahead = self._tokens[self._index : self._index + 3]
            if [token.token_type for token in ahead] == [TokenType.GT] * 3:
                self._advance(3)
                places = super()._parse_term(parse_mod)
                return exp.Anonymous(this="shiftrightunsigned", expressions=[this, places])
            return this


def parse_select(sql: str) -> exp.Select:
    """A whole SELECT, for CTEs and joins."""
    try:
        tree = parse_one(sql, dialect=Plain, error_level=ErrorLevel.RAISE)
    except SqlglotError as error:
        raise Refused(f"cannot read {sql!r}: {error}") from error
    if not isinstance(tree, exp.Select):
        raise Refused(f"{sql!r} is not a SELECT")
    return tree


def parse_items(sql: str) -> list[exp.Expression]:
    """The items of a select list."""
    return parse_select(f"SELECT {sql}").expressions


def parse_scalar(sql: str) -> exp.Expression:
    """One expression without an alias."""
    items = parse_items(sql)
    if len(items) != 1 or isinstance(items[0], exp.Alias):
        raise Refused(f"{sql!r} is not one expression")
    return items[0]
