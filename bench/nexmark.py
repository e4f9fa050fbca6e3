"""Persons, auctions and bids in the manner of Nexmark, from a generator of our own.

Events are numbered. Of each 50 in a row the first is a person, the next three are auctions and the
other 46 bids, and ``RATE`` of them happen in a second. Each is then shifted by up to ``JITTER_MS``,
so events are out of order, but never by more than that. All else follows from the number of an
event by hashing:

* a bid is on the hot auction, the last one whose id is a multiple of 100, with a chance of 1/2,
  else on one of the last 100 auctions;
* a bidder is the hot person, the last one whose id is a multiple of 100, with a chance of 3/4,
  else one of the last 1,000 persons; so is a seller, by hashes of its own;
* the price of a bid is 10 to 10 million, in cents: each of the six powers of ten is as likely, and
  within one all prices are. There are 900 million of the highest, so equal ones are rare.

Rows have only columns that the queries use; both engines would skip others.
"""

from __future__ import annotations

from bench.tables import Table, milliseconds

EVENTS_A_CYCLE, PERSONS, AUCTIONS, BIDS = 50, 1, 3, 46
RATE = 100_000
JITTER_MS = 2_000
LAG_SECONDS = 4

HOT_EVERY = 100
AUCTIONS_IN_FLIGHT = 100
ACTIVE_PERSONS = 1_000

_CYCLE = f"(event DIV {EVENTS_A_CYCLE})"
_LAST_PERSON = _CYCLE
_LAST_AUCTION = f"({_CYCLE} * {AUCTIONS} + {AUCTIONS - 1})"


def persons(events: int) -> Table:
    """Return the persons of so many events: ``ts``, ``id`` and ``name``."""
    return _table(
        "person",
        rows=events // EVENTS_A_CYCLE * PERSONS,
        event=f"(id * {EVENTS_A_CYCLE})",
        columns={
            "id": ("BIGINT", "id"),
            "name": ("STRING", "concat('person ', pmod(xxhash64(event, 'name'), 10000))"),
        },
    )


def auctions(events: int) -> Table:
    """Return the auctions of so many events: ``ts``, ``id`` and ``seller``, a person."""
    return _table(
        "auction",
        rows=events // EVENTS_A_CYCLE * AUCTIONS,
        event=f"(id DIV {AUCTIONS} * {EVENTS_A_CYCLE} + {PERSONS} + id % {AUCTIONS})",
        columns={"id": ("BIGINT", "id"), "seller": ("BIGINT", _person("seller"))},
    )


def bids(events: int) -> Table:
    """Return the bids of so many events: ``ts``, ``auction``, ``bidder`` (a person), ``price``."""
    recent = f"greatest(0L, {_LAST_AUCTION} - {_hash('auction', AUCTIONS_IN_FLIGHT)})"
    hot = f"({_LAST_AUCTION} DIV {HOT_EVERY} * {HOT_EVERY})"
    power = "element_at(array(1L, 10L, 100L, 1000L, 10000L, 100000L), "
    return _table(
        "bid",
        rows=events // EVENTS_A_CYCLE * BIDS,
        event=f"(id DIV {BIDS} * {EVENTS_A_CYCLE} + {PERSONS + AUCTIONS} + id % {BIDS})",
        columns={
            "auction": ("BIGINT", f"IF({_hash('hot auction', 2)} = 0, {hot}, {recent})"),
            "bidder": ("BIGINT", _person("bidder")),
            "price": (
                "BIGINT",
                f"(100000000L + {_hash('price', 900_000_000)}) DIV {power}"
                f"CAST({_hash('power', 6)} AS INT) + 1)",
            ),
        },
    )


def _table(name: str, *, rows: int, event: str, columns: dict[str, tuple[str, str]]) -> Table:
    """Return a table with ``ts`` and the columns; ``event`` is the number of the event of a row."""
    moment = f"event * 1000 DIV {RATE} + {_hash('jitter', JITTER_MS)}"
    return Table(
        name=name,
        rows=rows,
        event=event,
        columns={"ts": ("TIMESTAMP", milliseconds(moment)), **columns},
    )


def _person(role: str) -> str:
    """Return Spark SQL for the person in a role."""
    recent = f"greatest(0L, {_LAST_PERSON} - {_hash(role, ACTIVE_PERSONS)})"
    hot = f"({_LAST_PERSON} DIV {HOT_EVERY} * {HOT_EVERY})"
    return f"IF({_hash(f'hot {role}', 4)} < 3, {hot}, {recent})"


def _hash(purpose: str, values: int) -> str:
    """Return Spark SQL for a pseudo-random number from 0 to ``values - 1``."""
    return f"pmod(xxhash64(event, '{purpose}'), {values}L)"
