"""A side sink that fails, hangs or is slow costs a batch its timeout at most, and then a pause."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from tidegate.connectors.protocol import Staged
from tidegate.engine.side_output.delivery import LONGEST_PAUSE_S, Delivery, Parcel
from tidegate.plan.side_output import Drop

QUICK_US = 20_000
PATIENT_US = 60_000_000


@dataclass
class Clock:
    """A clock that a test sets."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Sink:
    """A sink that fails or hangs as long as a test wants it to."""

    fails: bool = False
    hangs: threading.Event | None = None
    written: list[int] = field(default_factory=list)

    def write(self, frame: Any, epoch: int) -> None:
        if self.hangs is not None:
            self.hangs.wait()
        if self.fails:
            raise OSError("the disk is full")
        self.written.append(epoch)


class StagedSink:
    """A sink whose rows are staged, and stay so until a test lets it go on."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.ended = threading.Event()
        self.seen: list[str] = []

    def write(self, frame: Any, epoch: int) -> None:
        self.stage(frame, epoch).publish()

    def stage(self, frame: Any, epoch: int) -> Staged:
        self.goes_on.wait()
        return Staged(publish=lambda: self._end("published"), discard=lambda: self._end("gone"))

    def _end(self, how: str) -> None:
        self.seen.append(how)
        self.ended.set()


def parcel(epoch: int, timeout_us: int = PATIENT_US) -> Parcel:
    records: Any = lambda: None  # noqa: E731 - no sink of these tests looks at the rows
    return Parcel(
        records=records, rows=10, epoch=epoch, timeout_us=timeout_us, words=f"rows of {epoch}"
    )


def test_after_each_failure_batches_stay_away_from_a_sink_for_twice_as_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink, clock = Sink(fails=True), Clock()
    delivery = Delivery(outlet=sink, clock=clock)
    tried = []
    sink_write = sink.write
    sink.write = lambda frame, epoch: (tried.append(epoch), sink_write(frame, epoch))  # type: ignore[method-assign]
    for second in range(16):
        clock.now = float(second)
        assert delivery.deliver(parcel(second)) is Drop.SINK_FAILED
    # Tried at 0; paused until 1, 3, 7 and 15.
    assert tried == [0, 1, 3, 7, 15]
    assert "side sink of rows of 0 failed in epoch 0: OSError: the disk is full" in caplog.text
    assert len(caplog.records) == 1

    sink.fails, clock.now = False, 31.0
    with caplog.at_level("INFO"):
        assert delivery.deliver(parcel(31)) is None
    assert sink.written == [31]
    assert "works again; 160 were dropped meanwhile" in caplog.text
    assert delivery.deliver(parcel(32)) is None


def test_a_pause_is_at_least_as_long_as_the_write_that_failed() -> None:
    clock, tried = Clock(), []

    def fail_slowly(frame: Any, epoch: int) -> None:
        tried.append(epoch)
        clock.now += 30
        raise OSError

    sink = Sink()
    sink.write = fail_slowly  # type: ignore[method-assign]
    delivery = Delivery(outlet=sink, clock=clock)
    for second in range(0, 300, 10):
        clock.now = max(clock.now, float(second))
        delivery.deliver(parcel(second))
    # Fails from 0 to 30 and pauses for 30 s, from 60 to 90 and pauses for 60 s, from 150 to 180.
    assert tried == [0, 60, 150]


def test_a_pause_has_an_end_however_often_a_sink_has_failed() -> None:
    sink, clock = Sink(fails=True), Clock()
    delivery = Delivery(outlet=sink, clock=clock)
    for _ in range(40):
        clock.now += LONGEST_PAUSE_S
        delivery.deliver(parcel(0))
    sink.fails = False
    clock.now += LONGEST_PAUSE_S
    assert delivery.deliver(parcel(7)) is None
    assert sink.written == [7]


def test_a_sink_that_hangs_is_given_up_and_not_called_again_while_it_hangs() -> None:
    sink, clock = Sink(hangs=threading.Event()), Clock()
    assert sink.hangs is not None
    delivery = Delivery(outlet=sink, clock=clock)
    assert delivery.deliver(parcel(0, QUICK_US)) is Drop.TIMEOUT
    # In the pause nothing is waited for, however long it may take.
    assert delivery.deliver(parcel(1)) is Drop.TIMEOUT
    clock.now = 100.0
    # After it the sink still has not ended: it is not called again beside itself.
    assert delivery.deliver(parcel(2)) is Drop.TIMEOUT
    assert sink.written == []

    hanging = next(each for each in threading.enumerate() if each.name == "tidegate-side-output")
    sink.hangs.set()
    hanging.join()
    clock.now = 200.0
    assert delivery.deliver(parcel(3)) is None
    assert sink.written == [0, 3]


def test_a_write_that_was_given_up_is_never_put_in_place() -> None:
    sink = StagedSink()
    delivery = Delivery(outlet=sink, clock=Clock())
    assert delivery.deliver(parcel(0, QUICK_US)) is Drop.TIMEOUT
    sink.goes_on.set()
    assert sink.ended.wait(10)
    assert sink.seen == ["gone"]


def test_a_write_in_time_is_put_in_place() -> None:
    sink = StagedSink()
    sink.goes_on.set()
    assert Delivery(outlet=sink, clock=Clock()).deliver(parcel(0)) is None
    assert sink.seen == ["published"]


def test_a_sink_that_exits_has_failed() -> None:
    def leave(frame: Any, epoch: int) -> None:
        raise SystemExit(3)

    sink = Sink()
    sink.write = leave  # type: ignore[method-assign]
    assert Delivery(outlet=sink, clock=Clock()).deliver(parcel(0)) is Drop.SINK_FAILED
