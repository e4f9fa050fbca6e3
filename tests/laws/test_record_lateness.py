"""Lateness exact to the record: the same rows give the same answers however they are cut.

The oracle takes row by row, so that its answers cannot depend on the cut, and Spark gives those of
the oracle at every step: results, late rows and by how much they are late, over a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from laws.scripts import (
    EVENT_TIME,
    Answers,
    Law,
    Row,
    answers_of_spark,
    case_of,
    check,
    step_of,
)
from oracle.adapter import OracleEngine
from side_by_side import Results, side_by_side
from tidegate.cases.run import CUTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORD = {**EVENT_TIME, "lateness": "record"}
BOUNDS = "window_start() AS s, window_end() AS e"
VALUES = f"count(*) AS n, sum(v) AS total, {BOUNDS}"
ORDERED = f"first(v) AS f, last(v) AS l, {VALUES}"
LAWS = {
    "tumbling": Law(
        query=f"SELECT k, {VALUES} FROM r WHERE page = 'x' GROUP BY tumblingwindow('ss', 4), k",
        settings=RECORD,
    ),
    "hopping": Law(
        query=f"SELECT k, {VALUES} FROM r GROUP BY hoppingwindow('ss', 9, 4, 1), k",
        settings={**RECORD, "shard": "page", "watermark_lag": "1s"},
        greets=True,
    ),
    "cumulate, rows kept": Law(
        query=f"SELECT {VALUES} FROM r GROUP BY cumulatewindow('ss', 8, 2)",
        settings=RECORD,
        path="off",
    ),
    "session": Law(
        query=f"SELECT k, {VALUES} FROM r GROUP BY sessionwindow('ss', 3), k",
        settings=RECORD,
        rows=60,
    ),
    "session, rows kept": Law(
        query=f"SELECT k, page, {VALUES} FROM r GROUP BY sessionwindow('ss', 3), k, page",
        settings=RECORD,
        rows=60,
        path="off",
    ),
    "session over shards": Law(
        query=f"SELECT k, {VALUES} FROM r GROUP BY sessionwindow('ss', 2), k",
        settings={**RECORD, "shard": "page"},
        rows=60,
        greets=True,
    ),
    "session over shards, rows kept": Law(
        query=f"SELECT k, {ORDERED} FROM r WHERE v IS NOT NULL GROUP BY sessionwindow('ss', 3), k",
        settings={**RECORD, "shard": "page", "watermark_lag": "1s"},
        rows=80,
        greets=True,
    ),
    "session of a shard each": Law(
        query=f"SELECT k, {VALUES} FROM r GROUP BY sessionwindow('ss', 3), k",
        settings={**RECORD, "shard": "k", "watermark_lag": "1s"},
        rows=80,
        greets=True,
    ),
    "sliding": Law(
        query=f"SELECT page, {VALUES}, window_trigger() AS t FROM r "
        "GROUP BY slidingwindow('ss', 3, 2) OVER (PARTITION BY k), page",
        settings=RECORD,
    ),
    "sliding, a group for each window": Law(
        query=f"SELECT k, {VALUES} FROM r GROUP BY slidingwindow('ss', 5, 1) "
        "OVER (PARTITION BY k WHEN v > 1), k",
        settings=RECORD,
        rows=60,
    ),
    "sliding over shards": Law(
        query=f"SELECT page, {VALUES}, window_trigger() AS t FROM r "
        "GROUP BY slidingwindow('ss', 4, 1) OVER (PARTITION BY k), page",
        settings={**RECORD, "shard": "page"},
        greets=True,
    ),
    "sliding over shards, rows kept": Law(
        query=f"SELECT k, v, {BOUNDS}, window_trigger() AS t FROM r "
        "GROUP BY slidingwindow('ss', 4) OVER (PARTITION BY k) EMIT ON WINDOW CLOSE",
        settings={**RECORD, "shard": "page"},
        greets=True,
    ),
    "sliding, rows kept": Law(
        query=f"SELECT *, {BOUNDS}, window_trigger() AS t FROM r "
        "GROUP BY slidingwindow('ss', 3) OVER (PARTITION BY k) EMIT ON WINDOW CLOSE",
        settings=RECORD,
    ),
    "tumbling without duplicates": Law(
        query=f"SELECT k, {VALUES} FROM r WHERE v > 1 GROUP BY tumblingwindow('ss', 6), k",
        settings={**RECORD, "dedup_key": "concat(k, page)", "dedup_horizon": "2s"},
        rows=60,
    ),
    "session without duplicates, over shards": Law(
        query=f"SELECT k, {VALUES} FROM r GROUP BY sessionwindow('ss', 4), k",
        settings={
            **RECORD,
            "shard": "page",
            "dedup_key": "concat(k, v)",
            "dedup_horizon": "1500ms",
        },
        rows=60,
        greets=True,
    ),
    "tumbling within quotas, over shards": Law(
        query=f"SELECT k, {VALUES} FROM r GROUP BY tumblingwindow('ss', 4), k",
        settings={**RECORD, "shard": "page", "max_groups": 5, "watermark_lag": "1s"},
        rows=60,
        greets=True,
    ),
    "hopping within quotas": Law(
        query=f"SELECT k, {VALUES} FROM r GROUP BY hoppingwindow('ss', 6, 2), k",
        settings={**RECORD, "max_groups": 6},
    ),
    "cumulate within quotas, rows kept": Law(
        query=f"SELECT k, collect_list(v) AS vs, {VALUES} FROM r "
        "GROUP BY cumulatewindow('ss', 8, 2), k",
        settings={**RECORD, "max_groups": 7, "max_rows_per_group": 2},
    ),
    "state": Law(
        query=f"SELECT k, {ORDERED} FROM r "
        "GROUP BY statewindow(v > 2, stop OR v = 4) OVER (PARTITION BY k), k",
        settings=RECORD,
    ),
    "count": Law(
        query=f"SELECT {ORDERED} FROM r GROUP BY countwindow(5, 2) OVER (PARTITION BY page)",
        settings={**RECORD, "shard": "k"},
        greets=True,
    ),
}


# For ``make test-all``; cases have panes and sessions by record, test_all_at_once state windows.
QUICK: tuple[str, ...] = ()


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Results[str, Answers]]:
    with pytest.MonkeyPatch.context() as patch:
        # Chunks of two rows, so that there are several in a batch, with and without a row behind.
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
def test_spark_gives_the_answers_of_the_oracle_which_takes_row_by_row(
    name: str, found: Results[str, Answers]
) -> None:
    check(LAWS[name], found[name])


@pytest.mark.parametrize("name", LAWS)
def test_the_oracle_gives_the_same_answers_for_every_cut(name: str) -> None:
    law = LAWS[name]
    rows = [row for batch in law.script() for row in batch]
    answers = [_answers(law, cut(rows)) for cut in CUTS.values()]
    assert all(each == answers[0] for each in answers)
    by_batch = replace(law, settings={**law.settings, "lateness": "batch"})
    assert _answers(by_batch, [tuple(rows)]) != answers[0], "a row is late within the batch"


def _answers(law: Law, batches: list[tuple[Row, ...]]) -> tuple[Counter[str], ...]:
    """The results, the late rows and the other unused ones of all batches and a drain."""
    with closing(OracleEngine(case_of(law))) as engine:
        steps = [step_of(engine.batch(rows, None)) for rows in batches]
        steps.append(step_of(engine.drain()))
    emitted = Counter(text for step in steps for text in step.emitted)
    late = Counter(text for step in steps for text in step.late)
    return emitted, late, Counter(text for step in steps for text in step.others)
