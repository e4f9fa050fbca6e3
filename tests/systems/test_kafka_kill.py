"""A job that is killed again and again between two topics: no event is lost or counted twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from short_lived import SHORT_LIVED
from systems.parts import connector_jars
from systems.pipelines import from_topic
from systems.topics import Topics

KILLS = 5
START_MS = 1_767_261_600_000
STEP_MS = 20
LATE_MS = 60_000
PARTITIONS = 2

SQL = """
SELECT user, collect_list(id) AS ids FROM clicks GROUP BY tumblingwindow('ss', 5), user
"""


def test_a_job_killed_five_times_counts_every_event_once_or_hands_it_over(topics, tmp_path, capsys):
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    pipeline = from_topic(
        topics,
        "killed",
        PARTITIONS,
        source='value = "json"\nschema = "user STRING, id INT"\nmax_offsets_per_trigger = 2000',
        sql=SQL,
        transform='watermark_lag = "1s"',
        pipeline=f'spark.driver.extraClassPath = "{os.pathsep.join(connector_jars())}"\n'
        'spark.driver.memory = "1g"\nspark.sql.shuffle.partitions = 2',
    )
    (tmp_path / "pipeline.toml").write_text(pipeline.text())
    with producing(topics, chance) as produced:
        for _ in range(KILLS):
            with job(tmp_path) as process:
                for line in process.stdout:
                    if "batch" in line:
                        break
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(timeout=chance.uniform(0, 1.5))
    with job(tmp_path, "--once", "--drain") as process:
        told = process.stdout.read()
        assert process.wait() == 0, told

    counted = windows(topics) + handed_over(topics)
    assert counted == Counter(range(len(produced)))
    assert handed_over(topics), "late events were produced"


def windows(topics: Topics) -> Counter[int]:
    """The events of all windows, after dropping repeats, which are equal."""
    found: dict[tuple[str, bytes], list[int]] = {}
    for record in topics.read("killed-out"):
        ids = sorted(record.json["ids"])
        assert found.setdefault((record.headers["window_id"], record.key), ids) == ids
    return Counter(each for ids in found.values() for each in ids)


def handed_over(topics: Topics) -> Counter[int]:
    """The late events, after dropping repeats: a record has one place."""
    rows = [record.json for record in topics.read("killed-bad")]
    assert {row["kind"] for row in rows} <= {"late"}
    events = [row["original_event"] for row in rows]
    places = {(each["kafka_partition"], each["kafka_offset"]): each["id"] for each in events}
    return Counter(places.values())


@contextmanager
def producing(topics: Topics, chance: random.Random) -> Iterator[list[int]]:
    """Write events while the block runs; one in twenty is far behind the others."""
    stop, ids = threading.Event(), []
    producer = Producer({"bootstrap.servers": topics.broker.servers})

    def produce() -> None:
        while not stop.is_set():
            number = len(ids)
            late_ms = LATE_MS if chance.random() < 0.05 else 0
            producer.produce(
                "killed",
                json.dumps({"user": f"u{number % 3}", "id": number}),
                partition=number % PARTITIONS,
                timestamp=START_MS + number * STEP_MS - late_ms,
            )
            ids.append(number)
            producer.poll(0.005)
        assert producer.flush(30) == 0

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield ids
    finally:
        stop.set()
        thread.join()


@contextmanager
def job(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run the pipeline in a process group of its own, which is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "tidegate", "run", "pipeline.toml", *words],
        cwd=folder,
        env=SHORT_LIVED,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
