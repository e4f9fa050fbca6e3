"""Shards of a query: what is observed of them, streams that are read as one, the side output."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import tidegate
from tidegate.api.unions import united
from tidegate.cases.stepper import CaseStepper
from tidegate.cli import main
from tidegate.connectors.sinks import MemorySink
from tidegate.engine.rows.prepare import prepare
from tidegate.engine.rows.shards import ShardWatch, _by_job, shard_of_keys
from tidegate.engine.rows.sketches import read_sketch
from tidegate.errors import ConfigError, QueryError, StateError
from tidegate.plan.columns import SOURCE
from tidegate.spark.statements import empty_frame
from tidegate.state.reader import StateReader

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.state.shard_map import SeenShards, Shard

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
CLOCK_US = 4_000_000_000_000_000
SCHEMA = "ts TIMESTAMP, shard STRING"
SQL = "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('ss', 10)"
BY_SHARD = f"{SQL}, shard"


def micros(second: float) -> int:
    return int((START.timestamp() + second) * 1_000_000)


def stepper_of(
    spark: SparkSession, path: Path, *, sql: str = SQL, **settings: str | int
) -> CaseStepper:
    given = {"event_time_field": "ts", "shard": "shard", **settings}
    query = tidegate.sql(sql, streams={"r": SCHEMA}, settings=given, spark=spark)
    return CaseStepper(query, checkpoint=str(path), partitions=2)


def frame(spark: SparkSession, *rows: tuple[datetime | float, str | None]) -> DataFrame:
    timed = [
        (t if isinstance(t, datetime) else START + timedelta(seconds=t), shard) for t, shard in rows
    ]
    return spark.createDataFrame(timed, SCHEMA)


def jobs_of(spark: SparkSession, stepper: CaseStepper, rows: DataFrame) -> int:
    """Run a batch; return how many jobs it had."""
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup())
    stepper.batch(rows, CLOCK_US)
    return len(set(tracker.getJobIdsForGroup()) - before)


ROWS = "ts TIMESTAMP, shard STRING, k STRING, v INT"

# Each batch: rows with a second, a shard, a key and a value.
BATCHES = [
    [(1, "a", "x", 1), (12, "b", "y", 1), (35, "a", "x", 1), (31, "b", "y", 1)],
    # Of b one is late, one is an error, and two of a are too.
    [
        (2, "b", "y", 1),
        (36, "b", "y", 0),
        (None, "b", "y", 1),
        (3, "a", "x", 1),
        (None, "a", "x", 1),
    ],
    [
        (4, "b", "y", 1),
        (37, None, "x", 0),
        (None, "a", "x", 1),
        (38, "c", "x", 1),
        (39, "a", "z", -1),
    ],
]
WHOLE = "1 DIV v AS s"


@pytest.mark.parametrize(
    ("select", "group_by", "late"),
    [
        # Partials are of one shard, or of several, and then the rows of later batches are watched.
        ("shard, sum(1 DIV v) AS s", "shard, tumblingwindow('ss', 10)", {"a": 1, "b": 2}),
        ("sum(1 DIV v) AS s", "tumblingwindow('ss', 10)", {"a": 1, "b": 2}),
        # Rows are kept whole.
        pytest.param(
            WHOLE, "hoppingwindow('ss', 10, 5)", {"a": 1, "b": 2}, marks=pytest.mark.whole
        ),
        pytest.param(WHOLE, "countwindow(3)", {"a": 1, "b": 2}, marks=pytest.mark.whole),
        pytest.param(
            "sum(1 DIV v) AS s",
            "slidingwindow('ss', 1, 1)",
            {"a": 1, "b": 2},
            marks=pytest.mark.whole,
        ),
        # Whether a row is late for a session depends on other rows too.
        pytest.param(
            "shard, sum(1 DIV v) AS s", "shard, sessionwindow('ss', 1)", {}, marks=pytest.mark.whole
        ),
        pytest.param(WHOLE, "sessionwindow('ss', 1)", {}, marks=pytest.mark.whole),
    ],
)
def test_the_rows_of_each_shard_are_counted(
    interpreted: SparkSession, tmp_path: Path, select: str, group_by: str, late: dict[str, int]
) -> None:
    given = {"event_time_field": "ts", "shard": "shard"}
    sql = f"SELECT {select} FROM r WHERE v >= 0 GROUP BY {group_by}"
    query = tidegate.sql(sql, streams={"r": ROWS}, settings=given, spark=interpreted)
    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=2)
    reports = [
        stepper.batch(
            interpreted.createDataFrame(
                [(t and START + timedelta(seconds=t), *others) for t, *others in batch], ROWS
            ),
            CLOCK_US,
        ).report
        for batch in BATCHES
    ]
    assert [report.rows_in for report in reports] == [4, 5, 5]
    assert [report.late for report in reports] == [0, 2, 1]
    assert [report.error for report in reports] == [0, 3, 2]
    manifest = StateReader(tmp_path).manifest()
    shards = {each.name: each for each in manifest.watermark.shards.values()}
    assert {name: each.rows for name, each in shards.items()} == {"a": 6, "b": 6, None: 1, "c": 1}
    counts = {
        kind: {name: n for name, each in shards.items() if (n := each.counts.get(kind))}
        for kind in ("late", "error", "partial")
    }
    # Errors are counted by shard from the batch after the first one that has any.
    assert counts == {"late": late, "error": {"a": 1, None: 1}, "partial": {}}
    shown = CliRunner().invoke(main, ["state", str(tmp_path), "--shards", "--json"])
    assert {each["shard"]: each["rows"] for each in json.loads(shown.stdout)["shards"]} == {
        name: each.rows for name, each in shards.items()
    }


def test_only_a_batch_with_a_new_shard_reads_its_rows_twice(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    many = [(n / 100, str(n)) for n in range(300)]
    with_shards = stepper_of(interpreted, tmp_path / "with")
    new = jobs_of(interpreted, with_shards, frame(interpreted, *many))
    known = jobs_of(interpreted, with_shards, frame(interpreted, *many[:10]))
    without = stepper_of(interpreted, tmp_path / "without", shard="NULL")
    jobs_of(interpreted, without, frame(interpreted, *many))
    assert known == jobs_of(interpreted, without, frame(interpreted, *many[:10]))
    assert new > known
    state = StateReader(tmp_path / "with").manifest()
    shards = {each.name: each.event_time_us for each in state.watermark.shards.values()}
    assert shards == {shard: micros(second) for second, shard in many}
    # The first batch has written all of them, the second one ten.
    assert [segment.rows for segment in state.tables.shards] == [300, 10]


def test_names_that_come_when_a_step_is_finished_are_written_with_all_that_is_known(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    stepper = stepper_of(interpreted, tmp_path, sql=BY_SHARD)
    many = [(n / 100, str(n)) for n in range(300)]
    stepper.batch(frame(interpreted, *many, (1, None)), CLOCK_US)
    stepper.batch(frame(interpreted, *many[:10], (5, "new")), CLOCK_US)
    state = StateReader(tmp_path).manifest()
    shards = {
        each.name: (each.event_time_us, each.rows) for each in state.watermark.shards.values()
    }
    assert shards == {
        shard: (micros(second), 1 + (number < 10)) for number, (second, shard) in enumerate(many)
    } | {None: (micros(1), 1), "new": (micros(5), 1)}
    assert [segment.rows for segment in state.tables.shards] == [301, 11]
    # Each batch wrote its shards twice. What no manifest names is gone.
    written = (tmp_path / "tidegate" / "segments").glob("*-shards*")
    assert {path.name for path in written} == {segment.name for segment in state.tables.shards}


def test_a_shard_that_was_left_without_a_name_gets_it_when_it_is_seen_again(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ShardWatch, "named", lambda *_: None)
        stepper = stepper_of(interpreted, tmp_path, sql=BY_SHARD)
        stepper.batch(frame(interpreted, (1, "a"), (2, None), (3, "b")), CLOCK_US)
    shards = StateReader(tmp_path).manifest().watermark.shards.values()
    assert [each.name for each in shards] == [None] * 3
    again = stepper_of(interpreted, tmp_path, sql=BY_SHARD)
    first = jobs_of(interpreted, again, frame(interpreted, (4, "a"), (5, None)))
    shards = StateReader(tmp_path).manifest().watermark.shards.values()
    assert {(each.name, each.event_time_us) for each in shards} == {
        ("a", micros(4)),
        (None, micros(5)),
        (None, micros(3)),
    }
    # NULL is no name to look for, once that is known.
    assert jobs_of(interpreted, again, frame(interpreted, (6, "a"), (7, None))) < first


def test_a_shard_has_a_name_though_a_quota_evicts_its_only_row(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    stepper = stepper_of(interpreted, tmp_path, sql=BY_SHARD, max_groups=1)
    outcome = stepper.batch(frame(interpreted, (1, "a"), (2, "b")), CLOCK_US)
    assert (outcome.report.accumulated, outcome.report.evicted) == (1, 1)
    shards = StateReader(tmp_path).manifest().watermark.shards.values()
    assert sorted(map(_name, shards)) == ["a", "b"]


def test_the_first_rows_of_each_partition_name_new_shards_else_all_rows_do(
    interpreted: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def named(rows: DataFrame, time: str) -> SeenShards:
        read.append(rows.count())
        return _by_job(rows, time)

    monkeypatch.setattr("tidegate.engine.rows.shards._by_job", named)
    monkeypatch.setattr("tidegate.engine.rows.shards.LEAST_ROWS", 2)
    stepper = stepper_of(interpreted, tmp_path)
    many = [(float(second), "ab"[second % 2]) for second in range(100)]
    # A window without keys has rows of both shards, so from then on the rows are watched.
    stepper.batch(frame(interpreted, *many), CLOCK_US)
    stepper.batch(frame(interpreted, *many, (100, None)).coalesce(2), CLOCK_US)
    stepper.batch(frame(interpreted, (101, "c"), *many).coalesce(1), CLOCK_US)
    assert read == [100, 10, 101, 5]
    shards = StateReader(tmp_path).manifest().watermark.shards.values()
    assert {each.name: each.event_time_us for each in shards} == {
        "a": micros(98),
        "b": micros(99),
        None: micros(100),
        "c": micros(101),
    }


@pytest.mark.parametrize("told_by", ["shard", "CASE WHEN true THEN shard END"])
def test_group_keys_and_rows_in_no_group_tell_the_shards(
    interpreted: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told_by: str
) -> None:
    read: list[int] = []

    def named(rows: DataFrame, time: str) -> SeenShards:
        read.append(rows.count())
        return _by_job(rows, time)

    def take(*rows: tuple[float, str]) -> tuple[int, float, float]:
        """Return how many rows were grouped by shard in a job, and the times of the shards."""
        read.clear()
        stepper.batch(frame(interpreted, *rows), CLOCK_US)
        shards = StateReader(tmp_path).manifest().watermark.shards.values()
        a, b = ((each.event_time_us - micros(0)) / 1e6 for each in sorted(shards, key=_name))
        return sum(read), a, b

    monkeypatch.setattr("tidegate.engine.rows.shards._by_job", named)
    by_shard = "FROM r GROUP BY tumblingwindow('ss', 10), shard"
    stepper = stepper_of(
        interpreted, tmp_path, sql=f"SELECT count(*) AS n {by_shard}", shard=told_by
    )
    assert take((1, "a"), (2, "b")) == (2, 1, 2)
    assert take((3, "a"), (4, "b")) == (0, 3, 4)
    sql = f"SELECT count(*) AS n {by_shard}".replace("GROUP", "WHERE second(ts) < 6 GROUP")
    stepper = stepper_of(interpreted, tmp_path, sql=sql, shard=told_by)
    # Rows that WHERE removes are in no group, and move the watermark.
    assert take((5, "a"), (9, "b"), (10, "b"), (8, "a")) == (0, 8, 10)
    assert take((11, "a"), (17, "b"), (12, "a")) == (0, 12, 17)
    counted = stepper.batch(frame(interpreted, (20, "a"), (21, "b"), (65, "b")), CLOCK_US)
    assert (counted.report.filtered, counted.report.accumulated) == (2, 1)
    # A new shard of which no row is in the state.
    stepper.batch(frame(interpreted, (120, "a"), (130, "c")), CLOCK_US)
    shards = StateReader(tmp_path).manifest().watermark.shards.values()
    assert sorted(map(_name, shards)) == ["a", "b", "c"]


def _name(shard: Shard) -> str:
    return shard.name or ""


@pytest.mark.parametrize(
    ("key", "shard", "told"),
    [
        ("INT", "k DIV 10", "_k0 DIV 10"),
        ("DECIMAL(5, 2)", "-k", "-_k0"),
        ("DOUBLE", "k", "_k0"),
        # Keys that are equal to GROUP BY may differ: 0 and -0, or letters of either case.
        ("DOUBLE", "1 / k", None),
        ("STRING COLLATE UTF8_LCASE", "k % 2", None),
        ("STRUCT<a: INT>", "k.a", None),
    ],
)
def test_a_shard_follows_from_keys_of_which_equal_ones_are_the_same(
    spark: SparkSession, key: str, shard: str, told: str | None
) -> None:
    schema = f"ts TIMESTAMP, k {key}"
    settings = {"event_time_field": "ts", "shard": shard}
    query = tidegate.sql(f"{SQL}, k", streams={"r": schema}, settings=settings, spark=spark)
    plan = query.physical
    prepared = prepare(plan, {"r": empty_frame(spark, schema)})
    assert shard_of_keys(plan, prepared) == told


def test_times_beyond_the_integers_of_a_double_are_exact(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    odd = datetime(1500, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    stepper = stepper_of(interpreted, tmp_path)
    stepper.batch(frame(interpreted, (odd, "a")), CLOCK_US)
    later = odd + timedelta(microseconds=2)
    outcome = stepper.batch(frame(interpreted, (odd, "a"), (later, "a")), CLOCK_US)
    since_1970 = later - datetime(1970, 1, 1, tzinfo=UTC)
    assert outcome.report.watermark_us == since_1970 // timedelta(microseconds=1)


def test_a_sketch_that_had_no_room_is_not_read(spark: SparkSession) -> None:
    def sketch(shards: int, bits: int) -> bytes:
        rows = spark.range(shards).selectExpr(
            f"tuple_sketch_agg_double(xxhash64(id), CAST(id AS DOUBLE), {bits}, 'max') AS s"
        )
        (row,) = rows.collect()
        return row["s"]

    assert read_sketch(sketch(0, 4)) == {}
    assert list((read_sketch(sketch(1, 4)) or {}).values()) == [0]
    assert sorted((read_sketch(sketch(16, 4)) or {}).values()) == list(range(16))
    assert read_sketch(sketch(1_000, 4)) is None


def test_another_expression_forgets_the_shards_and_keeps_the_watermark(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    stepper_of(interpreted, tmp_path).batch(frame(interpreted, (5, "a"), (50, "b")), CLOCK_US)
    changed = stepper_of(interpreted, tmp_path, shard="upper(shard)")
    outcome = changed.batch(frame(interpreted, (3, "b")), CLOCK_US)
    assert outcome.report.watermark_us == micros(5)
    outcome = changed.batch(frame(interpreted, (20, "b")), CLOCK_US)
    assert outcome.report.watermark_us == micros(20)


@pytest.mark.parametrize(
    ("shard", "told"),
    [
        ("map(shard, 1)", "shard is MAP<STRING,INT>, and values of the type MAP have no order"),
        ("date_add(ts, shard, 1)", "date_add"),
    ],
)
def test_a_shard_that_spark_cannot_compute_or_compare_is_refused_at_its_place(
    spark: SparkSession, shard: str, told: str
) -> None:
    with pytest.raises(QueryError) as error:
        tidegate.sql(
            SQL, settings={"event_time_field": "ts", "shard": shard}, r=frame(spark, (1, "a"))
        )
    assert str(error.value).startswith("setting shard, line 1, column 1: ")
    assert told in str(error.value)


def test_a_forgotten_shard_no_longer_holds_the_watermark(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    stepper = stepper_of(interpreted, tmp_path, shard_expiry="1h")
    stepper.batch(frame(interpreted, (5, "a"), (50, "b")), CLOCK_US)
    minute, hour = 60_000_000, 3_600_000_000
    outcome = stepper.batch(frame(interpreted, (60, "b")), CLOCK_US + hour - minute)
    assert outcome.report.watermark_us == micros(5)
    assert stepper.clock(CLOCK_US + hour - 1).report.watermark_us == micros(5)
    assert stepper.clock(CLOCK_US + hour).report.watermark_us == micros(60)
    names = [each.name for each in StateReader(tmp_path).manifest().watermark.shards.values()]
    assert names == ["b"]
    # It is back, as a new one.
    stepper.batch(frame(interpreted, (61, "a"), (80, "b")), CLOCK_US + hour)
    outcome = stepper.batch(frame(interpreted, (90, "b")), CLOCK_US + hour)
    assert outcome.report.watermark_us == micros(61)


def test_a_shard_that_comes_back_as_it_is_forgotten_keeps_its_name(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    stepper = stepper_of(interpreted, tmp_path, shard_expiry="1h")
    stepper.batch(frame(interpreted, (5, "a"), (50, "b")), CLOCK_US)
    stepper.batch(frame(interpreted, (70, "a")), CLOCK_US + 3_600_000_000)
    [shard] = StateReader(tmp_path).manifest().watermark.shards.values()
    assert (shard.name, shard.event_time_us, shard.rows) == ("a", micros(70), 1)


def test_a_shard_that_a_user_forgets_no_longer_holds_the_watermark(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    stepper = stepper_of(interpreted, tmp_path)
    rows = [(5, "a"), (50, None), (60, "b")]
    assert stepper.batch(frame(interpreted, *rows), CLOCK_US).rows == ()
    done = CliRunner().invoke(
        main, ["state", str(tmp_path), "--forget-shard", "a", "--forget-shard", "NULL"]
    )
    assert (done.exit_code, done.stderr) == (0, "")
    name = tmp_path.name
    assert done.stdout == (
        f"{name}: forgot shard a, whose greatest time was 2026-01-01T10:00:05Z\n"
        f"{name}: forgot shard NULL, whose greatest time was 2026-01-01T10:00:50Z\n"
        "watermark  2026-01-01T10:00:05Z, as before\n"
        "The next batch moves it to 2026-01-01T10:01:00Z less the lag, if it is not beyond that: "
        "the greatest time of b, the only shard left.\n"
    )
    # The query that ran before is displaced; a start goes on with the next batch.
    with pytest.raises(StateError, match="another query writes"):
        stepper.batch(frame(interpreted, (61, "b")), CLOCK_US)
    again = stepper_of(interpreted, tmp_path)
    # Rows first: W of the batch before decides what is late, and W moves behind them.
    outcome = again.batch(frame(interpreted, (7, "b")), CLOCK_US)
    assert outcome.report.watermark_us == micros(60)
    assert sorted(row["n"] for row in outcome.rows) == [1, 2]
    assert outcome.side == ()
    shown = CliRunner().invoke(main, ["state", str(tmp_path), "--forget-shard", "b", "--json"])
    assert json.loads(shown.stdout)["slowest"] is None


def lines(path: Path, rows: Sequence[tuple[str, int]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(json.dumps({"ts": ts, "v": v}) for ts, v in rows))


def test_of_streams_that_are_read_as_one_each_has_shards_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines(tmp_path / "web" / "1.json", [("2026-01-01 10:00:05", 1), ("2026-01-01 10:00:09", 2)])
    lines(tmp_path / "app" / "1.json", [("2026-01-01 10:00:41", 1), ("2026-01-01 10:00:42", 2)])
    late = MemorySink()

    def take(partitions: int) -> tuple[list[int], str | None]:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        read = spark.readStream.schema("ts TIMESTAMP, v INT")
        emitted = MemorySink()
        streams = {name: read.json(str(tmp_path / name)) for name in ("web", "app")}
        # Whoever unites them, the statement or its caller, they are the same stream.
        by_statement = partitions % 2 == 0
        from_, given = ("web UNION ALL app", streams) if by_statement else ("u", {"u": streams})
        query = tidegate.sql(
            f"SELECT count(*) AS n FROM {from_} GROUP BY tumblingwindow('ss', 10)",
            settings={"event_time_field": "ts", "shard": "v"},
            streams=given,
        )
        run = query.start(
            sink=emitted, late=late, checkpoint=str(tmp_path / "checkpoint"), once=True
        )
        run.await_termination()
        watermark_us = StateReader(tmp_path / "checkpoint").manifest().watermark.watermark_us
        assert watermark_us is not None
        return [row["n"] for row in emitted.rows()], (watermark_us - micros(0)) / 1_000_000

    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        assert take(2) == ([], 5)
        lines(tmp_path / "web" / "2.json", [("2026-01-01 10:00:21", 1)])
        assert take(3) == ([], 9)
        lines(tmp_path / "web" / "3.json", [("2026-01-01 10:00:25", 2)])
        assert take(1) == ([2], 21)
        lines(tmp_path / "web" / "4.json", [("2026-01-01 10:00:04", 1)])
        assert take(2) == ([], 21)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    (record,) = late.rows()
    assert record["shard"] == "{web, 1}"
    assert record["original_event"].asDict().keys() == {"ts", "v"}


def test_streams_of_different_columns_are_not_read_as_one(spark: SparkSession) -> None:
    one = spark.createDataFrame([], "ts TIMESTAMP, v INT")
    for other, told in (
        ("TS TIMESTAMP, v BIGINT", "v is INT in one and BIGINT in other"),
        ("ts TIMESTAMP", "one has the column v, other has not"),
        ("v INT, w INT, ts TIMESTAMP", "other has the column w, one has not"),
    ):
        with pytest.raises(ConfigError) as error:
            united("r", {"one": one, "other": spark.createDataFrame([], other)})
        assert str(error.value) == (
            f"r unites streams of different columns: {told}\n\n"
            "Select the same columns of each, e.g. with select and cast."
        )
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ConfigError, match="s is a stream, t is not a stream"):
        united("r", {"s": stream, "t": spark.createDataFrame([], stream.schema)})


def test_the_answers_over_tables_are_those_of_one_stream(spark: SparkSession) -> None:
    rows = [frame(spark, (1, "a"), (12, "b")), frame(spark, (2, "a"))]
    settings = {"event_time_field": "ts", "shard": "shard"}
    query = tidegate.sql(SQL, settings=settings, r={"one": rows[0], "two": rows[1]})
    expected = [1, 2]
    assert sorted(row["n"] for row in query.batch().collect()) == expected
    plain = query.batch(r=rows[0].union(rows[1]))
    assert sorted(row["n"] for row in plain.collect()) == expected


def test_a_union_in_the_statement_is_of_the_streams_or_tables_that_are_given(
    spark: SparkSession,
) -> None:
    text = SQL.replace("FROM r", "FROM a UNION ALL b AS e").replace("count(*)", "sum(e.v)")
    settings = {"event_time_field": "ts", "shard": "v"}
    a = frame(spark, (1, "1"), (12, "2")).selectExpr("ts", "CAST(shard AS INT) AS v")
    b = a.where("v = 1").select("v", "ts")
    expected = [2, 2]
    query = tidegate.sql(text, settings=settings, a=a, b=b)
    assert sorted(row["n"] for row in query.batch().collect()) == expected
    schemas = {"a": "ts TIMESTAMP, v INT", "b": "v INT, ts TIMESTAMP"}
    later = tidegate.sql(text, settings=settings, streams=schemas, spark=spark)
    assert later.schema == query.schema
    assert sorted(row["n"] for row in later.batch(a=a, b=b).collect()) == expected
    with pytest.raises(ConfigError, match=r"Write query.batch\(a=spark.read..., b=spark.read"):
        later.batch(a=a)
    for wrong, told in (("e.v + INTERVAL 1 DAY", "query, line 1, column 12"), ("a.v", "column a")):
        with pytest.raises(QueryError) as error:
            tidegate.sql(text.replace("e.v", wrong), settings=settings, a=a, b=b)
        assert told in str(error.value)


def test_a_union_of_unions_keeps_the_shards_apart(spark: SparkSession) -> None:
    parts = {name: frame(spark, (1, name)) for name in ("x", "y")}
    both = united("r", {"a": united("a", parts), "b": frame(spark, (1, "z"))})
    assert sorted(row[SOURCE] for row in both.collect()) == ["a.x", "a.y", "b"]


def test_a_subquery_cannot_hide_which_stream_a_row_is_from(spark: SparkSession) -> None:
    frames = {"one": frame(spark, (1, "a")), "two": frame(spark, (2, "a"))}
    with pytest.raises(ConfigError) as error:
        tidegate.sql(
            "SELECT count(*) AS n FROM (SELECT * FROM r) AS s GROUP BY tumblingwindow('ss', 10)",
            settings={"event_time_field": "ts"},
            r=frames,
        )
    assert str(error.value) == (
        "stream r unites several, and a WITH clause or a subquery hides which of them a row is "
        "from\n\nName the stream itself: FROM r."
    )
