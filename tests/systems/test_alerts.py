"""The alert rules of examples/monitoring, tested by Prometheus itself."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from systems.promtool import promtool

FOLDER = Path(__file__).parents[2] / "examples" / "monitoring"


def ask(*words: object, cwd: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [promtool(), *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_each_alert_fires_when_it_must_and_not_when_it_must_not():
    checked = ask("check", "rules", "alerts.yml")
    assert checked.returncode == 0, checked.stderr
    tested = ask("test", "rules", "alerts_test.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("> 0.05", "> 0.15"),
        (' or absent(up{job="tidegate"})', ""),
        ("rate(tidegate_rows_read_total[10m]) > 0\n", "tidegate_rows_read_total >= 0\n"),
        ("> 1e9", "> 1e10"),
        ("[10m])) > 60", "[10m])) > 200"),
        (">= 3", ">= 5"),
        ("dropped_total[10m]", "dropped_total[1h]"),
    ],
)
def test_the_tests_of_the_rules_notice_a_wrong_rule(tmp_path, old, new):
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    rules = tmp_path / "alerts.yml"
    text = rules.read_text()
    assert old in text
    rules.write_text(text.replace(old, new))
    assert ask("test", "rules", "alerts_test.yml", cwd=tmp_path).returncode != 0


def test_prometheus_parses_every_expression_of_the_dashboard(tmp_path):
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(shown) >= len(panels)
    rules = [
        {"record": f"panel:{place}", "expr": text.replace("$__rate_interval", "5m")}
        for place, text in enumerate(shown)
    ]
    file = tmp_path / "rules.json"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = ask("check", "rules", file)
    assert checked.returncode == 0, checked.stdout + checked.stderr
