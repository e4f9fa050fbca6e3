"""The file sink on Spark: literal paths, epochs that appear whole, other file systems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tidegate
from tidegate import ConfigError, FileSink, MemorySink
from tidegate.connectors.ownership import OWNER_FILE, Owner, owner_of, take
from tidegate.spark.folders import HadoopFolder, LocalFolder, open_folder

ODD = "a [1] {x,y} b=c *?"
SQL = "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('ss', 10) ON ts"


@pytest.fixture
def stream(spark, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"ts": "2026-01-01T10:00:01Z"}\n')
    return spark.readStream.schema("ts TIMESTAMP").json(str(tmp_path / "in"))


def written(path: Path) -> dict[str, list[object]]:
    """Return the values of each epoch; hidden files are left out."""
    return {
        folder.name: [
            json.loads(line)["id"]
            for file in sorted(folder.glob("*.json"))
            for line in file.read_text().splitlines()
        ]
        for folder in sorted(path.iterdir())
        if folder.name.startswith("emit_epoch")
    }


def test_a_folder_is_taken_literally_and_a_replayed_epoch_replaces_the_one_before(spark, tmp_path):
    sink = FileSink(format="json", path=tmp_path / ODD)
    sink.open("a1", None)
    sink.write(spark.range(2), 0)
    sink.write(spark.range(2, 3), 1)
    sink.write(spark.range(5, 7).coalesce(1), 1)
    assert written(tmp_path / ODD) == {"emit_epoch=0": [0, 1], "emit_epoch=1": [5, 6]}
    sink.open("a1", 0)
    assert written(tmp_path / ODD) == {"emit_epoch=0": [0, 1]}
    assert sorted(each.name for each in (tmp_path / ODD).iterdir()) == [OWNER_FILE, "emit_epoch=0"]


def test_an_epoch_whose_files_are_not_complete_is_not_seen(spark, tmp_path):
    sink = FileSink(format="json", path=tmp_path)
    broken = spark.range(4).repartition(2).selectExpr("IF(id = 3, raise_error('x'), id) AS id")
    sink.write(spark.range(1), 0)
    with pytest.raises(Exception, match="x"):
        sink.write(broken, 0)
    with pytest.raises(Exception, match="x"):
        sink.write(broken, 1)
    assert written(tmp_path) == {"emit_epoch=0": [0]}


def test_a_folder_by_way_of_hadoop_does_what_a_local_one_does(spark, tmp_path):
    path = tmp_path / ODD
    place = spark._jvm.org.apache.hadoop.fs.Path(str(path))
    files = place.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    assert isinstance(open_folder(spark, str(path)), LocalFolder)
    for folder in (HadoopFolder(files, place, renames=True), LocalFolder(path)):
        mine = Owner(id="a1", checkpoint="/c")
        assert folder.names() == []
        take(folder, "out", mine, None)
        assert owner_of(folder) == mine
        assert not folder.put_if_absent(OWNER_FILE, "{}")
        for text in ("first", "second"):
            (path / "_staging" / "1-x").mkdir(parents=True)
            (path / "_staging" / "1-x" / "part").write_text(text)
            folder.replace("_staging/1-x", "emit_epoch=1")
        folder.delete_if_empty("_staging")
        folder.delete_if_empty("emit_epoch=1")
        assert (path / "emit_epoch=1" / "part").read_text() == "second"
        assert [n for n in folder.names() if not n.startswith(".")] == [OWNER_FILE, "emit_epoch=1"]
        take(folder, "out", mine, 0)
        folder.delete(OWNER_FILE)
        folder.delete("nothing")
        assert [n for n in folder.names() if not n.startswith(".")] == []


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"sink": "in/out"}, "sink lies inside r: "),
        ({"checkpoint": "in/c"}, "the checkpoint lies inside r: "),
        ({"late": "out"}, "late and sink are one folder: "),
        ({"late": "one", "errors": "one/two"}, "errors lies inside late: "),
        ({"sink": "c/out"}, "sink lies inside the checkpoint: "),
    ],
)
def test_folders_that_meet_are_refused_at_the_start(stream, tmp_path, change, what):
    query = tidegate.sql(SQL, r=stream)
    before = sorted(tmp_path.rglob("*"))
    given = {"sink": "out", "checkpoint": "c"} | change
    with pytest.raises(ConfigError) as refused:
        query.start(**{name: tmp_path / path for name, path in given.items()})
    assert str(refused.value).startswith(what)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_side_sink_that_cannot_hold_the_records_is_refused_at_the_start(stream, tmp_path):
    query = tidegate.sql(SQL, r=stream)
    flat = FileSink(format="csv", path=tmp_path / "late")
    with pytest.raises(ConfigError, match="errors: format csv cannot hold the records"):
        query.start(sink=MemorySink(), errors=flat, checkpoint=tmp_path / "c")
    nested = tidegate.sql(SQL.replace("SELECT ", "SELECT collect_list(ts) AS vs, ", 1), r=stream)
    with pytest.raises(ConfigError, match="sink: format csv cannot hold the column vs ARRAY<"):
        nested.start(sink=flat, checkpoint=tmp_path / "c")
    one = MemorySink()
    with pytest.raises(ConfigError, match="sink and late are the same MemorySink"):
        query.start(sink=one, late=one, checkpoint=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_a_query_that_starts_again_keeps_its_folder_and_a_new_checkpoint_is_refused(
    stream, tmp_path
):
    query = tidegate.sql(SQL, r=stream)
    for _ in range(2):
        run = query.start(sink=tmp_path / "out", checkpoint=tmp_path / "c", once=True)
        run.await_termination()
        run.drain()
    assert (tmp_path / "out" / OWNER_FILE).exists()
    with pytest.raises(ConfigError) as refused:
        query.start(sink=tmp_path / "out", checkpoint=tmp_path / "other")
    assert f"its owner is checkpoint {tmp_path}/c (id " in str(refused.value)
    assert not (tmp_path / "other").exists()


def test_a_folder_of_another_query_is_refused_at_the_start(stream, tmp_path):
    other = Owner(id="b2", checkpoint="/checkpoints/other")
    take(LocalFolder(tmp_path / "out"), "out", other, None)
    query = tidegate.sql(SQL, r=stream)
    with pytest.raises(ConfigError, match="its owner is checkpoint /checkpoints/other"):
        query.start(sink=tmp_path / "out", checkpoint=tmp_path / "c")
    assert not (tmp_path / "c").exists()
