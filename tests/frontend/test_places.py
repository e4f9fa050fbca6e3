"""Every part of an expression knows where it stands: its text, read alone, is that part again."""

from __future__ import annotations

import pytest
from sqlglot import exp

from frontend.expressions import EXPRESSIONS
from tidegate.frontend.grammar.nodes import place_of
from tidegate.frontend.grammar.source import read_expression, subtree

# Operators whose NOT sqlglot takes for a node of its own, around the operator.
NEGATED = (exp.Between, exp.In, exp.Is)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_the_text_of_each_part_can_be_read_as_that_part(text: str) -> None:
    source = read_expression(text)
    assert source.slice(source.tree).lstrip("+") == text.lstrip("+")
    for node in subtree(source.tree):
        is_value = isinstance(node, (exp.Binary, exp.Column, exp.Anonymous, exp.Paren, exp.Case))
        is_negated = isinstance(node, NEGATED) and isinstance(node.parent, exp.Not)
        if not is_value or is_negated or node.find_ancestor(exp.Lambda):
            continue
        assert place_of(node) is not None
        assert read_expression(source.slice(node)).tree == node
