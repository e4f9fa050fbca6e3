"""Errors of Spark's analyzer as messages of ours: what is wrong, and how to fix it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tidegate.analysis.analyzer import Failure

_MEND = "Correct the expression; its functions and types are those of Spark SQL."
_MISMATCH = "DATATYPE_MISMATCH."
# Names that Spark or our generated queries give to what the user did not name.
_OF_TREES = re.compile(
    r"_tidegate_|#\d|\b(?:namedlambdavariable|commonexpressionref|lambdafunction)\("
)
_LEADING = re.compile(r"Cannot resolve .*? due to data type mismatch: ", re.DOTALL)


def in_words(text: str, failure: Failure) -> tuple[str, str]:
    """Return what is wrong with an expression, and what to write instead.

    Args:
        text: the expression as the user wrote it.
        failure: what Spark says about it.
    """
    facts = {name: _plain(value) for name, value in failure.facts.items()}
    make = _WORDS.get(failure.condition.removeprefix(_MISMATCH))
    try:
        return (make or _other)(text, {**facts, "message": _message(failure)})
    except KeyError:
        # Another version of Spark may give other facts.
        return _other(text, {"message": _message(failure)})


def not_boolean(text: str, clause: str, kind: str) -> tuple[str, str]:
    """Return what is wrong with a condition that is not BOOLEAN, and what to write instead."""
    return (
        f"the condition {text} of {clause} is {kind}, but it must be BOOLEAN",
        f"Write a comparison, e.g. ({text}) IS NOT NULL.",
    )


def is_not_boolean(failure: Failure) -> bool:
    """Whether the only error is the type of a condition."""
    return failure.condition in (
        "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN",
        "JOIN_CONDITION_IS_NOT_BOOLEAN_TYPE",
    )


def _message(failure: Failure) -> str:
    """Spark's message, if it is about the text and not about Spark's internal trees."""
    said = _LEADING.sub("", failure.message)
    return "" if not failure.condition or _OF_TREES.search(said) else said


def _other(text: str, facts: Mapping[str, str]) -> tuple[str, str]:
    said = f": {facts['message']}" if facts["message"] else ""
    return f"Spark refuses {text}{said}", _MEND


def _plain(fact: str) -> str:
    """A fact without Spark's quotes and brackets: ``("ARRAY" or "MAP")`` is ``ARRAY or MAP``."""
    bare = re.sub(r'["`]', "", fact).removesuffix(".")
    bare = bare[1:-1] if bare[:1] + bare[-1:] in ("()", "[]") else bare
    words = ["INTERVAL" if "INTERVAL" in word else word for word in bare.split(" or ")]
    return " or ".join(dict.fromkeys(words))


def _different(text: str, facts: Mapping[str, str]) -> tuple[str, str]:
    left, right = facts["left"], facts["right"]
    return (
        f"{text}: {left} on the left cannot be combined with {right} on the right",
        "Convert one of them, e.g. with CAST.",
    )


def _wrong_operand(text: str, facts: Mapping[str, str]) -> tuple[str, str]:
    return (
        f"{text}: the operator takes {facts['inputType']}, found {facts['actualDataType']}",
        f"Write a value of the type {facts['inputType']}.",
    )


def _unexpected(text: str, facts: Mapping[str, str]) -> tuple[str, str]:
    wanted = facts["requiredType"]
    return (
        f"{text}: the {facts['paramIndex']} value is {facts['inputType']}, but it must be {wanted}",
        f"Write a value of the type {wanted}.",
    )


def _several(text: str, facts: Mapping[str, str]) -> tuple[str, str]:
    kinds = facts["dataType"].replace(" or ", ", ")
    return (
        f"{text}: its values have no common type: {kinds}",
        "Cast the values to one type.",
    )


def _subquery(text: str, facts: Mapping[str, str]) -> tuple[str, str]:
    left, right = facts["leftType"], facts["rightType"]
    return (
        f"{text}: {left} before IN cannot be compared with {right} in the subquery",
        "Convert one of them, e.g. with CAST.",
    )


def _unordered(text: str, facts: Mapping[str, str]) -> tuple[str, str]:
    return (
        f"{text}: values of the type {facts['dataType']} have no order",
        "Compare a part of the value, e.g. one of its elements.",
    )


def _cast(text: str, facts: Mapping[str, str]) -> tuple[str, str]:
    return (
        f"{text}: {facts['srcType']} cannot be cast to {facts['targetType']}",
        f"Use a part of the value that can be a {facts['targetType']}.",
    )


def _count(text: str, facts: Mapping[str, str]) -> tuple[str, str]:
    name, wanted, given = facts["functionName"], facts["expectedNum"], facts["actualNum"]
    arguments = "argument" if wanted == "1" else "arguments"
    either = re.sub(r",\s*(?=[^,]*$)", " or ", wanted)
    return (
        f"{text}: {name} takes {either} {arguments}, found {given}",
        f"Call {name} with {either} {arguments}.",
    )


def _constant(text: str, facts: Mapping[str, str]) -> tuple[str, str]:
    return (
        f"{text}: {facts['inputName']} must be a constant, found {facts['inputExpr']}",
        f"Write a literal of the type {facts['inputType']}.",
    )


def _literal(text: str, facts: Mapping[str, str]) -> tuple[str, str]:
    kind = facts["valueType"]
    return f"{text}: {facts['value']} is not a valid {kind}", f"Write a literal that is a {kind}."


def _no_type(text: str, facts: Mapping[str, str]) -> tuple[str, str]:
    name = facts["typeName"]
    return (
        f"{text}: there is no type {name}",
        "Write a type of Spark SQL, e.g. BIGINT, DOUBLE, STRING or TIMESTAMP.",
    )


def _no_field(text: str, facts: Mapping[str, str]) -> tuple[str, str]:
    return (
        f"{text}: there is no field {facts['fieldName']}",
        f"Its fields are {facts['fields']}.",
    )


def _no_struct(text: str, facts: Mapping[str, str]) -> tuple[str, str]:
    return (
        f"{text}: {facts['base']} is {facts['other']}, which has no fields or elements",
        "Only a STRUCT, an ARRAY or a MAP has parts.",
    )


# By the condition of Spark's error, without DATATYPE_MISMATCH.
_WORDS: dict[str, Callable[[str, Mapping[str, str]], tuple[str, str]]] = {
    "BINARY_OP_DIFF_TYPES": _different,
    "BINARY_OP_WRONG_TYPE": _wrong_operand,
    "CAST_WITHOUT_SUGGESTION": _cast,
    "CAST_WITH_CONF_SUGGESTION": _cast,
    "CAST_WITH_FUNC_SUGGESTION": _cast,
    "DATA_DIFF_TYPES": _several,
    "FIELD_NOT_FOUND": _no_field,
    "IN_SUBQUERY_DATA_TYPE_MISMATCH": _subquery,
    "INVALID_EXTRACT_BASE_FIELD_TYPE": _no_struct,
    "INVALID_ORDERING_TYPE": _unordered,
    "INVALID_TYPED_LITERAL": _literal,
    "NON_FOLDABLE_INPUT": _constant,
    "UNEXPECTED_INPUT_TYPE": _unexpected,
    "UNSUPPORTED_DATATYPE": _no_type,
    "WRONG_NUM_ARGS.WITHOUT_SUGGESTION": _count,
    "WRONG_NUM_ARGS.WITH_SUGGESTION": _count,
}
