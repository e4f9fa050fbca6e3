"""What divides a stream into shards, by the settings and the columns of its source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.errors import ConfigError
from tidegate.plan.columns import SHARD, SOURCE
from tidegate.plan.logical import Authority
from tidegate.plan.physical import PhysicalPlan
from tidegate.plan.settings import ErrorPolicy, Settings, TimeMode
from tidegate.plan.statement import BoundQuery, Column, Relation
from tidegate.plan.unions import difference
from tidegate.planner.event_time import resolve_watermark
from tidegate.planner.planner import plan_logical, plan_physical

from .queries import clicks, query

KAFKA = clicks(topic="STRING", partition="INT", offset="BIGINT", timestamp="TIMESTAMP")
UNION = replace(clicks(ts="TIMESTAMP", user="STRING"), united=True)
BY_TS = Settings(event_time_field="ts")


def physical(bound: BoundQuery, settings: Settings) -> PhysicalPlan:
    return plan_physical(plan_logical(bound, settings), settings)


@pytest.mark.parametrize(
    ("source", "settings", "shard", "authority"),
    [
        (clicks(ts="TIMESTAMP"), BY_TS, None, Authority.DEFAULT),
        (clicks(ts="TIMESTAMP"), replace(BY_TS, shard=" user "), "user", Authority.SETTING),
        (KAFKA, Settings(), "partition", Authority.METADATA),
        (KAFKA, Settings(shard="topic"), "topic", Authority.SETTING),
        (KAFKA, Settings(time=TimeMode.PROCESSING, shard="topic"), None, Authority.DEFAULT),
        (UNION, BY_TS, SOURCE, Authority.METADATA),
        (
            UNION,
            replace(BY_TS, shard="user"),
            f"named_struct('source', {SOURCE}, 'shard', user)",
            Authority.SETTING,
        ),
        (
            replace(KAFKA, united=True),
            Settings(),
            f"named_struct('source', {SOURCE}, 'shard', partition)",
            Authority.METADATA,
        ),
        (UNION, Settings(time=TimeMode.PROCESSING), None, Authority.DEFAULT),
    ],
)
def test_the_setting_comes_before_the_metadata_and_each_united_stream_is_apart(
    source: Relation, settings: Settings, shard: str | None, authority: Authority
) -> None:
    spec = resolve_watermark(query(source), settings)
    assert (spec.shard, spec.shard_authority) == (shard, authority)


def test_a_comment_in_the_shard_ends_with_it() -> None:
    plan = physical(query(), replace(BY_TS, shard="user -- who"))
    assert plan.prepare.columns[SHARD] == "user -- who\n"


@pytest.mark.parametrize("ctes", ["", "WITH clicks AS (SELECT timestamp FROM clicks)"])
def test_a_with_clause_may_hide_the_partition_of_a_record(ctes: str) -> None:
    spec = resolve_watermark(query(KAFKA, ctes=ctes), Settings())
    assert spec.shard == (None if ctes else "partition")


def test_a_with_clause_may_not_hide_which_of_several_streams_a_row_is_from() -> None:
    bound = query(UNION, ctes="WITH clicks AS (SELECT ts FROM clicks)")
    with pytest.raises(ConfigError, match="stream clicks unites several, and a WITH clause"):
        resolve_watermark(bound, BY_TS)


def test_united_streams_do_not_tell_the_file_of_a_row() -> None:
    with pytest.raises(ConfigError, match='event_time_metadata = "file": clicks unites several'):
        resolve_watermark(query(UNION), Settings(event_time_metadata="file"))


@pytest.mark.parametrize("policy", ErrorPolicy)
def test_a_shard_that_fails_is_null_under_every_policy(policy: ErrorPolicy) -> None:
    plan = physical(query(), replace(BY_TS, shard="1 / pages", error_policy=policy))
    assert plan.prepare.guards[SHARD].safe == "try_divide(1, pages)"


def test_time_must_pass_without_rows_for_a_shard_to_be_forgotten() -> None:
    expiring = replace(BY_TS, shard_expiry_us=1)
    assert physical(query(), replace(expiring, shard="user")).needs_ticks
    assert not physical(query(), expiring).needs_ticks


def test_united_streams_have_the_same_names_and_types() -> None:
    def columns(**types: str) -> tuple[Column, ...]:
        return tuple(Column(name=name, type=kind) for name, kind in types.items())

    first = columns(ts="TIMESTAMP", v="INT")
    assert difference({"a": first, "b": columns(V="int", TS="timestamp"), "c": None}) is None
    assert difference({"a": None, "b": None}) is None
    assert difference({"a": first, "b": columns(ts="TIMESTAMP")}) == (
        "a has the column v, b has not"
    )
    assert difference({"a": first, "b": columns(ts="DATE", v="INT")}) == (
        "ts is TIMESTAMP in a and DATE in b"
    )
