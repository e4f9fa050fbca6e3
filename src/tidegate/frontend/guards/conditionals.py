"""Guards of expressions that compute only some of their parts: CASE, IF, coalesce, lambdas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tidegate.frontend.guards.arms import Arm, faults_of_arms, faults_until
from tidegate.frontend.guards.functions import RESULTS
from tidegate.frontend.guards.guarding import Guarding, Rule
from tidegate.frontend.guards.operations import comparable
from tidegate.frontend.guards.parts import Fault, Part, all_faults
from tidegate.frontend.guards.types import read_type
from tidegate.plan.guarded import INVALID_CAST
from tidegate.plan.types import INT, SqlType, common_type

# Calls that can fail because of the value of their lambda, not only inside it.
_FAIL_BY_RESULT = ("array_sort", "transform_keys")


def case(guarding: Guarding, node: exp.Expr) -> Part:
    """Guard CASE, with or without an operand."""
    operand = guarding.part(node.this) if node.args.get("this") is not None else None
    default = node.args.get("default")
    whens = [guarding.part(each.this) for each in node.args["ifs"]]
    values = [guarding.part(each.args["true"]) for each in node.args["ifs"]]
    values += [guarding.part(default)] if default is not None else []
    before: tuple[Fault, ...] = ()
    conditions: Sequence[Part] = whens
    if operand is not None:
        compared = comparable((operand, *whens))
        before = operand.faults
        if compared is None:
            return guarding.netted(node, None, before + all_faults(whens), INVALID_CAST)
        operand, *whens = compared
        before = operand.faults
        conditions = [replace(each, text=f"{operand.operand} = {each.operand}") for each in whens]
    mixed = comparable(tuple(values))
    arms = _arms(conditions, mixed or values)
    faults = before + faults_of_arms(arms)
    kind = common_type([each.type for each in mixed or values])
    if mixed is None:
        return guarding.netted(node, kind, faults, INVALID_CAST)
    nodes = [each for branch in node.args["ifs"] for each in (branch.this, branch.args["true"])]
    parts = [part for pair in zip(whens, mixed, strict=False) for part in pair]
    if default is not None:
        nodes, parts = [*nodes, default], [*parts, mixed[-1]]
    if operand is not None:
        nodes, parts = [node.this, *nodes], [operand, *parts]
    hides = bool(before + all_faults(whens)) or any(each.hides for each in mixed)
    own = Part(text="", type=kind, faults=faults, hides=hides)
    return _rewritten(guarding, node, nodes, parts, own)


def if_(guarding: Guarding, node: exp.Expr) -> Part:
    """Guard IF(condition, value, otherwise)."""
    condition = guarding.part(node.this)
    nodes = [node.args["true"], *([node.args["false"]] if node.args.get("false") else [])]
    return _chosen(guarding, node, [node.this, *nodes], [condition])


def lambda_call(guarding: Guarding, node: exp.Expr) -> Part:
    """Guard a call with lambdas; if one can fail, the whole call goes into a net."""
    given = [each for each in node.expressions if not isinstance(each, exp.Lambda)]
    parts = [guarding.part(each) for each in given]
    name = node.name.lower()
    bodies = []
    for each in node.expressions:
        if isinstance(each, exp.Lambda):
            names = [variable.name.lower() for variable in each.expressions]
            types = _variables(name, parts, len(names))
            inner = {**guarding.names, **dict(zip(names, types, strict=True))}
            bodies.append(replace(guarding, names=inner).part(each.this))
    kind = _result(name, parts, bodies)
    inside = all_faults(bodies)
    if inside or name in _FAIL_BY_RESULT:
        reason = inside[0].reason if inside else "invalid_argument"
        return guarding.netted(node, kind, all_faults(parts), reason)
    faults = all_faults(parts)
    own = Part(text="", type=kind, faults=faults, hides=bool(faults))
    return _rewritten(guarding, node, given, parts, own)


def _coalesce(guarding: Guarding, node: exp.Expr) -> Part:
    parts = guarding.parts(node)
    mixed = comparable(parts)
    faults = faults_until(mixed or parts, "IS NULL")
    if mixed is None:
        return guarding.netted(node, None, faults, INVALID_CAST)
    kind = common_type([each.type for each in mixed])
    return replace(guarding.kept(node, mixed, kind), faults=faults)


def _nvl2(guarding: Guarding, node: exp.Expr) -> Part:
    first = guarding.part(node.expressions[0])
    known = replace(first, text=f"{first.operand} IS NOT NULL")
    return _chosen(guarding, node, node.expressions, [first], known)


def _nullif(guarding: Guarding, node: exp.Expr) -> Part:
    parts = guarding.parts(node)
    compared = comparable(parts)
    # A value compared as another type is returned as its own type.
    if compared != parts:
        return guarding.netted(node, parts[0].type, all_faults(parts), INVALID_CAST)
    return guarding.kept(node, parts, parts[0].type)


def _decode(guarding: Guarding, node: exp.Expr) -> Part:
    """Guard decode(value, search, result, .. [, default]); with two arguments it decodes bytes."""
    parts = guarding.parts(node)
    operand, rest = parts[0], parts[1:]
    if len(parts) < 3:
        kind = read_type("STRING")
        return guarding.netted(node, kind, all_faults(parts))
    pairs = len(rest) // 2
    whens = [
        replace(each, text=f"{operand.operand} <=> {each.operand}")
        for each in rest[: 2 * pairs : 2]
    ]
    values = [*rest[1 : 2 * pairs : 2], *rest[2 * pairs :]]
    faults = operand.faults + faults_of_arms(_arms(whens, values))
    kind = common_type([each.type for each in values])
    searched = comparable((operand, *rest[: 2 * pairs : 2]))
    if searched != (operand, *rest[: 2 * pairs : 2]) or comparable(tuple(values)) != tuple(values):
        return guarding.netted(node, kind, faults, INVALID_CAST)
    return replace(guarding.kept(node, parts, kind), faults=faults)


CONDITIONALS: dict[str, Rule] = {
    "coalesce": _coalesce,
    "decode": _decode,
    "ifnull": _coalesce,
    "nullif": _nullif,
    "nvl": _coalesce,
    "nvl2": _nvl2,
}


def _chosen(
    guarding: Guarding,
    node: exp.Expr,
    nodes: Sequence[exp.Expr],
    first: list[Part],
    condition: Part | None = None,
) -> Part:
    """Guard a call whose first argument chooses among the others."""
    values = [guarding.part(each) for each in nodes[1:]]
    mixed = comparable(tuple(values))
    faults = faults_of_arms(_arms([condition or first[0]], mixed or values))
    kind = common_type([each.type for each in mixed or values])
    if mixed is None:
        return guarding.netted(node, kind, faults, INVALID_CAST)
    hides = bool(all_faults(first)) or any(each.hides for each in mixed)
    own = Part(text="", type=kind, faults=faults, hides=hides)
    return _rewritten(guarding, node, nodes, [*first, *mixed], own)


def _arms(whens: Sequence[Part], values: Sequence[Part]) -> list[Arm]:
    arms = [Arm(when=when, value=value) for when, value in zip(whens, values, strict=False)]
    return arms + [Arm(when=None, value=each) for each in values[len(whens) :]]


def _rewritten(
    guarding: Guarding,
    node: exp.Expr,
    nodes: Sequence[exp.Expr],
    parts: Sequence[Part],
    own: Part,
) -> Part:
    texts = {id(child): part.text for child, part in zip(nodes, parts, strict=True)}
    return replace(own, text=guarding.source.rewrite(node, lambda each: texts.get(id(each))))


def _variables(name: str, parts: Sequence[Part], count: int) -> list[SqlType | None]:
    """Return the types of a lambda's variables."""
    kinds = [part.type for part in parts]
    first = kinds[0] if kinds else None
    if name in ("transform", "filter", "exists", "any", "forall", "all"):
        found = [first.element if first else None, INT]
    elif name == "zip_with":
        found = [kind.element if kind else None for kind in kinds]
    elif name in ("aggregate", "reduce"):
        start = kinds[1] if len(kinds) > 1 else None
        found = [start, first.element if first else None] if count == 2 else [start]
    elif name in ("map_filter", "transform_keys", "transform_values"):
        found = [first.key if first else None, first.element if first else None]
    else:
        found = []
    return (found + [None] * count)[:count]


def _result(name: str, parts: Sequence[Part], bodies: Sequence[Part]) -> SqlType | None:
    first = parts[0].type if parts else None
    if name in ("filter", "map_filter", "array_sort"):
        return first
    if name in ("transform", "zip_with"):
        return SqlType(name="ARRAY", element=bodies[0].type)
    if name in ("aggregate", "reduce"):
        return bodies[-1].type
    return read_type(RESULTS.get(name))
