"""Run the pipeline beside this file from nothing: start Kafka and PostgreSQL, show, stop all.

    make example-kafka

Both servers listen on free ports of loopback. Their data and the checkpoint are in temporary
folders.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from systems.broker import Broker
from systems.postgres import USER, Postgres
from systems.topics import Record, Topics

HERE = Path(__file__).parent
FLIGHTS = HERE.parent / "flights" / "departures"
AIRPORTS = ("EWR", "JFK", "LGA")
DAYS = 7

WORST = """
SELECT to_char(hour AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'), origin, flights, late_flights,
       worst_delay
FROM delays ORDER BY late_flights DESC, worst_delay DESC LIMIT 10
"""


def main() -> int:
    with ExitStack() as ending:
        print("Starting Kafka and PostgreSQL")
        broker = Broker(folder=temporary(ending))
        postgres = Postgres(folder=temporary(ending))
        for server in (broker, postgres):
            server.start()
            ending.callback(server.stop)
        topics = Topics(broker)
        topics.create("departures", partitions=len(AIRPORTS))
        topics.create("late-flights")
        flights = list(records())
        topics.write("departures", flights)
        print(f"{len(flights)} flights are in the topic departures; running pipeline.toml")
        folder = temporary(ending)
        shutil.copy(HERE / "pipeline.toml", folder)
        done = subprocess.run(
            [sys.executable, "-m", "tidegate", "run", "pipeline.toml", "--once", "--drain"],
            cwd=folder,
            env={
                **os.environ,
                "KAFKA_SERVERS": broker.servers,
                "POSTGRES_SERVER": f"127.0.0.1:{postgres.port}",
                "POSTGRES_USER": USER,
            },
            check=False,
        )
        if done.returncode == 0:
            show(postgres.sql(WORST))
            print(f"In the topic late-flights: {len(topics.read('late-flights'))}")
        return done.returncode


def temporary(ending: ExitStack) -> Path:
    """Make a folder that is deleted at the end."""
    return Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-")))


def records() -> Iterator[Record]:
    """The flights in order of departure; each airport has a partition of its own."""
    for file in sorted(FLIGHTS.glob("*.csv.gz"))[:DAYS]:
        with gzip.open(file, "rt") as lines:
            for flight in csv.DictReader(lines):
                departed = datetime.fromisoformat(flight["departed"])
                yield Record(
                    key=flight["origin"].encode(),
                    value=json.dumps(typed(flight)).encode(),
                    partition=AIRPORTS.index(flight["origin"]),
                    timestamp_ms=int(departed.timestamp() * 1000),
                )


def typed(flight: dict[str, str]) -> dict[str, str | int | None]:
    """A flight as JSON: numbers are numbers, and what is not known is null."""
    numbers = ("flight", "dep_delay", "arr_delay", "distance")
    return {
        name: (int(text) if name in numbers else text) if text else None
        for name, text in flight.items()
    }


def show(rows: list[list[str]]) -> None:
    """Print the hours with the most late flights."""
    table = [["hour", "origin", "flights", "late", "worst delay"], *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    print("\nThe hours with the most late flights, by psql:\n")
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    print()


if __name__ == "__main__":
    sys.exit(main())
