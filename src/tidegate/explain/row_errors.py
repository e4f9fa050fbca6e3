"""Row errors in EXPLAIN: which expressions can fail, for which reasons, and what happens then."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.explain.facts import Json
from tidegate.plan.columns import DEDUP_KEY, OWN_TIME, PASS, SHARD, TIME
from tidegate.plan.guarded import MALFORMED_RECORD, Guarded, reasons_of
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.settings import ErrorPolicy
from tidegate.plan.statement import SelectStmt

_POLICIES = {
    ErrorPolicy.SIDE_OUTPUT: "an error row or result where one of these fails",
    ErrorPolicy.NULL: "NULL where one of these fails",
    ErrorPolicy.FAIL: "an expression that fails stops the query, nothing is guarded",
}
_NOT_KNOWN = "columns are not known, so anything is expected of them"


def error_lines(statement: SelectStmt, plan: PhysicalPlan) -> tuple[str, ...]:
    """Return the policy, then one line for each expression that can fail."""
    policy = plan.side_output.error_policy
    rows, results = _of_rows(plan), _of_results(statement, plan)
    malformed = _malformed(plan)
    if policy is not ErrorPolicy.FAIL and not rows and not results and malformed is None:
        return ("no expression can fail",)
    lines = [f"{policy.value}: {_POLICIES[policy]}"]
    if plan.prepare.source.columns is None and (rows or results):
        lines[0] += f" ({_NOT_KNOWN})"
    if malformed is not None:
        lines.append(f"  {malformed}: {MALFORMED_RECORD}")
    for expression, guarded in (*rows, *results):
        text = " ".join(expression.split())
        lines.append(f"  {text}: {', '.join(reasons_of(guarded))}")
    return tuple(lines)


def error_json(statement: SelectStmt, plan: PhysicalPlan) -> dict[str, Json]:
    """Return the same for JSON, with the parts that can fail."""
    malformed = _malformed(plan)
    records: list[Json] = []
    if malformed is not None:
        records.append({"expression": malformed, "reasons": {MALFORMED_RECORD: [malformed]}})
    return {
        "error_policy": plan.side_output.error_policy.value,
        "types_known": plan.prepare.source.columns is not None,
        "of_rows": [*records, *_guards_json(_of_rows(plan))],
        "of_results": list(_guards_json(_of_results(statement, plan))),
    }


def _malformed(plan: PhysicalPlan) -> str | None:
    """What fails if a record of the source cannot be read whole, None if that is not an error."""
    return f"a record of {plan.prepare.source.name}" if plan.prepare.tells_malformed else None


def _of_rows(plan: PhysicalPlan) -> list[tuple[str, Guarded]]:
    written = dict(plan.prepare.columns)
    event_time = plan.watermark.event_time.text
    written |= dict.fromkeys((TIME, OWN_TIME), f"event time {event_time}")
    if PASS in written:
        written[PASS] = f"WHERE {written[PASS]}"
    if DEDUP_KEY in written:
        written[DEDUP_KEY] = f"dedup_key {written[DEDUP_KEY].strip()}"
    # A row whose shard fails is no error.
    guards = {name: each for name, each in plan.prepare.guards.items() if name != SHARD}
    found = [(written[name], each) for name, each in guards.items()]
    return [(text, each) for text, each in found if each.error is not None]


def _of_results(statement: SelectStmt, plan: PhysicalPlan) -> list[tuple[str, Guarded]]:
    """Return the results that can fail, as written in the statement."""
    text = statement.text
    # Without its alias, where it has one.
    bare = {each.expression.span.start: each.expression.span for each in statement.items}
    places = reversed(plan.finish.expressions)
    spans = {each.sql: bare.get(each.span.start, each.span) for each in places}
    found = [
        (text[spans[sql].start : spans[sql].end], guarded)
        for sql, guarded in plan.finish.guards.items()
    ]
    return [(written, each) for written, each in found if each.error is not None]


def _guards_json(guards: list[tuple[str, Guarded]]) -> Iterator[Json]:
    for expression, guarded in guards:
        reasons: dict[str, Json] = {
            reason: list(parts) for reason, parts in reasons_of(guarded).items()
        }
        yield {"expression": expression, "reasons": reasons}
