"""EXPLAIN in a notebook: the same facts as its text, as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.explain.describe import Described, describe_logical, describe_physical
from tidegate.explain.render import explain_text, parameter_text, summary
from tidegate.notebook.markup import (
    BORDER,
    Markup,
    block,
    element,
    facts,
    folded,
    heading,
    page,
    table,
    together,
)
from tidegate.plan.logical import LogicalPlan
from tidegate.plan.physical import PhysicalPlan

_NODE = "border-left: 3px solid rgba(128, 128, 128, 0.5); padding-left: 0.8em; margin: 0.6em 0"
_STATEMENT = f"border: {BORDER}; border-radius: 4px; padding: 0.2em 0.6em"


class Explanation(str):
    """The text of EXPLAIN; a notebook shows the plans as HTML."""

    _html: str

    @classmethod
    def of(cls, logical: LogicalPlan, physical: PhysicalPlan) -> Explanation:
        """Return what EXPLAIN says about the plans of a query."""
        explanation = cls(explain_text(logical, physical))
        explanation._html = page(
            heading(f"Plan {physical.plan_id}"),
            _summary(logical, physical),
            *_trees(logical, physical, is_open=True),
        )
        return explanation

    def _repr_html_(self) -> str:
        return self._html


def query_html(
    logical: LogicalPlan, physical: PhysicalPlan, columns: Sequence[tuple[str, str | None]]
) -> Markup:
    """Return a query as HTML: its statement, the columns of its results, and its plans.

    Args:
        logical: what it does.
        physical: how it runs.
        columns: the name and the type of each column of the results; None: it is not known.
    """
    has_types = any(type_ is not None for _, type_ in columns)
    names = facts([("columns", ", ".join(name for name, _ in columns))])
    return page(
        heading(f"Query ({physical.close.window.kind} window)"),
        element("div", block(logical.query.statement.text.strip("\n")), style=_STATEMENT),
        table(["column", "type"], columns) if has_types else names,
        folded("How it runs", _summary(logical, physical)),
        *_trees(logical, physical),
    )


def _summary(logical: LogicalPlan, physical: PhysicalPlan) -> Markup:
    return facts((label, "\n".join(lines)) for label, lines in summary(logical, physical) if lines)


def _trees(
    logical: LogicalPlan, physical: PhysicalPlan, *, is_open: bool = False
) -> Iterator[Markup]:
    """Both trees, from the sink down to the source."""
    plan = describe_physical(physical)
    yield folded("Physical plan, from the sink to the source", _tree(plan), is_open=is_open)
    plan = describe_logical(logical.root, physical.watermark.mode)
    yield folded("Logical plan, from the sink to the source", _tree(plan))


def _tree(root: Described) -> Markup:
    nodes: list[Markup] = []
    node: Described | None = root
    while node is not None:
        nodes.append(_node(node))
        node = node.child
    return together(nodes)


def _node(node: Described) -> Markup:
    parameters = f" ({parameter_text(node.parameters)})" if node.parameters else ""
    pairs = ((detail.label, "\n".join(detail.lines)) for detail in node.details)
    lines = facts(pairs, is_code=True)
    return element(
        "div",
        element("code", element("b", node.id), parameters),
        *([lines] if node.details else []),
        style=_NODE,
    )
