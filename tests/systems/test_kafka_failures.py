"""What goes wrong with Kafka, in words: what happened and what to do."""

from __future__ import annotations

import threading
import time

import pytest

from systems.broker import PASSWORD, USER
from systems.pipelines import IMPATIENT, from_topic, run
from systems.test_kafka_source import AFTER, click, sums
from tidegate.metrics.recorder import RECORDER

SECURITY = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="{USER}" password="${{KAFKA_PASSWORD}}";',
}


def refused(folder, pipeline, code: int = 1) -> str:
    """What a run prints that fails; it has two parts, the second of which says what to do."""
    ended = run(folder, pipeline)
    assert ended.code == code
    assert "Exception" not in ended.text
    return ended.text


def test_records_that_were_lost_are_named_and_the_query_can_be_told_to_go_on(topics, tmp_path):
    pipeline = from_topic(topics, "lost")
    topics.write("lost", [click("ann", 1), click("ann", 2, 1)])
    assert run(tmp_path, pipeline).code == 0
    topics.write("lost", [click("ann", 4, 2), click("ann", 8, 3), AFTER])
    topics.forget("lost", below=3)
    text = refused(tmp_path, pipeline)
    assert "Kafka no longer has all records of lost-0 from offset 2 to before 5" in text
    assert "set options.failOnDataLoss = false" in text
    assert run(tmp_path, pipeline.but(reader={"failOnDataLoss": "false"})).code == 0
    assert sums(topics, "lost") == {("ann", f"10:0{i}"): 2**i for i in (0, 1, 3)}


def test_a_topic_that_was_made_again_is_told_and_a_new_checkpoint_reads_it(topics, tmp_path):
    pipeline = from_topic(topics, "again")
    topics.write("again", [click("ann", 1), click("ann", 2, 1), AFTER])
    assert run(tmp_path / "old", pipeline).code == 0
    topics.delete("again")
    text = refused(tmp_path / "old", pipeline)
    assert "there is no such topic on the broker" in text
    assert "If a source's topic was deleted and is made again, start with a new checkpoint" in text
    topics.create("again")
    topics.write("again", [click("bob", 4)])
    text = refused(tmp_path / "old", pipeline)
    assert "partition again-0 ends at offset 1, but the query has read up to 3" in text
    assert "Start with a new checkpoint" in text
    topics.write("again", [AFTER])
    assert run(tmp_path / "new", pipeline).code == 0
    assert sums(topics, "again")["bob", "10:00"] == 4


def test_a_topic_that_is_not_there_is_named_for_a_source_and_for_a_sink(topics, tmp_path):
    pipeline = from_topic(topics, "there")
    topics.write("there", [click("ann", 1), AFTER])
    text = refused(tmp_path / "source", pipeline.but(reader={"subscribe": "nowhere"}))
    assert "there is no such topic on the broker" in text
    text = refused(tmp_path / "sink", pipeline.but(writer={**IMPATIENT, "topic": "nowhere"}))
    assert "there is no topic nowhere" in text
    assert "Create the topic" in text


@pytest.mark.parametrize("is_right", [True, False])
def test_a_password_comes_from_the_environment_and_is_never_shown(
    topics, tmp_path, monkeypatch, capfd, is_right
):
    password = PASSWORD if is_right else "another-secret"
    monkeypatch.setenv("KAFKA_PASSWORD", password)
    topic = "login" if is_right else "no-login"
    pipeline = from_topic(topics, topic, reader=SECURITY, writer=SECURITY)
    pipeline = pipeline.but(servers=topics.broker.secured)
    topics.write(topic, [click("ann", 1), AFTER])
    ended = run(tmp_path, pipeline)
    if is_right:
        assert ended.code == 0
        assert sums(topics, topic) == {("ann", "10:00"): 1}
    else:
        assert "the broker refuses the login" in ended.text
    everything = ended.text + "".join(capfd.readouterr())
    everything += "".join(
        file.read_text(errors="replace") for file in tmp_path.rglob("*") if file.is_file()
    )
    assert password not in everything


def test_a_broker_that_is_gone_stops_the_query_and_a_restart_goes_on(topics, tmp_path):
    pipeline = from_topic(topics, "gone")
    topics.write("gone", [click("ann", 1)])
    assert run(tmp_path, pipeline).code == 0
    topics.write("gone", [click("ann", 2), AFTER])
    topics.broker.stop()
    try:
        impatient = pipeline.but(reader=IMPATIENT, pipeline='restart = "never"')
        text = refused(tmp_path, impatient, code=75)
        assert "no Kafka broker answers" in text
    finally:
        topics.broker.start()
    assert run(tmp_path, pipeline).code == 0
    assert sums(topics, "gone") == {("ann", "10:00"): 3}


def test_a_query_is_started_again_until_its_broker_is_back_and_counts_every_record_once(
    topics, tmp_path
):
    pipeline = from_topic(topics, "returned", reader=IMPATIENT, writer=IMPATIENT)
    topics.write("returned", [click("ann", 1)])
    assert run(tmp_path, pipeline).code == 0
    topics.write("returned", [click("ann", 2), AFTER])
    topics.broker.stop()

    def comes_back() -> None:
        while not restarts("sums"):
            time.sleep(0.1)
        topics.broker.start()

    before = restarts("sums")
    assert before == 0
    thread = threading.Thread(target=comes_back)
    thread.start()
    try:
        ended = run(tmp_path, pipeline)
    finally:
        thread.join()
    assert ended.code == 0
    assert "sums: the query" in ended.text
    assert "no Kafka broker answers; restart 1 of at most 5 in 1 s" in ended.text
    assert sums(topics, "returned") == {("ann", "10:00"): 3}


def restarts(name: str) -> float:
    """How often a query of this process was started again."""
    return sum(
        sample.value
        for family in RECORDER.collect()
        for sample in family.samples
        if sample.name == "tidegate_restarts_total" and sample.labels["transform"] == name
    )
