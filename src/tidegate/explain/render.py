"""EXPLAIN: a summary, then the logical and the physical tree, as text or as JSON.

Both are made from the nodes that the engine runs, so they cannot disagree with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from textwrap import wrap

from tidegate.explain.describe import Described, describe_logical, describe_physical
from tidegate.explain.facts import (
    Detail,
    Json,
    closing,
    early_facts,
    watermark_details,
    window_parameters,
)
from tidegate.explain.row_errors import error_json, error_lines
from tidegate.explain.side_output import side_output_json, side_output_lines
from tidegate.plan.logical import LogicalPlan
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.settings import Settings
from tidegate.plan.stages import IngestPartials
from tidegate.time import format_duration

# Lines are wrapped at WIDTH, but never to less than NARROWEST, however deep the tree is.
WIDTH = 110
NARROWEST = 48
_LABEL = 14


def explain_text(logical: LogicalPlan, physical: PhysicalPlan) -> str:
    """Return the plans as text; it ends in a line break."""
    mode = physical.watermark.mode
    lines = [f"Plan {physical.plan_id}"]
    for label, facts in summary(logical, physical):
        lines += _labelled(label, facts, "  ")
    lines += ["", "Logical plan", *_tree(describe_logical(logical.root, mode), "  ")]
    lines += ["", "Physical plan", *_tree(describe_physical(physical), "  ")]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def explain_json(logical: LogicalPlan, physical: PhysicalPlan) -> dict[str, Json]:
    """Return the same for JSON: the summary's facts, the state's fingerprint, both trees."""
    spec, window = physical.watermark, physical.close.window
    path, reason = _path(physical)
    return {
        "plan_id": physical.plan_id,
        "statement": logical.query.statement.text,
        "window": window_parameters(window, spec.mode),
        "closes": closing(window, spec),
        **{detail.label: detail.value for detail in early_facts(physical.close.early_us)},
        "event_time": {
            "text": spec.event_time.text,
            "sql": spec.event_time.sql,
            "fallback_sql": spec.event_time.fallback_sql,
            "authority": spec.event_time.authority.value,
            "why": spec.event_time.why,
        },
        "watermark": {
            "lag_us": spec.lag_us,
            "lag_authority": spec.lag_authority.value,
            "lateness_us": spec.lateness_us,
            "lateness_authority": spec.lateness_authority.value,
            "shard": spec.shard,
            "shard_expiry_us": spec.shard_expiry_us,
            "idle_timeout_us": spec.idle_timeout_us,
            "on_idle": spec.on_idle.value,
            "null_event_time_fallback": spec.null_event_time_fallback,
            "max_future_skew_us": spec.max_future_skew_us,
            "emit_on_close": spec.emit_on_close,
            **({} if spec.follows is None else {"follows": spec.follows.upstream.name}),
        },
        "path": {"kind": path, "reason": reason},
        "row_errors": error_json(logical.query.statement, physical),
        "side_output": side_output_json(physical),
        "settings": dict(_settings(physical.settings)),
        "fingerprint": dict(physical.fingerprint),
        "logical": _json(describe_logical(logical.root, spec.mode)),
        "physical": _json(describe_physical(physical)),
    }


def summary(logical: LogicalPlan, physical: PhysicalPlan) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return what matters most of a plan: labels, each with its lines."""
    yield from ((label, (text,)) for label, text in _decisions(physical))
    yield "row errors", error_lines(logical.query.statement, physical)
    yield "side output", side_output_lines(physical)


def _decisions(physical: PhysicalPlan) -> Iterator[tuple[str, str]]:
    spec, window = physical.watermark, physical.close.window
    yield "window", parameter_text(window_parameters(window, spec.mode))
    yield "closes", closing(window, spec)
    for detail in early_facts(physical.close.early_us):
        yield detail.label, detail.lines[0]
    shown = ("event time", "because", "lag", "lateness", "watermark")
    for detail in watermark_details(spec):
        if detail.label in shown or (detail.label == "shard" and spec.shard is not None):
            yield detail.label, detail.lines[0]
    path, reason = _path(physical)
    yield "path", f"{_PATHS[path]}: {reason}"
    settings = [f"{name} = {json.dumps(value)}" for name, value in _settings(physical.settings)]
    if settings:
        yield "settings", ", ".join(settings)


_PATHS = {"streaming": "streaming aggregation", "rows": "rows kept to the close"}


def _path(physical: PhysicalPlan) -> tuple[str, str]:
    """Return the path of the rows, and why it was chosen."""
    ingest = physical.ingest
    return "streaming" if isinstance(ingest, IngestPartials) else "rows", ingest.reason


def _settings(settings: Settings) -> Iterator[tuple[str, Json]]:
    """Return the settings that differ from their defaults, as they are written."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if value == field.default:
            continue
        if field.name.endswith("_us"):
            yield field.name.removesuffix("_us"), format_duration(value)
        elif isinstance(value, Enum):
            yield field.name, value.value
        else:
            yield field.name, value


def parameter_text(parameters: dict[str, Json]) -> str:
    """Return parameters as ``kind=sliding, unit=ss``; values of several words are in brackets."""
    return ", ".join(f"{name}={_parameter(value)}" for name, value in parameters.items())


def _parameter(value: Json) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        return f"({', '.join(str(part) for part in value)})"
    text = " ".join(str(value).split())
    return f"({text})" if " " in text or "," in text else text


def _tree(node: Described, margin: str, branch: str = "") -> Iterator[str]:
    """Return the lines of a node, with a bar beside its facts, and of its descendants."""
    parameters = f" ({parameter_text(node.parameters)})" if node.parameters else ""
    yield from _wrapped(
        f"{node.id}{parameters}", margin + branch, margin + " " * len(branch) + "   "
    )
    below = margin + " " * len(branch)
    bar = below + ("|  " if node.child is not None else "   ")
    for detail in node.details:
        yield from _labelled(detail.label, detail.lines, bar)
    if node.child is not None:
        yield from _tree(node.child, below, "+- ")


def _labelled(label: str, lines: tuple[str, ...], margin: str) -> Iterator[str]:
    for number, line in enumerate(lines):
        first = margin + (label if number == 0 else "").ljust(_LABEL)
        indent = len(line) - len(line.lstrip())
        rest = margin + " " * (_LABEL + indent + 2)
        yield from _wrapped(line.lstrip(), first + " " * indent, rest)


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    """Return a text as lines of moderate width; words are never broken."""
    return wrap(
        text,
        width=max(WIDTH, len(rest) + NARROWEST),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _json(node: Described) -> dict[str, Json]:
    return {
        "id": node.id,
        "parameters": node.parameters,
        **{_key(detail): detail.value for detail in node.details},
        "children": [] if node.child is None else [_json(node.child)],
    }


def _key(detail: Detail) -> str:
    return detail.label.replace(" ", "_")
