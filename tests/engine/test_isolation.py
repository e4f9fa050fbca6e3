"""The user's session and ours: neither changes what the other one does."""

from __future__ import annotations

import gc
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from side_by_side import dealt
from tidegate.cases.stepper import CaseStepper
from tidegate.connectors.sinks import MemorySink
from tidegate.spark.isolation import PARTITIONS, PINNED, Mirror, most_tasks, starting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENT_TIME = {"event_time_field": "ts"}

# Each would change what a statement means, how it runs, or how state is read.
HOSTILE = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.crossJoin.enabled": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.groupByAliases": "false",
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.lateralColumnAlias.enableImplicitResolution": "false",
    "spark.sql.legacy.castComplexTypesToString.enabled": "true",
    "spark.sql.legacy.ctePrecedencePolicy": "LEGACY",
    "spark.sql.legacy.setopsPrecedence.enabled": "true",
    "spark.sql.legacy.statisticalAggregate": "true",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}"
        for rule in ("ColumnPruning", "ConstantFolding", "OptimizeIn", "PushDownPredicates")
    ),
    "spark.sql.orderByOrdinal": "false",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.retainGroupColumns": "false",
    "spark.sql.session.timeZone": "Pacific/Kiritimati",
    "spark.sql.shuffle.partitions": "7",
    "spark.sql.stableDerivedColumnAlias.enabled": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.variable.substitute": "false",
}
# Two that exclude each other.
LOOSE, STRICT = (
    {**HOSTILE, "spark.sql.ansi.enabled": "false"},
    {
        **HOSTILE,
        "spark.sql.ansi.enforceReservedKeywords": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    },
)
WINDOWS = {
    "tumbling": "tumblingwindow('ss', 10), K",
    "hopping": "hoppingwindow('ss', 10, 5), K",
    "cumulate": "cumulatewindow('ss', 10, 5), K",
    "session": "sessionwindow('ss', 3), K",
    "sliding": "slidingwindow('ss', 3, 2), K",
    "state": "statewindow(v = 1, v = 4) OVER (PARTITION BY K)",
    "count": "countwindow(3) OVER (PARTITION BY K)",
}


@contextmanager
def settings_of(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


@pytest.mark.parametrize("kind", dealt(WINDOWS, ("tumbling", "session", "sliding")))
def test_no_setting_of_the_users_session_changes_an_answer(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    def answer(name: str) -> tuple[list[str], list[tuple[str, object]]]:
        query = tidegate.sql(
            "SELECT K, count(*) AS n, sum(v / d) AS s, avg(CAST(v AS DECIMAL(38, 10)) / 3) AS a,"
            " max(\"x\\\\y\" || v) AS m, min(date_format(CAST(ts AS TIMESTAMP), 'ss')) AS e"
            f" FROM r GROUP BY {WINDOWS[kind]}",
            streams={"r": "ts TIMESTAMP, k STRING, v INT, d INT"},
            settings=EVENT_TIME,
            spark=spark,
        )
        stepper = CaseStepper(query, checkpoint=str(tmp_path / name), partitions=2)
        rows = spark.sql(
            "SELECT timestamp_seconds(id * 2) AS ts, 'k' || (id % 2) AS k,"
            " CAST(id AS INT) AS v, CAST(IF(id = 5, 0, 2) AS INT) AS d FROM range(0, 8, 1, 1)"
        )
        outcomes = [stepper.batch(rows, clock_us=60_000_000), stepper.drain()]
        return (
            sorted(repr(tuple(row)) for outcome in outcomes for row in outcome.rows),
            [(side.reason, side.original) for outcome in outcomes for side in outcome.side],
        )

    plain = answer("plain")
    assert plain[0]
    assert [reason for reason, _ in plain[1]] == ["division_by_zero"]
    for name, settings in (("loose", LOOSE), ("strict", STRICT)):
        with settings_of(spark, settings):
            assert answer(name) == plain


def write(folder: Path, *seconds: int) -> None:
    folder.mkdir()
    for second in seconds:
        text = json.dumps({"ts": f"2026-01-01 00:00:{second:02}", "v": second})
        file = folder / f"{second}.json"
        file.write_text(text)
        # Spark takes files in the order of their times.
        os.utime(file, (second, second))


def all_of(spark: SparkSession) -> tuple[dict[str, str], list[str]]:
    """All settings and views of a session."""
    return dict(spark.conf.getAll), [table.name for table in spark.catalog.listTables()]


@pytest.mark.parametrize("is_object", [False, True], ids=["function", "object"])
def test_nothing_of_ours_shows_in_the_users_session_and_a_sink_runs_under_its_settings(
    spark: SparkSession, tmp_path: Path, is_object: bool
) -> None:
    # Of its own: tests that drive steps by themselves do so in the session of all tests.
    spark = spark.newSession()
    write(tmp_path / "in", 1, 22, 43)
    seen: list[tuple[int, list[str], str | None, list[str]]] = []

    started = threading.Event()

    def sink(frame: DataFrame, epoch: int) -> None:
        assert started.wait(timeout=60)
        session = frame.sparkSession
        partitions = session.conf.get("spark.sql.shuffle.partitions")
        seen.append(
            (
                frame.count(),
                [row[0] + 1 for row in frame.selectExpr("N").collect()],
                f"{partitions} {session.conf.get('spark.sql.adaptive.enabled')}",
                [table.name for table in session.catalog.listTables()],
            )
        )
        spark.conf.set("spark.sql.shuffle.partitions", "5")

    with settings_of(
        spark, {"spark.sql.shuffle.partitions": "3", "spark.sql.ansi.enabled": "false"}
    ):
        before = all_of(spark)
        rows = spark.readStream.schema("ts TIMESTAMP, v INT").option("maxFilesPerTrigger", 1)
        query = tidegate.sql(
            "SELECT count(*) AS n FROM r GROUP BY slidingwindow('ss', 10, 5)",
            settings=EVENT_TIME,
            r=rows.json(str(tmp_path / "in")),
        )
        assert query.schema.names == ["n"]
        given = SimpleNamespace(write=sink) if is_object else sink
        with query.start(sink=given, checkpoint=tmp_path / "checkpoint", once=True) as run:
            assert all_of(spark) == before
            started.set()
            run.await_termination()
        spark.conf.set("spark.sql.shuffle.partitions", "3")
        table = query.batch(r=spark.sql("SELECT TIMESTAMP '2026-01-01 00:00:00' AS ts, 1 AS v"))
        assert table.sparkSession._jsparkSession.equals(spark._jsparkSession)
        assert [row["n"] for row in table.collect()] == [1]
        assert all_of(spark) == before
    assert seen == [(1, [2], "3 true", []), (1, [2], "5 true", [])]


def test_a_start_does_not_show_in_the_session_that_sink_functions_see(spark: SparkSession) -> None:
    theirs = {"spark.sql.ansi.enabled": "false", "spark.sql.caseSensitive": "true"}
    spark = spark.newSession()
    mirror = Mirror(spark, pinned=False)

    def seen() -> list[str | None]:
        session = mirror.current()
        return [session.conf.get(name, None) for name in (*theirs, "spark.sql.tidegate.test")]

    with settings_of(spark, theirs):
        assert seen() == ["false", "true", None]
        spark.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")
        with starting(spark, {"spark.sql.tidegate.test": "of the start"}):
            assert spark.conf.get("spark.sql.tidegate.test") == "of the start"
            assert spark.conf.get("spark.sql.caseSensitive") == "false"
            assert seen() == ["false", "true", None]
            # What the user has set just before counts.
            assert mirror.current().conf.get("spark.sql.session.timeZone") == "Pacific/Kiritimati"
        assert seen() == ["false", "true", None]


def test_the_tasks_of_a_shuffle_follow_the_setting_of_the_user_else_the_cores(
    spark: SparkSession,
) -> None:
    with settings_of(spark, {PARTITIONS: "3"}):
        assert most_tasks(spark) == 3
        spark.conf.unset(PARTITIONS)
        assert most_tasks(spark) == spark.sparkContext.defaultParallelism


def test_a_query_that_has_ended_is_let_go(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", 1, 22)
    rows = spark.readStream.schema("ts TIMESTAMP, v INT").json(str(tmp_path / "in"))
    query = tidegate.sql(
        "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('ss', 10)", settings=EVENT_TIME, r=rows
    )
    jvm: Any = spark._jvm
    callbacks = spark.sparkContext._gateway.gateway_property.pool
    kept = len(callbacks)
    weak = []
    for number in range(3):
        runs: list[tidegate.Run] = []
        run = query.start(
            sink=MemorySink(),
            checkpoint=tmp_path / f"checkpoint-{number}",
            once=True,
            # A watcher may know the handle.
            on_batch=lambda report, runs=runs: (report, runs),
        )
        runs.append(run)
        run.await_termination()
        for each in (run._batches.stepper._checkpoint.store.spark._jsparkSession, run.query._jsq):
            weak.append(jvm.java.lang.ref.WeakReference(each))
        del run, runs, each
    end = time.monotonic() + 60
    # A thread of Spark's may hold the session of the last start, until it has another one.
    with query.start(sink=MemorySink(), checkpoint=tmp_path / "last", once=True) as run:
        run.await_termination()
    while not all(each.refersTo(None) for each in weak) or len(callbacks) > kept + 1:
        assert time.monotonic() < end, [reference.refersTo(None) for reference in weak]
        gc.collect()
        jvm.java.lang.System.gc()
        time.sleep(0.1)


def test_the_docs_name_every_setting_that_does_not_count() -> None:
    told = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    section = told.partition("## Your session")[2].partition("\n## ")[0]
    for name in PINNED:
        assert f"`{name.removeprefix('spark.sql.')}`" in section
