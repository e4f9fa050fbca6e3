"""Parts of a guarded expression: their text, what can fail in them, and the nets under the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.frontend.grammar.source import in_brackets
from tidegate.frontend.guards.types import SqlType


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that can fail: a condition that is true when it does, and what to say then."""

    when: str
    reason: str
    detail: str

    def only_if(self, condition: str) -> Fault:
        """Return the fault of a part that is computed under a condition only."""
        return replace(self, when=f"{in_brackets(condition)} AND {in_brackets(self.when)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A sub-expression: its text that never raises, its type, and what can fail in it, in order.

    Attributes:
        text: Spark SQL.
        type: its type; None: not known.
        faults: what can fail.
        literal: the value of a literal.
        written: the text that the user wrote.
        hides: whether the value may be other than NULL although a part of it failed.
    """

    text: str
    type: SqlType | None = None
    faults: tuple[Fault, ...] = ()
    literal: str | None = None
    written: str = ""
    hides: bool = False

    @property
    def operand(self) -> str:
        """The text so that it can stand anywhere."""
        return self.text if self.text.isidentifier() else in_brackets(self.text)

    @property
    def known(self) -> str | None:
        """The condition that the value is not NULL; None for a literal, which never is."""
        return None if self.literal is not None else f"{self.operand} IS NOT NULL"


def all_faults(parts: Sequence[Part]) -> tuple[Fault, ...]:
    """Return what can fail in parts that are all computed."""
    return tuple(fault for part in parts for fault in part.faults)


def over(own: Part, operands: Sequence[Part]) -> Part:
    """Return an operation that is NULL when an operand is, with what can fail in operands first."""
    hides = any(each.hides for each in operands)
    return replace(own, faults=all_faults(operands) + own.faults, hides=hides)


def kept_over(own: Part, parts: Sequence[Part], *, strict: bool) -> Part:
    """Return what does not fail itself over its parts."""
    made = over(own, parts)
    return made if strict else replace(made, hides=bool(made.faults))


def net(call: str) -> str:
    """Return a text that is NULL when a call raises, and an interval when it does not.

    Adding intervals is the one place where Spark catches whatever is raised in an operand. The
    operand is an aggregation of an array of the call's value: nothing in one is folded away, pushed
    out or shared with other expressions, so nothing is computed outside of the catch.
    """
    return f"try_add(INTERVAL '0' DAY, reduce(array({call}), INTERVAL '0' DAY, (sum, each) -> sum))"


def netted(
    call: str, kind: SqlType | None, fault: tuple[str, str], inside: tuple[Fault, ...] = ()
) -> Part:
    """Return any call under a net.

    Args:
        call: the call as written.
        kind: its type.
        fault: its reason and its text, for what is not told by its parts.
        inside: what can fail in its parts, if they are computed and the call does fail.
    """
    caught = net(call)
    own = Fault(when=f"{caught} IS NULL", reason=fault[0], detail=fault[1])
    return Part(
        text=f"CASE WHEN {caught} IS NOT NULL THEN {call} END",
        type=kind,
        faults=(*(each.only_if(own.when) for each in inside), own),
    )


def unless(fails: str, call: str, kind: SqlType | None, fault: tuple[str, str]) -> Part:
    """Return a call that fails just when a condition holds (NULL: it does not)."""
    return Part(
        text=f"CASE WHEN {in_brackets(fails)} THEN NULL ELSE {call} END",
        type=kind,
        faults=(Fault(when=fails, reason=fault[0], detail=fault[1]),),
    )


def null_where_it_fails(
    tried: str, given: tuple[Part, ...], kind: SqlType | None, fault: tuple[str, str]
) -> Part:
    """Return a form that is NULL for values that are not NULL only where it fails."""
    known = [each.known for each in given if each.known is not None]
    when = " AND ".join([f"{tried} IS NULL", *known])
    return Part(text=tried, type=kind, faults=(Fault(when=when, reason=fault[0], detail=fault[1]),))
