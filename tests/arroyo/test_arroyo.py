"""Inputs and results of another engine, run as streaming queries: files in, drain, results."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate as tg
from side_by_side import Results, side_by_side
from tidegate.connectors.sinks import MemorySink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent

CARS = "timestamp TIMESTAMP, driver_id BIGINT, event_type STRING, location STRING"
IMPULSE = "timestamp TIMESTAMP, counter BIGINT, subtask_index BIGINT"
ISO = "date_format({0}, \"yyyy-MM-dd'T'HH:mm:ss\")"
ISO_WITH_MILLISECONDS = "date_format({0}, \"yyyy-MM-dd'T'HH:mm:ss.SSS\")"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """A statement with the columns of a golden, and how its input is cut."""

    golden: str
    source: str
    schema: str
    sql: str
    rows_per_batch: int = 2_500
    settings: dict[str, str] = field(default_factory=lambda: {"watermark_lag": "30s"})


QUESTIONS = (
    Question(
        golden="tight_watermark",
        source="cars.jsonl.gz",
        schema=CARS,
        settings={},
        sql=f"""
            SELECT count(*) AS count, {ISO.format("window_end()")} AS timestamp
            FROM events GROUP BY TUMBLE(timestamp, INTERVAL '1' HOUR)
        """,
    ),
    Question(
        golden="hourly_by_event_type",
        source="cars.jsonl.gz",
        schema=CARS,
        sql=f"""
            SELECT event_type, {ISO.format("window_start()")} AS hour, count(*) AS count
            FROM events GROUP BY TUMBLE(timestamp, INTERVAL '1' HOUR), event_type
        """,
    ),
    Question(
        golden="sliding_window_end",
        source="impulse.jsonl",
        schema=IMPULSE,
        rows_per_batch=30,
        sql=f"""
            SELECT count(*) AS count, min(counter) AS min, max(counter) AS max,
              {ISO.format("window_start()")} AS start, {ISO.format("window_end()")} AS end
            FROM events GROUP BY HOP(timestamp, INTERVAL '2' SECOND, INTERVAL '10' SECOND)
        """,
    ),
    Question(
        golden="global_session_window",
        source="impulse.jsonl",
        schema=IMPULSE,
        rows_per_batch=30,
        settings={},
        sql=f"""
            SELECT count(*) AS rows, {ISO.format("window_start()")} AS start,
              {ISO_WITH_MILLISECONDS.format("window_end()")} AS end
            FROM events GROUP BY SESSION(timestamp, INTERVAL '20' SECOND)
        """,
    ),
    Question(
        golden="most_active_driver_last_hour",
        source="cars.jsonl.gz",
        schema=CARS,
        settings={"watermark_lag": "1h"},
        sql=f"""
            SELECT driver_id, count(*) AS count, 1 AS row_number,
              {ISO.format("window_start()")} AS start, {ISO.format("window_end()")} AS end
            FROM events GROUP BY HOP(timestamp, INTERVAL '1' MINUTE, INTERVAL '1' HOUR), driver_id
            ORDER BY count DESC, driver_id DESC LIMIT 1
        """,
    ),
)


@pytest.fixture(scope="module")
def found(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Results[Question, Found]]:
    def asked(question: Question, session: SparkSession) -> Found:
        return ask(question, session, tmp_path_factory.mktemp("arroyo"))

    with side_by_side(request, spark, "question", asked) as found:
        yield found


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.golden)
def test_the_answers_are_those_of_arroyo(
    question: Question, found: Results[Question, Found]
) -> None:
    assert found[question].batches > 1, "the input came in several batches"
    assert found[question].late == 0
    golden = (HERE / f"{question.golden}.golden.jsonl").read_text().splitlines()
    expected = Counter(_row(json.loads(line)) for line in golden)
    assert found[question].rows == expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a streaming query gave for a question."""

    batches: int
    late: int
    rows: Counter[tuple[object, ...]]


def ask(question: Question, spark: SparkSession, folder: Path) -> Found:
    """Run the query of a question over its files, and drain it."""
    cut(HERE / question.source, folder / "in", question.rows_per_batch)
    stream = (
        spark.readStream.schema(question.schema)
        .option("maxFilesPerTrigger", 1)
        .json(str(folder / "in"))
    )
    query = tg.sql(
        question.sql,
        settings={"event_time_field": "timestamp", **question.settings},
        streams={"events": stream},
    )
    sink = MemorySink()
    run = query.start(sink=sink, checkpoint=str(folder / "checkpoint"), once=True)
    run.await_termination()
    batches = run.status["batch_id"] + 1
    run.drain()
    rows = Counter(_row(row.asDict()) for row in sink.rows())
    return Found(batches=batches, late=run.status["late"], rows=rows)


def cut(source: Path, folder: Path, rows_per_batch: int) -> None:
    """Split a file into files of so many rows, to be read in order."""
    folder.mkdir()
    opened = gzip.open(source, "rt") if source.suffix == ".gz" else source.open()
    with opened as lines:
        rows = list(lines)
    for number, start in enumerate(range(0, len(rows), rows_per_batch)):
        path = folder / f"{number:03}.json"
        path.write_text("".join(rows[start : start + rows_per_batch]))
        # The file source reads files in order of age.
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def _row(record: dict[str, object]) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(record.items()))
