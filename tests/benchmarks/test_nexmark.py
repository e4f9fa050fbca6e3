"""The rows of the benchmarks in the manner of Nexmark."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from bench import nexmark
from bench.tables import FIRST_EVENT_TIME_MS, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 100_000
TABLES = {
    table.name: table
    for table in (nexmark.persons(EVENTS), nexmark.auctions(EVENTS), nexmark.bids(EVENTS))
}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> dict[str, list[Any]]:
    return {
        name: table.compute(spark).selectExpr("*", "unix_millis(ts) AS ms").collect()
        for name, table in TABLES.items()
    }


def test_of_50_events_one_is_a_person_three_are_auctions_and_46_are_bids(rows):
    counts = {name: len(found) for name, found in rows.items()}
    assert counts == {"person": 2_000, "auction": 6_000, "bid": 92_000}


def test_events_are_out_of_order_by_at_most_the_jitter(rows):
    for found in rows.values():
        newest, behind = 0, 0
        for row in found:
            newest = max(newest, row.ms)
            behind = max(behind, newest - row.ms)
        assert 0 < behind < nexmark.JITTER_MS
    times = [row.ms - FIRST_EVENT_TIME_MS for found in rows.values() for row in found]
    span = EVENTS * 1_000 // nexmark.RATE
    assert min(times) >= 0
    assert span <= max(times) < span + nexmark.JITTER_MS


def test_half_of_the_bids_are_on_hot_auctions_and_three_of_four_are_by_hot_persons(rows):
    # The first persons bid more than others: of the last 1,000 there are fewer.
    bids = rows["bid"][nexmark.ACTIVE_PERSONS * nexmark.BIDS :]
    # One in a hundred of the others is hot by chance.
    hot = sum(bid.auction % nexmark.HOT_EVERY == 0 for bid in bids) / len(bids)
    assert hot == pytest.approx(1 / 2 + 1 / 2 / 100, abs=0.01)
    by_hot = sum(bid.bidder % nexmark.HOT_EVERY == 0 for bid in bids) / len(bids)
    assert by_hot == pytest.approx(3 / 4 + 1 / 4 / 100, abs=0.01)


def test_who_bids_or_sells_has_come_before_and_auctions_are_recent(rows):
    for number, bid in enumerate(rows["bid"]):
        cycle = number // nexmark.BIDS
        assert 0 <= bid.bidder <= cycle
        last = cycle * nexmark.AUCTIONS + nexmark.AUCTIONS - 1
        assert max(0, last - nexmark.HOT_EVERY) <= bid.auction <= last
    for auction in rows["auction"]:
        assert 0 <= auction.seller <= auction.id // nexmark.AUCTIONS


def test_each_power_of_ten_of_the_price_is_as_likely(rows):
    digits = Counter(len(str(bid.price)) for bid in rows["bid"])
    assert sorted(digits) == [4, 5, 6, 7, 8, 9]
    assert min(digits.values()) > 0.9 * max(digits.values())


def test_the_rows_are_the_same_on_every_machine_and_however_they_are_cut(rows, spark):
    def checksum(table: Table) -> int:
        columns = ", ".join(column for column in table.columns if column != "ts")
        hashed = f"bit_xor(xxhash64(unix_millis(ts), {columns}))"
        return table.compute(spark).selectExpr(hashed).first()[0]

    assert {name: checksum(table) for name, table in TABLES.items()} == CHECKSUMS


# Change these together with the generator, and measure anew.
CHECKSUMS = {
    "person": 2884267697430887724,
    "auction": -2204226017732014175,
    "bid": 4346145400129789331,
}
