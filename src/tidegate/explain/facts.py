"""The facts of windows and watermarks that EXPLAIN shows, in its summary and in both trees."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeAlias, assert_never

from tidegate.plan.columns import SOURCE
from tidegate.plan.logical import Authority, WatermarkSpec
from tidegate.plan.settings import Settings, TimeMode
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
from tidegate.time import TimeUnit, format_duration

Json: TypeAlias = "str | int | bool | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One fact about a node: its label, its value for JSON, and its lines for text."""

    label: str
    value: Json
    lines: tuple[str, ...]


# Parameters of OVER, shown only if the statement has them.
_OPTIONAL = ("when", "partition_by")


def window_parameters(window: Window, mode: TimeMode) -> dict[str, Json]:
    """Return a window's kind, every parameter as the user wrote it, and the time mode."""
    words: dict[str, Json] = {"kind": window.kind}
    for field in fields(window):
        value = getattr(window, field.name)
        if field.name in _OPTIONAL and not value:
            continue
        if isinstance(value, TimeUnit):
            words["unit"] = value.value
        else:
            words[field.name] = list(value) if isinstance(value, tuple) else value
    words["mode"] = f"{mode.value}_time"
    return words


def closing(window: Window, spec: WatermarkSpec) -> str:
    """Return the rule by which a window closes; ``W`` is the watermark."""
    late = f" + {format_duration(spec.lateness_us)}" if spec.lateness_us else ""
    ordered = f"; rows count in order of their time, each once W > its time{late}"
    waits = ordered if spec.mode is TimeMode.EVENT else ""
    match window:
        case Tumbling() | Hopping() | Cumulate():
            return f"when W >= the window's end{late}"
        case Session():
            return f"when W > the last row's time + {format_duration(window.gap_us)}{late}"
        case Sliding() if spec.emit_on_close:
            ahead = f" + {format_duration(window.lookahead_us)}" if window.lookahead_us else ""
            return f"when W > the row's time{ahead}{late}"
        case Sliding():
            return "at once, with the rows that have come"
        case State():
            return f"on the row where emit holds{waits}"
        case Count():
            return f"after every {window.every or window.count} rows{waits}"
        case _:
            assert_never(window)


def early_facts(early_us: int | None) -> tuple[Detail, ...]:
    """Return when provisional results go out; nothing where there are none."""
    if early_us is None:
        return ()
    text = f"results of open windows every {format_duration(early_us)} of the clock, if rows came"
    return (fact("early", text),)


def watermark_details(spec: WatermarkSpec) -> tuple[Detail, ...]:
    """Return the facts of a watermark, each value with where it comes from."""
    event_time = spec.event_time
    named_by = "time" if event_time.sql is None else "event_time_field"
    facts = [
        fact("event time", f"{event_time.text}, {_decider(event_time.authority, named_by)}"),
        fact("because", event_time.why),
    ]
    if event_time.sql is None:
        facts.append(fact("watermark", "just after the clock: no row is late"))
        return tuple(facts)
    if spec.follows is not None:
        name = spec.follows.upstream.name
        facts.append(fact("watermark", f"the closing of the windows of {name}: no row is late"))
        return tuple(facts)
    facts.append(fact("micros", event_time.sql))
    if event_time.fallback_sql is not None:
        facts.append(fact("fallback", event_time.fallback_sql))
    facts += [
        _decided("lag", spec.lag_us, spec.lag_authority, "watermark_lag"),
        _decided("lateness", spec.lateness_us, spec.lateness_authority, "allowed_lateness"),
        fact("shard", _shard(spec)),
        *([fact("late rows", _BY_RECORD)] if spec.by_record else []),
        fact("idle", _idle(spec)),
        fact("null time", _without_time(spec)),
        fact("future skew", f"up to {format_duration(spec.max_future_skew_us)}"),
    ]
    return tuple(facts)


def _shard(spec: WatermarkSpec) -> str:
    if spec.shard is None:
        return "none"
    expiry_us = spec.shard_expiry_us
    gone = "" if expiry_us is None else f"; forgotten after {format_duration(expiry_us)} of silence"
    shard = spec.shard.strip().replace(SOURCE, "source")
    return f"{shard}, {_decider(spec.shard_authority, 'shard')}{gone}"


def dedup_details(settings: Settings, spec: WatermarkSpec) -> tuple[Detail, ...]:
    """Return what takes out duplicates, and what is kept for it; there is a ``dedup_key``."""
    assert settings.dedup_key is not None, "asked only then"
    assert settings.dedup_horizon_us is not None, "it comes with the key"
    horizon = format_duration(settings.dedup_horizon_us)
    late = f" + {format_duration(spec.lateness_us)}" if spec.lateness_us else ""
    return (
        fact("key", settings.dedup_key),
        fact("duplicate", f"a row up to {horizon} after the first of its key; NULL has none"),
        fact("keeps", f"each key with the time of its first row, until W > time + {horizon}{late}"),
    )


_BY_RECORD = "judged by the watermark at their place in their shard"


def _decider(authority: Authority, setting: str) -> str:
    match authority:
        case Authority.SQL:
            return "by the statement"
        case Authority.SETTING:
            return f"by the setting {setting}"
        case Authority.METADATA:
            return "by the source's metadata"
        case Authority.DEFAULT:
            return "by default"
        case _:
            assert_never(authority)


def _without_time(spec: WatermarkSpec) -> str:
    if not spec.null_event_time_fallback:
        return "an error row"
    clock = "the batch's clock"
    return clock if spec.event_time.fallback_sql is None else f"the fallback, else {clock}"


def _idle(spec: WatermarkSpec) -> str:
    if spec.idle_timeout_us is None:
        return "never"
    return f"after {format_duration(spec.idle_timeout_us)}; when all are idle: {spec.on_idle.value}"


def _decided(label: str, micros: int, authority: Authority, setting: str) -> Detail:
    value: Json = {"micros": micros, "authority": authority.value}
    text = f"{format_duration(micros)}, {_decider(authority, setting)}"
    return Detail(label=label, value=value, lines=(text,))


def fact(label: str, text: str) -> Detail:
    """Return a fact that is one text."""
    return Detail(label=label, value=text, lines=tuple(text.splitlines()))
