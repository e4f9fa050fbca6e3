"""The JDBC sink as far as no server is needed: columns, types, statements, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from tidegate import ConfigError, JdbcSink
from tidegate.config import parse_config
from tidegate.connectors.dialects import DIALECTS, Merge, TableColumn
from tidegate.connectors.jdbc import make_jdbc_sink
from tidegate.connectors.jdbc_layout import in_table, layout_of
from tidegate.connectors.nested import nested_column
from tidegate.connectors.protocol import Results
from tidegate.connectors.table import SINKS
from tidegate.plan.pipeline import SinkConfig

POSTGRES = DIALECTS["postgresql"]
URL = "jdbc:postgresql://db/shop"


def columns(ddl: dict[str, str]) -> StructType:
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in ddl.items()]
    return StructType.fromJson({"type": "struct", "fields": fields})


def results(**more) -> Results:
    plain = Results(
        columns=columns({"user": "string", "n": "long"}),
        keys=(("user", "user"),),
        key_types=tuple(field.dataType for field in columns({"user": "string"})),
        grouped=True,
        window_id=None,
        final=None,
    )
    return replace(plain, **more)


def refusal(of: Results) -> str:
    with pytest.raises(ConfigError) as refused:
        layout_of(of, POSTGRES, "sink t")
    return str(refused.value)


def test_a_result_is_identified_by_its_window_and_its_keys():
    layout = layout_of(results(), POSTGRES, "sink t")
    assert [(c.name, c.type) for c in layout.columns] == [
        ("user", "text"),
        ("n", "bigint"),
        ("window_id", "text"),
    ]
    assert layout.key == ("window_id", "user")


def test_a_selected_window_id_is_not_added_again_and_a_key_that_is_not_selected_is():
    layout = layout_of(
        results(
            columns=columns({"w": "string", "n": "long"}),
            keys=(("upper(u)", None),),
            window_id="w",
        ),
        POSTGRES,
        "sink t",
    )
    assert [column.name for column in layout.columns] == ["w", "n", "upper(u)"]
    assert layout.values[2] == "_tidegate_keys.`upper(u)`"
    assert layout.key == ("w", "upper(u)")


def test_rows_have_no_key_but_their_window():
    layout = layout_of(results(grouped=False, keys=(), key_types=()), POSTGRES, "sink t")
    assert layout.key == ()
    assert layout.window == "window_id"


def test_columns_that_the_table_cannot_hold_are_refused_by_name():
    assert "the column n is MAP<STRING,INT>" in refusal(
        results(columns=columns({"user": "string"}).add("n", _map()))
    )
    taken = results(columns=columns({"user": "string", "WINDOW_ID": "long"}))
    assert "the table needs a column" in refusal(taken)
    long = results(columns=columns({"user": "string", "ä" * 32: "long"}))
    assert "more than 63 bytes" in refusal(long)


def _map():
    kind = {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True}
    return columns({"m": kind})["m"].dataType


def test_a_table_that_exists_gives_names_and_types_and_must_have_every_column():
    layout = layout_of(results(), POSTGRES, "sink t")
    there = [
        TableColumn(name="User", type="uuid"),
        TableColumn(name="n", type="integer"),
        TableColumn(name="window_id", type="text"),
        TableColumn(name="more", type="text"),
    ]
    mine = in_table(layout, there, "sink t", "t")
    assert [(c.name, c.type) for c in mine.columns] == [
        ("User", "uuid"),
        ("n", "integer"),
        ("window_id", "text"),
    ]
    assert mine.key == ("window_id", "User")
    with pytest.raises(ConfigError, match="has no column n") as refused:
        in_table(layout, [there[0], there[2]], "sink t", "t")
    assert 'ALTER TABLE t ADD COLUMN "n" bigint' in str(refused.value)


def merge(**more) -> list[str]:
    plain = Merge(
        table="t",
        staging="s",
        columns=[TableColumn(name='a"b', type="text"), TableColumn(name="w", type="text")],
        key=["w"],
        window="w",
    )
    return POSTGRES.merge(replace(plain, **more))


def test_a_merge_upserts_by_key_and_quotes_names():
    statement = merge()[-1]
    assert statement.startswith('INSERT INTO t AS kept ("a""b", "w") SELECT CAST(c0 AS text)')
    assert statement.endswith('ON CONFLICT ("w") DO UPDATE SET "a""b" = excluded."a""b"')
    assert merge(key=["w", 'a"b'])[-1].endswith("DO NOTHING")
    assert merge(final="f")[-1].endswith('WHERE excluded."f" OR NOT kept."f"')


def test_a_merge_without_a_key_replaces_the_rows_of_a_window():
    _, delete, insert = merge(key=[])
    assert delete.startswith('DELETE FROM t WHERE "w" IN (SELECT CAST(c1 AS text)')
    assert "ON CONFLICT" not in insert


def test_wrong_arguments_are_refused_and_no_password_is_shown():
    with pytest.raises(ConfigError, match=r"url is jdbc:mysql://db/x, of MySQL, which") as refused:
        JdbcSink(url="jdbc:mysql://db/x?password=secret", table="t")
    assert "its unique indexes take NULLs for different" in str(refused.value)
    assert "secret" not in str(refused.value)
    with pytest.raises(ConfigError, match="of no database that Tidegate writes to"):
        JdbcSink(url="jdbc:h2:mem", table="t")
    with pytest.raises(ConfigError, match="not the name of a table"):
        JdbcSink(url=URL, table="t; DROP TABLE t")
    assert "secret" not in repr(JdbcSink(url=URL, table="t", options={"password": "secret"}))


def test_a_section_makes_a_sink():
    options = {"url": URL, "dbtable": "a.b", "create": "true", "user": "etl", "batchsize": "9"}
    made = make_jdbc_sink(SinkConfig(name="out", format="jdbc", options=options))
    assert made == JdbcSink(
        url=URL, table="a.b", create=True, options={"user": "etl", "batchsize": "9"}
    )
    wrong = SinkConfig(name="out", format="jdbc", options={**options, "create": "yes"})
    with pytest.raises(ConfigError, match=r"sinks\.out: options\.create"):
        make_jdbc_sink(wrong)
    wrong = SinkConfig(name="out", format="jdbc", options={**options, "url": "jdbc:h2:mem"})
    with pytest.raises(ConfigError, match=r"^sinks\.out: url is jdbc:h2:mem"):
        make_jdbc_sink(wrong)


def test_a_section_without_its_options_is_refused():
    text = """\
[pipeline]
checkpoint = "checkpoint"

[sources.clicks]
format = "rate"

[transforms.counts]
sql = "SELECT count(*) AS n FROM clicks GROUP BY tumblingwindow('ss', 10)"

[sinks.out]
from = "counts"
format = "jdbc"
"""
    with pytest.raises(ConfigError, match="format jdbc needs the option url") as refused:
        parse_config(text, Path("pipeline.toml"))
    assert "needs the option dbtable" in str(refused.value)


def test_arrays_fit_a_table_and_no_csv_file():
    array = {"type": "array", "elementType": "string", "containsNull": True}
    found = columns({"words": array})
    told = [(field.name, field.dataType.simpleString()) for field in found]
    assert nested_column(told, SINKS["jdbc"]) is None
    assert nested_column(told, SINKS["csv"]) == "words ARRAY<STRING>"
    assert nested_column(told, SINKS["json"]) is None
    assert layout_of(results(columns=found), POSTGRES, "sink t").columns[0].type == "text[]"
