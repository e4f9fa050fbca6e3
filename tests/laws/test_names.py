"""Random statements over awkward names, against Spark's own GROUP BY over the same text.

The names are quoted, dotted, reserved, in several scripts, in mixed case, and Tidegate's own. A
name is written in one of the ways that Spark takes, and expressions of names stand beside columns
that are called like them. TIDEGATE_LAW_SEEDS says how many statements are tried;
``make test-all`` tries 40.
"""

from __future__ import annotations

import os
import random
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from tidegate.cases.stepper import CaseStepper

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

START = datetime(2026, 1, 1, tzinfo=UTC)
CLOCK_US = 4_000_000_000_000_000
SEEDS = range(int(os.environ.get("TIDEGATE_LAW_SEEDS", "2")))

# Columns with what they are called like beside them.
FAMILIES = (
    ("v", "v + 1", "sum(v)", "s.v"),
    ("a", "a.b", "a.b.c"),
    ("_k0", "_k1", "_x0", "_x1", "_a0", "_a1", "_p0"),
    ("_t", "_own_t", "_pass", "_err", "_row", "_class", "_pane", "_order", "_when"),
    ("_start", "_end", "_id", "_epoch", "_trigger", "_start_us", "_instance", "_rank"),
    ("select", "null", "true", "user", "current_date", "order", "group by", "interval", "case"),
    ("window_start", "emit_epoch", "count", "value", "kind", "reason", "tidegate_from"),
    ("größe", "Mixed Case", "数", "1st", "back`tick", 'say "no"', "it's", "--", "/*", ";"),
)
TYPES = ("INT", "BIGINT", "STRING", "DECIMAL(12,2)", "STRUCT<b: INT, `b.c`: INT>")
SHIFT = re.compile(r"(CAST\((?:(?!CAST\().)* AS INT\)) >>> 1")
AGGREGATES = ("sum", "min", "max", "count", "bit_xor")


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class Draw:
    """A statement drawn at random: the types of its columns, its items, and the clauses around."""

    columns: dict[str, str]
    items: tuple[str, ...]
    keys: tuple[str, ...]
    where: str
    having: str

    def text(self, window: str, on: str) -> str:
        """The statement with its window in one of the two dialects."""
        names = ", ".join(f"{item} AS c{place}" for place, item in enumerate(self.items))
        grouped = ", ".join([window, *self.keys])
        return (
            f"SELECT {names} FROM s WHERE {self.where} GROUP BY {grouped} HAVING {self.having}{on}"
        )


def draw(chance: random.Random) -> Draw:
    """Return a statement over some of the names."""
    names = [name for family in FAMILIES for name in chance.sample(family, 3)]
    columns = {name: chance.choice(TYPES) for name in names}
    columns |= {"v": "INT", "v + 1": "BIGINT", "a": TYPES[-1], "a.b": "INT"}

    def written(name: str) -> str:
        text = chance.choice(["", "s.", "S.", "`s`."]) + quoted(name)
        return chance.choice([text, text.swapcase()]) if name.isascii() else text

    def number() -> str:
        name = chance.choice([n for n, kind in columns.items() if kind != "STRING"])
        if columns[name] == TYPES[-1]:
            return f"{written(name)}.{chance.choice(['b', 'B', '`b.c`'])}"
        return written(name)

    def expression() -> str:
        one, other = number(), number()
        forms = (
            "{0}", "{0} + 1", "{0} - {1}", "-{0}", "coalesce({0}, {1})", "CAST({0} AS STRING)",
            "CAST({0} AS INT) >>> 1", "CAST({0} AS INT) | CAST({1} AS INT) & 3", "{0} <=> {1}",
            "IF({0} > {1}, {0}, {1})", "CASE WHEN {0} > 3 THEN 1 ELSE 0 END", "{0} DIV 2",
            "{0} BETWEEN 1 AND 4", "{0} IN (1, 2, 3)", "concat({0}, '|', {1})", "{0} || 'x'",
            "struct({0}, {1})", "aggregate(array({0}), 0D, (_k0, _x0) -> _k0 + _x0 + {1})",
        )  # fmt: skip
        return chance.choice(forms).format(one, other)

    keys = tuple(dict.fromkeys([expression() for _ in range(2)] + [written("a"), "v + 1"]))
    strings = [written(name) for name, kind in columns.items() if kind == "STRING"]
    aggregates = [f"{chance.choice(AGGREGATES[:4])}({number()})" for _ in range(6)]
    aggregates += ["sum(`v + 1`)", "sum(v + 1)", "sum(`a.b`)", "sum(a.b)"]
    aggregates += [f"count({expression()})", "count(*)", f"{written('a')}.b"]
    aggregates += [f"max({each})" for each in strings[:2]]
    aggregates += [
        f"sum({number()}) FILTER (WHERE {number()} > 2)",
        f"{written('a')}.b",
        "count(*)",
    ]
    aggregates += [f"transform(array(sum({number()})), _k0 -> _k0 + count(*))"]
    return Draw(
        columns=columns,
        items=(*keys, *aggregates),
        keys=keys,
        where=f"{number()} + {number()} <> 7 OR {number()} IS NULL",
        having=f"count({number()}) >= 1 OR v + 1 > 0",
    )


def random_rows(chance: random.Random, columns: dict[str, str]) -> list[tuple[Any, ...]]:
    def value(kind: str) -> Any:
        small = chance.randint(0, 4)
        values = {"STRING": str(small), "DECIMAL(12,2)": Decimal(small), TYPES[-1]: (small, 5)}
        return None if chance.random() < 0.1 else values.get(kind, small)

    return [
        (START + timedelta(seconds=place), *(value(kind) for kind in columns.values()))
        for place in range(40)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_statement_over_any_names_answers_as_spark_does(
    interpreted: SparkSession, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    drawn = draw(chance)
    schema = ", ".join(f"{quoted(name)} {kind}" for name, kind in drawn.columns.items())
    schema = f"`the time` TIMESTAMP, {schema}"
    rows = random_rows(chance, drawn.columns)
    interpreted.createDataFrame(rows, schema).createOrReplaceTempView("s")
    native = drawn.text("unix_micros(`the time`) DIV 10000000", "")
    # Spark's parser takes >>> among the items, but not always in GROUP BY.
    native = SHIFT.sub(r"shiftrightunsigned(\1, 1)", native)
    expected = sorted(map(repr, interpreted.sql(native).collect()))

    query = tidegate.sql(
        drawn.text("tumblingwindow('ss', 10)", " ON `the time`"),
        streams={"s": schema},
        settings={"watermark_lag": "1m"},
        spark=interpreted,
    )
    stepper = CaseStepper(query, checkpoint=str(tmp_path), partitions=1)
    for half in (rows[::2], rows[1::2]):
        outcome = stepper.batch(interpreted.createDataFrame(half, schema), CLOCK_US)
        assert not outcome.rows
    last = stepper.drain()
    assert not last.side
    assert sorted(map(repr, last.rows)) == expected, native
