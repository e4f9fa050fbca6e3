"""Turns the text of a statement into its plans, without Spark: parse, bind, plan.

The API, the command line and the cases all use this, so there is one way to plan a statement and
it is parsed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tidegate.frontend.binding.bind import BoundStatement, bind
from tidegate.frontend.binding.record_key import record_key
from tidegate.frontend.binding.unions import unite
from tidegate.frontend.reading.parse import parse
from tidegate.plan.logical import LogicalPlan
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.settings import Settings
from tidegate.plan.side_output import Route
from tidegate.plan.statement import Relation, SelectStmt, UserFunction
from tidegate.planner.guards import with_result_types
from tidegate.planner.planner import plan_logical, plan_physical

# The streams and tables, or a function that makes them for a statement.
Relations: TypeAlias = Sequence[Relation] | Callable[[SelectStmt], Sequence[Relation]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A statement and its plans.

    Attributes:
        bound: the statement with resolved names, and its syntax tree.
        logical: the logical plan.
        physical: the physical plan.
        is_typed: whether Spark has provided the types of the columns of FROM.
    """

    bound: BoundStatement
    logical: LogicalPlan
    physical: PhysicalPlan
    is_typed: bool = False

    @property
    def statement(self) -> SelectStmt:
        """The parsed statement."""
        return self.bound.statement

    @property
    def lacks_types(self) -> bool:
        """Whether only Spark knows the types of some columns of FROM and has not been asked yet."""
        return not self.is_typed and self.physical.prepare.from_clause.is_derived

    def with_types(self, types: Mapping[str, str | None]) -> Compiled:
        """Return new plans of the statement, with Spark's types of the columns of FROM.

        Args:
            types: types as DDL by the names of the columns.
        """
        physical = plan_physical(self.logical, self.physical.settings, types)
        typed = replace(self, physical=physical, is_typed=True)
        typed = typed.with_routes(self.physical.side_output.routes)
        return typed.with_record_keys([key for key, _ in self.physical.finish.record_keys])

    def with_routes(self, routes: Sequence[Route]) -> Compiled:
        """Return the statement with the routes of its side output."""
        side_output = replace(self.physical.side_output, routes=tuple(routes))
        return replace(self, physical=replace(self.physical, side_output=side_output))

    def with_record_keys(self, keys: Sequence[str]) -> Compiled:
        """Return the statement with the keys of the records that its sinks send.

        Args:
            keys: expressions over the columns of the results.

        Raises:
            QueryError: a key is not one expression, or names a column that the results lack.
        """
        finish, functions = self.physical.finish, self.bound.functions
        found = tuple((key, record_key(key, finish.items, functions)) for key in keys)
        return replace(
            self, physical=replace(self.physical, finish=replace(finish, record_keys=found))
        )

    def with_result_types(self, types: Mapping[str, str | None]) -> Compiled:
        """Return the statement with its expressions over closed windows guarded for known types.

        Args:
            types: types as DDL of keys, aggregates and row values, by ``_k0``, ``_a0``, ``_x0``.
        """
        return replace(self, physical=with_result_types(self.physical, types))


def compile_statement(
    text: str,
    relations: Relations,
    settings: Settings,
    *,
    origin: str = "query",
    functions: Sequence[UserFunction] = (),
) -> Compiled:
    """Return a statement with its plans.

    Args:
        text: the statement.
        relations: the streams and tables that it can use.
        settings: the settings of its transform.
        origin: the name of the statement in messages.
        functions: the functions that the user registered in Spark.

    Raises:
        QueryError: the statement is refused.
        ConfigError: a setting is refused.
    """
    statement = parse(text, origin)
    if callable(relations):
        relations = relations(statement)
    statement, relations = unite(statement, relations)
    bound = bind(statement, relations, settings, functions)
    logical = plan_logical(bound, settings)
    return Compiled(bound=bound, logical=logical, physical=plan_physical(logical, settings))
