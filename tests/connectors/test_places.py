"""Folders that meet: one table, asked by the configuration and by ``Query.start``."""

from __future__ import annotations

import pytest

from tidegate.config import parse_config
from tidegate.connectors.places import Place, Role, clashes
from tidegate.errors import ConfigError

SOURCE, SINK, CHECKPOINT = Role.SOURCE, Role.SINK, Role.CHECKPOINT


def met(first: tuple[Role, str], second: tuple[Role, str]) -> str | None:
    """Return what is wrong with two places in either order, None when nothing is."""
    one, other = (Place(role=role, name=role.value, path=path) for role, path in (first, second))
    found = [clash.what for clash in clashes([one, other])]
    assert len(found) == len(list(clashes([other, one])))
    return found[0] if found else None


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ((SINK, "/d/out"), (SINK, "/d/out/"), "are one folder"),
        ((SINK, "/d/out"), (SINK, "file:///d/x/../out"), "are one folder"),
        ((SINK, "/d/out"), (SINK, "/d/out/late"), "lies inside"),
        ((SINK, "/d/in/out"), (SOURCE, "/d/in"), "sink lies inside source: /d/in/out is in /d/in"),
        ((SINK, "/d"), (SOURCE, "/d/in"), "source lies inside sink: /d/in is in /d"),
        ((SINK, "/d/in"), (SOURCE, "/d/in"), "are one folder"),
        ((SINK, "/d/in/out"), (SOURCE, "/d/in/*"), "sink lies inside source"),
        ((SINK, "/d/in/out/x"), (SOURCE, "/d/{in,more}/o*"), "sink lies inside source"),
        ((SINK, "/d/in"), (SOURCE, "/d/in/*.json"), "source lies inside sink"),
        ((SINK, "/d/c/out"), (CHECKPOINT, "/d/c"), "sink lies inside checkpoint"),
        ((SINK, "/d/c/_out"), (CHECKPOINT, "/d/c"), "sink lies inside checkpoint"),
        ((SINK, "/d/out"), (CHECKPOINT, "/d/out/c"), "checkpoint lies inside sink"),
        ((SOURCE, "/d/in"), (CHECKPOINT, "/d/in/c"), "checkpoint lies inside source"),
        ((SOURCE, "/d/c/in"), (CHECKPOINT, "/d/c"), "source lies inside checkpoint"),
        ((SINK, "s3a://b/out"), (SINK, "s3://b//out/"), "are one folder"),
        ((SINK, "hdfs://n:9/o"), (CHECKPOINT, "hdfs://n:9/o/c"), "checkpoint lies inside sink"),
    ],
)
def test_places_that_meet_are_found(first, second, what):
    found = met(first, second)
    assert found is not None
    assert what in found


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((SINK, "/d/out"), (SINK, "/d/outer")),
        ((SINK, "/d/out"), (SOURCE, "/d/*.csv")),
        ((SINK, "/d/in/_out"), (SOURCE, "/d/in")),
        ((CHECKPOINT, "/d/out/.checkpoint"), (SINK, "/d/out")),
        ((SOURCE, "/d/in"), (SOURCE, "/d/in/more")),
        ((SINK, "s3a://b/out"), (SINK, "s3a://c/out")),
        ((SINK, "/b/out"), (SINK, "s3a://b/out")),
        ((SINK, "/d/a[1]"), (SINK, "/d/a1")),
    ],
)
def test_places_that_do_not_meet_are_let_through(first, second):
    assert met(first, second) is None


def test_links_are_followed(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "in")
    assert met((SINK, f"{tmp_path}/link/out"), (SOURCE, f"{tmp_path}/in")) is not None


def test_a_folder_that_has_wildcards_for_a_name_is_that_folder(tmp_path):
    (tmp_path / "in[1]").mkdir()
    assert met((SINK, f"{tmp_path}/in[1]/out"), (SOURCE, f"{tmp_path}/in[1]")) is not None
    assert met((SINK, f"{tmp_path}/in1/out"), (SOURCE, f"{tmp_path}/in[1]")) is None


PIPELINE = """\
[pipeline]
checkpoint = "checkpoint"
[sources.clicks]
format = "json"
path = "in"
[transforms.counts]
sql = "SELECT count(*) AS n FROM clicks GROUP BY tumblingwindow('ss', 10)"
side_output.late.sink = "late"
[sinks.out]
from = "counts"
format = "json"
path = "out"
[sinks.late]
format = "json"
path = "late"
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ('path = "late"', 'path = "out"', 15, "sinks.late and sinks.out are one folder"),
        ('path = "out"', 'path = "in/out"', 12, "sinks.out lies inside sources.clicks"),
        ('path = "out"', 'path = "checkpoint/o"', 12, "sinks.out lies inside the checkpoint"),
        ('= "checkpoint"', '= "in/c"', 2, "the checkpoint lies inside sources.clicks"),
        ('"json"\npath = "late"', '"csv"\npath = "late"', 14, "format csv cannot hold the records"),
    ],
)
def test_a_pipeline_file_names_both_at_the_line_of_the_wrong_one(tmp_path, old, new, line, what):
    assert old in PIPELINE
    file = tmp_path / "pipeline.toml"
    parse_config(PIPELINE, file)
    with pytest.raises(ConfigError) as refused:
        parse_config(PIPELINE.replace(old, new), file)
    assert str(refused.value).startswith(f"pipeline.toml, line {line}: ")
    assert what in str(refused.value)
    assert str(refused.value).count("pipeline.toml, line") == 1


def test_two_transforms_cannot_share_the_files_of_a_side_sink(tmp_path):
    more = """
[transforms.more]
sql = "SELECT count(*) AS n FROM clicks GROUP BY tumblingwindow('ss', 10)"
side_output.error.sink = "late"
[sinks.more]
from = "more"
format = "json"
path = "more"
"""
    with pytest.raises(ConfigError, match="sink late takes side output of counts and more"):
        parse_config(PIPELINE + more, tmp_path / "pipeline.toml")
