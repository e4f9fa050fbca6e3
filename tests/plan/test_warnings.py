"""What is legal and likely a mistake, told once by whoever looks at a plan."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tidegate.cli import main
from tidegate.frontend.binding.bind import bind
from tidegate.frontend.reading.parse import parse
from tidegate.plan.settings import Settings, TimeMode
from tidegate.plan.statement import Column, Relation
from tidegate.planner.planner import plan_logical
from tidegate.planner.warnings import warnings

COLUMNS = {"ts": "TIMESTAMP", "user_id": "STRING", "k": "STRING", "v": "INT", "current_date": "INT"}
STREAM = Relation(name="s", columns=tuple(Column(name=n, type=t) for n, t in COLUMNS.items()))


def warned(text: str, **settings: object) -> tuple[str, ...]:
    typed = Settings(**{"event_time_field": "ts", **settings})  # type: ignore[arg-type]
    return warnings(plan_logical(bind(parse(text), [STREAM], typed), typed))


def test_a_plain_statement_has_no_warning() -> None:
    text = "SELECT user_id, count(*) AS n FROM s GROUP BY hoppingwindow('ss', 10, 5), user_id"
    assert warned(text) == ()


def test_processing_time_that_nobody_asked_for_is_warned_of() -> None:
    text = "SELECT count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10)"
    (warning,) = warned(text, event_time_field=None)
    assert warning.startswith("windows are in processing time, because nothing names an event time")
    assert warned(text, event_time_field=None, time=TimeMode.PROCESSING) == ()


def test_windows_with_gaps_are_warned_of_with_the_two_sizes_swapped() -> None:
    (warning,) = warned(
        "SELECT count(*) AS n FROM s GROUP BY HOP(ts, INTERVAL '1' MINUTE, INTERVAL '10' SECOND)"
    )
    assert warning.startswith("a window of 10s starts every 1m, so rows between two")
    assert "If windows of 1m every 10s are meant, swap the two" in warning


def test_a_word_that_is_a_call_is_warned_of_where_a_column_is_near() -> None:
    (warning,) = warned("SELECT user, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10)")
    assert warning == (
        "user means Spark's function user(), because no column has this name. "
        "Write user_id if the column is meant, user() if not."
    )
    assert (
        warned("SELECT current_timestamp AS at, v FROM s GROUP BY tumblingwindow('ss', 10)") == ()
    )
    assert warned("SELECT user() AS u, v FROM s GROUP BY tumblingwindow('ss', 10)") == ()


def test_a_column_goes_before_a_call_of_its_name() -> None:
    text = "SELECT current_date, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10)"
    with pytest.raises(Exception, match="current_date is neither aggregated nor a group key"):
        warned(text)


def test_keys_that_do_not_split_a_state_window_are_warned_of() -> None:
    window = "GROUP BY statewindow(v = 7, v = 8)"
    assert warned(f"SELECT count(*) AS n FROM s {window} OVER (PARTITION BY k), `K`") == ()
    (warning,) = warned(f"SELECT count(*) AS n FROM s {window}, k")
    assert "GROUP BY k does not split the state window" in warning
    assert "statewindow(v = 7, v = 8) OVER (PARTITION BY k)" in warning


@pytest.mark.parametrize("command", ["check", "explain"])
def test_check_and_explain_print_warnings_beside_their_answer(command: str) -> None:
    sql = "SELECT user, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10) ON ts"
    given = [command, "--sql", sql, "--schema", "ts TIMESTAMP, user_id INT"]
    result = CliRunner().invoke(main, given)
    assert result.exit_code == 0
    assert "query: warning: user means Spark's function user()" in result.stderr
    assert "warning" not in result.stdout
