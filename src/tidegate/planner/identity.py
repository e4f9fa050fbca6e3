"""The identity of a plan's state: what two plans must have in common to share a checkpoint."""

from __future__ import annotations

import json
from dataclasses import fields
from hashlib import sha256

from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.stages import IngestPartials, IngestRows
from tidegate.plan.windows import Cumulate, Hopping, Session, Sliding, Window
from tidegate.time import TimeUnit, format_duration


def state_fingerprint(plan: PhysicalPlan) -> dict[str, str]:
    """Return what shapes the state of a plan; plans that share a checkpoint must agree in it.

    Lag, lateness, WHERE, HAVING, projection, ORDER BY, LIMIT and the horizon of
    duplicates are not part of it and may change.
    """
    ingest, spec = plan.ingest, plan.watermark
    match ingest:
        case IngestPartials():
            held = json.dumps(sorted(column.name for column in ingest.partial_columns))
        case IngestRows():
            rows = [argument.expression.sql for argument in ingest.arguments]
            held = "rows of " + json.dumps(rows)
    shapes = {
        "window": _window_identity(plan.close.window),
        "emit": "on_close" if spec.emit_on_close else "at_once",
        "keys": json.dumps([key.expression.sql for key in ingest.keys]),
        "accumulators": held,
        "event_time": spec.event_time.sql or "the batch's clock",
        "mode": spec.mode.value,
        **_lateness(plan),
    }
    dedup_key = plan.settings.dedup_key
    return shapes if dedup_key is None else {**shapes, "dedup_key": dedup_key}


def _lateness(plan: PhysicalPlan) -> dict[str, str]:
    """With lateness by record, some kinds keep for a row which windows it came too late for."""
    has_several = isinstance(plan.close.window, (Hopping, Cumulate, Session, Sliding))
    return {"lateness": "record"} if plan.watermark.by_record and has_several else {}


def _window_identity(window: Window) -> str:
    """Return a window's kind and parameters; 60 seconds and 1 minute give the same text."""
    words = [window.kind]
    unit: TimeUnit | None = getattr(window, "time_unit", None)
    for field in fields(window):
        value = getattr(window, field.name)
        if isinstance(value, TimeUnit):
            continue
        if isinstance(value, int) and unit is not None:
            value = format_duration(value * unit.micros)
        words.append(f"{field.name}={json.dumps(value)}")
    return " ".join(words)


def plan_id(fingerprint: dict[str, str]) -> str:
    """Return the hash of a fingerprint, 32 hex digits."""
    return sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()[:32]
