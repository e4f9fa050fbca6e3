"""Row errors: rewrites expressions so that a bad row never stops the query but is reported."""

from tidegate.frontend.guards.guard import (
    KnownTypes,
    guard,
    guard_argument,
    guard_from,
    known_types,
    type_of_expression,
)

__all__ = [
    "KnownTypes",
    "guard",
    "guard_argument",
    "guard_from",
    "known_types",
    "type_of_expression",
]
