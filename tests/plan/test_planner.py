"""The chain of a statement, its path, what is not run yet, and the identity of its state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.errors import ConfigError, Span
from tidegate.explain.describe import Described, describe_physical
from tidegate.plan.logical import (
    Aggregation,
    DataSource,
    LogicalNode,
    LogicalPlan,
    Watermark,
    WindowNode,
)
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.settings import Lateness, RowPath, Settings, TimeMode
from tidegate.plan.stages import IngestPartials, IngestRows
from tidegate.plan.statement import BoundQuery, EarlyClause, OrderItem
from tidegate.plan.windows import (
    Count,
    Cumulate,
    Hopping,
    Session,
    Sliding,
    State,
    Tumbling,
    Window,
)
from tidegate.planner.planner import check_windows, plan_logical, plan_physical
from tidegate.time import TimeUnit

from .queries import TEN_SECONDS, aggregate, clicks, expression, query

BY_TS = Settings(event_time_field="ts")
SECOND = TimeUnit.SECOND
WINDOWS: tuple[Window, ...] = (
    TEN_SECONDS,
    Hopping(time_unit=SECOND, size=10, slide=5),
    Cumulate(time_unit=SECOND, size=10, step=5),
    Session(time_unit=SECOND, gap=10),
    Sliding(time_unit=SECOND, lookback=10),
    State(open="pages > 0", emit="pages = 0"),
    Count(count=3),
)


def everything() -> BoundQuery:
    """A query with every clause there is."""
    order = OrderItem(expression=expression("_a0"), descending=True, nulls_first=False)
    bound = query(where=expression("pages > 0"))
    return replace(bound, having=expression("_a0 > 1"), order_by=(order,), limit=3)


def physical(bound: BoundQuery, settings: Settings = BY_TS) -> PhysicalPlan:
    return plan_physical(plan_logical(bound, settings), settings)


def nodes(plan: PhysicalPlan) -> list[Described]:
    """The nodes that EXPLAIN prints for a plan, the sink first."""
    found = [describe_physical(plan)]
    while (child := found[-1].child) is not None:
        found.append(child)
    return found


def logical_names(plan: LogicalPlan) -> list[str]:
    names: list[str] = []
    node: LogicalNode | None = plan.root
    while node is not None:
        names.append(type(node).__name__)
        node = None if isinstance(node, DataSource) else node.child
    return names


def test_a_statement_with_every_clause_has_the_whole_chain() -> None:
    assert logical_names(plan_logical(everything(), BY_TS)) == [
        "DataSink",
        "Project",
        "Limit",
        "Order",
        "Filter",
        "Aggregation",
        "WindowNode",
        "Watermark",
        "Filter",
        "DataSource",
    ]


def test_a_clause_that_is_absent_has_no_node() -> None:
    assert logical_names(plan_logical(query(), BY_TS)) == [
        "DataSink",
        "Project",
        "Aggregation",
        "WindowNode",
        "Watermark",
        "DataSource",
    ]


@pytest.mark.parametrize(
    "statement",
    [
        {"relation": "clicks AS c"},
        {"ctes": "WITH c AS (SELECT * FROM clicks)", "relation": "c"},
        {"relation": "(SELECT * FROM clicks)"},
    ],
    ids=["an alias", "a WITH clause", "a query in FROM"],
)
def test_from_is_kept_whole_when_it_does_more_than_name_the_stream(
    statement: dict[str, object],
) -> None:
    assert "Join" in logical_names(plan_logical(query(**statement), BY_TS))


def test_a_quoted_stream_is_still_only_a_stream() -> None:
    assert "Join" not in logical_names(plan_logical(query(relation="`Clicks`"), BY_TS))


def test_the_check_finds_a_window_without_a_watermark() -> None:
    plan = plan_logical(query(), BY_TS)
    project = plan.root.child
    aggregation = project.child  # type: ignore[union-attr]
    assert isinstance(aggregation, Aggregation)
    source = DataSource(relation=plan.query.source)
    window = WindowNode(child=source, window=TEN_SECONDS)  # type: ignore[arg-type]
    broken = replace(project, child=replace(aggregation, child=window))  # type: ignore[type-var]
    with pytest.raises(AssertionError, match="a window's only child is a watermark"):
        check_windows(replace(plan, root=replace(plan.root, child=broken)))


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: type(window).__name__)
@pytest.mark.parametrize("mode", list(RowPath))
def test_the_child_of_a_window_node_is_its_watermark(window: Window, mode: RowPath) -> None:
    plan = physical(query(window=window), replace(BY_TS, streaming_aggregation=mode))
    holder, watermark = (node for node in nodes(plan) if node.parameters.get("kind"))
    assert holder.child == watermark
    assert holder.id.startswith(
        "PhysicalStreamingAggregation#"
        if isinstance(plan.ingest, IngestPartials)
        else f"Physical{type(window).__name__}Window#"
    )
    assert watermark.id.startswith("PhysicalWatermark#")
    assert watermark.parameters == holder.parameters


def test_ids_count_from_the_sink_down() -> None:
    assert [node.id for node in nodes(physical(everything()))] == [
        "PhysicalDataSink#0",
        "PhysicalProject#1",
        "PhysicalLimit#2",
        "PhysicalOrder#3",
        "PhysicalFilter#4",
        "PhysicalStreamingAggregation#5",
        "PhysicalWatermark#6",
        "PhysicalFilter#7",
        "PhysicalDataSource#8",
    ]


@pytest.mark.parametrize("window", WINDOWS[:5], ids=lambda window: type(window).__name__)
def test_aggregates_with_a_merge_are_streamed(window: Window) -> None:
    ingest = physical(query(window=window)).ingest
    assert isinstance(ingest, IngestPartials)
    assert ingest.reason == "every aggregate has a merge"


def test_distinct_keys_are_streamed_without_accumulators() -> None:
    ingest = physical(replace(query(), aggregates=())).ingest
    assert isinstance(ingest, IngestPartials)
    assert ingest.accumulators == ()
    assert ingest.reason == "distinct keys need no aggregate"


@pytest.mark.parametrize(
    ("bound", "settings", "reason"),
    [
        (query(window=State(open="a", emit="b")), BY_TS, "state windows keep their rows"),
        (query(window=Count(count=3)), BY_TS, "count windows keep their rows"),
        (
            replace(query(), keys=(), aggregates=()),
            BY_TS,
            "the statement asks for the rows themselves",
        ),
        (
            query(),
            replace(BY_TS, streaming_aggregation=RowPath.OFF),
            "streaming_aggregation is off",
        ),
        (
            replace(
                query(),
                aggregates=(
                    aggregate("_a0", "count"),
                    aggregate("_a1", "histogram_numeric", "_x0", "5"),
                ),
            ),
            BY_TS,
            "histogram_numeric has no merge",
        ),
        (
            replace(query(), aggregates=(aggregate("_a0", "var_pop", "_x0", distinct=True),)),
            BY_TS,
            "var_pop(DISTINCT) has no merge",
        ),
    ],
    ids=["state", "count", "row query", "off", "no merge", "distinct"],
)
def test_a_plan_says_why_it_stores_rows(bound: BoundQuery, settings: Settings, reason: str) -> None:
    ingest = physical(bound, settings).ingest
    assert isinstance(ingest, IngestRows)
    assert ingest.reason == reason


@pytest.mark.parametrize(
    ("bound", "quota", "told"),
    [
        (query(window=Count(count=3)), {"max_groups": 5}, "max_groups = 5: count windows have no"),
        (
            replace(query(), keys=()),
            {"max_groups": 5},
            "max_groups = 5: without keys every window is one",
        ),
        (query(), {"max_rows_per_group": 5}, "max_rows_per_group = 5: the statement needs no rows"),
        (
            query(window=Sliding(time_unit=SECOND, lookback=10)),
            {"max_rows_per_group": 5},
            "max_rows_per_group = 5: a row is in the sliding windows of all rows near it",
        ),
    ],
)
def test_a_quota_that_means_nothing_is_refused(
    bound: BoundQuery, quota: dict[str, int], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        physical(bound, replace(BY_TS, **quota))


def test_the_fingerprint_names_everything_that_shapes_the_state() -> None:
    fingerprint = physical(query()).fingerprint
    (column,) = physical(query()).ingest.partial_columns  # type: ignore[union-attr]
    assert fingerprint == {
        "window": 'tumbling size="10s" offset="0s"',
        "emit": "on_close",
        "keys": '["user"]',
        "accumulators": f'["{column.name}"]',
        "event_time": "unix_micros(ts)",
        "mode": "event",
    }


def test_a_plan_id_is_32_hex_digits_and_the_same_every_time() -> None:
    first, second = physical(query()).plan_id, physical(query()).plan_id
    assert first == second
    assert len(first) == 32
    assert set(first) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    ("bound", "settings"),
    [
        (everything(), BY_TS),
        (query(), replace(BY_TS, watermark_lag_us=5, allowed_lateness_us=7)),
        (replace(query(), items=query().items[:1]), BY_TS),
        (query(event_time=expression("ts")), Settings()),
        (query(window=Tumbling(time_unit=TimeUnit.MILLISECOND, size=10_000)), BY_TS),
    ],
    ids=[
        "where, having, order, limit",
        "lag and lateness",
        "projection",
        "the authority",
        "spelling",
    ],
)
def test_compatible_edits_keep_the_plan_id(bound: BoundQuery, settings: Settings) -> None:
    assert physical(bound, settings).plan_id == physical(query()).plan_id


@pytest.mark.parametrize(
    ("bound", "settings", "changed"),
    [
        (query(window=replace(TEN_SECONDS, offset=1)), BY_TS, {"window"}),
        (replace(query(), keys=()), BY_TS, {"keys"}),
        (replace(query(), aggregates=(aggregate("_a0", "sum", "_x0"),)), BY_TS, {"accumulators"}),
        (query(), replace(BY_TS, streaming_aggregation=RowPath.OFF), {"accumulators"}),
        (query(), Settings(time=TimeMode.PROCESSING), {"event_time", "mode"}),
        (
            query(clicks(ts="STRING", user="STRING", pages="BIGINT")),
            BY_TS,
            {"event_time"},
        ),
    ],
    ids=["window", "keys", "accumulators", "path", "mode", "event time"],
)
def test_a_change_of_the_state_changes_its_own_part_of_the_fingerprint(
    bound: BoundQuery, settings: Settings, changed: set[str]
) -> None:
    before, after = physical(query()), physical(bound, settings)
    assert before.plan_id != after.plan_id
    assert {
        part for part in before.fingerprint if before.fingerprint[part] != after.fingerprint[part]
    } == changed


def test_the_order_of_aggregates_does_not_change_the_fingerprint() -> None:
    count, total = aggregate("_a0", "count"), aggregate("_a1", "sum", "_x0")
    one, other = (
        replace(query(), aggregates=(count, total)),
        replace(query(), aggregates=(total, count)),
    )
    assert physical(one).fingerprint == physical(other).fingerprint


def test_emitting_at_once_and_on_close_have_different_fingerprints() -> None:
    sliding = WINDOWS[4]
    at_once, on_close = (
        physical(query(window=sliding)),
        physical(query(window=sliding, emit_on_close=True)),
    )
    assert at_once.fingerprint["emit"] == "at_once"
    assert on_close.fingerprint["emit"] == "on_close"


BY_RECORD = replace(BY_TS, lateness=Lateness.RECORD)
AT_ONCE, AHEAD = WINDOWS[4], Sliding(time_unit=SECOND, lookback=10, lookahead=0)


@pytest.mark.parametrize(
    ("window", "settings", "why"),
    [
        (AT_ONCE, BY_RECORD, "is emitted at once"),
        (WINDOWS[3], replace(BY_RECORD, max_groups=9), "max_groups of sessions is the number of"),
    ],
)
def test_lateness_by_record_is_refused_where_it_cannot_be_had(
    window: Window, settings: Settings, why: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        physical(query(window=window), settings)
    assert str(refused.value).startswith('lateness = "record": ')
    assert why in str(refused.value)
    by_clock = replace(settings, time=TimeMode.PROCESSING, event_time_field=None)
    assert not physical(query(window=window), by_clock).watermark.by_record


def test_lateness_by_record_is_refused_beside_a_quota_of_the_rows_of_sessions() -> None:
    listing = replace(query(window=WINDOWS[3]), aggregates=(aggregate("_a0", "median", "_x0"),))
    with pytest.raises(ConfigError, match="for sessions together with max_rows_per_group"):
        physical(listing, replace(BY_RECORD, max_rows_per_group=9))


@pytest.mark.parametrize("window", [*WINDOWS[:4], AHEAD, *WINDOWS[5:]])
def test_lateness_shapes_the_state_where_a_row_can_be_late_for_some_windows(
    window: Window,
) -> None:
    has_several = not isinstance(window, (Tumbling, State, Count))
    by_batch, by_record = physical(query(window=window)), physical(query(window=window), BY_RECORD)
    assert by_record.watermark.by_record
    assert (by_batch.plan_id != by_record.plan_id) is has_several


def test_early_results_do_not_change_the_fingerprint() -> None:
    early = EarlyClause(every_us=1_000_000, span=Span(0, 1))
    plan = physical(query(early=early))
    assert plan.close.early_us == 1_000_000
    assert plan.plan_id == physical(query()).plan_id


def test_a_plan_finds_the_watermark_of_its_query() -> None:
    watermark = plan_logical(query(), BY_TS).root.child.child.child.child  # type: ignore[union-attr]
    assert isinstance(watermark, Watermark)
    assert physical(query()).watermark == watermark.spec
