"""What can fail where not every part is computed: CASE, IF, coalesce and their like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.frontend.guards.parts import Fault, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A value that is computed when its condition holds, and no arm before it; None: otherwise."""

    when: Part | None
    value: Part


def faults_of_arms(arms: Sequence[Arm]) -> tuple[Fault, ...]:
    """Return what can fail in arms, each fault under the conditions that lead to it."""
    found: list[Fault] = []
    passed: list[str] = []
    for arm in arms:
        chosen = list(passed)
        if arm.when is not None:
            found += _under(passed, arm.when)
            chosen.append(f"({arm.when.text})")
            passed.append(f"({arm.when.text}) IS NOT TRUE")
        found += _under(chosen, arm.value)
    return tuple(found)


def faults_until(parts: Sequence[Part], goes_on: str) -> tuple[Fault, ...]:
    """Return what can fail in parts that are computed in order, each after all before it go on.

    Args:
        parts: the parts.
        goes_on: what a part is when the next one is computed, e.g. ``IS NULL`` in coalesce.
    """
    found: list[Fault] = []
    passed: list[str] = []
    for part in parts:
        found += _under(passed, part)
        passed.append(f"({part.text}) {goes_on}")
    return tuple(found)


def _under(conditions: Sequence[str], part: Part) -> list[Fault]:
    if not conditions:
        return list(part.faults)
    condition = " AND ".join(conditions)
    return [fault.only_if(condition) for fault in part.faults]
