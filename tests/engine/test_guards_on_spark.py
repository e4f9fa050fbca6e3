"""Guarded expressions beside the plain ones, on Spark: the same values, and never an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from engine.guard_table import COLUMNS, EXPRESSIONS
from frontend import expressions
from tidegate.frontend.guards import guard, known_types
from tidegate.frontend.guards.parts import net
from tidegate.plan.guarded import Guarded, detail_sql, first_error, reason_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPES = known_types({name: kind for name, kind, _, _ in COLUMNS})
UNKNOWN = known_types({})
# Columns of one query: so few that Spark compiles them and shares what they have in common.
AT_ONCE = 40
SHARING = "spark.sql.subexpressionElimination.enabled"


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """The fine row and the bad one, in a file, so that Spark compiles what it computes."""
    path = str(tmp_path_factory.mktemp("guards") / "rows")
    selects = (
        f"SELECT {place} AS at, "
        + ", ".join(f"CAST({row[place]} AS {row[1]}) AS {row[0]}" for row in COLUMNS)
        for place in (2, 3)
    )
    spark.sql(" UNION ALL ".join(selects)).coalesce(1).write.parquet(path)
    return spark.read.parquet(path)


@pytest.fixture(scope="module")
def plain(rows: DataFrame) -> dict[str, tuple[str, str | None]]:
    """The plain value of each expression on the fine row, and on the bad one where it has one."""
    good = [text for text, reason in EXPRESSIONS.items() if reason is None]
    # Spark computes what two plain expressions share even where neither would.
    rows.sparkSession.conf.set(SHARING, "false")
    try:
        fine = _values(rows.where("at = 2"), list(EXPRESSIONS))
        bad = _values(rows.where("at = 3"), good)
    finally:
        rows.sparkSession.conf.unset(SHARING)
    return {text: (fine[text], bad.get(text)) for text in EXPRESSIONS}


def test_every_expression_of_the_table_fails_in_spark_as_listed(rows: DataFrame) -> None:
    nets = {f"{net(text)} IS NULL": text for text in EXPRESSIONS}
    caught = _values(rows.where("at = 3"), list(nets))
    expected = {text for text, reason in EXPRESSIONS.items() if reason is not None}
    assert {nets[each] for each, shown in caught.items() if shown == "True"} == expected


@pytest.mark.parametrize(
    "text", ["i / j", "CAST(s AS INT)", "list[5]", "transform(list, x -> i / x)"]
)
def test_what_the_net_catches_stops_spark(rows: DataFrame, text: str) -> None:
    with pytest.raises(PySparkException):
        rows.where("at = 3").selectExpr(text).collect()


def test_guarded_expressions_give_the_plain_values_and_the_reasons(
    rows: DataFrame, plain: dict[str, tuple[str, str | None]]
) -> None:
    found = _guarded(rows, {text: guard(text, TYPES) for text in EXPRESSIONS})
    expected = {
        text: (plain[text][0], None, plain[text][1] or "None", reason)
        for text, reason in EXPRESSIONS.items()
    }
    wrong = {text: each for text, each in found.items() if each != expected[text]}
    assert wrong == {}


def test_without_types_the_same_rows_fail_and_the_values_are_the_same(
    rows: DataFrame, plain: dict[str, tuple[str, str | None]]
) -> None:
    found = _guarded(rows, {text: guard(text, UNKNOWN) for text in EXPRESSIONS})
    wrong = {
        text: each
        for text, each in found.items()
        if each[:2] != (plain[text][0], None) or (each[3] is None) != (EXPRESSIONS[text] is None)
    }
    assert wrong == {}


def test_every_way_to_write_an_expression_keeps_its_value_and_its_type(spark: SparkSession) -> None:
    named = zip(expressions.COLUMNS, expressions.VALUES, strict=True)
    values = ", ".join(f"{value} AS `{column.name}`" for column, value in named)
    frame = spark.sql(f"SELECT {values}").alias("events")
    types = known_types({column.name: column.type for column in expressions.COLUMNS})
    kept = {}
    for text in expressions.EXPRESSIONS:
        guarded = guard(text, types)
        if guarded.safe != text:
            kept[text] = guarded
    plain = frame.selectExpr(*kept)
    safe = frame.selectExpr(*(each.safe for each in kept.values()))
    errors = frame.selectExpr(*(each.error for each in kept.values() if each.error is not None))
    assert len(kept) > 10
    assert [field.dataType for field in safe.schema] == [field.dataType for field in plain.schema]
    assert safe.collect()[0][:] == plain.collect()[0][:]
    assert set(errors.collect()[0]) == {None}


def test_a_cast_in_two_calls_is_not_shared_outside_their_nets(rows: DataFrame) -> None:
    """Spark computes a cast that two of its try_ functions share before it enters either."""
    text = "concat(try_add(s, 1), try_add(s, 2))"
    bad = rows.where("at = 3")
    with pytest.raises(PySparkException):
        bad.selectExpr(text).collect()
    guarded = guard(text, TYPES)
    assert guarded.error is None
    assert bad.selectExpr(guarded.safe).collect()[0][0] is None


def test_reason_and_expression_can_be_extracted_from_an_error(rows: DataFrame) -> None:
    error = guard("i / (j * 1L)\n  - 'it''s' || ': \\\\'", TYPES).error
    assert error is not None
    (row,) = rows.where("at = 3").selectExpr(reason_sql(error), detail_sql(error)).collect()
    assert row[0] == "division_by_zero"
    assert row[1] == "i / (j * 1L)"


def _guarded(
    rows: DataFrame, guarded: dict[str, Guarded]
) -> dict[str, tuple[str, str | None, str, str | None]]:
    """The safe value and the reason of each expression, on the fine row and on the bad one."""
    found = {}
    for texts in _chunks(list(guarded)):
        columns = []
        for place, text in enumerate(texts):
            error = first_error([guarded[text]])
            columns.append(f"{guarded[text].safe} AS v{place}")
            columns.append(f"{reason_sql(error) if error else 'NULL'} AS e{place}")
        both = rows.selectExpr("at", *columns).collect()
        fine, bad = sorted(both, key=lambda row: int(row["at"]))
        for place, text in enumerate(texts):
            value, error = f"v{place}", f"e{place}"
            failed = bad[error]
            shown = "None" if failed else repr(bad[value])
            found[text] = (repr(fine[value]), fine[error], shown, failed)
    return found


def _values(row: DataFrame, texts: list[str]) -> dict[str, str]:
    """The values of plain expressions on the one row of a frame, as Python shows them."""
    found = {}
    for chunk in _chunks(texts):
        columns = [f"{text} AS v{place}" for place, text in enumerate(chunk)]
        (values,) = row.selectExpr(*columns).collect()
        found |= {text: repr(value) for text, value in zip(chunk, values, strict=True)}
    return found


def _chunks(texts: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(texts), AT_ONCE):
        yield texts[start : start + AT_ONCE]
