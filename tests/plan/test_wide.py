"""Planning is linear in the number of columns and of aggregates."""

from __future__ import annotations

import time

import pytest

import tidegate


@pytest.mark.parametrize(
    ("items", "keys"),
    [("*", ""), ("{sums}", ", k")],
    ids=["all columns", "aggregates"],
)
def test_eight_times_as_many_columns_take_at_most_sixteen_times_as_long(
    items: str, keys: str
) -> None:
    planned(items, keys, 100)
    few, many = (min(planned(items, keys, count) for _ in range(2)) for count in (100, 800))
    assert many < 16 * few


def planned(items: str, keys: str, count: int) -> float:
    """Return the CPU seconds that planning takes."""
    columns = ", ".join(f"c{number} {'DOUBLE' if number % 3 else 'INT'}" for number in range(count))
    sums = ", ".join(f"sum(c{number} / 7) AS s{number}" for number in range(count // 4))
    sql = f"SELECT {items.format(sums=sums)} FROM r GROUP BY tumblingwindow('ss', 10){keys}"
    started = time.process_time()
    query = tidegate.sql(
        sql,
        streams={"r": f"ts TIMESTAMP, k STRING, {columns}"},
        settings={"event_time_field": "ts"},
    )
    taken = time.process_time() - started
    assert f"s{count // 4 - 1}" in query.explain() or f"c{count - 1}" in query.explain()
    return taken
