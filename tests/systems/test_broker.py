"""The broker of these tests, seen by the outside client alone."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from systems.broker import PASSWORD, USER


def test_records_survive_a_restart_of_the_broker_and_a_client_may_log_in(broker):
    admin = AdminClient({"bootstrap.servers": broker.servers})
    admin.create_topics([NewTopic("kept", 1)])["kept"].result(30)
    producer = Producer({"bootstrap.servers": broker.servers})
    producer.produce("kept", b"v", key=b"k")
    assert producer.flush(30) == 0

    broker.restart()

    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    place = {"group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": broker.secured, **login, **place})
    consumer.subscribe(["kept"])
    message = consumer.poll(30)
    consumer.close()
    assert (message.key(), message.value()) == (b"k", b"v")
