"""Shards in columns are what shards in a dictionary are, and a map never changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tidegate.state.shard_map import SHARD_COUNTS, SeenShards, Shard, ShardMap

ids = st.sampled_from("abcde")
numbers = st.integers(0, 5)
counts = st.dictionaries(st.sampled_from(SHARD_COUNTS), st.integers(1, 5), min_size=1)
seen = st.builds(
    SeenShards,
    times=st.dictionaries(ids, st.integers(-100, 100)),
    names=st.dictionaries(ids, st.none() | st.text(max_size=2)),
    rows=st.dictionaries(ids, numbers),
    counts=st.dictionaries(ids, counts),
)


def after(shards: Mapping[str, Shard], batch: SeenShards, clock_us: int) -> dict[str, Shard]:
    """The shards after a batch, one by one."""
    found = dict(shards)
    for id, time_us in batch.times.items():
        new = Shard(event_time_us=time_us, clock_us=clock_us, name=batch.names.get(id))
        before = found.get(id, new)
        latest_us = max(time_us, before.event_time_us)
        found[id] = replace(before, event_time_us=latest_us, clock_us=clock_us)
    for id in found:
        more = batch.counts.get(id, {})
        of = {name: found[id].counts.get(name, 0) + more.get(name, 0) for name in SHARD_COUNTS}
        found[id] = replace(
            found[id],
            rows=found[id].rows + batch.rows.get(id, 0),
            counts={name: number for name, number in of.items() if number},
        )
    return found


@given(st.lists(st.tuples(seen, st.integers(0, 20)), max_size=8), st.integers(0, 60))
def test_any_batches_leave_what_they_leave_in_a_dictionary(
    script: list[tuple[SeenShards, int]], silent_us: int
) -> None:
    clock, shards, expected = 0, ShardMap(), dict[str, Shard]()
    for batch, passed in script:
        clock += passed
        before, expected_before = shards, expected
        shards, expected = shards.after(batch, clock), after(expected, batch, clock)
        assert shards == expected
        assert list(shards) == list(expected)
        assert before == expected_before
        assert shards.changed_since(before) == {
            id for id, shard in expected.items() if expected_before.get(id) != shard
        }
        are_the_same = expected.keys() == expected_before.keys()
        assert shards.touched_since(before) == sum(
            are_the_same and expected[id].clock_us != expected_before[id].clock_us
            for id in expected
        )
        times = [shard.event_time_us for shard in expected.values()]
        assert shards.least_time() == min(times, default=None)
        active = [
            shard.event_time_us for shard in expected.values() if shard.clock_us > clock - silent_us
        ]
        assert shards.least_time(clock - silent_us) == min(active, default=None)
        assert shards.greatest_time_us == max(times, default=None)
        assert shards.active_since(clock - silent_us) == {
            id: shard for id, shard in expected.items() if shard.clock_us > clock - silent_us
        }
        nameless = {id for id, shard in expected.items() if shard.name is None}
        assert shards.nameless() == nameless
        assert shards.is_new_without_name(before) == bool(nameless - expected_before.keys())
        named = shards.named({"a": "x", "b": None, "z": "y"})
        assert shards == expected
        assert named == {
            id: replace(shard, name="x") if id == "a" and id in nameless else shard
            for id, shard in expected.items()
        }
        assert named.changed_since(shards) == shards.changed_since(named) == nameless & {"a"}
        assert ShardMap.of(expected) == shards == ShardMap(shards.entries())
        some = [id for id in "ca" if id in expected]
        assert shards.only(some) == {id: expected[id] for id in some}
        anew = ShardMap(reversed(list(shards.entries())))
        assert anew == shards
        assert anew.changed_since(shards) == shards.changed_since(anew) == set()
        assert anew.changed_since(before) == shards.changed_since(before)
