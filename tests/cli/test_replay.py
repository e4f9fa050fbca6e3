"""``tidegate replay``: what late and mended rows add to the windows that they missed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidegate.cli import main

PIPELINE = """\
[pipeline]
checkpoint = "checkpoint"

[sources.clicks]
format = "json"
path = "in"
schema = "ts TIMESTAMP, page STRING, ms STRING"
max_files_per_trigger = 1

[transforms.counts]
sql = '''
SELECT page, count(*) AS n, sum(CAST(ms AS INT)) AS ms, window_id() AS id, emit_epoch() AS epoch
FROM clicks GROUP BY tumblingwindow('ss', 10), page HAVING count(*) > 1
'''
event_time_field = "ts"
side_output.late.sink = "unused"
side_output.error.sink = "unused"

[sinks.out]
from = "counts"
format = "json"
path = "out"

[sinks.unused]
format = "json"
path = "unused"
"""
FILES = (
    [("10:00:01", "a", 1), ("10:00:02", "a", 1), ("10:00:03", "a", "x"), ("10:00:12", "b", 1)],
    [("10:00:04.000005", "a", 7), ("10:00:05", "b", 5), ("10:00:06", "a", 3), ("10:00:25", "b", 1)],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    (tmp_path / "in").mkdir()
    for place, rows in enumerate(FILES):
        lines = (
            json.dumps({"ts": f"2026-01-01T{ts}Z", "page": page, "ms": str(ms)})
            for ts, page, ms in rows
        )
        file = tmp_path / "in" / f"{place}.json"
        file.write_text("\n".join(lines))
        os.utime(file, (1_000_000_000 + place,) * 2)
    return tmp_path


def lines(folder: Path) -> list[dict[str, object]]:
    files = sorted(folder.rglob("*.json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def replay(
    folder: Path, *more: str, into: str = "corrections", records: str = ""
) -> tuple[int, str]:
    records = records or f"{folder}/unused"
    words = ["replay", f"{folder}/pipeline.toml", records, "--into", f"{folder}/{into}"]
    result = CliRunner().invoke(main, [*words, "--format", "json", *more])
    return result.exit_code, result.output


@pytest.mark.usefixtures("spark")
def test_the_rows_of_a_side_output_are_run_again_as_corrections_of_their_windows(
    folder: Path,
) -> None:
    run = CliRunner().invoke(main, ["run", f"{folder}/pipeline.toml", "--once", "--drain"])
    assert run.exit_code == 0, run.output
    (emitted,) = (row for row in lines(folder / "out") if row["page"] == "a")
    assert (emitted["n"], emitted["ms"]) == (2, 2)

    assert replay(folder) == (
        0,
        "error: 1 rows run again\nlate: 3 rows run again\n"
        f"2 corrections in {folder}/corrections\nfailed again: 1 invalid_cast\n",
    )
    found = {str(row["page"]): row for row in lines(folder / "corrections")}
    assert (found["a"]["n"], found["a"]["ms"]) == (2, 10)
    assert found["a"]["corrects_window_id"] == found["a"]["id"] == emitted["id"]
    # HAVING is about whole windows: a single late row is a correction, too.
    assert (found["b"]["n"], found["b"]["corrects_group_key"]) == (1, {"page": "b"})
    assert found["b"]["corrects_window_start"] == "2026-01-01T10:00:00.000000Z"

    code, said = replay(folder)
    assert code == 1
    assert said.startswith(f"{folder}/corrections is not empty\n")
    code, said = replay(folder, "--kind", "evicted", into="none")
    assert code == 1
    assert said.startswith("there are no records of kind evicted\n")

    code, said = replay(folder, into="none", records="out")
    assert code == 1
    assert said == (
        "sinks.out takes results, not rows that could not be used\n\nSide sinks are unused.\n"
    )

    (folder / "pipeline.toml").write_text(PIPELINE.replace('path = "unused"', 'path = "nowhere"'))
    code, said = replay(folder, into="none", records="unused")
    assert code == 1
    assert said.startswith(f"{folder}/nowhere: there are no records\n")

    # The cause of the error is mended: what is no number is 0. The plan is another one now.
    mended = PIPELINE.replace("CAST(ms AS INT)", "coalesce(try_cast(ms AS INT), 0)")
    (folder / "pipeline.toml").write_text(mended)
    code, said = replay(folder, "--kind", "error", into="mended")
    assert code == 1
    assert "are not of this query, which is plan" in said
    assert "--any-plan" in said
    code, said = replay(folder, "--kind", "error", "--any-plan", into="mended", records="unused")
    assert code == 0, said
    (row,) = lines(folder / "mended")
    assert (row["n"], row["ms"], row["corrects_window_id"]) == (1, 0, emitted["id"])


def test_a_transform_that_is_not_there_is_told(folder: Path) -> None:
    code, said = replay(folder, "--transform", "count")
    assert code == 2
    assert "there is no such transform. Did you mean counts?" in said
    (folder / "pipeline.toml").write_text(
        PIPELINE.replace("[sinks.out]", "[transforms.b]\nsql = 'SELECT 1'\n\n[sinks.out]")
        + '[sinks.b]\nfrom = "b"\nformat = "console"\n'
    )
    code, said = replay(folder)
    assert code == 2
    assert "--transform is missing: pipeline.toml has counts and b" in said
