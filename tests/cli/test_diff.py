"""``tidegate explain --diff``: a changed query against an old checkpoint, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from inspection.checkpoints import put_segment
from state.manifests import local_files, manifest
from tidegate.cli import main
from tidegate.compile import compile_statement
from tidegate.plan.schema import parse_schema
from tidegate.plan.settings import Settings
from tidegate.plan.statement import Relation
from tidegate.state.manifest import Tables
from tidegate.state.plan_file import plan_file

SQL = "SELECT k, sum(v) AS s FROM r GROUP BY tumblingwindow('ss', 10), k ON ts"
SCHEMA = "ts TIMESTAMP, k INT, v INT"
STATE = {"_pane": "bigint", "_k0": "int"}


def put_checkpoint(folder: Path, sql: str = SQL) -> None:
    """Write the checkpoint of a query, as its first batch does."""
    relation = Relation(name="r", columns=parse_schema(SCHEMA), streaming=True)
    plan = compile_statement(sql, [relation], Settings()).physical
    files = local_files(folder)
    files.put_if_absent("plan.json", plan_file(plan).to_json())
    tables = Tables(windows=(put_segment(folder, "0-aa-batch", [{"_pane": 0, "_k0": 1}]),))
    written = manifest(0, fingerprint=plan.fingerprint, tables=tables, schema=STATE)
    files.put_if_absent("manifests/0.json", written.to_json())


def diff(folder: Path, sql: str, *arguments: str, schema: str | None = SCHEMA) -> Any:
    given = ["--schema", schema] if schema is not None else []
    place = ["--diff", "--checkpoint", str(folder), "--sql", sql, *given]
    return CliRunner().invoke(main, ["explain", *place, *arguments])


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    put_checkpoint(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sum(v) AS s", "2 * SUM(v) AS twice"),
        ("FROM r", "FROM r WHERE v > 0"),
        (", k ON", ", k HAVING sum(v) > 1 ON"),
        ("ON ts", "ON ts WATERMARK (INTERVAL '5' SECOND, ALLOWED LATENESS INTERVAL '1' MINUTE)"),
    ],
)
def test_what_does_not_shape_the_state_may_change(old: str, new: str, checkpoint: Path) -> None:
    result = diff(checkpoint, SQL.replace(old, new))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"query: fits {checkpoint}, epoch 0\n")
    assert "\n  the select list, HAVING, ORDER BY, LIMIT\n" in result.stdout


@pytest.mark.parametrize(
    ("change", "what", "values"),
    [
        (("'ss', 10", "'mi', 1"), "window", ('size="10s"', 'size="1m"')),
        (("ON ts", "ON ts + INTERVAL '1' SECOND"), "event_time", ("ts", "ts + INTERVAL")),
        (("sum(v)", "sum(v), max(v)"), "accumulators", ("sum(v)", "max(v), sum(v)")),
        (("sum(v)", "listagg(v)"), "accumulators", ("sum(v)", "whole rows, with v")),
        (("k, sum", "sum"), "keys", ('["k"]', "[]")),
    ],
)
def test_what_shapes_the_state_is_named_with_both_values(
    change: tuple[str, str], what: str, values: tuple[str, str], checkpoint: Path
) -> None:
    sql = SQL.replace(*change)
    result = diff(checkpoint, sql.replace(", k ON", " ON") if what == "keys" else sql, "--json")
    assert result.exit_code == 1, result.output
    answer = json.loads(result.stdout)
    (found,) = answer["differences"]
    assert (answer["fits"], found["what"]) == (False, what)
    assert values[0] in found["in_checkpoint"]
    assert values[1] in found["in_query"]


def test_a_difference_is_printed_as_a_start_prints_it(checkpoint: Path) -> None:
    result = diff(checkpoint, SQL.replace("10", "20"))
    assert result.stdout.startswith(
        f"query: does not fit {checkpoint}, epoch 0; this differs: window\n\n"
        '  window: tumbling size="10s" offset="0s"  in the checkpoint\n'
        '          tumbling size="20s" offset="0s"  in the query\n\n'
        "Start the changed query with a new checkpoint, or change it back.\n"
    )


@pytest.mark.parametrize(("type_", "fits"), [("BIGINT", True), ("STRING", False)])
def test_a_key_may_become_wider_only(type_: str, fits: bool, checkpoint: Path) -> None:
    result = diff(checkpoint, SQL, "--json", schema=SCHEMA.replace("k INT", f"k {type_}"))
    answer = json.loads(result.stdout)
    assert answer["fits"] is fits
    told = [(each["what"], each["in_query"]) for each in answer["differences"]]
    assert told == ([] if fits else [("type of k", "string")])


def test_the_type_of_an_argument_decides_how_it_is_accumulated(checkpoint: Path) -> None:
    result = diff(checkpoint, SQL, schema=SCHEMA.replace("v INT", "v BIGINT"))
    assert result.exit_code == 1
    assert "this differs: accumulators" in result.stdout


def test_what_depends_on_unknown_types_is_left_to_the_start(checkpoint: Path) -> None:
    result = diff(checkpoint, SQL, schema=None)
    assert result.exit_code == 0
    assert "only a start can compare accumulators: the types of v decide\n" in result.stdout
    assert "compare event_time: the types of the columns of r decide\n" in result.stdout
    # Another aggregate is another one whatever its type.
    assert diff(checkpoint, SQL.replace("sum", "max"), schema=None).exit_code == 1


def test_a_pipeline_is_compared_with_its_own_checkpoint(tmp_path: Path) -> None:
    put_checkpoint(tmp_path / "ckpt" / "sums")
    file = tmp_path / "pipeline.toml"
    file.write_text(
        f"""
        [pipeline]
        checkpoint = "ckpt"
        [sources.r]
        format = "json"
        path = "in"
        schema = "{SCHEMA}"
        [transforms.sums]
        sql = "{SQL}"
        [transforms.new]
        sql = "{SQL}"
        [sinks.a]
        from = "sums"
        format = "console"
        [sinks.b]
        from = "new"
        format = "console"
        """
    )
    result = CliRunner().invoke(main, ["explain", "--diff", str(file)])
    assert result.exit_code == 0, result.output
    fits, new = result.stdout.splitlines()[:2]
    assert fits == f"sums: fits {tmp_path / 'ckpt/sums'}, epoch 0"
    assert new == f"new: {tmp_path / 'ckpt/new'} holds no state: a start begins there"


def test_ticks_cannot_be_added(checkpoint: Path) -> None:
    (checkpoint / "offsets").mkdir()
    (checkpoint / "offsets" / "0").write_text('v1\n{}\n{"logOffset":0}')
    result = diff(checkpoint, SQL, "--set", "idle_timeout=5s")
    assert result.exit_code == 1
    assert "  sources: without ticks  in the checkpoint\n" in result.stdout


def test_ticks_cannot_be_added_by_a_transform_below_or_beside(tmp_path: Path) -> None:
    put_checkpoint(tmp_path / "ckpt" / "sums")
    (tmp_path / "ckpt" / "sums" / "offsets").mkdir()
    (tmp_path / "ckpt" / "sums" / "offsets" / "0").write_text('v1\n{}\n{"logOffset":0}')
    below = "SELECT count(*) AS n FROM sums GROUP BY tumblingwindow('mi', 1)"
    file = tmp_path / "pipeline.toml"
    for more in (
        f'sql = "{below}"\ntime = "processing"',
        f'sql = "{SQL}"\nreads_with = "sums"\nidle_timeout = "5s"',
        f'sql = "{SQL}"',
    ):
        file.write_text(
            f"""
            [pipeline]
            checkpoint = "ckpt"
            [sources.r]
            format = "json"
            path = "in"
            schema = "{SCHEMA}"
            [transforms.sums]
            sql = "{SQL}"
            [transforms.more]
            {more}
            [sinks.out]
            from = "more"
            format = "console"
            [sinks.sums]
            from = "sums"
            format = "console"
            """
        )
        result = CliRunner().invoke(main, ["explain", "--diff", str(file)])
        needs = "time" in more
        assert result.exit_code == needs, result.output
        assert ("  sources: without ticks  in the checkpoint\n" in result.stdout) == needs


def test_a_statement_needs_a_checkpoint() -> None:
    for given in (["--diff"], ["--checkpoint", "x"]):
        result = CliRunner().invoke(main, ["explain", "--sql", SQL, *given])
        assert result.exit_code == 2
        assert "--checkpoint" in result.stderr
