"""The stream that a bad week is about: its files, one query of each kind of window, their answers.

A batch is one file, so where a query is stopped, killed or restarted does not change which rows
come together. Every answer is therefore that of the undisturbed run, late rows included.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tidegate as tg

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pyspark.sql import SparkSession

    from tidegate.metrics.report import BatchReport

SCHEMA = "ts TIMESTAMP, k STRING, v BIGINT, d BIGINT"
# The side output, each kind in a folder of this name.
SIDES = ("late", "evicted", "errors", "duplicates")
FIRST_SECOND = 1_767_261_600  # 2026-01-01 10:00:00 UTC
SECONDS_PER_FILE = 20

_WINDOW = "window_start() AS b, window_id() AS id"
_VALUES = f"k, count(*) AS n, sum(v) AS s, first(v) AS f, {_WINDOW}"
_FAILS = "max(v div d) AS q"  # on rows whose d is 0
STATEMENTS: dict[str, str] = {
    "tumbling": f"SELECT {_VALUES}, {_FAILS} FROM r GROUP BY tumblingwindow('ss', 10), k",
    "hopping": f"SELECT {_VALUES}, {_FAILS} FROM r GROUP BY hoppingwindow('ss', 20, 10), k",
    "cumulate": f"SELECT {_VALUES} FROM r GROUP BY cumulatewindow('ss', 30, 10), k",
    "session": f"SELECT {_VALUES}, {_FAILS} FROM r GROUP BY sessionwindow('ss', 3), k",
    "sliding": (
        f"SELECT k, count(*) AS n, sum(v) AS s, {_WINDOW} FROM r "
        "GROUP BY slidingwindow('ss', 8, 4) OVER (PARTITION BY k WHEN v % 3 = 0), k"
    ),
    "sliding_at_once": (
        f"SELECT k, count(*) AS n, sum(v) AS s, {_WINDOW} FROM r "
        "GROUP BY slidingwindow('ss', 8) OVER (PARTITION BY k), k"
    ),
    "state": (
        f"SELECT {_VALUES} FROM r GROUP BY statewindow(v % 7 = 0, v % 5 = 0) "
        "OVER (PARTITION BY k), k"
    ),
    "count": f"SELECT {_VALUES} FROM r GROUP BY countwindow(4) OVER (PARTITION BY k), k",
    "rows": f"SELECT *, {_WINDOW} FROM r GROUP BY tumblingwindow('ss', 10)",
}

# Windows with what else a query can have, by name: the kind, and the settings. Not what depends on
# the clock, which is another one in each run.
_SHARDS = {"shard": "k"}
_ONCE = {"dedup_key": "v", "dedup_horizon": "40s"}
_RECORD = {"lateness": "record"}
_LISTED = "SELECT k, collect_list(v) AS all_v, window_start() AS b, window_end() AS e FROM r"
_VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "tumbling_shards": (STATEMENTS["tumbling"], _SHARDS),
    "tumbling_limited": (STATEMENTS["tumbling"], {**_SHARDS, **_ONCE, "max_groups": 3}),
    "hopping_limited": (STATEMENTS["hopping"], {**_SHARDS, **_ONCE, "max_groups": 3}),
    "cumulate_rows": (
        f"{_LISTED} GROUP BY cumulatewindow('ss', 30, 10), k",
        {**_ONCE, "max_groups": 4, "max_rows_per_group": 3},
    ),
    "session_limited": (STATEMENTS["session"], {**_SHARDS, **_ONCE, "max_groups": 3}),
    "session_rows": (
        f"{_LISTED} GROUP BY sessionwindow('ss', 3), k",
        {**_SHARDS, **_ONCE, "max_groups": 4, "max_rows_per_group": 3},
    ),
    "sliding_once": (STATEMENTS["sliding"], {**_SHARDS, **_ONCE}),
    "state_once": (STATEMENTS["state"], {**_SHARDS, **_ONCE}),
    "tumbling_record": (STATEMENTS["tumbling"], {**_SHARDS, **_RECORD}),
    "hopping_record": (STATEMENTS["hopping"], _RECORD),
    "session_record": (STATEMENTS["session"], _RECORD),
    "sliding_record": (STATEMENTS["sliding"], _RECORD),
    "count_record": (STATEMENTS["count"], {**_SHARDS, **_RECORD}),
}
STATEMENTS |= {name: sql for name, (sql, _) in _VARIANTS.items()}
SETTINGS = {name: _VARIANTS[name][1] if name in _VARIANTS else {} for name in STATEMENTS}


def write_file(folder: Path, number: int, seed: int) -> None:
    """Put the file of a number in place: rows out of order, some late, some that fail."""
    chance = random.Random(f"{seed}/{number}")
    first = number * SECONDS_PER_FILE
    rows: list[dict[str, object]] = []
    for _ in range(40):
        moment = first + chance.uniform(0, SECONDS_PER_FILE + 4)
        if chance.random() < 0.05:
            moment -= chance.choice([15, 60, 400])
        stamp = FIRST_SECOND + max(moment, -3_000)
        rows.append(
            {
                "ts": None if chance.random() < 0.02 else _text(stamp),
                "k": chance.choice("abcde"),
                "v": chance.randrange(100),
                "d": 0 if chance.random() < 0.03 else chance.randrange(1, 5),
            }
        )
    # Spark takes files in the order of their times, so each has its own; it appears at once.
    hidden = folder / f".{number}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
    hidden.rename(folder / f"{number:05}.json")


def _text(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The folders of one query: its input, its checkpoint, its outputs."""

    folder: Path

    @property
    def input(self) -> Path:
        return self.folder / "in"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def make(self) -> Place:
        """Make the folder of the input; the query makes the others."""
        self.input.mkdir(parents=True)
        return self


def start(
    spark: SparkSession,
    place: Place,
    kind: str,
    *,
    once: bool,
    settings: Mapping[str, object] | None = None,
    wrap: Callable[[tg.FileSink], object] = lambda sink: sink,
    on_batch: Callable[[BatchReport], object] | None = None,
) -> tg.Run:
    """Start the query of a kind of window, one file a batch."""
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(place.input))
    query = tg.sql(
        STATEMENTS[kind],
        settings={
            "event_time_field": "ts",
            "watermark_lag": "5s",
            **SETTINGS[kind],
            **(settings or {}),
        },
        streams={"r": rows},
    )
    return query.start(
        sink=wrap(tg.FileSink(format="json", path=place.folder / "out")),
        **{name: tg.FileSink(format="json", path=place.folder / name) for name in SIDES},
        checkpoint=place.checkpoint,
        once=once,
        on_batch=on_batch,
    )


# Kinds whose window_id() has the epoch of a row in it; a drain that is asked for twice takes two.
ID_HAS_EPOCH = tuple(name for name in STATEMENTS if name.startswith(("sliding", "state", "count")))


def answers(place: Place, *, without: Collection[str] = ()) -> dict[str, Counter[str]]:
    """Return every row of the results and of the side output, by folder.

    A record's processing time is left out, since it is the batch's clock, and so are the columns
    ``without``.
    """
    left_out = {"processing_time", *without}
    found: dict[str, Counter[str]] = {}
    for name in ("out", *SIDES):
        lines: Counter[str] = Counter()
        for path in (place.folder / name).glob("emit_epoch=*/*.json"):
            for line in path.read_text().splitlines():
                row = {k: v for k, v in json.loads(line).items() if k not in left_out}
                lines[json.dumps(row, sort_keys=True)] += 1
        found[name] = lines
    return found
