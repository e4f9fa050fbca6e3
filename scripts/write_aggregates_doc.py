"""Writes docs/aggregates.md from the table of accumulators.

Run it when the table changes:

    python scripts/write_aggregates_doc.py
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tidegate.plan.aggregates.table import (
    ACCUMULATORS,
    AGGREGATE_ALIASES,
    Accumulator,
)

PAGE = Path(__file__).parents[1] / "docs" / "aggregates.md"

HEAD = """\
# Aggregates

<!-- Written by scripts/write_aggregates_doc.py from plan/aggregates/table.py. -->

Every aggregate of Spark SQL works in a query. The ones below are *accumulators*: each batch
aggregates its rows to a small state per group, states are merged, and the value is computed when
the window closes. For any other aggregate, and for calls of these in a form that is not listed, the
rows of the window are kept until it closes. EXPLAIN shows which applies.

- The value has the type that Spark gives the call.
- A sum out of its type's range is NULL, and so is `corr` with a constant; neither stops the query.
  A sum of BIGINTs may leave the range on the way: only the final sum counts, however batches are
  cut. That holds where the types of the columns are declared; behind a WITH clause, and for
  decimals of over 28 digits, a partial sum that leaves the range makes the sum NULL.
- `FILTER (WHERE ..)` works on every aggregate. A group has a result even if it removes all rows.
- Equal parts of states are stored once: `avg(x)` and `sum(x)` share a sum if x is a column whose
  declared type is not BIGINT; `stddev(x)` and `var_pop(x)` share their whole state.
- If the order of rows matters (`first`, `last`, `any_value`, `collect_list`, ties of `min_by` and
  `max_by`), rows are ordered by event time, then arrival.
- Arguments listed below as constant must be constants.
"""

OWN = """
## Your own

```python
tg.register_accumulator(
    "geo_mean",
    update="named_struct('l', sum(ln({x})){filter}, 'n', count({x}){filter})",
    merge="named_struct('l', sum({p}.l), 'n', sum({p}.n))",
    evaluate="exp({v}.l / nullif({v}.n, 0))",
)
```

All three texts are Spark SQL:

- `update` aggregates rows to a state. `{x}`, `{y}` and `{z}` are the arguments, `{args}` all of
  them, `{row}` a single value of all of them (NULL if one is NULL), `{time}` the row's time in
  microseconds, `{order}` a STRUCT that orders rows by time and arrival, and `{filter}` the FILTER
  clause; write it after every aggregate function.
- `merge` aggregates states `{p}` to one state of the same type. The result must not depend on how
  the rows were split.
- `evaluate` computes the value from the merged state `{v}`.

Spark checks the texts when a query starts; the error names a text that it refuses.
"""


def main() -> None:
    """Write the page."""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE}: {len(ACCUMULATORS)} aggregates, {len(AGGREGATE_ALIASES)} aliases")


def page() -> str:
    """Return the text of docs/aggregates.md."""
    plain = [(_call(name, entry), entry) for name, entry in ACCUMULATORS.items()]
    distinct = [
        (f"{name}(DISTINCT {_args(entry.distinct)})", entry.distinct)
        for name, entry in ACCUMULATORS.items()
        if entry.distinct is not None
    ]
    ignoring = [
        (f"{name}(x) IGNORE NULLS", replace(entry.ignore_nulls, constants=()))
        for name, entry in ACCUMULATORS.items()
        if entry.ignore_nulls is not None
    ]
    typed = [
        (f"{_call(name, form)} of {', '.join(sorted(families))}", form)
        for name, entry in ACCUMULATORS.items()
        for families, form in entry.typed
    ]
    sections = [
        HEAD,
        "\n## The table\n\n",
        *_table([*plain, *ignoring, *distinct]),
        "\nIf the argument is a column with a declared type, these cheaper forms are used. A"
        " DECIMAL here has up to 28 digits, a WIDE DECIMAL more.\n\n",
        *_table(typed),
        "\n## Other names\n\n| name | means |\n|---|---|\n",
        *(f"| `{alias}` | `{name}` |\n" for alias, name in sorted(AGGREGATE_ALIASES.items())),
        OWN,
        "\n## The texts\n\nThe Spark SQL that runs for each call above; in `merge`, `{p}` is the"
        " column of the state.\n",
        *(_texts(call, entry) for call, entry in [*plain, *ignoring, *distinct, *typed]),
    ]
    return "".join(sections)


def _args(entry: Accumulator) -> str:
    if not entry.arity:
        return "x, .."
    names = "xyz"[: max(entry.arity)]
    least = min(entry.arity)
    shown = ", ".join(names[:least])
    for place, name in enumerate(names[least:], start=least):
        shown += f"[, {name} = {entry.constants[place - 1]}]"
    return shown


def _call(name: str, entry: Accumulator) -> str:
    return f"{name}({_args(entry)})"


def _table(entries: Iterable[tuple[str, Accumulator]]) -> list[str]:
    lines = ["| call | NULL | a group keeps | result | exact |\n|---|---|---|---|---|\n"]
    for call, entry in entries:
        constants = " and ".join("xyz"[1 : max(entry.arity, default=1)]) if entry.constants else ""
        result = entry.result.text + (f"; {constants} constant" if constants else "")
        exact = "yes" if entry.exact else "sketch"
        lines.append(f"| `{call}` | {entry.nulls} | {entry.state} | {result} | {exact} |\n")
    return lines


def _texts(call: str, entry: Accumulator) -> str:
    lines = [f"\n### {call}\n\n```sql\n"]
    for part in entry.parts:
        lines.append(f"-- {part.name}\nupdate  {part.update}\nmerge   {part.merge}\n")
    lines.append(f"evaluate  {entry.evaluate}\n")
    if entry.decimal:
        lines.append(f"of DECIMAL  {entry.decimal}\n")
    lines.append("```\n")
    return "".join(lines)


if __name__ == "__main__":
    main()
