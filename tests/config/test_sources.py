import logging

import pytest

from tidegate.connectors.sources import read_stream, read_table
from tidegate.errors import ConfigError
from tidegate.plan.pipeline import SourceConfig
from tidegate.plan.statement import Relation


def source(path=None, *, file_format="csv", streaming=True, **more):
    relation = Relation(name="clicks", columns=None, streaming=streaming)
    return SourceConfig(
        name="clicks",
        format=file_format,
        relation=relation,
        path=str(path) if path else None,
        **more,
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.csv").write_text("ts,n\n2026-01-01T10:00:00Z,1\n")
    (tmp_path / "b.csv").write_text("ts,n\n2026-01-01T11:00:00Z,2\n")
    return tmp_path


def types(frame):
    return dict(frame.dtypes)


def refusal(read, spark, config):
    with pytest.raises(ConfigError) as caught:
        read(spark, config)
    return str(caught.value)


def test_a_stream_has_the_schema_that_it_is_given(spark, folder):
    given = source(folder, schema="ts TIMESTAMP, n BIGINT", options={"header": "true"})
    stream = read_stream(spark, given)
    assert stream.isStreaming
    assert types(stream) == {"ts": "timestamp", "n": "bigint"}


def test_a_stream_of_files_without_a_schema_gets_the_one_of_the_files_and_says_so(
    spark, folder, caplog
):
    caplog.set_level(logging.INFO, "tidegate")
    stream = read_stream(spark, source(folder, options={"header": "true"}))
    assert types(stream) == {"ts": "timestamp", "n": "int"}
    found = "sources.clicks: schema found in the files: `ts` timestamp, `n` int"
    assert found in caplog.messages


def test_a_pattern_picks_files(spark, folder):
    table = read_table(spark, source(folder / "b*.csv", options={"header": "true"}))
    assert [row.n for row in table.collect()] == [2]


def test_a_stream_of_another_kind_brings_its_schema(spark):
    stream = read_stream(spark, source(file_format="rate"))
    assert types(stream) == {"timestamp": "timestamp", "value": "bigint"}


@pytest.mark.parametrize("read", [read_stream, read_table])
def test_a_missing_folder_is_reported(spark, tmp_path, read):
    message = refusal(read, spark, source(tmp_path / "no"))
    assert message.startswith(f'sources.clicks: path = "{tmp_path}/no": there is no such file')


def test_a_folder_without_rows_to_infer_from_asks_for_a_schema(spark, tmp_path):
    message = refusal(read_stream, spark, source(tmp_path, file_format="parquet"))
    assert message.startswith("sources.clicks: Spark cannot read it: ")
    assert "give one, e.g. schema = " in message


def test_a_pattern_without_matching_files_is_reported(spark, tmp_path):
    message = refusal(read_table, spark, source(tmp_path / "*.csv", streaming=False))
    assert message.startswith("tables.clicks: Spark cannot read it: ")
    assert "Correct the path" in message


def test_a_schema_that_spark_cannot_parse_is_reported(spark, folder):
    message = refusal(read_stream, spark, source(folder, schema="n DECIMAL(10,)"))
    assert "A schema is DDL" in message


def test_a_format_that_spark_does_not_know_is_reported(spark):
    message = refusal(read_stream, spark, source(file_format="kafkaesque"))
    assert "kafkaesque" in message
    assert "name its package in [pipeline]" in message
