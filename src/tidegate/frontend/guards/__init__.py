"""Row errors: expressions that never stop the query, and what they say of rows that would have."""

from tidegate.frontend.guards.guard import guard, guard_argument, guard_from, type_of_expression

__all__ = ["guard", "guard_argument", "guard_from", "type_of_expression"]
