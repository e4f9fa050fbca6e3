"""``tidegate init`` writes a pipeline that ``check`` accepts, without Spark."""

from __future__ import annotations

import gzip
import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from tidegate.cli import main

if TYPE_CHECKING:
    from click.testing import Result

CLICKS = [
    {"ts": f"2026-01-01T10:00:0{n}Z", "user": "ann" if n % 2 else "bob", "id": n, "ms": n + 0.5}
    for n in range(6)
]


def init(sample: Path, *arguments: Any) -> Result:
    return CliRunner().invoke(main, ["init", str(sample), *map(str, arguments)])


def made_of(sample: Path) -> dict[str, Any]:
    """The pipeline for a sample; ``check`` accepts it."""
    output = sample.parent.parent / "pipeline.toml"
    result = init(sample, "--output", output)
    assert (result.exit_code, result.stderr) == (0, "")
    checked = CliRunner().invoke(main, ["check", str(output)])
    assert (checked.exit_code, checked.stderr) == (0, "")
    return tomllib.loads(output.read_text())


def put_json(folder: Path, records: list[dict[str, Any]], name: str = "clicks.json") -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text("\n".join(map(json.dumps, records)))
    return file


def test_a_pipeline_of_json_counts_by_a_repeated_text_and_averages_a_number(
    tmp_path: Path,
) -> None:
    made = made_of(put_json(tmp_path / "in", CLICKS))
    source = made["sources"]["clicks"]
    assert (source["format"], source["path"]) == ("json", "in/*.json")
    assert source["schema"] == "ts TIMESTAMP, user STRING, id BIGINT, ms DOUBLE"
    (transform,) = made["transforms"].values()
    assert transform["event_time_field"] == "ts"
    assert "avg(ms) AS average_ms" in transform["sql"]
    assert transform["sql"].endswith("FROM clicks\nGROUP BY tumblingwindow('mi', 1), user\n")
    assert {sink.get("from") for sink in made["sinks"].values()} == {"clicks_per_minute", None}


def test_types_of_csv_are_found_in_the_text(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "days.csv.gz"
    text = "day,at time,n,x,ok,a b\n" + "".join(
        f"2026-0{m}-01,2026-0{m}-01 10:00:00,{m},{'' if m > 1 else 1.5},true,z\n"
        for m in range(1, 7)
    )
    file.write_bytes(gzip.compress(text.encode()))
    made = made_of(file)
    source = made["sources"]["days"]
    assert source["schema"] == (
        "day DATE, `at time` TIMESTAMP, n BIGINT, x DOUBLE, ok BOOLEAN, `a b` STRING"
    )
    assert (source["path"], source["options"]) == ("in/*.csv.gz", {"header": True})
    # Half a year of rows is counted by the day.
    (transform,) = made["transforms"].values()
    assert transform["sql"].endswith("GROUP BY tumblingwindow('dd', 1), `a b`\n")


def test_a_number_called_like_a_time_is_the_event_time_with_its_unit(tmp_path: Path) -> None:
    records = [{"event_time": 1_767_225_600_000 + n, "v": n} for n in range(3)]
    (transform,) = made_of(put_json(tmp_path / "in", records))["transforms"].values()
    assert (transform["event_time_field"], transform["event_time_unit"]) == ("event_time", "ms")


def test_without_a_time_windows_are_by_the_time_of_processing(tmp_path: Path) -> None:
    made = made_of(put_json(tmp_path / "in", [{"v": 1, "l": [1, 2.5], "s": {"a": None}}]))
    (transform,) = made["transforms"].values()
    assert transform["time"] == "processing"
    (source,) = made["sources"].values()
    assert source["schema"] == "v BIGINT, l ARRAY<DOUBLE>, s STRUCT<`a`: STRING>"


def test_a_folder_of_parquet(tmp_path: Path) -> None:
    folder = tmp_path / "2026 clicks"
    folder.mkdir()
    rows = [{"at": datetime(2026, 1, 1, 10, n, tzinfo=UTC), "n": n} for n in range(3)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "a.parquet")
    made = made_of(folder / "a.parquet")
    assert made["sources"]["a"]["schema"] == "at TIMESTAMP, n BIGINT"
    (tmp_path / "pipeline.toml").unlink()
    result = init(folder, "--output", tmp_path / "pipeline.toml")
    assert result.exit_code == 0, result.output
    made = tomllib.loads((tmp_path / "pipeline.toml").read_text())
    assert made["sources"]["rows_2026_clicks"]["path"] == "2026 clicks"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    sample = put_json(tmp_path / "in", CLICKS)
    output = tmp_path / "pipeline.toml"
    output.write_text("mine")
    result = init(sample, "--output", output)
    assert (result.exit_code, output.read_text()) == (1, "mine")
    assert result.stderr.startswith(f"{output} exists\n")


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("x.txt", "a", "is not of a known format"),
        ("x.csv", "1,2\n3,4\n", "the first line is no header: 1, 2"),
        ("x.csv", "a,b\n", "has no records"),
        ("x.json", "[1]\n", "record 1 is not a JSON object"),
        ("x.json", "", "has no records"),
        ("x.parquet", "PAR1", "cannot be read: "),
        ("x.json.gz", "a", "cannot be read: "),
    ],
)
def test_a_sample_that_cannot_be_used_is_told(
    name: str, text: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    result = init(tmp_path / name, "--output", tmp_path / "pipeline.toml")
    assert result.exit_code == 1
    assert told in result.stderr
    assert "This is a bug" not in result.stderr
    assert not (tmp_path / "pipeline.toml").exists()


def test_a_sample_that_is_not_there(tmp_path: Path) -> None:
    result = init(tmp_path / "x.csv")
    assert (result.exit_code, result.stderr.split("\n")[0]) == (
        1,
        f"{tmp_path / 'x.csv'} does not exist",
    )
