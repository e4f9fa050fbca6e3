"""Types of the state's columns: which changes are refused, and how."""

from __future__ import annotations

import pytest

from tidegate.errors import StateError
from tidegate.state.schema import can_be_read_as, check_schema

from .manifests import manifest, segment

BEFORE = {"_pane": "bigint", "_k0": "int", "sum_1": "decimal(20,2)"}
HELD = manifest(3, segment("3-aa-batch"), schema=BEFORE)


@pytest.mark.parametrize(
    ("before", "now", "readable"),
    [
        ("int", "int", True),
        ("int", "bigint", True),
        ("tinyint", "bigint", True),
        ("smallint", "int", True),
        ("float", "double", True),
        ("decimal(10,2)", "decimal(12,2)", True),
        ("bigint", "int", False),
        ("double", "float", False),
        ("int", "double", False),
        ("decimal(10,2)", "decimal(12,3)", False),
        ("decimal(12,2)", "decimal(10,2)", False),
        ("int", "string", False),
        ("array<int>", "array<bigint>", True),
        ("struct<v:float,o:struct<t:int>>", "struct<v:double,o:struct<t:bigint>>", True),
        ("struct<v:float,o:int>", "struct<v:float,o:string>", False),
        ("struct<v:float>", "struct<v:float,w:float>", False),
        ("array<int>", "int", False),
    ],
)
def test_a_type_may_become_wider(before: str, now: str, readable: bool) -> None:
    assert can_be_read_as(before, now) is readable


def test_a_type_that_cannot_be_read_is_refused_in_the_words_of_the_statement() -> None:
    with pytest.raises(StateError) as error:
        check_schema(HELD, {**BEFORE, "_k0": "string"}, {"_k0": "user_id"}, "/there")
    assert str(error.value).startswith(
        "checkpoint /there holds other types; this differs: user_id\n\n"
        "  user_id: int  in the checkpoint\n"
        "           string  in the query\n"
    )


def test_a_column_that_only_one_side_has_is_refused() -> None:
    with pytest.raises(StateError, match="nothing  in the query"):
        check_schema(HELD, {"_pane": "bigint", "_k0": "int"}, {}, "c")
    with pytest.raises(StateError, match="nothing  in the checkpoint"):
        check_schema(HELD, {**BEFORE, "_k1": "int"}, {}, "c")


def test_an_empty_state_may_change_its_types() -> None:
    check_schema(manifest(3, schema=BEFORE), {"_k0": "string"}, {}, "c")
