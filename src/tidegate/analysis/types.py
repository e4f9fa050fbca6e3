"""Type errors of a statement, found by Spark's analyzer and shown at their place in the text."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from tidegate.analysis.analyzer import Analyzer, Failure, analyzer
from tidegate.analysis.messages import in_words, is_not_boolean, not_boolean
from tidegate.errors import ConfigError, QueryError, TidegateError
from tidegate.frontend.probes.probe import Probe
from tidegate.frontend.probes.questions import Questions, questions, setting_probe
from tidegate.plan.logical import Authority
from tidegate.plan.time_columns import TimeColumn, TimeKind
from tidegate.plan.windows import Cumulate, Hopping, Tumbling
from tidegate.planner.event_time import time_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from tidegate.compile import Compiled
    from tidegate.plan.physical import PhysicalPlan
    from tidegate.plan.statement import BoundQuery


def refusal(
    compiled: Compiled, frames: Mapping[str, DataFrame], spark: SparkSession
) -> TidegateError | None:
    """Return what Spark's analyzer refuses in a statement, at the smallest part of it, or None.

    Args:
        compiled: the statement.
        frames: the stream and the tables, by the names of the statement; only their columns count.
        spark: their session.
    """
    plan, bound = compiled.physical, compiled.bound
    asked = questions(bound, plan.watermark.event_time.sql)
    needed = {each.name for each in (bound.source, *bound.tables)}
    used = {name: frame for name, frame in frames.items() if name in needed}
    with analyzer(spark, used) as spark_analyzer:
        whole = spark_analyzer.ask(asked.whole, asked.rows.ctes)
        if not isinstance(whole, Failure):
            return _refused_key(plan, bound, asked, spark_analyzer) or _refused_setting(
                plan, asked, spark_analyzer
            )
        for part in asked.parts:
            if part.needs is not None:
                needed_answer = spark_analyzer.ask(part.needs, part.ctes)
                if isinstance(needed_answer, Failure):
                    continue
            answer = spark_analyzer.ask(part.query, part.ctes)
            if isinstance(answer, Failure) and not _is_about_names(answer):
                return _refused(part, answer, spark_analyzer, asked.words)
        wrong = _refused_time(plan, asked, spark_analyzer)
        wrong = wrong or _refused_key(plan, bound, asked, spark_analyzer)
        return wrong or _refused_setting(plan, asked, spark_analyzer)


def column_types(
    plan: PhysicalPlan, frames: Mapping[str, DataFrame], spark: SparkSession
) -> dict[str, str | None]:
    """Return the types of the columns of FROM by their names; none of a name that two tables have.

    Args:
        plan: the plan.
        frames: as for ``refusal``.
        spark: their session.
    """
    written = plan.prepare.from_clause
    with analyzer(spark, frames) as spark_analyzer:
        columns = spark_analyzer.ask(f"SELECT * FROM {written.relation}", written.named_ctes)
    if isinstance(columns, Failure):
        return {}
    times = Counter(field.name.lower() for field in columns.fields)
    return {
        field.name: field.dataType.simpleString()
        for field in columns.fields
        if times[field.name.lower()] == 1
    }


def _refused(
    part: Probe, failure: Failure, spark_analyzer: Analyzer, words: Mapping[str, str]
) -> QueryError:
    smallest = _smallest(part, failure.condition, spark_analyzer) or part
    answer = spark_analyzer.ask(smallest.query, smallest.ctes)
    assert isinstance(answer, Failure), "what is refused stays refused"
    if is_not_boolean(answer):
        what, mend = not_boolean(
            smallest.text, smallest.clause or "the query", _type_of(smallest, answer)
        )
    else:
        what, mend = in_words(smallest.text, answer)
    return smallest.refused(_said(what, words), _said(mend, words))


def _smallest(part: Probe, condition: str, spark_analyzer: Analyzer) -> Probe | None:
    """The smallest part that is refused for the same reason as the part around it.

    A part may be refused only because it is alone, such as the variable of a lambda: that is
    another condition, which tells nothing about the statement.
    """
    answer = spark_analyzer.ask(part.query, part.ctes)
    if not isinstance(answer, Failure):
        return None
    for each in part.parts:
        found = _smallest(each, condition, spark_analyzer)
        if found is not None:
            return found
    return part if answer.condition == condition else None


def _is_about_names(failure: Failure) -> bool:
    """Whether Spark does not know a name; since names have been checked, it is one of ours."""
    return failure.condition.startswith(("UNRESOLVED_", "MISSING_"))


def _type_of(part: Probe, failure: Failure) -> str:
    for name in ("type", "conditionType", "filter"):
        found = failure.facts.get(name)
        if found is not None:
            return found.strip('"')
    return "of another type"


def _said(text: str, words: Mapping[str, str]) -> str:
    """The text with the names in our queries replaced by what the user wrote."""
    return re.sub(r"\b_[akx]\d+\b", lambda name: words.get(name[0], name[0]), text)


# Types whose values have no order, by what Spark calls them, in or without other types.
_UNORDERED = frozenset({"map", "variant", "interval", "geometry", "geography"})


def _refused_key(
    plan: PhysicalPlan, bound: BoundQuery, asked: Questions, spark_analyzer: Analyzer
) -> TidegateError | None:
    """The refusal of a key that has no order; panes need none, and groups are found by a hash."""
    window = bound.statement.window
    on_panes = isinstance(window, Tumbling | Hopping | Cumulate)
    has_quota = plan.max_groups is not None or plan.max_rows is not None
    if on_panes and bound.limit is None and not has_quota:
        return None
    for key in asked.keys:
        columns = spark_analyzer.ask(key.query, key.ctes)
        if isinstance(columns, Failure):
            continue
        kind = columns[0].dataType
        without = _unordered(kind)
        if without is not None:
            beside = "LIMIT" if on_panes or window is None else f"a {window.kind} window"
            beside = "a quota" if on_panes and bound.limit is None else beside
            return key.refused(
                f"the key {key.text} of {beside} is {kind.simpleString().upper()}, and values of "
                f"the type {without.upper()} have no order",
                "Take a part of the value, or make text of it with to_json.",
            )
    return None


def _refused_setting(
    plan: PhysicalPlan, asked: Questions, spark_analyzer: Analyzer
) -> TidegateError | None:
    """The refusal of a setting that Spark cannot compute, or whose values have no order."""
    settings = {"shard": plan.settings.shard, "dedup_key": plan.settings.dedup_key}
    for name, text in settings.items():
        if text is None:
            continue
        probe = setting_probe(name, text, asked.rows)
        answer = spark_analyzer.ask(probe.query, probe.ctes)
        if isinstance(answer, Failure):
            if _is_about_names(answer):
                continue
            return _refused(probe, answer, spark_analyzer, {})
        kind = answer[0].dataType
        without = _unordered(kind)
        if without is not None:
            return probe.refused(
                f"{name} is {kind.simpleString().upper()}, and values of the type "
                f"{without.upper()} have no order",
                "Take a part of the value, or make text of it with to_json.",
            )
    return None


def _unordered(kind: DataType) -> str | None:
    """The name of the unordered type that a type is or contains, None if there is none."""
    name = kind.typeName()
    if name in _UNORDERED:
        return name
    inner = [field.dataType for field in getattr(kind, "fields", ())]
    inner += [kind.elementType] if hasattr(kind, "elementType") else []
    return next((found for each in inner if (found := _unordered(each)) is not None), None)


def _refused_time(
    plan: PhysicalPlan, asked: Questions, spark_analyzer: Analyzer
) -> TidegateError | None:
    """What is wrong with an event time whose type was not known when the query was planned."""
    spec, unit = plan.watermark.event_time, plan.settings.event_time_unit
    if spec.sql is None:
        return None
    time = spark_analyzer.ask(asked.rows.select(spec.sql), asked.rows.ctes)
    if not isinstance(time, Failure):
        return None
    answer = spark_analyzer.ask(asked.rows.select(spec.text), asked.rows.ctes)
    if isinstance(answer, Failure):
        return None
    kind = answer[0].dataType.simpleString().upper()
    column = TimeColumn(sql=spec.text, text=spec.text, kind=TimeKind.of(kind), type=kind)
    problem = time_problem(column, unit)
    if problem is None:
        return None
    what, mend = problem
    if spec.authority is Authority.SQL and asked.event_time is not None:
        return asked.event_time.refused(what, mend)
    return ConfigError(f'event_time_field = "{spec.text}": {what}\n\n{mend}')
