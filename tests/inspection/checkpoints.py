"""Checkpoints for tests, written without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from state.manifests import SECOND, local_files, manifest
from tidegate.state.manifest import Manifest, Segment, StateFile, Tables
from tidegate.state.plan_file import PlanFile

Rows = Sequence[dict[str, Any]]


def put_segment(checkpoint: Path, name: str, rows: Rows, time: str = "_pane") -> Segment:
    """Write a segment; ``time`` is the column of its bounds."""
    folder = checkpoint / "tidegate" / "segments" / name
    folder.mkdir(parents=True)
    file = folder / "part-0.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), file)
    return Segment(
        name=name,
        first_us=min(row[time] for row in rows),
        last_us=max(row[time] for row in rows),
        rows=len(rows),
        files=(StateFile(name=file.name, bytes=file.stat().st_size),),
    )


def put_state(
    checkpoint: Path, plan: PlanFile, tables: Tables, epoch: int = 0, **facts: Any
) -> Manifest:
    """Write ``plan.json`` and a manifest."""
    files = local_files(checkpoint)
    if not (checkpoint / "tidegate" / "plan.json").exists():
        files.put_if_absent("plan.json", plan.to_json())
    written = manifest(epoch, fingerprint=plan.fingerprint, tables=tables, **facts)
    files.put_if_absent(f"manifests/{epoch}.json", written.to_json())
    return written


def plan_of(window: str, **facts: Any) -> PlanFile:
    """What a state with a window means."""
    emit = facts.pop("emit", "on_close")
    return PlanFile(plan_id="p", fingerprint={"window": window, "emit": emit}, **facts)


TUMBLING = plan_of(
    'tumbling size="10s" offset="0s"',
    keys={"_k0": "user"},
    merges={"count_1": "sum(count_1)", "hll_2": "hll_union_agg(hll_2, false)"},
    values={"count(*)": "count_1", "ndv(page)": "hll_sketch_estimate(hll_2)"},
)


def put_clicks(checkpoint: Path) -> Manifest:
    """Write the state of clicks per user: a closed window, and two open ones."""
    rows = [
        {"_pane": 0, "_k0": "ann", "count_1": 3, "hll_2": b"x"},
        {"_pane": 10 * SECOND, "_k0": "ann", "count_1": 1, "hll_2": b"x"},
        {"_pane": 10 * SECOND, "_k0": None, "count_1": 2, "hll_2": b"x"},
    ]
    more = [
        {"_pane": 10 * SECOND, "_k0": "ann", "count_1": 4, "hll_2": b"xy"},
        {"_pane": 20 * SECOND, "_k0": "bob", "count_1": 5, "hll_2": None},
    ]
    first = put_segment(checkpoint, "0-aa-batch", rows)
    put_state(checkpoint, TUMBLING, Tables(windows=(first,)))
    tables = Tables(windows=(first, put_segment(checkpoint, "1-aa-batch", more)))
    schema = {"_pane": "bigint", "_k0": "string", "count_1": "bigint", "hll_2": "binary"}
    return put_state(checkpoint, TUMBLING, tables, epoch=1, bound_us=10 * SECOND, schema=schema)
