"""Kafka in a pipeline file: what is needed, what is refused, which columns are known."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tidegate.cli import main
from tidegate.config import check_places, parse_config
from tidegate.errors import ConfigError

SERVERS = '"kafka.bootstrap.servers" = "localhost:9092"'

PIPELINE = """\
[pipeline]
checkpoint = "checkpoint"

[sources.clicks]
format = "kafka"
{source}

[transforms.counts]
sql = "SELECT count(*) AS n FROM clicks GROUP BY tumblingwindow('ss', 10)"

[sinks.out]
from = "counts"
{sink}
"""

SUBSCRIBED = f'options = {{ {SERVERS}, subscribe = "clicks" }}'
SINK = f'format = "kafka"\noptions = {{ {SERVERS}, topic = "counts" }}'
AVRO = {
    "type": "record",
    "name": "click",
    "fields": [
        {"name": "user", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "n", "type": ["null", "int"]},
    ],
}


def config(tmp_path, source=SUBSCRIBED, sink=SINK):
    return parse_config(PIPELINE.format(source=source, sink=sink), tmp_path / "pipeline.toml")


def columns(tmp_path, source):
    found = config(tmp_path, source).sources["clicks"].relation.columns
    return [f"{column.name} {column.type}" for column in found]


BESIDE = [
    "kafka_key BINARY",
    "kafka_topic STRING",
    "kafka_partition INT",
    "kafka_offset BIGINT",
    "kafka_timestamp TIMESTAMP",
]


def test_a_json_value_gives_its_fields_and_the_parts_of_the_record(tmp_path):
    source = f'value = "json"\nschema = "user STRING, n INT"\n{SUBSCRIBED}'
    assert columns(tmp_path, source) == ["user STRING", "n INT", *BESIDE]


@pytest.mark.parametrize("as_file", [False, True])
def test_an_avro_schema_gives_the_columns_as_text_or_as_a_file(tmp_path, as_file):
    (tmp_path / "click.avsc").write_text(json.dumps(AVRO))
    given = '"click.avsc"' if as_file else f"'''{json.dumps(AVRO)}'''"
    source = f'value = "avro"\navro_schema = {given}\n{SUBSCRIBED}'
    assert columns(tmp_path, source) == ["user STRING", "at TIMESTAMP", "n INT", *BESIDE]


def test_undecoded_records_have_the_columns_of_spark_and_headers_when_they_are_asked_for(tmp_path):
    names = "key BINARY,value BINARY,topic STRING,partition INT,offset BIGINT,timestamp TIMESTAMP"
    raw = [*names.split(","), "timestampType INT"]
    assert columns(tmp_path, SUBSCRIBED) == raw
    asked = SUBSCRIBED.replace(" }", ", includeHeaders = true }")
    headers = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    assert columns(tmp_path, asked) == [*raw, headers]


@pytest.mark.parametrize(
    ("source", "sink", "message"),
    [
        ("", SINK, "format kafka needs the option kafka.bootstrap.servers"),
        (f"options = {{ {SERVERS} }}", SINK, "the option subscribe or subscribePattern or assign"),
        (SUBSCRIBED, f'format = "kafka"\noptions = {{ {SERVERS} }}', "needs the option topic"),
        (SUBSCRIBED, 'format = "json"\npath = "out"\nkey = "n"', "key is a key of format kafka"),
        (f'value = "xml"\n{SUBSCRIBED}', SINK, "it must be one of json, avro, bytes"),
        (f'value = "json"\n{SUBSCRIBED}', SINK, 'value = "json" needs schema'),
        (f'value = "avro"\n{SUBSCRIBED}', SINK, 'value = "avro" needs avro_schema'),
        (f'schema = "v INT"\n{SUBSCRIBED}', SINK, 'schema is for value = "json"'),
        (f'value = "avro"\navro_schema = "no.avsc"\n{SUBSCRIBED}', SINK, "no.avsc"),
        (f"value = \"avro\"\navro_schema = '{{'\n{SUBSCRIBED}", SINK, "is not JSON"),
        (f'value = "avro"\navro_schema = \'"int"\'\n{SUBSCRIBED}', SINK, "not that of a record"),
        (
            f'value = "json"\nschema = "kafka_key STRING"\n{SUBSCRIBED}',
            SINK,
            "kafka_key is a field of the value and a column of the record",
        ),
    ],
)
def test_what_kafka_lacks_is_named_with_its_line(tmp_path, source, sink, message):
    with pytest.raises(ConfigError, match=r"pipeline.toml, line \d+") as refused:
        config(tmp_path, source, sink)
    assert message in str(refused.value)


def test_keys_of_kafka_are_refused_for_another_format(tmp_path):
    text = PIPELINE.format(source="max_offsets_per_trigger = 5", sink=SINK)
    with pytest.raises(ConfigError) as refused:
        parse_config(text.replace('format = "kafka"', 'format = "rate"', 1), tmp_path / "p.toml")
    assert "max_offsets_per_trigger is a key of format kafka; the format here is rate" in str(
        refused.value
    )


def test_the_time_of_the_record_is_the_event_time_and_its_partition_the_shard(tmp_path):
    file = tmp_path / "pipeline.toml"
    source = f'value = "json"\nschema = "user STRING"\n{SUBSCRIBED}'
    file.write_text(PIPELINE.format(source=source, sink=SINK))
    plan = CliRunner().invoke(main, ["explain", str(file)]).stdout
    assert "kafka_timestamp" in plan
    assert "kafka_partition" in plan


SECRET = SUBSCRIBED.replace(" }", ', "kafka.sasl.jaas.config" = "password=${KAFKA_PASSWORD};" }')


def test_a_variable_that_is_not_set_is_refused_with_its_place(tmp_path, monkeypatch):
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    with pytest.raises(ConfigError) as refused:
        check_places(config(tmp_path, SECRET))
    assert "line 6" in str(refused.value)
    assert "the environment has no variable KAFKA_PASSWORD" in str(refused.value)


def test_a_plan_does_not_show_the_value_of_a_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_PASSWORD", "very-secret")
    check_places(config(tmp_path, SECRET))
    file = tmp_path / "pipeline.toml"
    file.write_text(PIPELINE.format(source=SECRET, sink=SINK))
    for words in (["explain"], ["explain", "--json"], ["check"]):
        result = CliRunner().invoke(main, [*words, str(file)])
        assert result.exit_code == 0, result.output
        assert "very-secret" not in result.output


def test_a_source_to_which_records_go_back_has_their_headers_and_values(tmp_path):
    source = f'value = "json"\nschema = "user STRING"\n{SUBSCRIBED}'
    back = 'side_output.error = { sink = "reinject", reinject_to = "clicks" }\n\n[sinks.out]'
    text = PIPELINE.format(source=source, sink=SINK).replace("[sinks.out]", back)
    found = parse_config(text, tmp_path / "pipeline.toml").sources["clicks"].relation.columns
    assert {"kafka_headers", "kafka_value"} <= {column.name for column in found}
    assert "kafka_value BINARY" not in columns(tmp_path, source)
