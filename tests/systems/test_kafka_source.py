"""What Tidegate makes of the records of a topic, and sends to other topics."""

from __future__ import annotations

import json

import pytest

from systems.pipelines import JSON, from_topic, run
from systems.topics import Record
from tidegate.config import parse_config
from tidegate.connectors.kafka import read_kafka
from tidegate.plan.settings import ErrorPolicy

START_MS = 1_767_261_600_000  # 2026-01-01T10:00:00Z
MINUTE_MS = 60_000

# After it every window that a test is about has closed.
AFTER = Record(value=b'{"user": "end", "n": 0}', timestamp_ms=START_MS + 60 * MINUTE_MS)


def click(user: str, n: int, minute: int = 0, partition: int = 0) -> Record:
    return Record(
        value=json.dumps({"user": user, "n": n}).encode(),
        timestamp_ms=START_MS + minute * MINUTE_MS,
        partition=partition,
    )


def sums(topics, topic: str) -> dict[tuple[str, str], int]:
    """The results by user and minute; each is there once."""
    records = [record.json for record in topics.read(f"{topic}-out")]
    found = {(each["user"], each["start"][11:16]): each["n"] for each in records}
    assert len(found) == len(records)
    return found


def test_json_goes_in_and_results_come_out_with_key_and_headers(topics, tmp_path):
    pipeline = from_topic(topics, "json")
    topics.write("json", [click("ann", 1), click("bob", 5), click("ann", 2), AFTER])
    assert run(tmp_path, pipeline).code == 0
    first, second = sorted(topics.read("json-out"), key=lambda record: record.key)
    assert first.key == b'{"user":"ann"}'
    assert first.value == b'{"user":"ann","n":3,"start":"2026-01-01T10:00:00.000000Z"}'
    assert second.json["n"] == 5
    assert first.headers.keys() == {"window_id", "emit_epoch"}
    assert len(first.headers["window_id"]) == 32
    assert first.headers == {**second.headers, "emit_epoch": "0"}


MALFORMED = {
    b'{"user": "ann", "n": "x"}': '{"user": "ann", "n": "x"}',
    b'{"user": "b\xffb", "n": 2}': "base64:eyJ1c2VyIjogImL/YiIsICJuIjogMn0=",
    b"no json": "no json",
    b'[{"user": "ann", "n": 1}]': '[{"user": "ann", "n": 1}]',
    b"": "",
    None: "the record has no value",
}


def test_a_malformed_value_is_an_error_row_with_its_text_or_bytes_and_its_place(topics, tmp_path):
    pipeline = from_topic(topics, "malformed")
    values = [Record(value=value, timestamp_ms=START_MS) for value in MALFORMED]
    missing = Record(value=b'{"user": "ann"}', timestamp_ms=START_MS)
    topics.write("malformed", [*values, missing, AFTER])
    assert "errors 6" in run(tmp_path, pipeline).text
    errors = [record.json for record in topics.read("malformed-bad")]
    assert {error["reason"] for error in errors} == {"malformed_record"}
    places = [error["original_event"]["kafka_offset"] for error in errors]
    assert dict(zip(places, (e["error_detail"] for e in errors), strict=True)) == dict(
        enumerate(MALFORMED.values())
    )
    assert sums(topics, "malformed") == {("ann", "10:00"): None}


@pytest.mark.parametrize("policy", ["null", "fail"])
def test_with_another_policy_a_malformed_value_is_null_or_stops_the_query(topics, tmp_path, policy):
    topic = f"policy-{policy}"
    pipeline = from_topic(topics, topic, transform=f'error_policy = "{policy}"')
    topics.write(topic, [click("ann", 1), Record(value=b"{", timestamp_ms=START_MS), AFTER])
    ended = run(tmp_path, pipeline)
    if policy == "null":
        assert sums(topics, topic) == {("ann", "10:00"): 1, (None, "10:00"): None}
    else:
        assert ended.code == 1
        assert "the query stopped in a batch" in ended.text
        assert topics.read(f"{topic}-out") == []


AVRO = {
    "type": "record",
    "name": "click",
    "fields": [{"name": "user", "type": ["null", "string"]}, {"name": "n", "type": "int"}],
}


def avro(user: str | None, n: int) -> bytes:
    """A record of the schema: small numbers are one byte, twice their value."""
    head = b"\x00" if user is None else bytes([2, 2 * len(user)]) + user.encode()
    return head + bytes([2 * n])


def test_avro_values_are_decoded_and_what_is_none_is_an_error_row_with_its_bytes(topics, tmp_path):
    source = f"value = \"avro\"\navro_schema = '''{json.dumps(AVRO)}'''"
    pipeline = from_topic(topics, "avro", source=source)
    values = [avro("ann", 1), avro(None, 0), b"\x02", avro("ann", 2)]
    records = [Record(value=value, timestamp_ms=START_MS) for value in values]
    end = Record(value=avro("end", 0), timestamp_ms=AFTER.timestamp_ms)
    topics.write("avro", [*records, end])
    assert run(tmp_path, pipeline).code == 0
    assert sums(topics, "avro") == {("ann", "10:00"): 3, (None, "10:00"): 0}
    (error,) = topics.read("avro-bad")
    assert error.json["error_detail"] == "base64:Ag=="
    assert error.json["original_event"]["kafka_offset"] == 2


def test_undecoded_records_have_bytes_key_headers_and_place(topics, tmp_path):
    sql = """
    SELECT CAST(key AS STRING) AS user, sum(length(value)) AS n, window_start() AS start,
           max(element_at(filter(headers, h -> h.key = 'trace'), 1).value) AS trace,
           max(offset) AS last, max(partition) AS part
    FROM clicks GROUP BY tumblingwindow('mi', 1), key
    """
    pipeline = from_topic(
        topics, "raw", 2, source="", sql=sql, reader={"includeHeaders": "true"}, sink='key = "user"'
    )
    record = Record(key=b"ann", value=b"\x00\xff", timestamp_ms=START_MS, partition=1)
    traced = Record(key=b"ann", value=b"v", timestamp_ms=START_MS, headers={"trace": "t1"})
    ends = [Record(key=b"end", timestamp_ms=AFTER.timestamp_ms, partition=p) for p in (0, 1)]
    topics.write("raw", [record, traced, *ends])
    assert run(tmp_path, pipeline).code == 0
    (result,) = topics.read("raw-out")
    assert result.key == b"ann"
    expected = {"user": "ann", "n": 3, "trace": "dDE=", "last": 0, "part": 1}
    assert {name: result.json[name] for name in expected} == expected


def test_the_columns_of_the_record_stand_beside_the_fields_of_its_value(topics, tmp_path):
    sql = """
    SELECT user, n, CAST(kafka_key AS STRING) AS k, kafka_topic, kafka_partition, kafka_offset,
           kafka_timestamp AS at
    FROM clicks GROUP BY tumblingwindow('mi', 1)
    """
    pipeline = from_topic(topics, "beside", sql=sql)
    topics.write("beside", [Record(key=b"k", value=b'{"n": 3}', timestamp_ms=START_MS + 5), AFTER])
    assert run(tmp_path, pipeline).code == 0
    (result,) = topics.read("beside-out")
    assert result.key is None
    assert result.json == {
        "user": None,
        "n": 3,
        "k": "k",
        "kafka_topic": "beside",
        "kafka_partition": 0,
        "kafka_offset": 0,
        "at": "2026-01-01T10:00:00.005000Z",
    }


def test_a_restart_goes_on_and_a_topic_may_get_more_partitions(topics, tmp_path):
    pipeline = from_topic(topics, "grow", source=f"{JSON}\nmax_offsets_per_trigger = 2")
    topics.write("grow", [click("ann", 1), click("ann", 2), click("ann", 4, 1)])
    assert "batch 1" in run(tmp_path, pipeline).text
    topics.grow("grow", 2)
    topics.write("grow", [click("bob", 8, 1, partition=1), click("ann", 16, 1)])
    # Each partition is a shard, so both have to get past the minute.
    topics.write("grow", [click("end", 0, 9, partition=p) for p in (0, 1)])
    assert run(tmp_path, pipeline).code == 0
    assert sums(topics, "grow") == {("ann", "10:00"): 3, ("ann", "10:01"): 20, ("bob", "10:01"): 8}


def test_a_backlog_is_worked_off_with_steps_that_are_finished_beside_the_next_batch(
    topics, tmp_path
):
    pipeline = from_topic(topics, "backlog", source=f"{JSON}\nmax_offsets_per_trigger = 2")
    topics.write("backlog", [click("ann", 1 << minute, minute) for minute in range(7)])
    assert run(tmp_path, pipeline).code == 0
    assert sums(topics, "backlog") == {("ann", f"10:0{minute}"): 1 << minute for minute in range(6)}
    intents = sorted(tmp_path.rglob("intents/*.json"), key=lambda path: path.stem)
    assert ['"taken"' in path.read_text("utf-8") for path in intents] == [True, True, True, False]


def test_the_key_is_an_expression_over_the_result_and_a_wrong_one_is_refused_first(
    topics, tmp_path
):
    pipeline = from_topic(topics, "key", sink="key = \"concat(user, '-', n)\"")
    topics.write("key", [click("ann", 1), AFTER])
    wrong = run(tmp_path / "wrong", pipeline.but(sink='key = "usre(user)"'))
    assert wrong.code == 1
    assert 'key = "usre(user)"' in wrong.text
    assert "The key is an expression over the columns of the result: user, n, start." in wrong.text
    assert not (tmp_path / "wrong" / "checkpoint" / "sums" / "offsets").exists()
    assert run(tmp_path, pipeline).code == 0
    assert [record.key for record in topics.read("key-out")] == [b"ann-1"]


def test_a_result_whose_key_fails_is_an_error_as_any_other_result(topics, tmp_path):
    pipeline = from_topic(topics, "failing", sink='key = "10 / n"')
    topics.write("failing", [click("ann", 0), click("bob", 5), AFTER])
    assert run(tmp_path, pipeline).code == 0
    assert [record.key for record in topics.read("failing-out")] == [b"2.0"]
    (bad,) = topics.read("failing-bad")
    assert json.loads(bad.value)["reason"] == "division_by_zero"
    assert json.loads(bad.value)["group_key"] == {"user": "ann"}


RICH = {
    "type": "record",
    "name": "rich",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "big", "type": ["long", "null"]},
        {"name": "real", "type": ["null", "float"]},
        {"name": "raw", "type": {"type": "fixed", "name": "four", "size": 4}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "civil", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "color", "type": {"type": "enum", "name": "color", "symbols": ["RED"]}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "sizes", "type": {"type": "map", "values": "double"}},
        {
            "name": "inner",
            "type": {"type": "record", "name": "in", "fields": [{"name": "x", "type": "int"}]},
        },
    ],
}


def test_the_columns_of_an_avro_schema_are_those_that_spark_finds(topics, spark, tmp_path):
    source = f"value = \"avro\"\navro_schema = '''{json.dumps(RICH)}'''"
    pipeline = from_topic(topics, "rich", source=source, reader={"includeHeaders": "true"})
    config = parse_config(pipeline.text(), tmp_path / "pipeline.toml").sources["clicks"]
    frame = read_kafka(spark, config, ErrorPolicy.NULL)
    declared = ", ".join(f"{each.name} {each.type}" for each in config.relation.columns)
    known = spark.createDataFrame([], declared)
    assert dict(known.dtypes) == dict(frame.dtypes)
