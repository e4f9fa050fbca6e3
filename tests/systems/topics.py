"""Topics, seen by the outside client: made and deleted, written and read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from systems.broker import Broker

SECONDS = 30


@dataclass(frozen=True, kw_only=True)
class Record:
    """A record; ``headers`` are text."""

    key: bytes | None = None
    value: bytes | None = None
    partition: int = 0
    timestamp_ms: int | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        assert self.value is not None
        return json.loads(self.value)


@dataclass(frozen=True)
class Topics:
    """What a test does with the topics of a broker."""

    broker: Broker

    def create(self, name: str, partitions: int = 1) -> str:
        # A topic of the same name may still be in deletion.
        deadline = monotonic() + SECONDS
        while True:
            try:
                self._admin.create_topics([NewTopic(name, partitions)])[name].result(SECONDS)
                return name
            except KafkaException:
                if monotonic() > deadline:
                    raise

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(SECONDS)

    def grow(self, name: str, partitions: int) -> None:
        self._admin.create_partitions([NewPartitions(name, partitions)])[name].result(SECONDS)

    def forget(self, name: str, below: int, partition: int = 0) -> None:
        """Delete the records below an offset, as retention does."""
        place = TopicPartition(name, partition, below)
        self._admin.delete_records([place])[place].result(SECONDS)

    def write(self, name: str, records: Iterable[Record]) -> None:
        producer = Producer(self._client)
        for record in records:
            producer.produce(
                name,
                record.value,
                key=record.key,
                partition=record.partition,
                headers=list(record.headers.items()),
                **({} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}),
            )
        assert producer.flush(SECONDS) == 0

    def read(self, name: str) -> list[Record]:
        """Return all records that the topic has now, by partition and offset."""
        consumer = Consumer({**self._client, "group.id": "reader"})
        try:
            return [
                record
                for partition in sorted(consumer.list_topics(name, SECONDS).topics[name].partitions)
                for record in _read(consumer, TopicPartition(name, partition))
            ]
        finally:
            consumer.close()

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient(self._client)

    @property
    def _client(self) -> dict[str, str | int]:
        # A client would print that the broker has stopped.
        return {"bootstrap.servers": self.broker.servers, "log_level": 0}


def _read(consumer: Consumer, place: TopicPartition) -> Iterable[Record]:
    low, high = consumer.get_watermark_offsets(place, SECONDS)
    consumer.assign([TopicPartition(place.topic, place.partition, low)])
    at = low
    while at < high:
        message = consumer.poll(SECONDS)
        assert message is not None, f"{place.topic}: no record came within {SECONDS} s"
        assert message.error() is None, message.error()
        at = message.offset() + 1
        yield Record(
            key=message.key(),
            value=message.value(),
            partition=place.partition,
            timestamp_ms=message.timestamp()[1],
            headers={name: value.decode() for name, value in message.headers() or ()},
        )
