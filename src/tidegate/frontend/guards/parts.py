"""Parts of a guarded expression: their text, their faults, and nets for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.frontend.grammar.source import in_brackets
from tidegate.plan.types import SqlType


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way to fail: a condition that is true if it happens, and the error to report."""

    when: str
    reason: str
    detail: str

    def only_if(self, condition: str) -> Fault:
        """Return the fault for a part that is computed only under a condition."""
        return replace(self, when=f"{in_brackets(condition)} AND {in_brackets(self.when)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A guarded sub-expression: text that never raises, type, and faults in order of evaluation.

    Attributes:
        text: Spark SQL.
        type: its type; None if unknown.
        faults: the ways in which it can fail.
        literal: the value of a literal.
        written: the text that the user wrote.
        hides: whether the value can be other than NULL although a part of it failed.
    """

    text: str
    type: SqlType | None = None
    faults: tuple[Fault, ...] = ()
    literal: str | None = None
    written: str = ""
    hides: bool = False

    @property
    def operand(self) -> str:
        """The text, in parentheses where an operator needs them."""
        return self.text if self.text.isidentifier() else in_brackets(self.text)

    @property
    def known(self) -> str | None:
        """The condition that the value is not NULL; None for a literal, which is never NULL."""
        return None if self.literal is not None else f"{self.operand} IS NOT NULL"


def all_faults(parts: Sequence[Part]) -> tuple[Fault, ...]:
    """Return the faults of parts that are all computed."""
    return tuple(fault for part in parts for fault in part.faults)


def over(own: Part, operands: Sequence[Part]) -> Part:
    """Return an operation that is NULL if an operand is, with the faults of its operands first."""
    hides = any(each.hides for each in operands)
    return replace(own, faults=all_faults(operands) + own.faults, hides=hides)


def kept_over(own: Part, parts: Sequence[Part], *, strict: bool) -> Part:
    """Return an expression that itself cannot fail, with the faults of its parts."""
    made = over(own, parts)
    return made if strict else replace(made, hides=bool(made.faults))


def net(call: str) -> str:
    """Return the net of a call: SQL that is NULL if the call raises, else an interval.

    Only when it adds intervals does Spark catch everything that an operand raises. The operand is
    an aggregation over an array of the call's value, because Spark does not fold, move or share
    what is inside of one, so the call is never computed outside the catch.
    """
    return f"try_add(INTERVAL '0' DAY, reduce(array({call}), INTERVAL '0' DAY, (sum, each) -> sum))"


def netted(
    call: str, kind: SqlType | None, fault: tuple[str, str], inside: tuple[Fault, ...] = ()
) -> Part:
    """Return any call in a net.

    Args:
        call: the call as written.
        kind: its type.
        fault: reason and text to report if no part of it failed.
        inside: the faults of its parts, reported only if the call fails.
    """
    caught = net(call)
    own = Fault(when=f"{caught} IS NULL", reason=fault[0], detail=fault[1])
    return Part(
        text=f"CASE WHEN {caught} IS NOT NULL THEN {call} END",
        type=kind,
        faults=(*(each.only_if(own.when) for each in inside), own),
    )


def unless(fails: str, call: str, kind: SqlType | None, fault: tuple[str, str]) -> Part:
    """Return a call that fails if and only if a condition holds (NULL: it does not)."""
    return Part(
        text=f"CASE WHEN {in_brackets(fails)} THEN NULL ELSE {call} END",
        type=kind,
        faults=(Fault(when=fails, reason=fault[0], detail=fault[1]),),
    )


def null_where_it_fails(
    tried: str, given: tuple[Part, ...], kind: SqlType | None, fault: tuple[str, str]
) -> Part:
    """Return a form that, for arguments that are not NULL, is NULL only if it fails."""
    known = [each.known for each in given if each.known is not None]
    when = " AND ".join([f"{tried} IS NULL", *known])
    return Part(text=tried, type=kind, faults=(Fault(when=when, reason=fault[0], detail=fault[1]),))
