"""Every setting about time and unused rows at once: the oracle's answers, and no row is lost.

Shards that fall idle, duplicates, quotas, rows that fail, rows without a time, a filter, a restart,
a flush and a drain, for each kind of window; and lateness by the record with all that it goes with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from laws.scripts import EVENT_TIME, Answers, Law, answers_of_spark, check
from side_by_side import Results, side_by_side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = {
    **EVENT_TIME,
    "shard": "page",
    "idle_timeout": "5s",
    "on_idle": "advance",
    "error_policy": "side_output",
}
DEDUP = {"dedup_key": "concat(k, page, v)", "dedup_horizon": "500ms"}
# For kinds whose windows have groups.
QUOTAS = {"max_groups": 5}
BY_RECORD = {"lateness": "record"}
BOUNDS = "window_start() AS s, window_end() AS e"
# NULL for v = 1 would be an answer; as it is, such a row is an error.
VALUES = f"count(*) AS n, sum(12 / (v - 1)) AS total, {BOUNDS}"
QUERIES = {
    "tumbling": f"SELECT k, {VALUES} FROM r WHERE stop IS NULL OR v < 4 "
    "GROUP BY tumblingwindow('ss', 4), k",
    "hopping": f"SELECT k, {VALUES} FROM r GROUP BY hoppingwindow('ss', 9, 4, 1), k",
    "hopping with gaps": f"SELECT {VALUES} FROM r WHERE v < 4 GROUP BY hoppingwindow('ss', 2, 3)",
    "cumulate": f"SELECT k, {VALUES} FROM r GROUP BY cumulatewindow('ss', 8, 2), k",
    "session": f"SELECT k, {VALUES} FROM r WHERE v < 4 GROUP BY sessionwindow('ss', 3), k",
    "sliding": f"SELECT k, {VALUES}, window_trigger() AS t FROM r "
    "GROUP BY slidingwindow('ss', 3, 2) OVER (PARTITION BY k), k",
    "state": f"SELECT k, {VALUES} FROM r WHERE v IS NULL OR v < 5 "
    "GROUP BY statewindow(v > 1, stop OR v = 4) OVER (PARTITION BY k), k",
    "count": f"SELECT {VALUES} FROM r GROUP BY countwindow(5, 2) OVER (PARTITION BY k)",
}
OTHERS = {"duplicate": "dedup_key", "evicted": "max_groups"}
GROUPED = ("tumbling", "hopping", "cumulate", "session")
LAWS = {
    **{
        name: Law(
            query=query,
            settings={**ALL, **DEDUP, **(QUOTAS if name in GROUPED else {})},
            rows=60,
            greets=True,
        )
        for name, query in QUERIES.items()
    },
    **{
        f"{name} by record": Law(
            query=query,
            settings={
                **ALL,
                **DEDUP,
                **BY_RECORD,
                **(QUOTAS if name in GROUPED and name != "session" else {}),
            },
            rows=60,
            greets=True,
        )
        for name, query in QUERIES.items()
    },
}
QUICK = ("hopping", "state by record")


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Results[str, Answers]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.engine.rows.lateness.CHUNK_BITS", 1)
        patch.setattr("tidegate.engine.merging.MERGE_FACTOR", 2)
        with side_by_side(request, spark, "name", answer) as found:
            yield found


def answer(name: str, spark: SparkSession) -> Answers:
    return answers_of_spark(LAWS[name], spark)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else pytest.mark.whole) for name in LAWS],
)
def test_with_all_settings_on_the_answers_are_those_of_the_oracle_and_every_row_is_counted_once(
    name: str, found: Results[str, Answers]
) -> None:
    check(LAWS[name], found[name])
    counts = found[name].counts
    fates = ("accumulated", "late", "error", "duplicate", "evicted", "filtered", "outside_windows")
    assert counts["rows_in"] == sum(counts[fate] for fate in fates)
    settings = LAWS[name].settings
    there = ["accumulated", "late", "error"]
    there += [kind for kind, setting in OTHERS.items() if setting in settings]
    assert all(counts[fate] for fate in there)
    reasons = {text.rpartition(": ")[2] for step in found[name].steps for text in step.others}
    assert reasons >= {"null_event_time", "division_by_zero"}
