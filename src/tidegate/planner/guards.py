"""Rules that guard expressions, so that one that fails on a row yields NULL and an error.

With ``error_policy = "fail"`` nothing is guarded: an error in Spark stops the query.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.frontend.guards import (
    KnownTypes,
    guard,
    guard_argument,
    guard_from,
    known_types,
    type_of_expression,
)
from tidegate.names import path
from tidegate.plan.aggregates.types import aggregate_type
from tidegate.plan.columns import SHARD, WINDOW_FUNCTIONS, WINDOW_TIME, WINDOW_TYPES
from tidegate.plan.guarded import Guarded, in_words
from tidegate.plan.settings import ErrorPolicy
from tidegate.plan.statement import From

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from tidegate.plan.physical import PhysicalPlan
    from tidegate.plan.stages import Ingest, Prepare
    from tidegate.plan.statement import Argument, Key

    Types: TypeAlias = Mapping[str, str | None]


def guard_rows(plan: PhysicalPlan, found: Types) -> PhysicalPlan:
    """Guard each prepared column that can fail on a row."""
    types = known_types(_types(plan.prepare, found), _tables(plan.prepare))
    if plan.side_output.error_policy is ErrorPolicy.FAIL:
        return _with_safe_shard(plan, types)
    functions: dict[str, list[str]] = defaultdict(list)
    filters: dict[str, set[str | None]] = defaultdict(set)
    for aggregate in plan.ingest.aggregates:
        for argument in aggregate.args:
            functions[argument].append(aggregate.function)
            filters[argument].add(aggregate.filter)
        if aggregate.filter is not None:
            filters[aggregate.filter].add(None)
    columns = plan.prepare.columns
    guards = {name: guard_argument(sql, types, functions[name]) for name, sql in columns.items()}
    for name, wanted in filters.items():
        # A value that only filtered aggregates use is computed only in rows that pass a filter.
        if name in guards and None not in wanted:
            taken = [guards[each].safe for each in wanted if each is not None]
            guards[name] = _where_taken(guards[name], taken)
    kept = {name: each for name, each in guards.items() if _guards(each, columns[name])}
    return replace(plan, prepare=replace(plan.prepare, guards=kept))


def guard_from_clause(plan: PhysicalPlan, found: Types) -> PhysicalPlan:
    """Guard FROM: a failing expression in it is NULL, because there is no row yet to report."""
    del found
    if plan.side_output.error_policy is ErrorPolicy.FAIL:
        return plan
    written = plan.prepare.from_clause
    ctes, relation = guard_from(
        written.ctes, written.relation, known_types({}, _tables(plan.prepare))
    )
    safe = From(ctes=ctes, relation=relation)
    return replace(plan, prepare=replace(plan.prepare, safe_from=safe))


def guard_shard_of_keys(plan: PhysicalPlan, found: Types) -> PhysicalPlan:
    """Guard the shard over group keys as the shard over rows is: where it fails, it is NULL."""
    spec = plan.watermark
    if spec.shard_of_keys is None:
        return plan
    rows = known_types(_types(plan.prepare, found), _tables(plan.prepare))
    kinds = {k.name: type_of_expression(k.expression.sql, rows) for k in plan.ingest.keys}
    safe = guard_argument(spec.shard_of_keys, known_types(kinds), []).safe
    guarded = replace(spec, shard_of_keys=safe)
    return replace(plan, prepare=replace(plan.prepare, watermark=guarded))


def guard_results(plan: PhysicalPlan, found: Types) -> PhysicalPlan:
    """Guard the expressions over closed windows, as far as the types of their names are known."""
    return with_result_types(plan, _closed_types(plan, found))


def result_types(plan: PhysicalPlan) -> dict[str, str | None]:
    """Return the type of each column of the results, None where only Spark knows it."""
    types = {**_closed_types(plan, {}), **WINDOW_TYPES}
    known, lists = known_types(types), _lists(plan, types)
    found: dict[str, str | None] = {}
    for item in plan.finish.items:
        text = item.expression.sql
        made = _MAKES.get(text.partition("(")[0].strip().lower())
        found[item.name] = lists.get(text) or type_of_expression(text, known) or made
    return found


# What functions at the top of an expression make, whatever is in it.
_MAKES = {"struct": "STRUCT", "named_struct": "STRUCT", "map": "MAP", "map_from_arrays": "MAP"}


def _lists(plan: PhysicalPlan, types: Types) -> dict[str, str]:
    """Return the types of the aggregates that are arrays of their argument's type, by name."""
    return {
        each.name: f"ARRAY<{types.get(each.args[0]) or '..'}>"
        for each in plan.ingest.aggregates
        if each.function in ("collect_list", "collect_set")
    }


def _closed_types(plan: PhysicalPlan, found: Types) -> dict[str, str | None]:
    """Return the types of the names of a closed window, as far as they are known."""
    types = known_types(_types(plan.prepare, found))
    values: tuple[Key | Argument, ...] = (*plan.ingest.keys, *plan.ingest.arguments)
    kinds = {value.name: type_of_expression(value.expression.sql, types) for value in values}
    kinds |= {each.name: aggregate_type(each, kinds) for each in plan.ingest.aggregates}
    return kinds


def with_result_types(plan: PhysicalPlan, types: Types) -> PhysicalPlan:
    """Return the plan with the expressions over closed windows guarded for known types.

    Args:
        plan: the plan.
        types: the types of the names in these expressions: ``_k0``, ``_a0``, ``_x0``.
    """
    if plan.side_output.error_policy is ErrorPolicy.FAIL:
        return plan
    known = known_types({**types, **WINDOW_TYPES})
    guards = {each.sql: guard(each.sql, known) for each in plan.finish.expressions}
    words = _words(plan.ingest)
    guards = {
        text: each if each.error is None else replace(each, error=in_words(each.error, words))
        for text, each in guards.items()
        if _guards(each, text)
    }
    return replace(plan, finish=replace(plan.finish, guards=guards))


def _with_safe_shard(plan: PhysicalPlan, types: KnownTypes) -> PhysicalPlan:
    """Guard only the shard expression; rows on which it fails form a shard like any other."""
    sql = plan.prepare.columns.get(SHARD)
    if sql is None:
        return plan
    guarded = guard_argument(sql, types, [])
    kept = {SHARD: guarded} if _guards(guarded, sql) else {}
    return replace(plan, prepare=replace(plan.prepare, guards=kept))


def _guards(guarded: Guarded, text: str) -> bool:
    return guarded.error is not None or guarded.safe != text


def _where_taken(guarded: Guarded, conditions: list[str]) -> Guarded:
    """Return the guard of a value that is computed only if one of the conditions holds."""
    if guarded.error is None:
        return guarded
    taken = " OR ".join(f"({condition})" for condition in sorted(conditions))
    return replace(
        guarded,
        suspect=f"({guarded.suspect}) AND ({taken})",
        error=f"CASE WHEN {taken} THEN {guarded.error} END",
    )


def _words(ingest: Ingest) -> dict[str, str]:
    """Return the statement's texts for the names used in expressions over closed windows."""
    written = {each.name: each.text for each in ingest.aggregates}
    values: tuple[Key | Argument, ...] = (*ingest.keys, *ingest.arguments)
    written |= {each.name: each.expression.sql for each in values}
    return {name: f"{call}()" for call, name in WINDOW_FUNCTIONS.items()} | written


def _types(prepare: Prepare, found: Types) -> dict[str, str | None]:
    """Return the types of columns by their ``path``, with and without the name of their table.

    After a WITH clause or a subquery, names may mean other columns, so only the types that Spark
    ``found`` count.
    """
    told = {path(name): kind for name, kind in found.items()}
    if prepare.from_clause.hides_sources:
        return told
    columns = [(each.name, column) for each in prepare.relations for column in each.columns or ()]
    times = Counter(column.name.lower() for _, column in columns)
    bare = [column for _, column in columns if times[column.name.lower()] == 1]
    return {
        **{path(column.name): column.type or None for column in bare},
        **{path(name, column.name): column.type or None for name, column in columns},
        **({} if prepare.source.upstream is None else {path(WINDOW_TIME): "BIGINT"}),
        **told,
    }


def _tables(prepare: Prepare) -> dict[str, dict[str, str]]:
    """Return the types of the columns of stream and tables, by relation and name."""
    return {each.name: {c.name: c.type for c in each.columns or ()} for each in prepare.relations}
