"""Row errors: the expressions of a plan, guarded by ``sql`` for the engine to compute."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.frontend.guards import guard, guard_argument, guard_from, type_of_expression
from tidegate.names import path
from tidegate.plan.aggregates.types import aggregate_type
from tidegate.plan.guarded import Guarded, in_words
from tidegate.plan.prepared import prepared_columns
from tidegate.plan.settings import ErrorPolicy

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
# What a statement writes for them.
WINDOW_CALLS = {
    "_start": "window_start",
    "_end": "window_end",
    "_trigger": "window_trigger",
    "_id": "window_id",
    "_epoch": "emit_epoch",
}


def with_guards(plan: PhysicalPlan, found: Mapping[str, str | None] | None = None) -> PhysicalPlan:
    """Return the plan with a guard for each prepared column that can fail, and for each result.

    FROM is written so that what fails in it is NULL: there is no row yet that could be an error.
    With ``error_policy = "fail"`` there are none: then an error of Spark stops the query.

    Args:
        plan: the plan.
        found: types of the columns of FROM by their names, where Spark was asked; None: it was not.
    """
    if plan.settings.error_policy is ErrorPolicy.FAIL:
        return plan
    types = {**_types(plan), **{path(name): kind for name, kind in (found or {}).items()}}
    functions: dict[str, list[str]] = defaultdict(list)
    filters: dict[str, set[str | None]] = defaultdict(set)
    for aggregate in plan.query.aggregates:
        for argument in aggregate.args:
            functions[argument].append(aggregate.function)
            filters[argument].add(aggregate.filter)
        if aggregate.filter is not None:
            filters[aggregate.filter].add(None)
    columns = prepared_columns(plan)
    relations = [plan.query.source, *plan.query.tables]
    tables = {each.name: {c.name: c.type for c in each.columns or ()} for each in relations}
    guards = {
        name: guard_argument(sql, types, functions[name], tables) for name, sql in columns.items()
    }
    for name, wanted in filters.items():
        # Of a value that only filtered aggregates take nothing is computed in other rows.
        if name in guards and None not in wanted:
            taken = [guards[each].safe for each in wanted if each is not None]
            guards[name] = _where_taken(guards[name], taken)
    written = {key.name: key.expression.sql for key in plan.query.keys}
    written |= {each.name: each.expression.sql for each in plan.query.arguments}
    kinds = {name: type_of_expression(text, types) for name, text in written.items()}
    kinds |= {each.name: aggregate_type(each, kinds) for each in plan.query.aggregates}
    return replace(
        plan,
        guards={n: g for n, g in guards.items() if _guards(g, columns[n])},
        result_guards=result_guards(plan, kinds),
        safe_from=guard_from(plan.query.statement.ctes, plan.query.statement.relation, tables),
    )


def _guards(guarded: Guarded, text: str) -> bool:
    return guarded.error is not None or guarded.safe != text


def _where_taken(guarded: Guarded, conditions: list[str]) -> Guarded:
    """The guard of a value that is computed in rows of which one of the conditions holds."""
    if guarded.error is None:
        return guarded
    taken = " OR ".join(f"({condition})" for condition in sorted(conditions))
    return replace(
        guarded,
        suspect=f"({guarded.suspect}) AND ({taken})",
        error=f"CASE WHEN {taken} THEN {guarded.error} END",
    )


def result_guards(plan: PhysicalPlan, types: Mapping[str, str | None]) -> dict[str, Guarded]:
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
    words = _words(plan)
    return {
        text: each if each.error is None else replace(each, error=in_words(each.error, words))
        for text, each in guards.items()
        if _guards(each, text)
    }


def _words(plan: PhysicalPlan) -> dict[str, str]:
    """What the statement writes for the names that expressions over closed windows use."""
    query = plan.query
    written = {each.name: each.text for each in query.aggregates}
    written |= {key.name: key.expression.sql for key in query.keys}
    written |= {argument.name: argument.expression.sql for argument in query.arguments}
    return {name: f"{call}()" for name, call in WINDOW_CALLS.items()} | written


def _types(plan: PhysicalPlan) -> dict[str, str | None]:
    """The types of columns by their ``path``, with and without the name of their table.

    Behind a WITH clause or a subquery the names may mean other things: none is known there.
    """
    statement = plan.query.statement
    if statement.ctes or statement.relation.lstrip().startswith("("):
        return {}
    relations: list[Relation] = [plan.query.source, *plan.query.tables]
    columns = [(each.name, column) for each in relations for column in each.columns or ()]
    times = Counter(column.name.lower() for _, column in columns)
    bare = [column for _, column in columns if times[column.name.lower()] == 1]
    return {
        **{path(column.name): column.type for column in bare},
        **{path(name, column.name): column.type for name, column in columns},
    }


def is_derived(plan: PhysicalPlan) -> bool:
    """Whether FROM may bring columns that are computed, so that Spark alone knows their types."""
    statement = plan.query.statement
    return bool(statement.ctes) or "(" in statement.relation
