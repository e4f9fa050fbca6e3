"""Every public call answers a wrong argument in our words, before anything is written."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import tidegate as tg
from tidegate.cases import read_cases
from tidegate.connectors.sinks import CallbackSink, ConsoleSink, FileSink, MemorySink
from tidegate.engine.gate import Gate
from tidegate.engine.stream import Run

SQL = "SELECT count(*) AS n FROM clicks GROUP BY tumblingwindow('ss', 10)"
CLICKS = "ts TIMESTAMP, page STRING"
# As Spark Connect's own, whose packages need not be installed.
REMOTE = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
REMOTE_SESSION = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
OF_CONNECT = "of Spark Connect; Tidegate works in the driver of Spark"
UPDATE, MERGE = "sum({x}){filter}", "sum({p})"


def query() -> tg.Query:
    return tg.sql(SQL, clicks=CLICKS, settings={"event_time_field": "ts"})


def nothing(frame, epoch):
    """A function that may be a sink."""


def start(**changed):
    arguments = {"sink": "out", "checkpoint": "ckpt"} | changed
    return lambda: query().start(**arguments)


def sql(*text, **changed):
    return lambda: tg.sql(*(text or (SQL,)), **({"clicks": CLICKS} | changed))


def remote(url):
    return tg.local_session(options={"spark.remote": url})


def accumulator(name="total", **changed):
    texts = {"update": UPDATE, "merge": MERGE} | changed
    return lambda: tg.register_accumulator(name, **texts)


WRONG = [
    # sql
    (sql(None), "the statement is None, it must be text", 'tidegate.sql("SELECT'),
    (sql(5), "the statement is 5, it must be text", 'tidegate.sql("SELECT'),
    (sql(Path("q.sql")), "the statement is a path", "path.read_text()"),
    (sql(""), "the statement is empty", "Write SELECT"),
    (sql(" ;"), "the statement is empty", "Write SELECT"),
    (sql(settings="5s"), "settings is '5s', it must be a dict", 'settings={"watermark_lag": "5s"}'),
    (sql(settings={1: 2}), "the key 1 of settings is 1, it must be text", "settings={"),
    (sql(settings={"watermark_lag": 5}), "watermark_lag = 5: a duration is text with a unit", "5m"),
    (sql(settings={"lag": "5s"}), "there is no key lag", "watermark_lag"),
    (sql(streams=["clicks"]), "streams is a list, it must be a dict", 'streams={"clicks":'),
    (sql(streams={5: CLICKS}), "the name 5 in streams is 5", "name from the statement"),
    (
        sql(streams={"s": None}),
        "s is None, it must be a DataFrame of Spark, a schema or a query",
        "readStr",
    ),
    (sql(streams={"clicks": CLICKS}), "clicks is given twice", "once"),
    (
        sql(clicks=5),
        "clicks is 5, it must be a DataFrame of Spark, a schema or a query",
        "spark.readStream",
    ),
    (sql(clicks=""), "schema of clicks: a schema needs at least one column", ""),
    (sql(clicks="ts TIMESTAMPP"), "TIMESTAMPP is not a type", "TIMESTAMP"),
    (sql(clicks=pd.DataFrame()), "clicks is a DataFrame of pandas", "spark.readStream"),
    (sql(tables="t"), "tables is 't', it must be a dict", "tables={"),
    (sql(tables={"t": "v INT"}), "t is 'v INT', it must be a DataFrame", "spark.read"),
    (sql(tables={"t": pd.DataFrame()}), "t is a DataFrame of pandas", "createDataFrame"),
    (sql(clicks=REMOTE), f"clicks is a DataFrame {OF_CONNECT}", "spark-submit"),
    (sql(clicks=None, streams={"clicks": REMOTE}), f"clicks is a DataFrame {OF_CONNECT}", "spark-"),
    (sql(clicks={"a": REMOTE}), f"a is a DataFrame {OF_CONNECT}", "spark-submit"),
    (sql(tables={"t": REMOTE}), f"t is a DataFrame {OF_CONNECT}", "spark-submit"),
    (sql(spark=REMOTE_SESSION), f"spark is a SparkSession {OF_CONNECT}", "local_session()"),
    (sql(spark="local"), "spark is 'local', it must be a SparkSession", "local_session()"),
    (sql(origin=None), "origin is None, it must be text", "name the statement"),
    # start
    (lambda: query().start(checkpoint="ckpt"), "sink is missing", "Give a folder"),
    (lambda: query().start(sink="out"), "checkpoint is missing", 'checkpoint="checkpoint/flights"'),
    (start(sink=None), "sink is missing", "Give a folder"),
    (start(sink=""), "sink is empty", "Give a folder"),
    (start(sink=5), "sink: 5 is not a sink", "Give a folder"),
    (start(sink=MemorySink), "MemorySink'> is not a sink", "Write MemorySink(..)"),
    (start(sink=lambda: None), "sink is called with (frame, epoch)", "Give a function of (frame"),
    (start(sink=SimpleNamespace(write=lambda frame: None)), "sink: write is called", "(frame, ep"),
    (start(sink=pd.DataFrame()), "is not a sink", "Give a folder"),
    (start(sink="in.txt"), "sink='in.txt': in.txt is a file", "Name a folder"),
    (start(sink="in.txt/out"), "in.txt is a file, so it can hold no folder", "another one"),
    (start(sink=FileSink(format="csv", path="in.txt/a/b")), "in.txt is a file", "another one"),
    (start(sink="s3b://bucket/out"), "s3b: is not a file system", "Did you mean s3"),
    (start(sink=Path("s3a://bucket/out")), "pathlib leaves out a slash", '"s3a://bucket/out"'),
    (start(late=5), "late: 5 is not a sink", "Give a folder"),
    (start(late=Path("in.txt")), "in.txt is a file", "Name a folder"),
    (start(errors=""), "errors is empty", "Give a folder"),
    (start(errors="in.txt/x"), "in.txt is a file", "another one"),
    (start(evicted=tg.SideOutput(5)), "evicted: 5 is not a sink", "Give a folder"),
    (start(late=tg.SideOutput("o", timeout=5)), "late: timeout is 5, it must be text", '"5s"'),
    (start(late=tg.SideOutput("o", timeout="5")), "late: timeout: '5' is not a", '"5s"'),
    (start(late=tg.SideOutput("o", timeout="0s")), "it must be greater than 0", '"5s"'),
    (start(errors=tg.SideOutput("o", rate_limit=0)), "errors: rate_limit is 0", "leave it out"),
    (start(late=tg.SideOutput("o", include_original=1)), "late: include_original is 1", "True or"),
    (start(checkpoint=None), "checkpoint is missing", "e.g. checkpoint="),
    (start(checkpoint=""), "checkpoint is empty", "e.g. checkpoint="),
    (start(checkpoint="  "), "checkpoint is empty", "e.g. checkpoint="),
    (start(checkpoint=5), "checkpoint is 5, it must be a path", "e.g. checkpoint="),
    (start(checkpoint=b"ckpt"), "checkpoint is b'ckpt', it must be", "e.g. checkpoint="),
    (start(checkpoint="a\0b"), "has no NUL characters", "e.g. checkpoint="),
    (start(checkpoint="in.txt"), "checkpoint='in.txt': in.txt is a file", "Name a folder"),
    (start(checkpoint=Path("in.txt")), "in.txt is a file", "Name a folder"),
    (start(checkpoint="in.txt/ckpt"), "in.txt is a file, so it can hold no folder", "another one"),
    (start(checkpoint="hdsf://host/ckpt"), "hdsf: is not a file system", "Did you mean hdfs:?"),
    (start(trigger="abc"), "trigger: 'abc' is not a duration", 'trigger="1s"'),
    (start(trigger=""), "trigger: '' is not a duration", 'trigger="1s"'),
    (start(trigger=5), "trigger is 5, it must be text with a unit", 'trigger="1s"'),
    (start(trigger="-1s"), "is negative", 'trigger="1s"'),
    (start(trigger="999999999999999999d"), "is too long", 'trigger="1s"'),
    (start(once="yes"), "once is 'yes'", "Give once=True or once=False."),
    (start(name=5), "name is 5, it must be text", 'name="flights"'),
    (start(name=""), "name is empty", 'name="flights"'),
    (start(on_batch="x"), "on_batch is 'x', it must be a function", "Give a function of (report)."),
    (start(on_batch=lambda: None), "on_batch is called with (report)", "function of (report)"),
    (start(), "clicks is not a streaming DataFrame", "spark.readStream"),
    # the other methods of a query
    (lambda: query().explain("yaml"), "form is 'yaml'", 'form="text" or form="json"'),
    (lambda: query().explain(None), "form is None", 'form="text" or form="json"'),
    (lambda: query().check_types(["clicks"]), "frames is a list, it must be a dict", "frames={"),
    (lambda: query().check_types({"clicks": 5}), "clicks is 5, it must be a DataFrame", "spark."),
    (lambda: query().batch(), "batch needs a static DataFrame", "query.batch(clicks=spark.read"),
    (lambda: query().batch(clicks=None), "clicks is None, it must be a DataFrame", "spark.read"),
    (lambda: query().batch(clicks="in"), "clicks is 'in', it must be a DataFrame", "spark.read"),
    (lambda: query().batch(clicks=REMOTE), f"clicks is a DataFrame {OF_CONNECT}", "spark-submit"),
    (
        lambda: query().check_types({"clicks": REMOTE}),
        f"clicks is a DataFrame {OF_CONNECT}",
        "spark",
    ),
    (lambda: query().batch(click=1), "the statement does not read click", "Did you mean clicks?"),
    (lambda: query().batch_errors(x=1), "the statement does not read x", "reads clicks."),
    # sinks
    (lambda: FileSink(format="xml", path="out"), "'xml' is not a file format", "parquet, json"),
    (lambda: FileSink(format=None, path="out"), "None is not a file format", "parquet, json"),
    (lambda: FileSink(format="csv", path=""), "FileSink: path is empty", 'path="results"'),
    (lambda: FileSink(format="csv", path=None), "FileSink: path is missing", 'path="results"'),
    (lambda: FileSink(format="csv", path=5), "FileSink: path is 5", 'path="results"'),
    (lambda: FileSink(format="csv", path="o", options="x"), "options is 'x'", "options={"),
    (lambda: ConsoleSink(rows=-1), "rows is -1", "rows=20"),
    (lambda: ConsoleSink(rows="all"), "rows is 'all'", "rows=20"),
    (lambda: CallbackSink("f"), "'f' is not a function", "(frame, epoch)"),
    (lambda: MemorySink().frame(), "the memory sink is empty", "Wait for a window to close"),
    # the session and accumulators
    (lambda: tg.local_session(0), "cores is 0", 'cores="*"'),
    (lambda: tg.local_session("all"), "cores is 'all'", 'cores="*"'),
    (lambda: tg.local_session(True), "cores is True", 'cores="*"'),
    (lambda: tg.local_session(options="x"), "options is 'x', it must be a dict", "options={"),
    (lambda: tg.local_session(options={"master": "x"}), "'master' is not an option", "spark.sql"),
    (lambda: tg.local_session(options={"spark.x": None}), "spark.x is None", "options={"),
    (
        lambda: remote("sc://h:1/;token=x"),
        'spark.remote = "sc://h:1/" asks for Spark Connect',
        "spark-",
    ),
    (lambda: remote(True), 'spark.remote = "true" asks for Spark Connect', "Leave it out"),
    (accumulator(None), "name is None, it must be text", "register_accumulator('total'"),
    (accumulator("my total"), "'my total' is not a valid name", "letters, digits and _"),
    (accumulator("sum"), "there is an aggregate sum already", "another name"),
    (accumulator(update=None), "update is None, it must be text", "register_accumulator('total'"),
    (accumulator(merge=5), "merge is 5, it must be text", "register_accumulator('total'"),
    (accumulator(update="sum({x})"), "{filter} is missing", "sum({x}){filter}"),
    (accumulator(update="sum({q}){filter}"), "{q} is not a placeholder", "There are {x}"),
    (accumulator(evaluate=None), "evaluate is None, it must be text", "register_accumulator"),
]


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    (tmp_path / "in.txt").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("call", "what", "mend"), WRONG)
def test_a_wrong_argument_is_refused_and_nothing_is_written(empty_folder, call, what, mend):
    with pytest.raises(tg.TidegateError) as caught:
        call()
    facts, _, advice = str(caught.value).partition("\n\n")
    assert what in facts
    assert mend in advice or mend in facts
    assert os.listdir(empty_folder) == ["in.txt"]


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("SPARK_REMOTE", "sc://h/;token=x", "SPARK_REMOTE=sc://h/ in the environment asks for"),
        ("SPARK_API_MODE", "connect", "SPARK_API_MODE=connect in the environment asks for"),
        ("SPARK_CONNECT_MODE_ENABLED", "1", "this process has a session of Spark Connect"),
    ],
)
def test_an_environment_that_asks_for_spark_connect_is_refused(monkeypatch, name, value, what):
    monkeypatch.setenv(name, value)
    with pytest.raises(tg.ConfigError) as caught:
        query().schema  # noqa: B018 - it starts a session
    assert what in str(caught.value)
    assert "start the program with spark-submit" in str(caught.value)


def test_a_folder_that_cannot_be_written_is_reported(empty_folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(tg.ConfigError, match="cannot be written"):
        query().start(sink="console", checkpoint="checkpoint")


def test_the_arguments_of_a_run_are_checked_and_it_goes_on():
    run = Run.__new__(Run)
    run._current, run._gate = SimpleNamespace(query=SimpleNamespace(isActive=True)), Gate()
    for call, what in (
        (lambda: run.stop(flush="yes"), "flush is 'yes'"),
        (lambda: run.stop(drain=None), "drain is None"),
        (lambda: run.await_termination("5"), "timeout is '5', it must be a number of seconds"),
        (lambda: run.await_termination(-1), "timeout is -1"),
        (lambda: run.await_termination(float("nan")), "timeout is nan"),
    ):
        with pytest.raises(tg.ConfigError) as caught:
            call()
        assert what in str(caught.value)
    with pytest.raises(tg.ExecutionError, match="the query is still running"):
        run.drain()


def test_a_path_may_be_text_or_of_pathlib(tmp_path):
    assert FileSink(format="csv", path=tmp_path / "out").path == str(tmp_path / "out")
    file = tmp_path / "a.case"
    file.write_text(f"case: one\n\nstream clicks\n  v INT\n\nquery\n  {SQL}\n\nerror\n  x\n")
    assert read_cases(str(file)) == read_cases(file)


def test_what_only_spark_can_tell_of_a_folder_is_told_in_a_line(spark, tmp_path):
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema(CLICKS).json(str(tmp_path / "in"))
    ready = tg.sql(SQL, clicks=stream, settings={"event_time_field": "ts"})
    good = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    for name, path, what in (
        ("sink", "nosuch://x/out", "sink='nosuch://x/out': Spark cannot reach it: No FileSystem"),
        ("late", "s3a://bucket/out", "late='s3a://bucket/out': Spark cannot reach it: Class"),
        ("checkpoint", "nosuch://x", "checkpoint='nosuch://x': Spark cannot reach it"),
        ("checkpoint", "/proc/nowhere/x", "the query did not start: Mkdirs failed to create"),
    ):
        with pytest.raises(tg.TidegateError) as caught:
            ready.start(**(good | {name: path}))
        assert str(caught.value).startswith(what)
        assert "\tat " not in str(caught.value)
        assert os.listdir(tmp_path) == ["in"]


def test_a_query_runs_with_paths_of_pathlib(spark, tmp_path):
    (tmp_path / "in").mkdir()
    rows = [f'{{"ts": "2026-01-01T10:00:{second}Z"}}\n' for second in ("01", "15")]
    (tmp_path / "in" / "rows.json").write_text("".join(rows))
    stream = spark.readStream.schema(CLICKS).json(str(tmp_path / "in"))
    ready = tg.sql(SQL, clicks=stream, settings={"event_time_field": "ts"})
    folders = {name: tmp_path / name for name in ("sink", "checkpoint", "late", "errors")}
    run = ready.start(**folders, once=True)
    assert run.await_termination(timeout=0) in (True, False)
    run.await_termination()
    assert [row.n for row in spark.read.parquet(str(tmp_path / "sink")).collect()] == [1]


def test_a_sink_that_cannot_be_written_is_told_in_a_line(spark, tmp_path):
    (tmp_path / "in").mkdir()
    rows = [f'{{"ts": "2026-01-01T10:00:{second}Z"}}\n' for second in ("01", "15")]
    (tmp_path / "in" / "rows.json").write_text("".join(rows))
    stream = spark.readStream.schema(CLICKS).json(str(tmp_path / "in"))
    ready = tg.sql(SQL, clicks=stream, settings={"event_time_field": "ts"})
    run = ready.start(sink="/proc/nowhere/out", checkpoint=tmp_path / "checkpoint", once=True)
    with pytest.raises(tg.ExecutionError) as caught:
        run.await_termination()
    first, *rest = str(caught.value).splitlines()
    assert first.startswith("the query stopped in a batch: ")
    assert "/proc/nowhere" in first
    assert len(rest) == 2
