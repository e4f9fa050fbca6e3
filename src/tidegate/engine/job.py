"""A job: everything about a started query that stays the same from batch to batch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, assert_never, runtime_checkable

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StringType

from tidegate.engine.rows.duplicates import Duplicates, duplicates_of
from tidegate.engine.rows.fates import BatchStart
from tidegate.engine.rows.finish import Finisher, native_types
from tidegate.engine.rows.lateness import RecordLateness
from tidegate.engine.rows.quotas import Quotas
from tidegate.engine.rows.shards import ShardWatch
from tidegate.engine.side_output.delivery import Deliveries
from tidegate.engine.windows.operator import Arrival, Operator
from tidegate.engine.windows.ordered.count_window import CountScan
from tidegate.engine.windows.ordered.operator import OrderedOperator, OrderedRows, Scan
from tidegate.engine.windows.ordered.state_window import StateScan
from tidegate.engine.windows.panes.grid import pane_grid
from tidegate.engine.windows.panes.operator import PaneOperator
from tidegate.engine.windows.sessions.operator import SessionOperator
from tidegate.engine.windows.sessions.spans import SpanPartials, SpanRows
from tidegate.engine.windows.sliding.operator import sliding_operator
from tidegate.engine.windows.state_rows import Partials, WholeRows
from tidegate.errors import TidegateError
from tidegate.plan.columns import ROW, SHARD
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.stages import IngestPartials, IngestRows
from tidegate.plan.windows import Count, Cumulate, Hopping, Session, Sliding, State, Tumbling
from tidegate.spark.statements import empty_frame
from tidegate.state.manifest import Tables

if TYPE_CHECKING:
    from tidegate.engine.downstream import Downstream
    from tidegate.state.intents import Intent

_LOG = logging.getLogger("tidegate")

# An empty relation, over which the analyzer is asked for types.
FIRST = BatchStart(epoch=0)


class Outlet(Protocol):
    """Where the rows of an epoch go: every sink is an outlet."""

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Write the rows of an epoch, replacing what an earlier attempt at it wrote."""


@runtime_checkable
class OwnedOutlet(Outlet, Protocol):
    """An outlet whose target belongs to one checkpoint."""

    def open(self, owner: str, newest_epoch: int | None) -> None:
        """Check that the target belongs to this checkpoint, and delete what was never committed.

        Called once at each start of a query, before the first write.

        Args:
            owner: the id of the checkpoint, the same at every start.
            newest_epoch: the newest epoch of the state, None if there is no state yet. If the epoch
                after it was begun and is written again next, that one. Later epochs in the target
                were never committed.

        Raises:
            TidegateError: the target belongs to another checkpoint.
        """


class Taker(Protocol):
    """A query that reads the results of another one; see ``engine/downstream.Link``."""

    def take(self, results: DataFrame | None, step: Intent, owner: str) -> None:
        """Run the step for a step of the other one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Where rows go: results, and side output by kind.

    The rows of a kind without an outlet are only counted.

    Attributes:
        downstream: the queries that read the results.
        takers: these queries while a stepper runs their steps.
        deliveries: how it went with the outlets of side output so far.
    """

    results: Outlet
    side: Mapping[str, Outlet] = field(default_factory=dict)
    downstream: tuple[Downstream, ...] = ()
    takers: tuple[Taker, ...] = ()
    deliveries: Deliveries = field(default_factory=Deliveries, compare=False)

    def open(self, owner: str, newest_epoch: int | None) -> None:
        """Open each outlet that has an owner, once.

        A failing side sink stops the query only if its target belongs to another checkpoint.
        """
        distinct = {id(outlet): outlet for outlet in (self.results, *self.side.values())}
        for outlet in distinct.values():
            if not isinstance(outlet, OwnedOutlet):
                continue
            try:
                outlet.open(owner, newest_epoch)
            except Exception as error:
                if outlet is self.results or isinstance(error, TidegateError):
                    raise
                _LOG.warning("a side sink could not be opened: %s", error, exc_info=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A plan made ready to run: the operator of its windows, and where its rows go.

    Attributes:
        partitions: the maximum number of tasks of a shuffle; small batches use fewer.
        original: the type of original rows in side output; STRING if it has none.
        shard_by: the expression of the shards, with its type; None if the stream is one shard.
        duplicates: what finds duplicates; None without ``dedup_key``.
        shards: observes the shards of batches; None without shards.
        lateness: judges rows by the watermark at their place; None: by the one before their batch.
        quotas: what checks quotas; None without one that this query can exceed.
        explain: returns the plan as EXPLAIN has it, for those who look at the checkpoint; None: not
            known.
    """

    plan: PhysicalPlan
    operator: Operator
    finisher: Finisher
    outlets: Outlets
    partitions: int
    original: DataType
    shard_by: str | None = None
    shards: ShardWatch | None = None
    duplicates: Duplicates | None = None
    lateness: RecordLateness | None = None
    quotas: Quotas | None = None
    explain: Callable[[], Mapping[str, Any]] | None = None

    @property
    def needs_ticks(self) -> bool:
        """Whether the passing of time alone can do something, here or downstream."""
        below = self.outlets.downstream
        return self.plan.needs_ticks or any(each.job.needs_ticks for each in below)


def make_job(plan: PhysicalPlan, rows: DataFrame, outlets: Outlets, partitions: int) -> Job:
    """Return the job of a plan.

    Args:
        plan: the plan.
        rows: prepared rows, of which only the types are used.
        outlets: where results and side output go.
        partitions: the maximum number of tasks of a shuffle.
    """
    # The analyzer needs a relation that is not a stream; it needs no rows.
    empty = empty_frame(rows.sparkSession, rows.schema)
    operator = make_operator(plan, empty)
    finisher = Finisher(
        plan=plan,
        types=native_types(empty, plan.ingest.aggregates),
        identified=getattr(outlets.results, "needs_identity", False) is True,
        timed=bool(outlets.downstream),
    )
    shard = plan.watermark.shard
    by_record = plan.watermark.by_record
    lateness = RecordLateness(plan=plan, operator=operator) if by_record else None
    return Job(
        plan=plan,
        operator=operator,
        finisher=finisher,
        outlets=outlets,
        partitions=partitions,
        original=rows.schema[ROW].dataType if ROW in rows.columns else StringType(),
        shard_by=shard and f"{shard.strip()}: {rows.schema[SHARD].dataType.simpleString()}",
        shards=None if shard is None else ShardWatch(plan, empty),
        duplicates=duplicates_of(plan, lateness, empty),
        lateness=lateness,
        quotas=quotas_of(plan, operator, empty),
    )


def make_operator(plan: PhysicalPlan, empty: DataFrame) -> Operator:
    """Return the operator of the plan's window.

    Args:
        plan: the plan.
        empty: a static frame with the prepared columns and no rows.
    """
    window = plan.close.window
    match window:
        case Tumbling() | Hopping() | Cumulate():
            grid = pane_grid(window)
            shape = shape_of(plan, keeps_after=plan.watermark.by_record and not grid.single)
            schema = shape.kept(shape.place(empty, plan, grid, FIRST)).schema
            return PaneOperator(plan=plan, grid=grid, shape=shape, state_schema=schema)
        case Session():
            spans = span_shape_of(plan, window.gap_us)
            schema = spans.kept(spans.place(empty, plan, FIRST)).schema
            return SessionOperator(
                plan=plan, gap_us=window.gap_us, shape=spans, state_schema=schema
            )
        case State():
            return ordered_operator(plan, StateScan(), empty)
        case Count(count=count, every=every):
            return ordered_operator(plan, CountScan(count=count, every=every or count), empty)
        case Sliding():
            return sliding_operator(plan, window, empty)
        case _:
            assert_never(window)


def ordered_operator(plan: PhysicalPlan, scan: Scan, empty: DataFrame) -> OrderedOperator:
    """Return the operator of a window that takes rows one by one, in order."""
    whole = shape_of(plan)
    assert isinstance(whole, WholeRows), "state and count windows keep their rows"
    shape = OrderedRows(plan=plan, aggregation=whole.aggregation, scan=scan)
    schema = shape.kept(shape.place(empty, FIRST)).schema
    return OrderedOperator(shape=shape, state_schema=schema)


def quotas_of(plan: PhysicalPlan, operator: Operator, empty: DataFrame) -> Quotas | None:
    """Return what checks the quotas of a plan; None if it has none that rows can exceed.

    Args:
        plan: the plan.
        operator: the operator of its windows.
        empty: a static frame without rows, of the prepared columns.
    """
    limits = [limit for limit in (plan.max_groups, plan.max_rows) if limit is not None]
    if not limits:
        return None
    assert isinstance(operator, PaneOperator | SessionOperator), "others are refused by the planner"
    quotas = Quotas(least=min(limits), windows=operator.quotas)
    # Keys without an order are refused here, not by the first batch.
    quotas.of_table(Arrival(rows=empty, start=FIRST, state=Tables, early=Tables()))
    return quotas


def shape_of(plan: PhysicalPlan, *, keeps_after: bool = False) -> Partials | WholeRows:
    """Return the shape of state rows: partials if every aggregate has a merge, else whole rows."""
    match plan.ingest:
        case IngestPartials() as partials:
            return Partials(aggregation=partials, keeps_after=keeps_after)
        case IngestRows() as rows:
            return WholeRows(aggregation=rows, keeps_after=keeps_after)


def span_shape_of(plan: PhysicalPlan, gap_us: int) -> SpanPartials | SpanRows:
    """Return the shape of a session's spans, chosen as in ``shape_of``."""
    by_record = plan.watermark.by_record
    match shape_of(plan):
        case Partials(aggregation=streaming):
            return SpanPartials(aggregation=streaming, gap_us=gap_us, by_record=by_record)
        case WholeRows(aggregation=kept):
            return SpanRows(aggregation=kept, gap_us=gap_us, by_record=by_record)
