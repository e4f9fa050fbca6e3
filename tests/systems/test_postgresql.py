"""PostgreSQL as a sink: results are upserted by window and keys, so nothing is lost or doubled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from systems.flows import Flow, clicks, crashing
from tidegate import ConfigError, ExecutionError, JdbcSink
from tidegate.connectors import jdbc
from tidegate.connectors.transient import transient_cause

USERS = [("ann", "bob"), ("ann", "ann"), ("bob", None), ("dan",), (None, None, "eve")]
EXPECTED = sorted(
    [user or "~", str(users.count(user)), str(minute)]
    for minute, users in enumerate(USERS)
    for user in {*users}
)
SHOWN = "SELECT \"user\", n, extract(minute FROM s AT TIME ZONE 'UTC')::int FROM results"

TYPES_SQL = """
    SELECT count(*) AS n, CAST(max(v) AS DECIMAL(20, 4)) AS amount, max(ts) AS at,
      CAST(max(ts) AS TIMESTAMP_NTZ) AS local, CAST(max(ts) AS DATE) AS day, true AS yes,
      CAST('NaN' AS DOUBLE) AS nan, CAST(1.5 AS FLOAT) AS real, X'00FF' AS bytes,
      array('a"b', NULL, 'c,d') AS words, array(1L, NULL) AS numbers, 'it''s "x" \\u00e9' AS text,
      CAST(7 AS TINYINT) AS tiny, CAST(NULL AS INT) AS nothing, 9223372036854775807L AS big
    FROM r GROUP BY tumblingwindow('ss', 10) ON ts WATERMARK (INTERVAL '0' SECOND)
"""


@pytest.fixture
def flow(tmp_path):
    flow = Flow(folder=tmp_path)
    for minute, users in enumerate(USERS):
        flow.add(clicks(minute, *users))
    return flow


@pytest.fixture
def sink(postgres):
    """Return sinks of the table ``results``, which is not there at first."""
    postgres.sql("DROP TABLE IF EXISTS results, tidegate_owners")

    def make(*, create: bool = True, table: str = "results") -> JdbcSink:
        return JdbcSink(url=postgres.url, table=table, create=create, options=postgres.options)

    return make


def staged(postgres) -> list[list[str]]:
    return postgres.sql("SELECT relname FROM pg_class WHERE relname LIKE '\\_tidegate%'")


def test_a_query_that_fails_after_each_write_leaves_each_result_once(
    spark, flow, postgres, sink, monkeypatch
):
    left = crashing(monkeypatch, "after_results", range(1, 5))
    for _ in range(4):
        with pytest.raises(ExecutionError):
            flow.run(spark, sink())
    assert left == []
    flow.run(spark, sink(), drain=True)
    assert sorted(postgres.sql(SHOWN)) == EXPECTED
    assert staged(postgres) == []


@pytest.fixture
def restarting(postgres, monkeypatch):
    """Return a function by which the server restarts between staging and merging."""

    def arrange(mode: str) -> None:
        real, calls = jdbc.transaction, []

        def transaction(spark, options):
            calls.append(mode)
            # At a start the sink checks and opens; then it stages and merges.
            if len(calls) == 4:
                postgres.restart(mode)
            return real(spark, options)

        monkeypatch.setattr(jdbc, "transaction", transaction)

    return arrange


def test_a_server_that_restarts_while_rows_are_staged_doubles_nothing(
    spark, flow, postgres, sink, restarting
):
    restarting("fast")
    flow.run(spark, sink(), drain=True)
    assert sorted(postgres.sql(SHOWN)) == EXPECTED


def test_a_server_that_crashes_while_rows_are_staged_loses_nothing(
    spark, flow, postgres, sink, restarting
):
    """The staged rows are gone then; nothing of the epoch may be taken for written."""
    restarting("immediate")
    with pytest.raises(ExecutionError, match="lost its staged rows"):
        flow.run(spark, sink())
    assert postgres.sql(SHOWN) == []
    flow.run(spark, sink(), drain=True)
    assert sorted(postgres.sql(SHOWN)) == EXPECTED
    assert staged(postgres) == []


def test_a_server_that_is_away_is_a_failure_that_may_pass_and_a_wrong_password_is_none(
    spark, flow, postgres, sink
):
    postgres.stop()
    try:
        with pytest.raises(ConfigError, match="cannot be used") as away:
            flow.run(spark, sink())
    finally:
        postgres.start()
    assert transient_cause(away.value) == "database"
    stranger = JdbcSink(
        url=postgres.url, table="results", options={**postgres.options, "user": "nobody_here"}
    )
    with pytest.raises(ConfigError, match="cannot be used") as refused:
        flow.run(spark, stranger)
    assert transient_cause(refused.value) is None


def test_every_type_of_a_column_arrives(spark, tmp_path, postgres, sink):
    flow = Flow(folder=tmp_path, sql=TYPES_SQL)
    flow.add([{"ts": "1969-12-31T23:59:59.123456Z", "user": "a", "v": 12}])
    flow.run(spark, sink(), drain=True)
    columns = (
        "n, amount, extract(epoch FROM at), local, day, yes, nan, real, encode(bytes, 'hex'), "
        "words, numbers, text, tiny, nothing, big"
    )
    (row,) = postgres.sql(f"SELECT {columns} FROM results")
    assert row == [
        *("1", "12.0000", "-0.876544", "1969-12-31 23:59:59.123456", "1969-12-31", "t", "NaN"),
        *("1.5", "00ff", '{"a\\"b",NULL,"c,d"}', "{1,NULL}", 'it\'s "x" é', "7", "~"),
        "9223372036854775807",
    ]
    types = postgres.sql(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = 'results'::regclass AND attnum > 0"
    )
    assert dict(types)["amount"] == "numeric(20,4)"
    assert dict(types)["at"] == "timestamp with time zone"
    assert dict(types)["window_id"] == "text"


def test_columns_that_no_table_can_hold_are_refused_by_name(spark, tmp_path, sink):
    flow = Flow(
        folder=tmp_path,
        sql="SELECT struct(max(v) AS v) AS pair FROM r GROUP BY tumblingwindow('ss', 10) ON ts",
    )
    flow.add(clicks(0, "ann"))
    with pytest.raises(ConfigError, match="the column pair is STRUCT<V:BIGINT>"):
        flow.run(spark, sink())


def test_a_table_of_the_user_may_have_other_types_and_more_columns(spark, flow, postgres, sink):
    with pytest.raises(ConfigError, match="there is no table results") as refused:
        flow.run(spark, sink(create=False))
    assert "CREATE TABLE results (" in str(refused.value)
    postgres.sql(
        'CREATE TABLE results (id serial, "user" varchar(20), n integer, total numeric, '
        "S timestamptz, window_id text)"
    )
    with pytest.raises(ConfigError, match="no unique index on exactly window_id, user") as refused:
        flow.run(spark, sink(create=False))
    postgres.sql(str(refused.value).partition("Run: ")[2])
    flow.run(spark, sink(create=False), drain=True)
    assert sorted(postgres.sql(SHOWN)) == EXPECTED
    postgres.sql("ALTER TABLE results DROP COLUMN total")
    with pytest.raises(ConfigError, match="the table results has no column total"):
        flow.run(spark, sink(create=False))


def test_keys_that_are_not_selected_are_columns_too(spark, flow, postgres, sink, tmp_path):
    sql = """
        SELECT count(*) AS n FROM r GROUP BY tumblingwindow('ss', 10), user, v % 2 ON ts
        WATERMARK (INTERVAL '0' SECOND)
    """
    Flow(folder=tmp_path, sql=sql).run(spark, sink(), drain=True)
    found = Counter(row[0] for row in postgres.sql('SELECT "user" FROM results'))
    assert found["ann"] == 3
    assert found["~"] == 3


def test_rows_of_a_window_replace_those_of_an_earlier_attempt(
    spark, tmp_path, postgres, sink, monkeypatch
):
    sql = """
        SELECT user, v FROM r GROUP BY tumblingwindow('ss', 10) ON ts
        WATERMARK (INTERVAL '0' SECOND)
    """
    flow = Flow(folder=tmp_path, sql=sql)
    flow.add(clicks(0, "ann", "ann", None))
    flow.add(clicks(1, "bob"))
    crashing(monkeypatch, "after_results", [1])
    with pytest.raises(ExecutionError):
        flow.run(spark, sink())
    flow.run(spark, sink(), drain=True)
    rows = sorted(postgres.sql('SELECT "user", v FROM results'))
    assert rows == [["ann", "0"], ["ann", "1"], ["bob", "0"], ["~", "2"]]


def test_early_results_are_replaced_by_final_ones(spark, tmp_path, postgres, sink):
    sql = """
        SELECT user, count(*) AS n FROM r GROUP BY tumblingwindow('mi', 60), user ON ts
        WATERMARK (INTERVAL '0' SECOND) EMIT EARLY EVERY INTERVAL '1' SECOND
    """
    flow = Flow(folder=tmp_path, sql=sql)
    for minute in range(4):
        flow.add(clicks(minute, "ann", "bob"))
        flow.run(spark, sink())
    flow.run(spark, sink(), drain=True)
    found = postgres.sql('SELECT "user", n, is_final FROM results ORDER BY 1')
    assert found == [["ann", "4", "t"], ["bob", "4", "t"]]


def test_a_server_that_is_not_there_is_told_at_the_start(spark, flow):
    gone = JdbcSink(url="jdbc:postgresql://127.0.0.1:1/x?password=secret", table="t")
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:1/x cannot be used: .*refused") as refused:
        flow.run(spark, gone)
    assert "secret" not in str(refused.value)


def test_a_table_belongs_to_one_checkpoint(spark, flow, postgres, sink, tmp_path):
    flow.run(spark, sink())
    other = Flow(folder=tmp_path / "other")
    other.folder.mkdir()
    other.add(clicks(0, "ann"))
    with pytest.raises(ConfigError) as refused:
        other.run(spark, sink(table="public.results"))
    facts, _, mend = str(refused.value).partition("\n\n")
    assert facts.startswith(
        "the table public.results holds the results of another query: its owner is "
        f"checkpoint {flow.folder}/checkpoint (id "
    )
    assert list(other.folder.iterdir()) == [other.folder / "in"]
    postgres.sql(mend.partition("run: ")[2])
    other.run(spark, sink(), drain=True)
    assert len(postgres.sql("SELECT target FROM tidegate_owners")) == 1
    with pytest.raises(ConfigError, match="holds the results of another query"):
        flow.run(spark, sink())
    postgres.sql("DROP TABLE results")
    flow.run(spark, sink(), drain=True)


def test_a_query_stops_when_another_one_has_begun_to_write_to_its_table(
    spark, flow, postgres, sink
):
    other = flow.folder / "other"

    def at_batch(report) -> None:
        if report.batch_id == 1:
            postgres.sql("DELETE FROM tidegate_owners")
            run = flow.query(spark).start(sink=sink(), checkpoint=str(other), once=True)
            run.await_termination()
            run.stop(drain=True)

    with pytest.raises(ExecutionError) as stopped:
        flow.run(spark, sink(), on_batch=at_batch)
    assert f"the query with checkpoint {other} has begun to write to the table results, so" in str(
        stopped.value
    )
    assert sorted(postgres.sql(SHOWN)) == EXPECTED
    assert staged(postgres) == []


def test_a_checkpoint_that_was_restored_is_told_which_results_are_newer(
    spark, flow, postgres, sink, caplog
):
    checkpoint, saved = flow.folder / "checkpoint", flow.folder / "saved"
    flow.run(
        spark,
        sink(),
        on_batch=lambda report: report.batch_id == 1 and shutil.copytree(checkpoint, saved),
    )
    flow.run(spark, sink())
    assert "results up to epoch" not in caplog.text
    shutil.rmtree(checkpoint)
    saved.rename(checkpoint)
    flow.run(spark, sink(), drain=True)
    assert "results up to epoch 4, and the checkpoint ends at epoch 1, so it was" in caplog.text
    assert sorted(postgres.sql(SHOWN)) == EXPECTED


PIPELINE = '''
[pipeline]
checkpoint = "checkpoint"
spark.driver.extraJavaOptions = "-XX:TieredStopAtLevel=1"

[sources.r]
format = "json"
path = "in"
schema = "ts TIMESTAMP, user STRING, v BIGINT"

[tables.names]
format = "jdbc"
options.url = "{url}"
options.query = "SELECT 'ann' AS short, 'Ann Lee' AS name"
options.user = "${{PG_USER}}"

[transforms.counts]
sql = """
  SELECT user, name, count(*) AS n, window_start() AS s FROM r LEFT JOIN names ON user = short
  GROUP BY tumblingwindow('ss', 10), user, name ON ts WATERMARK (INTERVAL '0' SECOND)
"""

[sinks.out]
from = "counts"
format = "jdbc"
options.url = "{url}"
options.dbtable = "public.results"
options.create = true
options.user = "${{PG_USER}}"
'''


def test_a_pipeline_file_fetches_the_driver_and_writes_to_the_table(flow, postgres, sink):
    del sink
    file = flow.folder / "pipeline.toml"
    file.write_text(PIPELINE.format(url=postgres.url))
    command = [sys.executable, "-m", "tidegate", "run", str(file), "--once", "--drain"]
    environment = {**os.environ, "PG_USER": postgres.options["user"]}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert sorted(postgres.sql(SHOWN)) == EXPECTED
    names = postgres.sql("SELECT DISTINCT name FROM results WHERE \"user\" = 'ann'")
    assert names == [["Ann Lee"]]
