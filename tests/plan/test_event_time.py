"""Where the event time comes from, what is refused, and how each type is read as a time."""

from __future__ import annotations

import pytest

from tidegate.errors import ConfigError, QueryError
from tidegate.plan.logical import Authority
from tidegate.plan.settings import Settings, TimeMode
from tidegate.plan.statement import Relation
from tidegate.plan.windows import Count, Session, Sliding, State
from tidegate.planner.event_time import resolve_watermark
from tidegate.time import TimeUnit

from .queries import clicks, expression, query, watermark_clause

EVERYWHERE = clicks(ts="TIMESTAMP", seen="TIMESTAMP", received_at="TIMESTAMP", user="STRING")
KAFKA = clicks(
    key="BINARY",
    value="BINARY",
    topic="STRING",
    partition="INT",
    offset="BIGINT",
    timestamp="TIMESTAMP",
)


def test_the_statement_comes_before_the_setting_and_the_metadata() -> None:
    bound = query(EVERYWHERE, event_time=expression("ts"))
    event_time = resolve_watermark(bound, Settings(event_time_field="seen")).event_time
    assert (event_time.sql, event_time.authority) == ("unix_micros(ts)", Authority.SQL)
    assert event_time.why == 'the statement names it, so event_time_field = "seen" is not used'


def test_the_setting_comes_before_the_metadata() -> None:
    event_time = resolve_watermark(query(EVERYWHERE), Settings(event_time_field="seen")).event_time
    assert (event_time.sql, event_time.authority) == ("unix_micros(seen)", Authority.SETTING)


@pytest.mark.parametrize(
    ("source", "settings", "sql"),
    [
        (EVERYWHERE, Settings(), "unix_micros(received_at)"),
        (
            clicks(**{"@timestamp": "STRING"}),
            Settings(),
            "unix_micros(try_cast(`@timestamp` AS TIMESTAMP))",
        ),
        (KAFKA, Settings(), "unix_micros(timestamp)"),
        (
            clicks(user="STRING"),
            Settings(event_time_metadata="file"),
            "unix_micros(_metadata.file_modification_time)",
        ),
    ],
    ids=["received_at", "@timestamp", "kafka", "file"],
)
def test_metadata_gives_the_time_if_nothing_else_does(
    source: Relation, settings: Settings, sql: str
) -> None:
    event_time = resolve_watermark(query(source), settings).event_time
    assert (event_time.sql, event_time.authority) == (sql, Authority.METADATA)


def test_a_column_called_timestamp_is_metadata_only_beside_the_other_columns_of_kafka() -> None:
    spec = resolve_watermark(query(clicks(timestamp="TIMESTAMP", user="STRING")), Settings())
    assert spec.mode is TimeMode.PROCESSING


def test_without_an_event_time_rows_take_the_clock_and_a_warning_is_due() -> None:
    spec = resolve_watermark(query(), Settings(watermark_lag_us=5, allowed_lateness_us=7))
    assert (spec.mode, spec.event_time.sql) == (TimeMode.PROCESSING, None)
    assert spec.event_time.authority is Authority.DEFAULT
    assert 'if that is meant, set time = "processing"' in spec.event_time.why
    assert (spec.lag_us, spec.lateness_us) == (0, 0)


def test_processing_time_that_is_asked_for_skips_all_authorities_without_a_warning() -> None:
    bound = query(EVERYWHERE, event_time=expression("ts"), watermark=watermark_clause(5))
    spec = resolve_watermark(bound, Settings(time=TimeMode.PROCESSING, event_time_field="seen"))
    assert (spec.mode, spec.event_time.sql, spec.lag_us) == (TimeMode.PROCESSING, None, 0)
    assert spec.event_time.authority is Authority.SETTING
    assert "warning" not in spec.event_time.why


def test_lag_and_lateness_are_decided_one_by_one() -> None:
    bound = query(event_time=expression("ts"), watermark=watermark_clause(lag_us=5))
    spec = resolve_watermark(bound, Settings(watermark_lag_us=1, allowed_lateness_us=7))
    assert (spec.lag_us, spec.lag_authority) == (5, Authority.SQL)
    assert (spec.lateness_us, spec.lateness_authority) == (7, Authority.SETTING)


def test_a_lag_of_zero_in_the_statement_beats_the_setting() -> None:
    bound = query(event_time=expression("ts"), watermark=watermark_clause(lag_us=0))
    assert resolve_watermark(bound, Settings(watermark_lag_us=9)).lag_us == 0


def test_lag_and_lateness_that_nobody_sets_are_zero() -> None:
    spec = resolve_watermark(query(event_time=expression("ts")), Settings())
    assert (spec.lag_us, spec.lag_authority) == (0, Authority.DEFAULT)
    assert (spec.lateness_us, spec.lateness_authority) == (0, Authority.DEFAULT)


def test_a_watermark_without_any_event_time_is_refused_at_its_place() -> None:
    with pytest.raises(QueryError) as refusal:
        resolve_watermark(query(watermark=watermark_clause(5)), Settings())
    assert str(refusal.value) == (
        "query, line 1, column 65: WATERMARK needs an event time, and neither the statement, "
        "event_time_field nor the source gives one\n\n"
        "  1 | SELECT user, count(*) FROM clicks GROUP BY TUMBLE(ts, ..), user WATERMARK (..)\n"
        "    |                                                                 ^^^^^^^^^^^^^^\n\n"
        "Name it before WATERMARK: ON ts WATERMARK (INTERVAL '5' SECOND)."
    )


def test_event_time_that_is_asked_for_but_missing_is_refused() -> None:
    with pytest.raises(ConfigError) as refusal:
        resolve_watermark(query(), Settings(time=TimeMode.EVENT))
    assert str(refusal.value) == (
        'time = "event": nothing gives stream clicks an event time\n\n'
        'Name it in the statement with ON ts, or set event_time_field = "ts".'
    )


def test_a_number_in_the_statement_needs_a_unit() -> None:
    bound = query(clicks(ts="BIGINT", user="STRING"), event_time=expression("ts"))
    with pytest.raises(QueryError) as refusal:
        resolve_watermark(bound, Settings())
    assert str(refusal.value) == (
        "query, line 1, column 51: event time ts is a number (BIGINT) "
        "whose unit is not given\n\n"
        "  1 | SELECT user, count(*) FROM clicks GROUP BY TUMBLE(ts, ..), user WATERMARK (..)\n"
        "    |                                                   ^^\n\n"
        'Say what it counts since 1970: event_time_unit = "ms" (or "s", "us", "ns").'
    )


def test_a_number_named_by_the_setting_needs_a_unit() -> None:
    bound = query(clicks(ts="DOUBLE", user="STRING"))
    with pytest.raises(ConfigError) as refusal:
        resolve_watermark(bound, Settings(event_time_field="ts"))
    assert str(refusal.value) == (
        'event_time_field = "ts": event time ts is a number (DOUBLE) '
        "whose unit is not given\n\n"
        'Say what it counts since 1970: event_time_unit = "ms" (or "s", "us", "ns").'
    )


def test_a_number_in_the_metadata_needs_a_unit_too() -> None:
    with pytest.raises(ConfigError, match=r"received_at is a number \(INT\)"):
        resolve_watermark(query(clicks(received_at="INT")), Settings())


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(ConfigError, match='event_time_unit = "sec" is not a unit'):
        resolve_watermark(query(), Settings(event_time_field="ts", event_time_unit="sec"))


def test_a_column_that_is_not_a_time_is_refused() -> None:
    bound = query(clicks(ts="ARRAY<INT>"))
    with pytest.raises(ConfigError, match="event time ts is ARRAY<INT>, which is not a time"):
        resolve_watermark(bound, Settings(event_time_field="ts"))


def test_a_field_that_is_not_a_column_is_refused_with_the_most_similar_one() -> None:
    with pytest.raises(ConfigError) as refusal:
        resolve_watermark(query(), Settings(event_time_field="tss"))
    assert str(refusal.value) == (
        'event_time_field = "tss": stream clicks has no column tss\n\nDid you mean ts?'
    )


def test_a_field_unlike_any_column_is_refused_with_a_list_of_all() -> None:
    with pytest.raises(ConfigError, match=r"Its columns are ts, user, pages\.$"):
        resolve_watermark(query(), Settings(event_time_field="moment"))


@pytest.mark.parametrize(
    ("source", "statement", "field", "sql"),
    [
        (clicks(Ts="TIMESTAMP"), {}, "ts", "unix_micros(Ts)"),
        (
            clicks(payload="STRUCT<ts: TIMESTAMP>"),
            {},
            "payload.ts",
            "unix_micros(IF(true, try_cast(payload.ts ",
        ),
        (clicks(**{"a.b": "TIMESTAMP"}), {}, "a.b", "unix_micros(`a.b`)"),
        (
            clicks(**{"event time": "DATE"}),
            {},
            "event time",
            "unix_micros(CAST(`event time` AS TIMESTAMP))",
        ),
        (
            Relation(name="clicks", columns=None),
            {},
            "ts",
            "unix_micros(IF(true, try_cast(ts AS TIMESTAMP), ts))",
        ),
        (
            clicks(raw="STRING"),
            {"ctes": "WITH c AS (..)"},
            "ts",
            "unix_micros(IF(true, try_cast(ts ",
        ),
        (
            clicks(ts="BIGINT"),
            {"ctes": "WITH c AS (..)"},
            "ts",
            "unix_micros(IF(true, try_cast(ts ",
        ),
    ],
    ids=[
        "any case",
        "in a struct",
        "a dot in the name",
        "a space",
        "unknown columns",
        "made by WITH",
        "changed by WITH",
    ],
)
def test_a_setting_names_a_column(
    source: Relation, statement: dict[str, object], field: str, sql: str
) -> None:
    event_time = resolve_watermark(
        query(source, **statement), Settings(event_time_field=field)
    ).event_time
    assert event_time.sql is not None
    assert event_time.sql.startswith(sql)


@pytest.mark.parametrize("written", ["ts", "`ts`", "c.ts", "TS"])
def test_a_plain_column_in_the_statement_has_the_type_of_the_stream(written: str) -> None:
    bound = query(event_time=expression(written))
    assert resolve_watermark(bound, Settings()).event_time.sql == f"unix_micros({written})"


def test_a_unit_does_not_apply_to_a_timestamp() -> None:
    bound = query(event_time=expression("ts"))
    event_time = resolve_watermark(bound, Settings(event_time_unit="ms")).event_time
    assert event_time.sql == "unix_micros(ts)"
    assert "event_time_unit" not in event_time.why


def test_explain_shows_the_unit_of_a_number() -> None:
    bound = query(clicks(ts="BIGINT"), event_time=expression("ts"))
    event_time = resolve_watermark(bound, Settings(event_time_unit="ms")).event_time
    assert event_time.why.endswith('event_time_unit = "ms" says what the number counts')


def test_rows_without_a_time_fall_back_to_the_metadata_when_there_is_one() -> None:
    settings = Settings(event_time_field="ts", null_event_time="fallback")
    spec = resolve_watermark(query(EVERYWHERE), settings)
    assert spec.null_event_time_fallback
    assert spec.event_time.fallback_sql == "unix_micros(received_at)"
    assert resolve_watermark(query(), settings).event_time.fallback_sql is None


def test_rows_without_a_time_never_fall_back_to_a_number() -> None:
    source = clicks(ts="BIGINT", received_at="BIGINT")
    settings = Settings(event_time_field="ts", event_time_unit="ms", null_event_time="fallback")
    assert resolve_watermark(query(source), settings).event_time.fallback_sql is None


@pytest.mark.parametrize(
    ("window", "waits"),
    [
        (Session(time_unit=TimeUnit.SECOND, gap=5), True),
        (Sliding(time_unit=TimeUnit.SECOND, lookback=5), False),
        (Sliding(time_unit=TimeUnit.SECOND, lookback=5, lookahead=0), True),
        (State(open="a", emit="b"), False),
        (Count(count=3), False),
    ],
)
def test_windows_wait_for_the_watermark_by_default_but_for_three_kinds(
    window: object, waits: bool
) -> None:
    bound = query(window=window, event_time=expression("ts"))  # type: ignore[arg-type]
    assert resolve_watermark(bound, Settings()).emit_on_close is waits


def test_emit_on_window_close_makes_every_window_wait() -> None:
    window = Sliding(time_unit=TimeUnit.SECOND, lookback=5)
    assert resolve_watermark(query(window=window, emit_on_close=True), Settings()).emit_on_close
