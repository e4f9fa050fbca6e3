import re

import pytest

from tidegate.plan.schema import parse_schema
from tidegate.plan.statement import Column


def types(text):
    return [column.type for column in parse_schema(text)]


def test_columns_keep_their_order_and_their_case():
    assert parse_schema("Ts timestamp, `my key` string") == (
        Column(name="Ts", type="TIMESTAMP"),
        Column(name="my key", type="STRING"),
    )


def test_commas_inside_brackets_and_comments_do_not_separate_columns():
    assert types("a DECIMAL(10,2), b MAP<STRING, INT>, c INT COMMENT 'x, y', d INT NOT NULL") == [
        "DECIMAL(10,2)",
        "MAP<STRING, INT>",
        "INT",
        "INT",
    ]


def test_the_fields_of_a_struct_keep_their_case():
    assert types("s struct<Id: int>") == ["STRUCT<Id: int>"]


def test_types_of_several_words_stay_whole():
    assert types("a timestamp without time zone, b interval day to second") == [
        "TIMESTAMP WITHOUT TIME ZONE",
        "INTERVAL DAY TO SECOND",
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("ts TIMESTAMPP", "did you mean TIMESTAMP?"),
        ("ts", "'ts' is not a column"),
        ("", "at least one column"),
        ("a INT, A INT", "column a is declared twice"),
        ("a DECIMAL(10", "unbalanced brackets"),
    ],
)
def test_a_wrong_schema_says_what_is_wrong(text, what):
    with pytest.raises(ValueError, match=re.escape(what)):
        parse_schema(text)
