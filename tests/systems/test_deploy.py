"""examples/deploy with the systems that this machine has: systemd, and Spark's own launcher."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark

from cli.test_spark_commands import FILES, OF_THE_SESSION, PIPELINE
from short_lived import SHORT_LIVED

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    assert shutil.which("systemd-analyze"), "this test needs systemd (apt install systemd)"
    text = (DEPLOY / "tidegate@.service").read_text()
    # Only the program must be on this machine.
    program = shutil.which("true")
    file = tmp_path / "tidegate@delays.service"
    file.write_text(text.replace("/opt/tidegate/bin/tidegate", program))

    def verified() -> str:
        ended = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", file],
            capture_output=True,
            text=True,
            check=False,
        )
        return ended.stderr + ("" if ended.returncode == 0 else f"code {ended.returncode}")

    assert verified() == ""
    file.write_text(file.read_text().replace("RestartSec=30s", "RestartSec=soon"))
    assert "soon" in verified()


def test_spark_submit_runs_a_pipeline_by_the_script(tmp_path):
    text = PIPELINE.replace(OF_THE_SESSION, "").replace("max_files_per_trigger = 1", "")
    (tmp_path / "pipeline.toml").write_text(text)
    (tmp_path / "in").mkdir()
    for place, rows in enumerate(FILES):
        lines = (f'{{"ts": "2026-01-01T{ts}Z", "page": "{page}"}}\n' for ts, page in rows)
        (tmp_path / "in" / f"{place}.json").write_text("".join(lines))
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = ("--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=1")
    words = ("run", "pipeline.toml", "--once", "--drain", "--log-format", "json")
    ended = subprocess.run(
        [submit, *options, DEPLOY / "run_pipeline.py", *words],
        cwd=tmp_path,
        env={
            **SHORT_LIVED,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    assert [line["event"] for line in lines] == ["batch", "drain"]
    assert sum(line["rows_in"] for line in lines) == 5
    assert list((tmp_path / "out").rglob("*.json"))
