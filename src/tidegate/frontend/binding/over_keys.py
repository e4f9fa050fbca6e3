"""Expressions over a row that follow from its group keys: ``key DIV 10`` beside GROUP BY key."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidegate.frontend.binding.extract_aggregates import Cutter
from tidegate.frontend.grammar.source import read_expression, subtree
from tidegate.frontend.refusal import Refusal

# What gives the same value for the same keys, whenever it is computed. Functions do not in general.
_STEADY = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Paren,
    exp.Neg,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.IntDiv,
    exp.Mod,
)


def over_keys(text: str, cutter: Cutter) -> str | None:
    """Return an expression over a row as one over its group keys (``_k0``).

    None: it needs more than the keys, or it is not certain that it does not.

    Args:
        text: an expression that has been checked.
        cutter: the statement, cut.
    """
    source = read_expression(text)
    keys = replace(cutter, source=source, keys=dict(cutter.keys), partition_by=())
    if keys.is_key(source.tree):
        return keys.grouped(source.tree, lambda _: None)
    for node in subtree(source.tree):
        if not isinstance(node, _STEADY) or (isinstance(node, exp.Column) and keys.is_call(node)):
            return None
    try:
        return keys.grouped(source.tree, lambda _: None)
    except Refusal:
        return None
