"""The questions that Tidegate and Flink are asked: ours give what a batch job of Spark gives."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bench.flink import cluster
from bench.flink.contenders import Folders, flink_script, query_of
from bench.flink.questions import QUESTIONS

from docs.pages import ROOT, blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 2_000


NEXMARK = ["q5", "q7", "q8", "q11"]
OTHERS = [
    pytest.param(name, marks=pytest.mark.whole) for name in ("tumbling", "hopping", "session")
]


@pytest.mark.parametrize("name", [*NEXMARK, *OTHERS])
def test_the_statement_of_a_question_gives_what_a_batch_job_gives(
    interpreted: SparkSession, name: str
):
    ask, _ = QUESTIONS[name]
    question = ask(ROWS)
    tables = {}
    for table in question.tables:
        tables[table.name] = table.compute(interpreted).coalesce(1).cache()
        tables[table.name].createOrReplaceTempView(table.name)
    right = Counter(interpreted.sql(question.batch).collect())
    ours = query_of(question, tables).batch().select(*question.columns)
    assert Counter(ours.collect()) == right
    assert right


def test_every_question_is_tested():
    tested = {*NEXMARK, *(other.values[0] for other in OTHERS)}
    # Its windows are of the clock, so there are no final results over a table.
    assert set(QUESTIONS) - tested == {"q12"}


def test_the_page_shows_the_statements_that_are_run():
    shown = [" ".join(block.text.split()) for block in blocks(ROOT / "docs" / "flink.md")]
    nexmark = [ask(ROWS) for name, (ask, _) in QUESTIONS.items() if name.startswith("q")]
    assert shown == [" ".join(question.ours.split()) for question in nexmark]


def test_the_script_for_flink_has_the_tables_and_columns_of_the_question():
    question = QUESTIONS["q8"][0](ROWS)
    folders = Folders(results=Path("/tmp/results"), checkpoint=Path("/tmp/checkpoint"))
    script = flink_script(question, folders, state="rocksdb")
    assert "SET 'state.backend.type' = 'rocksdb';" in script
    assert re.findall(r"CREATE TABLE (\w+) ", script) == ["person", "auction", "results"]
    assert "INSERT INTO results SELECT `id`, `name`, `s`, `e` FROM" in script


def test_without_jars_flink_is_not_run_and_the_message_says_how_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "JARS", tmp_path)
    with pytest.raises(cluster.Unavailable, match=r"lacks flink-clients-.*\.jar") as refused:
        cluster.Cluster(tmp_path)
    assert "make flink-jars" in str(refused.value)
