"""Windows on panes: which windows a row is in; streaming equals the oracle, other cuts, a table."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import tidegate as tg
from interpreted import interpreting
from oracle.adapter import OracleEngine
from side_by_side import Results, dealt, side_by_side
from tidegate.cases import Case, CaseEngine
from tidegate.cases.model import Column, Stream
from tidegate.cases.spark import SparkRuns
from tidegate.engine.windows.panes.grid import PaneGrid, pane_grid
from tidegate.plan.windows import Cumulate, Hopping, PaneWindow, Tumbling
from tidegate.time import TimeUnit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

US = TimeUnit.MICROSECOND
WINDOWS: tuple[PaneWindow, ...] = (
    Tumbling(time_unit=US, size=10),
    Tumbling(time_unit=US, size=7, offset=-3),
    Hopping(time_unit=US, size=10, slide=5),
    Hopping(time_unit=US, size=10, slide=3, offset=4),
    Hopping(time_unit=US, size=2, slide=5),
    Hopping(time_unit=US, size=6, slide=4, offset=-1),
    Cumulate(time_unit=US, size=12, step=3),
    Cumulate(time_unit=US, size=12, step=4, offset=5),
)


def windows_of(window: PaneWindow, time: int) -> list[tuple[int, int]]:
    """Return the windows that contain a time, by testing every window near it."""
    near = range(-60, 61)
    match window:
        case Tumbling(size=size, offset=offset):
            all_windows = [(offset + n * size, offset + (n + 1) * size) for n in near]
        case Hopping(size=size, slide=slide, offset=offset):
            all_windows = [(offset + n * slide, offset + n * slide + size) for n in near]
        case Cumulate(size=size, step=step, offset=offset):
            starts = [offset + n * size for n in near]
            all_windows = [(s, s + k * step) for s in starts for k in range(1, size // step + 1)]
    return [(start, end) for start, end in all_windows if start <= time < end]


def test_a_row_is_in_exactly_its_windows(spark: SparkSession) -> None:
    for window in WINDOWS:
        grid = pane_grid(window)
        rows = spark.sql("SELECT id AS t FROM range(-50, 51)").selectExpr(
            "t", *(f"{sql} AS {name}" for name, sql in placement(grid).items())
        )
        for row in rows.collect():
            expected = windows_of(window, row["t"])
            found = [(row["start"][i], end) for i, end in enumerate(row["ends"])]
            assert found == expected, (window, row["t"])
            if expected:
                assert grid.last_end(row["pane"]) == row["last"] == expected[-1][1]


def placement(grid: PaneGrid) -> dict[str, str]:
    pane = grid.pane_sql("t")
    first, last = grid.first_end_sql(pane), grid.last_end_sql(pane)
    inside = f"{last} > t"
    none = "CAST(array() AS ARRAY<BIGINT>)"
    ends = f"IF({inside}, sequence({first}, {last}, {grid.stride_us}L), {none})"
    return {
        "pane": pane,
        "last": last,
        "ends": ends,
        "start": f"transform({ends}, e -> {grid.start_of_end_sql('e')})",
    }


def test_the_next_end_is_the_first_end_after_a_time() -> None:
    for window in WINDOWS:
        grid = pane_grid(window)
        ends = sorted({end for t in range(-90, 91) for _, end in windows_of(window, t)})
        for time in range(-50, 51):
            assert grid.next_end(time) == next(end for end in ends if end > time), (window, time)


def test_first_open_and_first_whole_find_the_panes_with_open_windows() -> None:
    for window in WINDOWS:
        grid = pane_grid(window)
        panes = {t - (t - grid.offset_us) % grid.pane_us for t in range(-50, 51)}
        ends = {pane: [end for _, end in windows_of(window, pane)] for pane in panes}
        for pane in (pane for pane in panes if ends[pane]):
            for bound in range(-60, 61):
                closed = [end <= bound for end in ends[pane]]
                case = (window, pane, bound)
                assert (pane < grid.first_open(bound)) == all(closed), case
                assert (pane < grid.first_whole(bound)) == any(closed), case


STREAM = Stream(
    name="readings",
    columns=(
        Column(name="ts", type="TIMESTAMP"),
        Column(name="k", type="STRING"),
        Column(name="v", type="BIGINT"),
    ),
)
VALUES = (
    "count(*) AS n, sum(v) AS total, avg(v) AS mean, min(v) AS lo, max(v) AS hi, "
    "window_start() AS s, window_end() AS e"
)
LATE = {"event_time_field": "ts", "watermark_lag": "1s", "allowed_lateness": "1s"}
QUERIES = {
    "tumbling": f"SELECT k, {VALUES} FROM readings GROUP BY tumblingwindow('ss', 4, 1), k",
    "hopping": f"SELECT k, {VALUES} FROM readings GROUP BY hoppingwindow('ss', 6, 4), k",
    "gaps": f"SELECT {VALUES} FROM readings GROUP BY hoppingwindow('ss', 2, 3)",
    "rows": "SELECT *, window_end() AS e FROM readings GROUP BY hoppingwindow('ss', 6, 4)",
    "cumulate": f"SELECT k, {VALUES} FROM readings GROUP BY cumulatewindow('ss', 6, 2), k",
}
Row = tuple[datetime | None, str | None, int | None]
Script = list[tuple[Row, ...]]
# What each step gave, and then the totals.
Steps = list[dict[str, object]]


def script(seed: int, *, jitter: int) -> Script:
    """Return five batches around 1970, with NULL times, keys and values; the same for a seed."""
    dice = random.Random(seed)
    start = datetime(1970, 1, 1, tzinfo=UTC) - timedelta(seconds=6)

    def row(batch: int) -> Row:
        half_seconds = 6 * batch + dice.randint(-jitter, jitter)
        time = start + timedelta(seconds=half_seconds / 2)
        return (
            None if dice.random() < 0.05 else time,
            dice.choice(["a", "b", None]),
            dice.choice([None, 1, 2, 5, 2**40]),
        )

    return [tuple(row(batch) for _ in range(dice.randint(1, 9))) for batch in range(5)]


# With accumulators and with stored rows; a row query has no accumulators.
PATHS = [
    (kind, path) for kind in QUERIES for path in ("auto", "off") if (kind, path) != ("rows", "auto")
]
# The others are for ``make test-all``.
QUICK_PATHS = (("tumbling", "auto"), ("hopping", "auto"), ("cumulate", "off"))


@pytest.fixture(scope="module")
def found(
    request: pytest.FixtureRequest, spark: SparkSession
) -> Iterator[Results[tuple[str, str], Steps]]:
    with pytest.MonkeyPatch.context() as patch:
        # Two segments are enough for a merge.
        patch.setattr("tidegate.engine.merging.MERGE_FACTOR", 2)
        with side_by_side(request, spark, "run", streamed) as found:
            yield found


def streamed(run: tuple[str, str], spark: SparkSession) -> Steps:
    kind, path = run
    late = case(kind, {**LATE, "streaming_aggregation": path})
    return answers(SparkRuns(spark=spark).factory()(late), batches_with_late_rows(kind))


def batches_with_late_rows(kind: str) -> Script:
    return script(seed=len(kind), jitter=16)


@pytest.mark.parametrize("run", dealt(PATHS, QUICK_PATHS), ids=", ".join)
def test_streaming_equals_the_oracle_step_by_step(
    run: tuple[str, str], found: Results[tuple[str, str], Steps]
) -> None:
    kind, _ = run
    expected = answers(OracleEngine(case(kind, LATE)), batches_with_late_rows(kind))
    assert found[run] == expected
    assert any(step["late"] for step in expected), "a law about late rows needs some"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finals:
    """The final windows of the same rows: of two cuts into batches, and of a table."""

    cuts: list[Counter[str]]
    table: Counter[str]


@pytest.fixture(scope="module")
def finals(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Results[str, Finals]]:
    with side_by_side(request, spark, "kind", finals_of) as finals:
        yield finals


def finals_of(kind: str, spark: SparkSession) -> Finals:
    in_time = {"event_time_field": "ts", "watermark_lag": "60s"}
    batches = script(seed=7, jitter=9)
    rows = [row for batch in batches for row in batch]
    reordered = random.Random(1).sample(rows, len(rows))
    cuts: list[Script] = [batches, [tuple(reordered[:20]), tuple(reordered[20:])]]
    with interpreting(spark):
        runs = SparkRuns(spark=spark, resume_always=True)
        of_cuts = [emitted(answers(runs.factory()(case(kind, in_time)), cut)) for cut in cuts]
        frame = spark.createDataFrame(rows, "ts TIMESTAMP, k STRING, v BIGINT")
        query = tg.sql(QUERIES[kind], settings=in_time, streams={"readings": frame})
        table = Counter(map(str, map(normal, query.batch().collect())))
    return Finals(cuts=of_cuts, table=table)


@pytest.mark.parametrize("kind", dealt(QUERIES, ("hopping", "rows")))
def test_a_table_and_any_cut_give_the_same_final_windows_when_nothing_is_late(
    kind: str, finals: Results[str, Finals]
) -> None:
    one, other = finals[kind].cuts
    assert one == other == finals[kind].table
    assert one


def case(kind: str, settings: dict[str, str]) -> Case:
    return Case(
        path="",
        line=0,
        name=kind,
        stream=STREAM,
        tables=(),
        settings=settings,
        any_cuts=False,
        query=QUERIES[kind],
        ordered=False,
        steps=(),
        final=None,
        counts={},
        error=None,
    )


def answers(engine: CaseEngine, batches: Sequence[tuple[Row, ...]]) -> Steps:
    """Return the output of each step; the last one is a drain."""
    far = 4_102_444_800_000_000
    with closing(engine):
        seen = [engine.batch(rows, far) for rows in batches]
        seen.append(engine.drain())
        totals = engine.counts()
    side = [
        {
            kind: Counter(str((normal(row.original), row.reason, row.late_by_ms)) for row in rows)
            for kind, rows in step.side.items()
            if rows
        }
        for step in seen
    ]
    steps: Steps = [
        {
            "emitted": Counter(str(normal(row)) for row in step.emitted),
            "late": of_step.get("late"),
            "error": of_step.get("error"),
            "watermark": step.watermark_us,
        }
        for step, of_step in zip(seen, side, strict=True)
    ]
    return [*steps, {"late": None, "totals": dict(totals)}]


def emitted(steps: Steps) -> Counter[str]:
    total: Counter[str] = Counter()
    for step in steps:
        total += step.get("emitted") or Counter()
    return total


def normal(row: object) -> list[tuple[str, object]]:
    """Return a row as sorted pairs with UTC times and float numbers, so that only values count."""
    pairs = row.asDict() if hasattr(row, "asDict") else row
    assert isinstance(pairs, dict)
    return sorted((name, _value(value)) for name, value in pairs.items())


def _value(value: object) -> object:
    match value:
        case datetime():
            moment = value.astimezone(UTC) if value.tzinfo is None else value
            return moment.astimezone(UTC).isoformat()
        case bool() | None | str():
            return value
        case int() | float():
            return float(value)
        case _:
            return value
