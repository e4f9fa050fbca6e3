"""The context in which an expression is guarded, with what the rules have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlglot import exp

from tidegate.frontend.grammar.nodes import place_of
from tidegate.frontend.grammar.source import Source, subtree
from tidegate.frontend.guards.parts import (
    Fault,
    Part,
    kept_over,
    netted,
)
from tidegate.plan.guarded import INVALID_ARGUMENT
from tidegate.plan.types import SqlType

Columns: TypeAlias = Mapping[str, SqlType | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarding:
    """An expression that is being guarded.

    Attributes:
        source: its text and tree.
        columns: types by ``path``.
        rules: how to guard each kind of node; other nodes stay as they are.
        names: types of the variables of the enclosing lambdas.
        tables: types of columns by ``path`` and by table, for subqueries.
        query: guards a subquery.
    """

    source: Source
    columns: Columns
    rules: Mapping[type[exp.Expr], Rule]
    query: Callable[[Guarding, exp.Expr], str]
    names: Mapping[str, SqlType | None] = field(default_factory=dict)
    tables: Mapping[str, Columns] = field(default_factory=dict)

    def part(self, node: exp.Expr) -> Part:
        """Return a node guarded."""
        if isinstance(node, exp.Query):
            return Part(text=self.query(self, node))
        rule = self.rules.get(type(node))
        made = rule(self, node) if rule is not None else self.kept(node)
        written = "" if place_of(node) is None else self.source.slice(node)
        return replace(made, written=written)

    def children(self, node: exp.Expr) -> list[exp.Expr]:
        """Return the child values of a node that have a place in the text."""
        return [
            each
            for each in node.iter_expressions()
            if place_of(each) is not None and not isinstance(each, exp.DataType)
        ]

    def parts(self, node: exp.Expr) -> tuple[Part, ...]:
        """Return the children of a node, guarded."""
        return tuple(self.part(each) for each in self.children(node))

    def kept(
        self,
        node: exp.Expr,
        parts: Sequence[Part] | None = None,
        kind: SqlType | None = None,
        *,
        strict: bool = False,
    ) -> Part:
        """Return a node that itself cannot fail, over its guarded children.

        Args:
            node: the node.
            parts: its children, guarded; None: guard them.
            kind: the type of the node.
            strict: whether it is NULL if one of its parts is.
        """
        below = self.parts(node) if parts is None else tuple(parts)
        texts = {
            id(child): part.text
            for child, part in zip(self.children(node), below, strict=True)
            if part.text != self.source.slice(child)
        }
        own = Part(
            text=self.source.rewrite(node, lambda each: texts.get(id(each)))
            if texts
            else (self.source.slice(node) if place_of(node) is not None else ""),
            type=kind,
        )
        return kept_over(own, below, strict=strict)

    def netted(
        self,
        node: exp.Expr,
        kind: SqlType | None = None,
        faults: tuple[Fault, ...] = (),
        reason: str = INVALID_ARGUMENT,
    ) -> Part:
        """Return a node in a net, as written; ``faults`` are those of its parts."""
        if any(isinstance(each, exp.Query) for each in subtree(node)):
            return self.kept(node, kind=kind)
        written = self.source.slice(node)
        return netted(written, kind, (reason, written), faults)


Rule: TypeAlias = Callable[[Guarding, exp.Expr], Part]
