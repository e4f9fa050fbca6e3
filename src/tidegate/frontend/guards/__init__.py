"""Row errors: rewrites expressions so that a bad row never stops the query but is reported."""

from tidegate.frontend.guards.guard import guard, guard_argument, guard_from, type_of_expression

__all__ = ["guard", "guard_argument", "guard_from", "type_of_expression"]
