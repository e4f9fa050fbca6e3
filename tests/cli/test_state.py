"""``tidegate state`` on checkpoints that were written without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import tidegate
from inspection.checkpoints import put_clicks
from tidegate.cases.stepper import CaseStepper
from tidegate.cli import main
from tidegate.state.intents import Intent, StepKind, put_intent
from tidegate.state.manifest import MANIFEST_VERSION
from tidegate.state.reader import StateReader

if TYPE_CHECKING:
    from click.testing import Result
    from pyspark.sql import SparkSession

SECOND_WINDOW = "1970-01-01T00:00:10Z/1970-01-01T00:00:20Z"


def state(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["state", *map(str, arguments)])


def read(*arguments: Any) -> Any:
    result = state(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    put_clicks(tmp_path)
    return tmp_path


def test_the_summary_shows_epoch_watermark_windows_and_sizes(checkpoint: Path) -> None:
    facts = read(checkpoint)
    assert facts["window"] == 'tumbling size="10s" offset="0s"'
    assert (facts["epoch"], facts["epochs"], facts["keys"]) == (1, [0, 1], ["user"])
    assert (facts["closed_up_to"], facts["open_windows"]) == ("1970-01-01T00:00:10Z", 2)
    assert facts["tables"]["windows"]["rows"] == 5
    assert facts["writer"]["host"] == "left"
    lines = state(checkpoint).stdout.splitlines()
    assert "epoch         1; kept are 0 to 1" in lines
    assert "writer        process 1 on left (since 2026-01-01T00:00:00+00:00)" in lines


def test_the_summary_shows_a_batch_that_is_taken_in(checkpoint: Path) -> None:
    assert read(checkpoint)["taken_batch"] is None
    reader = StateReader(checkpoint)
    newest = reader.manifest()
    intent = Intent(epoch=2, kind=StepKind.BATCH, batch_id=2, taken=replace(newest, epoch=2))
    put_intent(reader.every_file, intent, term=1)
    assert read(checkpoint)["taken_batch"] == 2
    assert (
        "taken in      batch 2: the query, or its next start, finishes it"
        in state(checkpoint).stdout.splitlines()
    )


def test_open_windows_are_listed(checkpoint: Path) -> None:
    assert state(checkpoint, "--windows").stdout == (
        "window                                     groups  state rows\n"
        "-----------------------------------------  ------  ----------\n"
        "1970-01-01T00:00:10Z/1970-01-01T00:00:20Z       2           3\n"
        "1970-01-01T00:00:20Z/1970-01-01T00:00:30Z       1           1\n"
    )
    assert read(checkpoint, "--windows")["windows"][0] == {
        "window": SECOND_WINDOW,
        "start": "1970-01-01T00:00:10Z",
        "end": "1970-01-01T00:00:20Z",
        "groups": 2,
        "state_rows": 3,
    }


def test_the_rows_of_a_window_are_shown_with_their_values_under_the_names_of_the_statement(
    checkpoint: Path,
) -> None:
    for window in (SECOND_WINDOW, "1970-01-01T00:00:10Z", "1970-01-01 00:00:10"):
        assert state(checkpoint, "--rows", window).stdout == (
            "user  count(*)  ndv(page)\n"
            "----  --------  -----------\n"
            "ann          5  needs Spark\n"
            "NULL         2  needs Spark\n"
            "ndv(page): only Spark can evaluate this, add --spark\n"
        )
    answer = read(checkpoint, "--rows", SECOND_WINDOW)
    assert answer["needs_spark"] == ["ndv(page)"]
    assert answer["rows"][0] == {
        "window": SECOND_WINDOW,
        "key": {"user": "ann"},
        "values": {"count(*)": 5, "ndv(page)": None},
    }


def test_a_window_that_is_not_open_or_no_window_is_refused(checkpoint: Path) -> None:
    result = state(checkpoint, "--rows", "1970-01-01T00:00:00Z")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{checkpoint} has no open window 1970-01-01T00:00:00Z\n")
    result = state(checkpoint, "--rows", "ten")
    assert result.exit_code == 2
    assert "--rows ten: write START or START/END" in result.stderr


def test_an_earlier_epoch_can_be_shown(checkpoint: Path) -> None:
    assert read(checkpoint, "--epoch", 0)["tables"]["windows"]["segments"] == 1
    result = state(checkpoint, "--epoch", 9)
    assert result.exit_code == 1
    assert "9.json cannot be read" in result.stderr


def test_segments_and_shards_are_listed(checkpoint: Path) -> None:
    first, second = read(checkpoint, "--segments")["segments"]
    assert (first["table"], first["segment"], first["rows"]) == ("windows", "0-aa-batch", 3)
    assert second["last"] == "1970-01-01T00:00:20Z"
    assert state(checkpoint, "--shards").stdout == "no shard has had a row with an event time\n"


def test_a_long_table_says_that_there_is_more(checkpoint: Path) -> None:
    shown = state(checkpoint, "--windows", "--limit", 1).stdout.splitlines()
    assert shown[-1] == "The first 1 of 2; --limit 0 prints all."


def test_a_pipeline_has_a_checkpoint_for_each_transform(tmp_path: Path) -> None:
    # A transform may be called as our own folder is.
    for name in ("clicks", "tidegate"):
        put_clicks(tmp_path / name)
    assert [answer["name"] for answer in read(tmp_path)] == ["clicks", "tidegate"]
    shown = state(tmp_path, "--windows").stdout.splitlines()
    assert [line for line in shown if line.startswith("-- ")] == ["-- clicks", "-- tidegate"]
    assert state(tmp_path, "--verify").stdout.startswith("clicks: ok, 2 manifests, 2 files, ")


def test_a_fault_of_any_checkpoint_makes_verify_fail(tmp_path: Path) -> None:
    for name in ("a", "b"):
        put_clicks(tmp_path / name)
    (tmp_path / "b/tidegate/segments/1-aa-batch/part-0.parquet").unlink()
    result = state(tmp_path, "--verify")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1:] == ["b: epoch 1: 1-aa-batch/part-0.parquet is missing"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--windows", "--shards"], "Give one of"),
        (["--spark"], "--spark goes with --rows"),
        (["--idle-timeout", "1s"], "--idle-timeout goes with --shards"),
        (["--stopped"], "--stopped goes with --rollback"),
        (["--shards", "--idle-timeout", "1"], "is not a duration"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    given: list[str], told: str, checkpoint: Path
) -> None:
    result = state(checkpoint, *given)
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_place_without_state_is_told(tmp_path: Path) -> None:
    result = state(tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"{tmp_path} holds no state: ")


def test_a_state_of_another_version_is_refused_by_name(checkpoint: Path) -> None:
    newest = checkpoint / "tidegate/manifests/1.json"
    newest.write_text(newest.read_text().replace(f'"version": {MANIFEST_VERSION}', '"version": 2'))
    result = state(checkpoint)
    assert result.exit_code == 1
    assert "1.json has state version 2, but this release reads version 3" in result.stderr


def test_without_pyarrow_what_needs_no_rows_is_shown(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.state.reader.find_spec", lambda name: None)
    assert read(checkpoint)["open_windows"] is None
    result = state(checkpoint, "--windows")
    assert result.exit_code == 1
    assert "pip install 'tidegate[state]'" in result.stderr


def test_neither_spark_nor_java_is_loaded(checkpoint: Path) -> None:
    code = (
        "import sys; from click.testing import CliRunner; from tidegate.cli import main\n"
        f"result = CliRunner().invoke(main, ['state', {str(checkpoint)!r}, '--windows'])\n"
        "print(result.exit_code, {'pyspark', 'py4j'} & set(sys.modules))"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "0 set()"


@pytest.mark.parametrize("given", [("--rollback", 0), ("--forget-shard", "x")])
def test_what_changes_a_pipeline_names_one_transform(tmp_path: Path, given: tuple[object]) -> None:
    for name in ("a", "b"):
        put_clicks(tmp_path / name)
    result = state(tmp_path, *given)
    assert result.exit_code == 2
    assert "takes the checkpoint of one transform" in result.stderr


def test_a_rollback_of_a_state_without_a_streaming_query_moves_only_our_files(
    checkpoint: Path,
) -> None:
    for name in checkpoint.glob("tidegate/manifests/*.json"):
        name.write_text(name.read_text().replace('"query_id": "q"', '"query_id": null'))
    answer = read(checkpoint, "--rollback", 0)
    assert answer["moved"] == {
        "tidegate": 1,
        "tidegate/manifests": 1,
        "tidegate/segments": 1,
    }
    assert read(checkpoint)["epochs"] == [0]
    (checkpoint / "tidegate/rollback.json").write_text(
        '{"version": 3, "epoch": 0, "from_epoch": 2, "folder": "rolled_back/x"}'
    )
    assert "unfinished    rollback to epoch 0: run it again" in state(checkpoint).stdout


def test_a_checkpoint_elsewhere_is_read_by_spark(
    tmp_path: Path, interpreted: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "pipeline" / "clicks"
    put_clicks(checkpoint)
    views = [[], ["--windows"], ["--rows", SECOND_WINDOW]]
    local = [state(checkpoint, *view).stdout for view in views]
    monkeypatch.setattr("tidegate.paths.local_path", lambda path: None)
    monkeypatch.setattr("tidegate.spark.session.local_session", lambda: interpreted)
    assert [state(checkpoint, *view).stdout for view in views] == local
    assert state(tmp_path / "pipeline", "--windows").stdout == local[1]
    assert state(checkpoint, "--verify").stdout.endswith("row counts not checked\n")
    (checkpoint / "tidegate/segments/1-aa-batch/part-0.parquet").unlink()
    assert "part-0.parquet is missing" in state(checkpoint, "--verify").stdout
    refused = state(checkpoint, "--rollback", 0)
    assert refused.exit_code == 1
    assert "is not on this machine, so it cannot be rolled back in place" in refused.stderr


CALLS = (
    "count(*), sum(v), sum(v * 1.5), avg(v), avg(v * 1.5), min(ts), max(v), first(v), last(v), "
    "stddev(v), median(v), mode(v), count(DISTINCT v), sum(DISTINCT v), "
    "avg(DISTINCT v * 1.5), sum(big), collect_list(v)"
)
ROWS = [(11, "a", 4), (13, "a", 2), (12, "b", 3), (18, "b", None), (14, "a", 2)]


def test_the_values_of_an_open_window_are_those_that_spark_emits_when_it_closes(
    interpreted: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = tidegate.sql(
        f"SELECT k, {CALLS}, ndv(v) FROM r GROUP BY tumblingwindow('ss', 10), k ON ts",
        streams={"r": "ts TIMESTAMP, k STRING, v INT, big BIGINT"},
        spark=interpreted,
    )
    stepper = CaseStepper(query, checkpoint=str(tmp_path / "ckpt"), partitions=2)
    for rows in (ROWS[:3], ROWS[3:]):
        frame = interpreted.createDataFrame(rows, "t INT, k STRING, v INT").selectExpr(
            "timestamp_seconds(t) AS ts", "k", "v", "v * 2000000000000000000 AS big"
        )
        stepper.batch(frame, 4_000_000_000_000_000)
    shown = read(tmp_path / "ckpt", "--rows", "1970-01-01T00:00:10Z")
    monkeypatch.setattr("tidegate.cli.state_spark.local_session", lambda: interpreted)
    by_spark = read(tmp_path / "ckpt", "--rows", "1970-01-01T00:00:10Z", "--spark")
    emitted = stepper.drain().rows
    assert len(shown["rows"]) == len(emitted) == 2
    by_key = {row["key"]["k"]: list(row["values"].values()) for row in shown["rows"]}
    for key, *values in emitted:
        assert [_text(each) for each in by_key[key][:-1]] == [_text(each) for each in values[:-1]]
    assert (shown["needs_spark"], by_spark["needs_spark"]) == (["ndv(v)"], [])
    estimates = {row["key"]["k"]: row["values"].pop("ndv(v)") for row in by_spark["rows"]}
    assert estimates == {row["k"]: row[-1] for row in emitted}
    for row in shown["rows"]:
        row["values"].pop("ndv(v)")
    assert by_spark["rows"] == shown["rows"]


def _text(value: Any) -> str:
    """A value as JSON shows it."""
    if isinstance(value, datetime):
        return value.isoformat() + "Z"
    return str(round(value, 9) if isinstance(value, float) else value)
