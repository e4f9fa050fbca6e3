"""From text to plans: the statement is read once, and what Spark tells makes a new plan."""

from __future__ import annotations

import re

import pytest

from tidegate.compile import Compiled, compile_statement
from tidegate.errors import QueryError
from tidegate.frontend.grammar import source
from tidegate.frontend.probes.questions import questions
from tidegate.plan.schema import parse_schema
from tidegate.plan.settings import Settings
from tidegate.plan.statement import Relation, SelectStmt
from tidegate.planner.guards import result_types

CLICKS = Relation(name="clicks", columns=parse_schema("ts TIMESTAMP, v BIGINT, w BIGINT"))
BY_TS = Settings(event_time_field="ts")


def compiled(relation: str = "clicks") -> Compiled:
    return compile_statement(
        f"SELECT max(v + w) AS most FROM {relation} GROUP BY tumblingwindow('ss', 10)",
        [CLICKS],
        BY_TS,
    )


def test_a_statement_is_parsed_once_from_its_text_to_the_questions_for_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = []
    parser = source.StreamParser

    class Counting(parser):  # type: ignore[misc, valid-type]
        def parse(self, tokens: object, text: str) -> object:
            texts.append(text)
            return super().parse(tokens, text)

    monkeypatch.setattr(source, "StreamParser", Counting)
    result = compiled()
    questions(result.bound, result.physical.watermark.event_time.sql)
    assert [text for text in texts if text == result.statement.text] == [result.statement.text]


def test_relations_may_be_made_for_a_statement() -> None:
    asked: list[list[str]] = []

    def relations(statement: SelectStmt) -> list[Relation]:
        asked.append([stream.sql for stream in statement.streams])
        return [CLICKS]

    text = "SELECT count(*) AS n FROM clicks GROUP BY tumblingwindow('ss', 10)"
    result = compile_statement(text, relations, BY_TS)
    assert asked == [["clicks"]]
    assert result.bound.source is CLICKS


def test_types_that_spark_tells_make_a_new_plan_and_leave_the_old_one_alone() -> None:
    before = compiled("(SELECT ts, v, w FROM clicks)")
    guards = dict(before.physical.prepare.guards)
    after = before.with_types({"ts": "timestamp", "v": "double", "w": "double"})
    assert before.lacks_types
    assert not after.lacks_types
    assert "_x0" in guards, "of unknown types a sum may overflow"
    assert "_x0" not in after.physical.prepare.guards
    assert before.physical.prepare.guards == guards
    assert after.physical.plan_id == before.physical.plan_id
    assert after.logical is before.logical


def test_types_of_results_guard_only_what_is_computed_of_closed_windows() -> None:
    before = compile_statement(
        "SELECT max(v) + 1 AS more FROM clicks GROUP BY tumblingwindow('ss', 10)", [CLICKS], BY_TS
    )
    after = before.with_result_types({"_a0": "double"})
    assert before.physical.finish.guards
    assert after.physical.finish.guards == {}
    assert after.physical.prepare == before.physical.prepare


def test_a_refusal_names_the_origin() -> None:
    with pytest.raises(QueryError, match=r"^job\.sql, line 1, column 7: "):
        compile_statement("SELEC 1", [CLICKS], BY_TS, origin="job.sql")


SOME = """
    SELECT user, count(*) AS n, max(struct(v, w)) AS `Top One`, collect_list(v) AS vs,
      min(v) + 1 AS m
    FROM clicks GROUP BY tumblingwindow('ss', 10), user
"""


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("user", "(_k0)"),
        ("concat(USER, '-', n)", "(concat(_k0, '-', _a0))"),
        ("`Top One`.v", "(_a1.v)"),
        ("m * 2", "((_a3 + 1) * 2)"),
        ("filter(vs, n -> n > m)", "(filter(_a2, n -> n > (_a3 + 1)))"),
    ],
)
def test_the_key_of_a_record_is_written_over_the_names_of_a_closed_window(
    key: str, written: str
) -> None:
    plan = some().with_record_keys([key]).physical
    assert [(text, each.sql) for text, each in plan.finish.record_keys] == [(key, written)]
    assert plan.plan_id == some().physical.plan_id


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("usr", "column 1: the results have no column usr"),
        ("count(*)", "the key of a record has no aggregates"),
        ("n m", "column 3: 'm' is not understood here"),
    ],
)
def test_a_key_that_is_no_expression_over_the_results_is_refused(key: str, what: str) -> None:
    with pytest.raises(QueryError, match=re.escape(what)):
        some().with_record_keys([key])


def test_a_key_that_can_fail_is_guarded_as_a_result() -> None:
    guarded = some().with_record_keys(["10 / n"]).with_result_types({"_a0": "BIGINT"})
    guard = guarded.physical.finish.guards["(10 / _a0)"]
    assert guard.error is not None
    assert "division_by_zero" in guard.error


def test_columns_of_the_results_that_are_nested_are_known_without_spark() -> None:
    types = result_types(some().physical)
    assert types["vs"] == "ARRAY<BIGINT>"
    assert types["n"] == "BIGINT"


def some() -> Compiled:
    columns = parse_schema("ts TIMESTAMP, user STRING, v BIGINT, w BIGINT")
    return compile_statement(SOME, [Relation(name="clicks", columns=columns)], BY_TS)
