"""``tidegate test``: whatever happens in one case, the others are run and the summary counts it."""

from __future__ import annotations

from click.testing import CliRunner

from tidegate import cases
from tidegate.cases import run, run_files
from tidegate.cli import main
from tidegate.errors import ConfigError

CASE = """
case: {name}

stream clicks
  v INT

query
  SELECT count(*) AS n FROM clicks GROUP BY countwindow(1)

error
  the very words
"""


def engine(case):
    match case.name:
        case "breaks":
            raise KeyError("lost")
        case "refused":
            raise ConfigError("the very words")
        case _:
            raise ConfigError("another")


def test_a_case_that_raises_fails_with_its_reason_and_the_rest_is_run(tmp_path):
    file = tmp_path / "a.case"
    file.write_text("".join(CASE.format(name=name) for name in ("breaks", "differs", "refused")))
    lines = []
    assert run_files([tmp_path / "nowhere.case", str(file)], engine, lines.append) == 3
    text = "\n".join(lines)
    assert f"FAIL {tmp_path}/nowhere.case\n" in text
    assert "FAIL breaks\n" in text
    assert "the case stopped with an error\n     KeyError: 'lost'" in text
    assert "FAIL differs\n" in text
    assert "ok   refused" in text
    assert lines[-1] == "1 passed, 3 failed"


def test_the_command_ends_with_exit_code_1_and_the_summary(tmp_path, monkeypatch):
    file = tmp_path / "a.case"
    file.write_text(CASE.format(name="breaks") + CASE.format(name="refused"))
    monkeypatch.setattr(run, "_local_spark", lambda: engine)
    assert cases.run_files is run_files
    result = CliRunner().invoke(main, ["test", str(file)])
    assert result.exit_code == 1
    assert result.stdout.endswith("ok   refused\n1 passed, 1 failed\n")
