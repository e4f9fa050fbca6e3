"""Records of side output that go back to their topic."""

from __future__ import annotations

from dataclasses import replace

from systems.pipelines import from_topic, run
from systems.test_kafka_source import START_MS
from systems.topics import Record

SQL = """
SELECT user, sum(60 / n) AS n, window_start() AS start
FROM clicks GROUP BY tumblingwindow('mi', 1), user
"""
BACK = 'side_output.error = { sink = "reinject", reinject_to = "clicks" }'


def test_a_record_goes_back_once_as_it_was_and_is_known_by_a_header(topics, tmp_path):
    pipeline = from_topic(
        topics,
        "back",
        2,
        source='value = "json"\nschema = "user STRING, n INT, ts TIMESTAMP"',
        sql=SQL,
        transform='event_time_field = "ts"',
        error=BACK,
    )
    bad = Record(
        key=b"k",
        value=b'{"user": "ann", "n": 0, "ts": "2026-01-01T10:00:00Z", "other": [1]}',
        partition=1,
        timestamp_ms=START_MS,
        headers={"trace": "t1"},
    )
    broken = Record(value=b"{", partition=1, timestamp_ms=START_MS)
    topics.write("back", [bad, broken])
    for _ in range(3):
        assert run(tmp_path, pipeline).code == 0
    first, second, back = topics.read("back")
    assert (first, second) == (bad, broken)
    assert back.headers.keys() == {"trace", "tidegate_reinjected"}
    assert replace(back, headers=bad.headers, timestamp_ms=START_MS) == bad


def test_a_record_whose_time_is_that_of_the_topic_cannot_go_back(topics, tmp_path):
    pipeline = from_topic(topics, "timeless", sql=SQL, error=BACK)
    ended = run(tmp_path, pipeline)
    assert ended.code == 1
    assert "a record that goes back gets a new timestamp, which is its event time" in ended.text
