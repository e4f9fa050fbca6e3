"""Which transforms of a pipeline read their source together, by the file and by the checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidegate.cli.planning import in_company, plan_transform
from tidegate.cli.readings import Began, Checkpoints, Readings, readings_of
from tidegate.config import load_config
from tidegate.errors import ConfigError
from tidegate.state.files import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HEAD = """
[pipeline]
checkpoint = "checkpoint"
[sources.s]
format = "json"
path = "in"
schema = "ts TIMESTAMP, v INT"
[sources.t]
format = "json"
path = "other"
schema = "ts TIMESTAMP, v INT"
[sources.p]
format = "parquet"
path = "columns"
schema = "ts TIMESTAMP, v INT"
"""
SOURCES = ("s", "t", "p")
TRANSFORM = """
[transforms.{name}]
sql = "SELECT count(*) AS n FROM {source} GROUP BY tumblingwindow('ss', 10)"
event_time_field = "ts"
{settings}
[sinks.to_{name}]
from = "{name}"
format = "console"
"""


class Fake(Checkpoints):
    """Checkpoints of which is known how they began."""

    def __init__(self, began: Mapping[str, Began]) -> None:
        super().__init__(lambda name: LocalFiles(name))
        object.__setattr__(self, "began", began)

    def of(self, name: str) -> Began:
        return self.began.get(name, Began())  # type: ignore[attr-defined,no-any-return]

    def with_progress(self, query_id: str) -> str | None:
        found = self.began.items()  # type: ignore[attr-defined]
        return next((name for name, each in found if each.query_id == query_id), None)


LED = Began(query_id="q1", ran=True, state_of="q1")
BESIDE = Began(state_of="q1")
APART = Began(query_id="q2", ran=True, state_of="q2")


def readings(
    folder: Path, transforms: Mapping[str, str], began: Mapping[str, Began] | None = None
) -> Readings:
    """Return the queries of transforms: their settings by name, or the source that they read."""
    parts = [
        TRANSFORM.format(
            name=name,
            source={"inner": "(SELECT * FROM s)"}.get(settings, settings[-1:])
            if settings[-1:] in SOURCES or settings == "inner"
            else "s",
            settings="" if settings in (*SOURCES, "inner") else settings,
        )
        for name, settings in transforms.items()
    ]
    file = folder / "pipeline.toml"
    file.write_text(HEAD + "".join(parts))
    config = load_config(file)
    plans = [plan_transform(config, each) for each in config.transforms.values()]
    return readings_of(plans, config, Fake(began or {}))


def queries(found: Readings) -> list[tuple[str, ...]]:
    return [each.names for each in found.queries]


def test_transforms_that_begin_together_read_their_source_together(tmp_path: Path) -> None:
    found = readings(tmp_path, {"a": "", "b": "t", "c": "", "d": "inner"})
    assert queries(found) == [("a", "c"), ("b",), ("d",)]
    assert found.alone == {"d": "FROM does more than read it"}


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("reads_alone = true", "reads_alone is set"),
        ('error_policy = "null"', "its error_policy is not that of a"),
        (
            'idle_timeout = "1m"\nshard = "v"',
            "it needs ticks, and that is for all of a query",
        ),
    ],
)
def test_one_with_other_needs_has_a_query_of_its_own(
    tmp_path: Path, setting: str, why: str
) -> None:
    found = readings(tmp_path, {"a": "", "b": setting, "c": setting})
    together = [("b",), ("c",)] if "alone" in setting else [("b", "c")]
    assert queries(found) == [("a",), *together]
    assert found.alone.get("b") == (why if "alone" in setting else None)
    alone = readings(tmp_path, {"a": "", "b": setting})
    assert alone.alone["b"] == why


def test_rows_that_are_read_by_columns_are_not_kept_for_others_unless_asked(tmp_path: Path) -> None:
    found = readings(tmp_path, {"a": "p", "b": "p"})
    assert queries(found) == [("a",), ("b",)]
    assert found.alone["b"] == "rows of parquet are read again more quickly than they are kept"
    found = readings(tmp_path, {"a": "p", "b": 'reads_with = "a" # p'})
    assert (queries(found), found.alone) == ([("a", "b")], {})


def test_a_restart_finds_the_queries_in_any_order_of_the_file(tmp_path: Path) -> None:
    began = {"a": LED, "b": BESIDE, "c": APART}
    for order in ("abc", "cba", "bca"):
        found = readings(tmp_path, dict.fromkeys(order, ""), began)
        assert set(queries(found)) == {("a", "b"), ("c",)}
    assert found.alone == {
        "c": "it has begun by itself, and its checkpoint goes on so; to join a, end the pipeline "
        'once with --drain, delete the checkpoint of c, and set reads_with = "a"'
    }


def test_a_new_transform_does_not_join_a_query_that_has_committed_a_batch(tmp_path: Path) -> None:
    began = {"a": LED, "b": BESIDE}
    found = readings(tmp_path, {"new": "", "a": "", "b": "", "newer": ""}, began)
    assert set(queries(found)) == {("new", "newer"), ("a", "b")}
    found = readings(tmp_path, {"new": "", "a": "", "b": ""}, began)
    assert found.alone == {
        "new": "a has begun before it, and would bring it nothing of what came earlier; "
        'with reads_with = "a" it begins with the next batch'
    }
    found = readings(tmp_path, {"new": 'reads_with = "a"', "a": "", "b": ""}, began)
    assert queries(found) == [("a", "new", "b")]


def test_a_query_that_has_not_committed_a_batch_takes_new_transforms(tmp_path: Path) -> None:
    # One was killed in the first batch, before the step of the other.
    began = {"a": Began(query_id="q1", state_of="q1")}
    assert queries(readings(tmp_path, {"b": "", "a": ""}, began)) == [("a", "b")]


def test_what_is_left_of_a_query_goes_on_where_its_progress_is(tmp_path: Path) -> None:
    began = {"gone": LED, "b": BESIDE, "c": BESIDE}
    (reading,) = readings(tmp_path, {"b": "", "c": ""}, began).queries
    assert (reading.names, reading.progress) == (("b", "c"), "gone")
    # Without it the start of a query of its own is refused, since its state is of another one.
    (reading,) = readings(tmp_path, {"b": ""}, {"b": BESIDE}).queries
    assert (reading.names, reading.progress) == (("b",), "b")


def test_one_that_can_no_longer_be_part_of_its_query_is_refused_at_its_place(
    tmp_path: Path,
) -> None:
    began = {"a": LED, "b": BESIDE}
    for setting, why in (
        ("reads_alone = true", "reads_alone is set"),
        ("inner", "FROM does more than read it"),
        ("t", "it does not read s"),
    ):
        with pytest.raises(ConfigError) as error:
            readings(tmp_path, {"a": "", "b": setting}, began)
        told = str(error.value)
        assert told.startswith("pipeline.toml, line ")
        assert f"b cannot go on by itself: {why}, but its state is of the query" in told
        assert "end the pipeline once with --drain, delete checkpoint/b" in told.replace(
            f"{tmp_path}/", ""
        )


def test_checkpoints_say_how_their_transforms_began(tmp_path: Path) -> None:
    checkpoints = Checkpoints(lambda name: LocalFiles(str(tmp_path / name)))
    assert checkpoints.of("a") == Began()
    (tmp_path / "a" / "commits").mkdir(parents=True)
    (tmp_path / "a" / "metadata").write_text('{"id":"q1"}')
    assert checkpoints.of("a") == Began(query_id="q1")
    (tmp_path / "a" / "commits" / "0").write_text("v1\n{}")
    assert checkpoints.of("a") == Began(query_id="q1", ran=True)
    assert checkpoints.with_progress("q1") == "a"
    assert checkpoints.with_progress("q2") is None
    # A damaged one is a query of its own, whose start says what is damaged.
    (tmp_path / "a" / "metadata").write_text("")
    assert checkpoints.of("a").query_id == "unknown"


def test_explain_names_all_that_read_the_source(tmp_path: Path) -> None:
    found = readings(tmp_path, {"a": "", "b": "", "c": "reads_alone = true"})
    config = load_config(tmp_path / "pipeline.toml")
    plans = {
        name: in_company(plan_transform(config, config.transforms[name]), found) for name in "abc"
    }
    assert plans["a"].takers()[-1] == "its source is read together with b"
    assert plans["b"].takers()[-1] == "its source is read together with a"
    assert plans["c"].takers()[-1] == "its source is read for it alone: reads_alone is set"
    told = [(each.json()["reads_with"], each.json()["together"]) for each in plans.values()]
    assert told == [(None, ["b"]), ("a", ["a"]), (None, [])]
