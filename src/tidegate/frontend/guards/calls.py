"""Guards of function calls by the tables of ``guards/functions.py``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.frontend.grammar.source import Source
from tidegate.frontend.guards.casts import cast_fails
from tidegate.frontend.guards.functions import (
    CASTS,
    LIKELY_REASONS,
    NOT_STRICT,
    RESULTS,
    SIGNATURES,
    STRICT,
    TWINS,
    Twin,
)
from tidegate.frontend.guards.operations import cast, comparable
from tidegate.frontend.guards.parts import (
    Part,
    all_faults,
    kept_over,
    netted,
    null_where_it_fails,
    over,
)
from tidegate.frontend.guards.types import read_type
from tidegate.plan.guarded import INVALID_ARGUMENT
from tidegate.plan.types import BIGINT, DATE, DOUBLE, INT, TIMESTAMP, SqlType, common_type

# The type that each parameter letter casts to.
_WANTED = {"n": DOUBLE, "i": INT, "l": BIGINT, "d": DATE, "t": TIMESTAMP}
# BIGINT values that are a TIMESTAMP, by the function that reads them.
_GREATEST = {"timestamp_seconds": 9_223_372_036_854, "timestamp_millis": 9_223_372_036_854_775}
_UNICODE = re.compile(r"'utf-?(8|16|32)(-?[bl]e)?'", re.IGNORECASE)
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call: its node, its name in lower case, and its arguments, guarded."""

    source: Source
    node: exp.Expr
    name: str
    parts: tuple[Part, ...]

    @property
    def written(self) -> str:
        """The call as the user wrote it."""
        return self.source.slice(self.node)

    @property
    def type(self) -> SqlType | None:
        """The type of the result, None if unknown."""
        known = SIGNATURES.get(self.name) or TWINS.get(self.name)
        return _result(RESULTS.get(self.name) or (known.result if known else "?"), self.parts)

    def kept(self, parts: Sequence[Part] | None = None) -> Part:
        """Return the call with guarded arguments, for a function that itself cannot fail."""
        chosen = tuple(parts) if parts is not None else self.parts
        arguments = zip(self.node.iter_expressions(), chosen, strict=False)
        texts = {id(node): part.text for node, part in arguments}
        own = Part(
            text=self.source.rewrite(
                self.node, lambda each: texts.get(id(each)) if each is not self.node else None
            ),
            type=replace(self, parts=chosen).type,
        )
        return kept_over(own, chosen, strict=self._is_strict)

    @property
    def _is_strict(self) -> bool:
        """Whether it returns NULL if an argument is NULL."""
        known = SIGNATURES.get(self.name)
        strict = known is not None and "a" not in known.parameters and self.name not in NOT_STRICT
        return strict or self.name in CASTS or self.name in STRICT

    def netted(self, reason: str | None = None) -> Part:
        """Return the call in a net, for a function that can fail in unknown ways."""
        likely = next((key for key, names in LIKELY_REASONS.items() if self.name in names), None)
        fault = (reason or likely or INVALID_ARGUMENT, self.written)
        return netted(self.written, self.type, fault, all_faults(self.parts))

    def with_faults(self, own: Part, parts: Sequence[Part] | None = None) -> Part:
        """Return a guarded form, with the faults of the arguments before its own."""
        return over(own, self.parts if parts is None else parts)


def guarded_by_table(call: Call) -> Part:
    """Return a guarded call to a Spark function, by the tables alone."""
    if call.name in CASTS and len(call.parts) == 1:
        wanted = read_type(CASTS[call.name])
        assert wanted is not None, "a cast function is named like its type"
        if cast_fails(call.parts[0].type, wanted) is None:
            return replace(call.kept(), type=wanted)
        return call.with_faults(cast(call.parts[0], wanted, CASTS[call.name], call.written))
    if call.name in TWINS:
        return _twin(call, TWINS[call.name])
    if call.name in SIGNATURES:
        parts = given(call, SIGNATURES[call.name].parameters)
        return call.netted() if parts is None else call.kept(parts)
    return call.netted()


def given(call: Call, parameters: str) -> tuple[Part, ...] | None:
    """Return arguments cast to their parameters (letters); None if one can fail in another way."""
    found = []
    signature = SIGNATURES.get(call.name)
    for place, part in enumerate(call.parts):
        letter = parameters[min(place, len(parameters) - 1)] if parameters else "a"
        is_literal = part.literal is not None
        match letter:
            case "c" | "p" if not is_literal:
                return None
            case "z" if not is_literal or part.literal == "0":
                return None
            case "v" if part.type is None or part.type.is_text:
                return None
            case _:
                found.append(as_wanted(part, _WANTED.get(letter)))
    if signature is not None and "common" in signature.result:
        return comparable(tuple(found))
    return tuple(found)


def as_wanted(part: Part, wanted: SqlType | None) -> Part:
    """Return a part, cast if the wanted type requires it; None: any type will do."""
    if wanted is None or cast_fails(part.type, wanted) is None:
        return part
    made = cast(part, wanted, wanted.name, part.written)
    return replace(over(made, (part,)), written=part.written)


def _twin(call: Call, twin: Twin) -> Part:
    parts = given(call, twin.parameters)
    if parts is None:
        return call.netted(twin.reason)
    if not parts:
        return call.kept()
    first = parts[0].type
    if twin.name in ("try_to_date", "try_to_timestamp") and first is not None and first.is_time:
        return call.kept()
    tried = f"{twin.name}({', '.join(part.text for part in parts)})"
    own = null_where_it_fails(tried, parts, call.type, (twin.reason, call.written))
    return call.with_faults(own, parts)


def _result(result: str, parts: Sequence[Part]) -> SqlType | None:
    first = parts[0].type if parts else None
    made: dict[str, Callable[[], SqlType | None]] = {
        "?": lambda: None,
        "=": lambda: first,
        "element": lambda: first.element if first else None,
        "common": lambda: common_type([part.type for part in parts]),
        "ARRAY<=>": lambda: SqlType(name="ARRAY", element=first),
        "ARRAY<common>": lambda: SqlType(
            name="ARRAY", element=common_type([part.type for part in parts])
        ),
        "ARRAY<key>": lambda: SqlType(name="ARRAY", element=first.key) if first else None,
        "ARRAY<element>": lambda: SqlType(name="ARRAY", element=first.element) if first else None,
        "schema": lambda: _schema_type(parts[1].literal if len(parts) > 1 else None),
    }
    return made[result]() if result in made else read_type(result)


def _schema_type(schema: str | None) -> SqlType | None:
    if schema is None:
        return None
    whole = read_type(schema)
    if whole is not None and (whole.name in ("ARRAY", "MAP", "STRUCT")):
        return whole
    return read_type(f"STRUCT<{schema}>")
