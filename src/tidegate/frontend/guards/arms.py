"""Faults of expressions that compute only some of their parts: CASE, IF, coalesce and the like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.frontend.guards.parts import Fault, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A value with its condition; the first arm whose condition holds is computed. None: ELSE."""

    when: Part | None
    value: Part


def faults_of_arms(arms: Sequence[Arm]) -> tuple[Fault, ...]:
    """Return the faults of arms, each under the conditions that lead to its arm."""
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
    """Return the faults of parts computed in order, each only if all parts before it ``goes_on``.

    Args:
        parts: the parts.
        goes_on: the test on a part after which the next is computed, e.g. ``IS NULL`` in coalesce.
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
