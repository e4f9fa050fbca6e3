"""Row errors: the expressions of a plan, guarded by ``sql`` for the engine to compute."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.engine.prepare import prepared_columns
from tidegate.plan.guarded import Guarded
from tidegate.plan.settings import ErrorPolicy
from tidegate.sql.guards import guard, guard_argument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.plan.physical import PhysicalPlan
    from tidegate.plan.statement import Relation

# The names of a closed window itself.
WINDOW_TYPES = {
    "_start": "TIMESTAMP",
    "_end": "TIMESTAMP",
    "_trigger": "TIMESTAMP",
    "_id": "STRING",
    "_epoch": "BIGINT",
}


def with_guards(plan: PhysicalPlan) -> PhysicalPlan:
    """Return the plan with a guard for each prepared column that can fail.

    With ``error_policy = "fail"`` there are none: then an error of Spark stops the query.
    """
    if plan.settings.error_policy is ErrorPolicy.FAIL:
        return plan
    types = _types(plan)
    functions: dict[str, list[str]] = defaultdict(list)
    for aggregate in plan.query.aggregates:
        for argument in aggregate.args:
            functions[argument].append(aggregate.function)
    guards = {
        name: guard_argument(sql, types, functions[name])
        for name, sql in prepared_columns(plan).items()
    }
    return replace(plan, guards={n: each for n, each in guards.items() if each.error is not None})


def result_guards(plan: PhysicalPlan, types: Mapping[str, str]) -> dict[str, Guarded]:
    """Return the guards of the expressions over closed windows, by their text.

    Args:
        plan: the plan.
        types: the types of the names that such expressions use: ``_k0``, ``_a0``, ``_x0``.
    """
    if plan.settings.error_policy is ErrorPolicy.FAIL:
        return {}
    query = plan.query
    expressions = [
        *(item.expression for item in query.items),
        *([query.having] if query.having is not None else []),
        *(item.expression for item in query.order_by),
    ]
    guards = {each.sql: guard(each.sql, {**types, **WINDOW_TYPES}) for each in expressions}
    return {text: each for text, each in guards.items() if each.error is not None}


def _types(plan: PhysicalPlan) -> dict[str, str | None]:
    """The types of columns by their names, and by the names of their tables before them.

    Behind a WITH clause or a subquery the names may mean other things: none is known there.
    """
    statement = plan.query.statement
    if statement.ctes or statement.relation.lstrip().startswith("("):
        return {}
    relations: list[Relation] = [plan.query.source, *plan.query.tables]
    columns = [(each.name, column) for each in relations for column in each.columns or ()]
    times = Counter(column.name.lower() for _, column in columns)
    bare = {column.name: column.type for _, column in columns if times[column.name.lower()] == 1}
    return {**bare, **{f"{name}.{column.name}": column.type for name, column in columns}}
