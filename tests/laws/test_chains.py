"""A query that reads another one gives what it gives over a table of the other one's results.

The table is made by hand: the results that the first query has emitted, in a batch query with the
end of their window as their event time. The watermark must be the closing of the first query, so
no result is late, and each is in a window that is still open.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import tidegate as tg
from chains import Chain, Reader, Row, first

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

VALUES = "k, count(*) AS n, sum(v) AS v, window_start() AS s, window_end() AS e"
SECOND = "k, sum(n) AS n, max(v) AS v, count(*) AS results, window_start() AS s, window_end() AS e"
# The last instant of a window whose end is shown, for kinds that show it as ``[start, end)``.
BEFORE_END = "e - INTERVAL '0.000001' SECOND"
LATE = {"event_time_field": "ts", "watermark_lag": "4s", "allowed_lateness": "2s"}


@dataclass(frozen=True, kw_only=True)
class Law:
    """Two window calls; ``time`` is the event time of a result by hand, ``on`` in the chain."""

    upstream: str
    below: str
    time: str = BEFORE_END
    on: str = ""


LAWS = {
    "tumbling": Law(
        upstream=f"SELECT {VALUES} FROM r GROUP BY tumblingwindow('ss', 4), k",
        below=f"SELECT {SECOND} FROM x GROUP BY tumblingwindow('ss', 12), k",
    ),
    "session": Law(
        upstream=f"SELECT {VALUES} FROM r GROUP BY sessionwindow('ss', 3), k",
        below=f"SELECT {SECOND} FROM x GROUP BY hoppingwindow('ss', 12, 5), k",
    ),
    "sliding at once": Law(
        upstream=f"SELECT {VALUES} FROM r GROUP BY slidingwindow('ss', 5) OVER (PARTITION BY k), k",
        below=f"SELECT {SECOND} FROM x GROUP BY tumblingwindow('ss', 7), k",
        time="e",
    ),
    "hopping": Law(
        upstream=f"SELECT {VALUES} FROM r GROUP BY hoppingwindow('ss', 7, 3, 1), k",
        below=f"SELECT {SECOND} FROM x GROUP BY sessionwindow('ss', 5), k",
    ),
    "cumulate": Law(
        upstream=f"SELECT {VALUES} FROM r GROUP BY cumulatewindow('ss', 9, 3), k",
        below=f"SELECT {SECOND} FROM x GROUP BY slidingwindow('ss', 4, 3) OVER (PARTITION BY k), k",
    ),
    "sliding ahead": Law(
        upstream=f"SELECT {VALUES} FROM r GROUP BY slidingwindow('ss', 2, 2) "
        "OVER (PARTITION BY k), k",
        below=f"SELECT {SECOND} FROM x GROUP BY tumblingwindow('ss', 7), k",
        time="e",
    ),
    "by the end": Law(
        upstream=f"SELECT {VALUES} FROM r GROUP BY tumblingwindow('ss', 4), k",
        below=f"SELECT {SECOND} FROM x GROUP BY tumblingwindow('ss', 12), k",
        time="e",
        on="ON e",
    ),
    "by the start": Law(
        upstream=f"SELECT {VALUES} FROM r GROUP BY hoppingwindow('ss', 7, 3, 1), k",
        below=f"SELECT {SECOND} FROM x GROUP BY sessionwindow('ss', 2), k",
        time="s",
        on="ON s",
    ),
    "sliding by the start": Law(
        upstream=f"SELECT {VALUES} FROM r GROUP BY slidingwindow('ss', 2, 2) "
        "OVER (PARTITION BY k), k",
        below=f"SELECT {SECOND} FROM x GROUP BY cumulatewindow('ss', 9, 3), k",
        time="s",
        on="ON s",
    ),
}


def script(seed: str) -> list[list[Row]]:
    """Batches of rows that go on in time; some are late, and some batches have none."""
    choose = random.Random(seed)
    batches: list[list[Row]] = []
    for number in range(6):
        start = number * 9 - 20
        batches.append(
            [
                (start + choose.randint(-16, 9), choose.choice("ab"), choose.randint(0, 9))
                for _ in range(choose.choice((0, 3, 12)))
            ]
        )
    batches[-1].append((-60, "a", 1))  # late in any case
    return [[(-25, "a", 1), (-24, "b", 2)], *batches]


@pytest.mark.whole
@pytest.mark.parametrize("name", LAWS)
def test_a_query_over_results_equals_the_same_query_over_a_table_of_them(
    name: str, interpreted: SparkSession, tmp_path: Path
) -> None:
    law = LAWS[name]
    upstream = first(interpreted, law.upstream, LATE)
    below = tg.sql(f"{law.below} {law.on}", streams={"x": upstream}, spark=interpreted)
    chain = Chain(query=upstream, folder=tmp_path / "upstream")
    reader = Reader(query=below, folder=tmp_path / "below")
    running = chain.start(reader)
    for number, rows in enumerate(script(name)):
        if number == 4:
            running = chain.start(reader)
        running.batch(number, rows)
    before_drain = len(reader.sink.rows())
    running.stepper.drain()

    assert any(report.late for report in chain.reports), "the script has late rows"
    assert before_drain, "windows close before the end of the stream"
    assert not any(report.late or report.error for report in reader.reports)
    table = interpreted.createDataFrame(chain.sink.rows(), chain.sink.schema)
    by_hand = tg.sql(f"{law.below} ON {law.time}", x=table).batch(x=table)
    assert sorted(reader.sink.rows(), key=repr) == sorted(map(tuple, by_hand.collect()), key=repr)
