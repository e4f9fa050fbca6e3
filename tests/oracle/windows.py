"""The window kinds: one class each, chosen by what the statement says."""

from __future__ import annotations

from .grid import GridKind, SessionKind
from .kinds import Count, Cumulate, Hops, Session, Sliding, State, Window
from .ordered import CountKind, StateKind
from .placing import Kind, Limits
from .sliding import SlidingKind


def make_kind(window: Window, limits: Limits, *, is_clock: bool, emit_on_close: bool) -> Kind:
    match window:
        case Hops() | Cumulate():
            return GridKind(window, limits)
        case Session():
            return SessionKind(window, limits)
        case Sliding():
            return SlidingKind(
                window,
                limits,
                at_once=window.lookahead is None and not emit_on_close,
                is_clock=is_clock,
            )
        case State():
            return StateKind(window, limits, is_clock=is_clock)
        case Count():
            return CountKind(window, limits, is_clock=is_clock)
    raise AssertionError(window)
