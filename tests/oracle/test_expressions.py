"""The oracle's expressions mean what Spark means, and fail where Spark fails."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from tidegate.cases.values import show_value

from .expressions import build
from .parse import parse_scalar
from .relation import Field, RowScope
from .values import RowError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIELDS = {
    "i": "INT",
    "j": "INT",
    "b": "BIGINT",
    "d": "DOUBLE",
    "n": "DECIMAL(10,2)",
    "s": "STRING",
    "t": "BOOLEAN",
    "ts": "TIMESTAMP",
    "day": "DATE",
    "a": "ARRAY<INT>",
}
ROWS = [
    {
        "i": 7,
        "j": 2,
        "b": 10_000_000_000,
        "d": 2.5,
        "n": Decimal("12.34"),
        "s": "12",
        "t": True,
        "ts": datetime(2026, 1, 1, 10, 30, 15, 250_000, tzinfo=UTC),
        "day": datetime(2026, 3, 31, tzinfo=UTC).date(),
        "a": [3, 1, 2],
    },
    {
        "i": -7,
        "j": None,
        "b": -1,
        "d": -0.5,
        "n": Decimal("-0.05"),
        "s": " Hello_%",
        "t": False,
        "ts": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        "day": datetime(1969, 12, 31, tzinfo=UTC).date(),
        "a": [],
    },
    dict.fromkeys(FIELDS),
]

EXPRESSIONS = """
i + j
i - b
i * 2
i / 2
i / j
i div 2
i % 2
-i
mod(i, 3)
pmod(i, 3)
d / 2
n + 1
n * n
n / 3
n % 1
n - 0.005
1 / 3.0
b / 7
d + n
i = 7
i <> 7
i <=> j
j IS NULL
j IS NOT NULL
t IS TRUE
t AND j > 1
t OR j > 1
NOT t
i IN (7, j)
i NOT IN (1, 2)
i BETWEEN -10 AND 0
s LIKE '%ell%'
s LIKE ' Hello\\_\\%'
s ILIKE '%HELLO%'
s RLIKE 'l+'
CASE WHEN i > 0 THEN 'plus' WHEN i < 0 THEN 'minus' END
CASE i WHEN 7 THEN 1.5 ELSE 2 END
CASE WHEN j <> 0 THEN i / j ELSE 0 END
if(t, i, d)
coalesce(j, i, 0)
nullif(i, 7)
nvl(j, 5)
nvl2(j, 1, 2)
greatest(i, j, 3)
least(i, j, 3)
abs(i)
round(d)
round(n, 1)
floor(d)
ceil(d)
floor(n)
sqrt(abs(i))
power(i, 2)
exp(0)
ln(d)
sign(i)
upper(s)
length(s)
trim(s)
substring(s, 2, 3)
substr(s, -3)
left(s, 2)
right(s, 2)
concat(s, '!', s)
s || i
concat_ws('-', s, 'x')
replace(s, 'l', 'L')
contains(s, 'e')
startswith(s, ' H')
instr(s, 'l')
CAST(d AS INT)
CAST(n AS INT)
CAST(i AS STRING)
CAST(t AS STRING)
CAST(t AS INT)
CAST(ts AS DATE)
CAST(day AS TIMESTAMP)
CAST(ts AS BIGINT)
CAST(n AS STRING)
TRY_CAST(s AS INT)
CAST('2026-02-03 04:05:06.7' AS TIMESTAMP)
DATE '2026-01-05' > day
TIMESTAMP '2026-01-01 00:00:00' <= ts
ts + INTERVAL '1' MINUTE
ts - INTERVAL 90 SECONDS
ts > day
day + 1
date_add(day, 5)
datediff(DATE '2026-01-01', day)
year(ts)
month(day)
dayofweek(day)
dayofyear(day)
hour(ts)
second(ts)
date_trunc('hour', ts)
date_trunc('WEEK', ts)
date_trunc('quarter', ts)
unix_micros(ts)
unix_millis(ts)
unix_seconds(ts)
timestamp_millis(1500)
to_date('2026-05-06')
size(a)
array_contains(a, 2)
sort_array(a)
sort_array(a, false)
array_sort(a)
transform(a, x -> x * 2)
filter(a, x -> x > 1)
exists(a, x -> x > 2)
try_divide(i, j)
i & 3
i | 8
i ^ 1
'10' = 10
1.0 = 1
'a' < 'b'
""".strip().splitlines()

FAILURES = {
    "1 / 0": "division_by_zero",
    "i % 0": "division_by_zero",
    "1.5 / 0": "division_by_zero",
    "i div 0": "division_by_zero",
    "2147483647 + 1": "overflow",
    "b * 10000000000": "overflow",
    "CAST(b AS INT)": "overflow",
    "CAST('abc' AS BIGINT)": "invalid_cast",
    "CAST('1.5' AS INT)": "invalid_cast",
    "CAST('never' AS TIMESTAMP)": "invalid_cast",
    "a[5]": "invalid_index",
}

SCOPE = RowScope(tuple(Field("r", name, kind) for name, kind in FIELDS.items()), "SELECT")


def by_the_oracle(text: str) -> list[object]:
    built = build(parse_scalar(text), SCOPE)
    return [built.run(tuple(row.values())) for row in ROWS]


def close(one: object, other: object) -> bool:
    if isinstance(one, float | Decimal) and isinstance(other, float | Decimal):
        return float(one) == pytest.approx(float(other), rel=1e-12)
    return show_value(one) == show_value(other)


@pytest.fixture(scope="module")
def by_spark(spark: SparkSession) -> dict[str, list[object]]:
    ddl = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items())
    frame = spark.createDataFrame([tuple(row.values()) for row in ROWS], ddl)
    named = [f"{text} AS e{i}" for i, text in enumerate(EXPRESSIONS)]
    rows = frame.coalesce(1).selectExpr(*named).collect()
    return {text: [_utc(row[i]) for row in rows] for i, text in enumerate(EXPRESSIONS)}


def _utc(value: object) -> object:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_the_oracle_and_spark_give_the_same_value(
    text: str, by_spark: dict[str, list[object]]
) -> None:
    mine = by_the_oracle(text)
    assert all(map(close, mine, by_spark[text])), f"{mine} is not {by_spark[text]}"


@pytest.mark.parametrize(("text", "reason"), FAILURES.items())
def test_a_failure_has_the_reason_of_its_kind(text: str, reason: str) -> None:
    with pytest.raises(RowError) as caught:
        by_the_oracle(text)
    assert caught.value.reason == reason


@pytest.mark.parametrize("text", FAILURES)
def test_spark_fails_there_too(text: str, spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    ddl = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items())
    frame = spark.createDataFrame([tuple(row.values()) for row in ROWS], ddl)
    with pytest.raises(PySparkException):
        frame.selectExpr(f"{text} AS e").collect()


def test_under_the_policy_null_only_the_operator_that_fails_is_null() -> None:
    scope = RowScope(SCOPE.fields, "SELECT", null_on_error=True)
    built = build(parse_scalar("coalesce(i / 0, 5) + CAST('x' AS INT)"), scope)
    assert built.run(tuple(ROWS[0].values())) is None
    built = build(parse_scalar("coalesce(i / 0, 5)"), scope)
    assert built.run(tuple(ROWS[0].values())) == 5
