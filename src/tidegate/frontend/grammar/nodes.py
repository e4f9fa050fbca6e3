"""The nodes that Tidegate adds to sqlglot's tree, and where any node stands in the statement.

The tree is only ever read. What is handed to Spark is the statement's own text: the slice under a
node, with some sub-expressions replaced (``grammar/source.py``). So a node must know its place, and
the parser (``grammar/dialect.py``) marks it on every node it returns.
"""

from __future__ import annotations

from sqlglot import exp

from tidegate.errors import Span

_SPAN = "span"


class StreamOver(exp.Expression):
    """A stream window with its OVER: ``this`` is the call."""

    arg_types = {"this": True, "partition_by": False, "when": False}  # noqa: RUF012


class UnsignedShift(exp.Expression, exp.Binary):
    """``this >>> expression``."""

    arg_types = {"this": True, "expression": True}  # noqa: RUF012


class VariantPath(exp.Expression, exp.Condition):
    """``this:key``; what follows the key, such as ``.key`` or ``[0]``, stands around it."""

    arg_types = {"this": True}  # noqa: RUF012


class WindowParameter(exp.Expression):
    """``NAME expression`` in a WINDOW or WATERMARK clause; ``this`` is the name, or ''."""

    arg_types = {"this": True, "expression": True}  # noqa: RUF012


class WindowClause(exp.Expression):
    """``WINDOW KIND (parameters)``; ``this`` is the kind in upper case."""

    arg_types = {"this": True, "expressions": False}  # noqa: RUF012


class OnClause(exp.Expression):
    """``ON expression``: the event time."""

    arg_types = {"this": True}  # noqa: RUF012


class WatermarkClause(exp.Expression):
    """``WATERMARK (lag [, ALLOWED LATENESS lateness])``."""

    arg_types = {"expressions": False}  # noqa: RUF012


class EmitClause(exp.Expression):
    """``EMIT ON WINDOW CLOSE``, or ``EMIT EARLY EVERY this``."""

    arg_types = {"this": False}  # noqa: RUF012


def mark(node: exp.Expr, start: int, end: int) -> None:
    """Record that a node is at ``[start, end)``; an earlier mark is only widened."""
    known = node.meta.get(_SPAN)
    node.meta[_SPAN] = (min(start, known[0]), max(end, known[1])) if known else (start, end)


def span_of(node: exp.Expr) -> Span:
    """Return where a node stands: as marked, else where its own token and its children stand."""
    place = place_of(node)
    assert place is not None, f"no place is known for {node!r}"
    return Span(*place)


def place_of(node: exp.Expr) -> tuple[int, int] | None:
    """Return the start and the end of a node, or None when it was never marked."""
    if _SPAN in node.meta:
        start, end = node.meta[_SPAN]
        return start, end
    places = [place for child in node.iter_expressions() if (place := place_of(child)) is not None]
    if "start" in node.meta:
        places.append((node.meta["start"], node.meta["end"] + 1))
    if not places:
        return None
    return min(start for start, _ in places), max(end for _, end in places)


def variant_of(node: exp.Expr) -> exp.Expr | None:
    """Return the variant that a path such as ``v:a.b[0]`` looks into, else None."""
    while isinstance(node, (exp.Dot, exp.Bracket)):
        node = node.this
    return node.this if isinstance(node, VariantPath) else None
