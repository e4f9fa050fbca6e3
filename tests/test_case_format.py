"""The .case format: what is read, what is refused and how, and how a failure looks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from oracle.adapter import OracleEngine
from tidegate.cases import Case, CaseError, Observed, parse_cases, run_case, run_files
from tidegate.cases.model import Batch, Cell, Clock
from tidegate.cases.parse import has_order_by
from tidegate.cases.values import cell_matches, read_cell, show_value

HEAD = """\
case: a case
stream clicks
  ts     TIMESTAMP
  user   STRING
  pages  BIGINT
settings
  event_time_field = "ts"
query
  SELECT user, sum(pages) AS pages, window_start() AS s
  FROM clicks GROUP BY tumblingwindow('ss', 10), user
"""
ROWS = """\
batch
  ts        user  pages
  10:00:01  ann       3
  10:00:02  bob       4
  10:00:11  ann       5
"""
GOOD = """\
watermark 10:00:11
emitted
  user  pages  s
  bob       4  10:00:00
  ann       3  10:00:00
"""


def test_a_case_is_read_in_the_order_things_happen() -> None:
    (case,) = parse_cases(HEAD + "# why\n" + ROWS + GOOD + "clock 10:00:30\nemitted\n  nothing\n")
    batch, clock = case.steps
    assert isinstance(batch, Batch)
    assert isinstance(clock, Clock)
    assert batch.rows[0] == (datetime(2026, 1, 1, 10, 0, 1, tzinfo=UTC), "ann", 3)
    assert case.settings == {"event_time_field": "ts"}
    assert case.query.splitlines()[1].startswith("FROM clicks")


def test_columns_of_a_batch_may_stand_in_any_order() -> None:
    rows = "batch\n  pages  ts        user\n      3  10:00:01  ann\nemitted\n  nothing\n"
    (case,) = parse_cases(HEAD + rows)
    assert isinstance(case.steps[0], Batch)
    assert case.steps[0].rows[0][1:] == ("ann", 3)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 1, "there is no case"),
        ("  ts\n", 1, "outside any block"),
        ("query\n  SELECT 1\n", 1, "is before the first case"),
        ("case: a\nstrem clicks\n", 2, "'strem' is not a block"),
        ("case:\n", 1, "the case has no name"),
        ("case: a\nquery\n  SELECT 1\n", 1, "the case has no stream"),
        (HEAD, 1, "the case has no batch and no error"),
        (HEAD + "stream more\n  ts  TIMESTAMP\n", 11, "second stream"),
        (HEAD + ROWS, 11, "no emitted block"),
        (HEAD + "batch\n  ts\n  10:00:01\n", 12, "the columns are ts"),
        (HEAD + "batch\n  ts  user  pages\n  10:00:01  ann\n", 13, "the row has 2 cells"),
        (HEAD + "batch\n  ts  user  pages\n  10:00  ann  x\n", 13, "'x' is not a value of type"),
        (HEAD + "batch\n  ts  user  pages\n  noon  ann  1\n", 13, "'noon' is not a value of type"),
        (HEAD + "batch 10:00:01\n", 11, "batch '10:00:01'"),
        (HEAD + "clock soon\nemitted\n  nothing\n", 11, "'soon' is not a time"),
        (HEAD + ROWS + GOOD + "emitted\n  nothing\n", 21, "a second 'emitted'"),
        (HEAD + ROWS + "emitted\n", 16, "'emitted' has no rows"),
        (HEAD + "watermark 10:00:00\n", 11, "'watermark' follows 'query'"),
        (HEAD + ROWS + GOOD + "counts\n  lost = 1\n", 21, "lost = 1 is not a counter"),
        (HEAD + "settings\n  lag 2s\n", 11, "not TOML"),
        (HEAD + ROWS + GOOD + "error\n  no\n", 1, "expects an error, but has batches"),
        (HEAD + ROWS + GOOD + HEAD + ROWS + GOOD, 21, "of this name is on line 1 already"),
        (HEAD + 'settings\n  cuts = "all"\n' + ROWS + GOOD, 1, "cuts is 'all'"),
    ],
)
def test_a_malformed_file_is_refused_at_its_line(text: str, line: int, what: str) -> None:
    with pytest.raises(CaseError) as caught:
        parse_cases(text, "my.case")
    place, _, mend = str(caught.value).partition("\n\n")
    assert place.startswith(f"my.case, line {line}: ")
    assert what in place
    assert mend


@pytest.mark.parametrize(
    ("text", "type_name", "value"),
    [
        ("NULL", "STRING", None),
        ("ann", "STRING", "ann"),
        ("-7", "BIGINT", -7),
        ("1.50", "DECIMAL(10,2)", Decimal("1.50")),
        ("1e3", "DOUBLE", 1000.0),
        ("true", "BOOLEAN", True),
        ("2001-02-03", "DATE", date(2001, 2, 3)),
        ("10:00", "TIMESTAMP", datetime(2026, 1, 1, 10, tzinfo=UTC)),
        ("2026-01-02", "TIMESTAMP", datetime(2026, 1, 2, tzinfo=UTC)),
        ("10:00:01.25", "TIMESTAMP", datetime(2026, 1, 1, 10, 0, 1, 250_000, tzinfo=UTC)),
        (
            "1969-12-31 23:59:59.999",
            "TIMESTAMP",
            datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        ),
        ("[1, NULL, 3]", "ARRAY<INT>", [1, None, 3]),
        ("[[1], []]", "ARRAY<ARRAY<INT>>", [[1], []]),
    ],
)
def test_a_cell_is_read_as_the_type_of_its_column(text: str, type_name: str, value: object) -> None:
    assert read_cell(Cell(text=text), type_name) == value
    assert cell_matches(Cell(text=text), value)


def test_quoted_text_is_text() -> None:
    assert read_cell(Cell(text="NULL", quoted=True), "STRING") == "NULL"
    assert cell_matches(Cell(text="NULL", quoted=True), "NULL")
    assert not cell_matches(Cell(text="NULL", quoted=True), None)
    assert not cell_matches(Cell(text="1", quoted=True), 1)


@pytest.mark.parametrize(
    ("text", "value", "same"),
    [
        ("0.1", 0.1 + 1e-12, True),
        ("0.1", 0.1 + 1e-9, False),
        ("3", 3.0, True),
        ("11.10", Decimal("11.1"), True),
        ("9007199254740993", 9007199254740992, True),
        ("0", 1e-30, False),
        ("NaN", float("nan"), True),
        ("1", True, False),
        ("NULL", 0, False),
        ("10:00:00", datetime(2026, 1, 1, 10, tzinfo=UTC), True),
        ("10:00:00", datetime(2026, 1, 1, 10, 0, 0, 1, tzinfo=UTC), False),
        ("[1, 2]", [1, 2.0], True),
        ("[1]", [1, 1], False),
    ],
)
def test_numbers_compare_with_a_relative_tolerance_and_times_exactly(
    text: str,
    value: object,
    same: bool,
) -> None:
    assert cell_matches(Cell(text=text), value) is same


def test_a_value_is_shown_as_it_would_be_written() -> None:
    values = [None, True, "a b", "", [1, None], datetime(2026, 1, 1, 9, tzinfo=UTC)]
    shown = ["NULL", "true", '"a b"', '""', "[1, NULL]", "09:00:00"]
    assert [show_value(value) for value in values] == shown
    assert show_value(datetime(1969, 12, 31, 1, 0, 0, 5, tzinfo=UTC)) == (
        "1969-12-31 01:00:00.000005"
    )


def test_an_order_by_of_the_statement_itself_counts() -> None:
    assert has_order_by("SELECT a FROM t GROUP BY a ORDER\n BY a")
    assert not has_order_by("SELECT a FROM t -- order by\nGROUP BY w(1) OVER (ORDER BY a)")
    assert not has_order_by("SELECT 'order by' AS a, \"(order by\" FROM t")


def failure(text: str) -> str:
    (case,) = parse_cases(text, "my.case")
    return run_case(case, OracleEngine).text()


def test_a_case_that_is_right_passes() -> None:
    assert failure(HEAD + ROWS + GOOD) == ""


def test_a_failure_shows_both_tables_and_marks_the_cells_that_differ() -> None:
    assert failure(HEAD + ROWS + GOOD.replace("      3  10", "      2  10")) == (
        "my.case, line 11, batch: emitted: 1 of 2 rows differ\n"
        "expected\n"
        "    user  pages  s\n"
        "    bob   4      10:00:00\n"
        "    ann   *2*    10:00:00\n"
        "found\n"
        "    user  pages  s\n"
        "    ann   *3*    10:00:00\n"
        "    bob   4      10:00:00"
    )


def test_missing_and_unexpected_rows_have_a_sign_before_them() -> None:
    missing = failure(HEAD + ROWS + GOOD + "  eve       9  11:00:00\n")
    assert "expected 3 rows, found 2 rows" in missing
    assert "\n  - eve   9      11:00:00\n" in missing
    unexpected = failure(HEAD + ROWS + GOOD.replace("  ann       3  10:00:00\n", ""))
    assert "expected 1 row, found 2 rows" in unexpected
    assert "\n  + ann   3      10:00:00\n" in unexpected


def test_order_counts_where_the_statement_asks_for_it() -> None:
    ordered = HEAD.replace("user\nbatch", "user ORDER BY user\nbatch").rstrip() + " ORDER BY user\n"
    assert "2 of 2 rows differ" in failure(ordered + ROWS + GOOD)


def test_an_unexpected_row_is_a_failure() -> None:
    late = "batch\n  ts        user  pages\n  10:00:05  eve       1\nemitted\n  nothing\n"
    assert "late: expected 0 rows, found 1 row" in failure(HEAD + ROWS + GOOD + late)
    assert "the watermark is 10:00:11, expected 10:00:12" in failure(
        HEAD + ROWS + GOOD.replace("watermark 10:00:11", "watermark 10:00:12")
    )
    assert "the columns are user, pages, s, expected user, pages" in failure(
        HEAD + ROWS + "emitted\n  user  pages\n  ann  3\n"
    )
    assert "counts: accumulated is 3, expected 2" in failure(
        HEAD + ROWS + GOOD + "counts\n  accumulated = 2\n"
    )


def test_an_expected_error_must_occur_and_have_the_text() -> None:
    wrong = HEAD.replace("tumblingwindow('ss', 10)", "tumblingwindow('ss', 0)")
    assert failure(wrong + "error\n  tumblingwindow('ss', 0)\n") == ""
    assert "the error is another one" in failure(wrong + "error\n  statewindow\n")
    assert "the statement was not refused" in failure(HEAD + "error\n  tumblingwindow\n")


class Forgetful(OracleEngine):
    """Counts a row too few, until the stream is drained."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._forgotten = 1

    def drain(self) -> Observed:
        self._forgotten = 0
        return super().drain()

    def counts(self) -> Mapping[str, int]:
        counts = super().counts()
        return {**counts, "accumulated": counts["accumulated"] - self._forgotten}


def test_after_every_step_each_row_read_must_be_counted_once() -> None:
    drained = "drain\nemitted\n  user  pages  s\n  ann   5      10:00:10\n"
    (case,) = parse_cases(HEAD + ROWS + GOOD + drained, "my.case")
    assert run_case(case, OracleEngine).passed
    failure = run_case(case, Forgetful).text()
    assert failure.startswith("my.case, line 11, batch: rows_in 3 is not accumulated 2 + late 0 + ")


def test_other_cuts_must_give_the_same_results() -> None:
    # The row of 10:00:05 is on time in a batch with the row of 10:00:11, and late after it.
    rows = "batch\n  ts  user  pages\n  10:00:11  ann  1\n  10:00:05  ann  2\ndrain\n"
    final = "final\n  user  pages  s\n  ann  2  10:00:00\n  ann  1  10:00:10\n"
    assert failure(HEAD + rows + final) == ""
    cut = failure(HEAD + 'settings\n  cuts = "any"\n' + rows + final)
    assert cut.startswith("my.case, line 1, with one row a batch: the results: expected 2 rows")


def test_a_run_of_files_prints_one_line_per_case(tmp_path: Path) -> None:
    (tmp_path / "good.case").write_text(HEAD + ROWS + GOOD)
    (tmp_path / "bad.case").write_text(HEAD + ROWS + "emitted\n  nothing\n")
    (tmp_path / "broken.case").write_text("batch\n")
    said: list[str] = []
    paths = [tmp_path / name for name in ("good.case", "bad.case", "broken.case")]
    assert run_files(paths, OracleEngine, said.append) == 2
    assert said[0] == "ok   a case"
    assert said[1].startswith("FAIL a case\n     ")
    assert said[2].startswith(f"FAIL {paths[2]}\n     {paths[2]}, line 1: ")
    assert said[3] == "1 passed, 2 failed"


def test_a_missing_file_is_a_failure_and_not_a_traceback(tmp_path: Path) -> None:
    said: list[str] = []
    assert run_files([tmp_path / "none.case"], OracleEngine, said.append) == 1
    assert "the file cannot be read" in said[0]
